// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package survey

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
)

// peaksServer is a transport that answers the queries of Peaks. Range queries have the answer of result.
type peaksServer struct {
	mu      sync.Mutex
	queries []string
	starts  []string
	count   string // scrapes in ten minutes
	result  func(query string) (status int, series string)
	with    string // additional fields of the answers with result
}

func (p *peaksServer) RoundTrip(r *http.Request) (*http.Response, error) {
	v := r.URL.Query()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.queries = append(p.queries, v.Get("query"))
	if strings.HasSuffix(r.URL.Path, "/query") {
		return reply(http.StatusOK, "application/json", `{"status":"success","data":{"result":[{"metric":{},"value":[1,"`+p.count+`"]}]}}`), nil
	}
	p.starts = append(p.starts, v.Get("start"))
	status, series := p.result(v.Get("query"))
	if status != http.StatusOK {
		return reply(status, "application/json", `{"status":"error","error":"query processing would load too many samples"}`), nil
	}
	return reply(status, "application/json", `{"status":"success",`+p.with+`"data":{"result":[`+series+`]}}`), nil
}

// valuesOf returns a series with values, the first at the end of the first hour after from.
func valuesOf(container string, from time.Time, values ...string) string {
	var points []string
	for i, v := range values {
		points = append(points, fmt.Sprintf(`[%d,%q]`, from.Add(time.Duration(i+1)*time.Hour).Unix(), v))
	}
	return fmt.Sprintf(`{"metric":{"container":%q},"values":[%s]}`, container, strings.Join(points, ","))
}

func TestPeaks_strangeValues_areIgnored(t *testing.T) {
	from := now.Truncate(time.Hour).Add(-24 * time.Hour)
	p := &peaksServer{count: "5", result: func(query string) (int, string) {
		if strings.Contains(query, memoryMetric) {
			return http.StatusOK, valuesOf("b", from, "1e8") + "," + valuesOf("a", from, "NaN", "+Inf", "-1", "1e15", "2e8")
		}
		return http.StatusOK, valuesOf("a", from, "NaN", "0.5", "1e6") + "," + valuesOf("a", from, "0.1", "0.7") + "," + valuesOf("", from, "9") +
			"," + valuesOf("a", from.Add(-5*time.Hour), "3") + "," + valuesOf("a", now.Add(time.Hour), "3")
	}}
	s, err := New(Config{Address: "http://prometheus.example", Transport: p})
	if err != nil {
		t.Fatal(err)
	}
	got, _, err := s.Peaks(t.Context(), Pods{Namespace: "shop", Names: "web-.*"}, now.Add(-24*time.Hour), now)
	want := []Hour{
		{Namespace: "shop", Container: "a", End: from.Add(time.Hour), CPU: 0.1, Has: cluster.Of(cluster.CPU)},
		{Namespace: "shop", Container: "a", End: from.Add(2 * time.Hour), CPU: 0.7, Has: cluster.Of(cluster.CPU)},
		{Namespace: "shop", Container: "a", End: from.Add(5 * time.Hour), Memory: 2e8, Has: cluster.Of(cluster.Memory)},
		{Namespace: "shop", Container: "b", End: from.Add(time.Hour), Memory: 1e8, Has: cluster.Of(cluster.Memory)},
	}
	if err != nil || fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got %v, %v\nwant %v", got, err, want)
	}
	// Five scrapes in ten minutes: a window of eight minutes.
	const cpu = `max by (cluster,container) (max_over_time(rate(container_cpu_usage_seconds_total{namespace="shop",pod=~"web-.*",pod!="",container!="",container!="POD"}[480s])[1h:480s]))`
	if len(p.queries) != 3 || p.queries[1] != cpu {
		t.Errorf("got %q, want %s", p.queries, cpu)
	}
}

func TestPeaks_tooManySamples_readsTheLaterHalf(t *testing.T) {
	p := &peaksServer{count: "40"}
	p.result = func(string) (int, string) {
		if len(p.starts) == 1 {
			return http.StatusUnprocessableEntity, ""
		}
		return http.StatusOK, valuesOf("app", now.Truncate(time.Hour).Add(-time.Hour), "0.5")
	}
	s, err := New(Config{Address: "http://prometheus.example", Transport: p})
	if err != nil {
		t.Fatal(err)
	}
	got, _, err := s.Peaks(t.Context(), Pods{Namespace: "shop", Names: "web-.*"}, now.Add(-14*24*time.Hour), now)
	if err != nil || len(got) != 1 {
		t.Errorf("got %v, %v", got, err)
	}
	if want := seconds(now.Truncate(time.Hour).Add(-7*24*time.Hour + time.Hour)); len(p.starts) != 3 || p.starts[1] != want {
		t.Errorf("read from %v, want %v after the failure", p.starts, want)
	}
}

func TestPeaks_unboundedAnswers_areErrors(t *testing.T) {
	for name, result := range map[string]func(string) (int, string){
		"still too many samples": func(string) (int, string) { return http.StatusUnprocessableEntity, "" },
		"too many containers": func(string) (int, string) {
			var all []string
			for i := range maxContainers + 1 {
				all = append(all, valuesOf(fmt.Sprint("c", i), now, "1"))
			}
			return http.StatusOK, strings.Join(all, ",")
		},
		"too long": func(string) (int, string) { return http.StatusOK, valuesOf(strings.Repeat("x", 1<<20), now, "1") },
	} {
		p := &peaksServer{count: "40", result: result}
		s, err := New(Config{Address: "http://prometheus.example", Transport: p, MaxReply: 1 << 18})
		if err != nil {
			t.Fatal(err)
		}
		_, _, err = s.Peaks(t.Context(), Pods{Namespace: "shop", Names: "web-.*"}, now.Add(-24*time.Hour), now)
		var failed *Error
		if !errors.As(err, &failed) || failed.Cause != TooLarge || len(p.queries) > 3 {
			t.Errorf("%s: error %v after %d queries", name, err, len(p.queries))
		}
	}
}

func TestPeaks_noNames_noQuery(t *testing.T) {
	p := &peaksServer{}
	s, err := New(Config{Address: "http://prometheus.example", Transport: p})
	if err != nil {
		t.Fatal(err)
	}
	if got, _, err := s.Peaks(t.Context(), Pods{Namespace: "shop"}, now.Add(-24*time.Hour), now); got != nil || err != nil || len(p.queries) > 0 {
		t.Errorf("got %v, %v and %d queries", got, err, len(p.queries))
	}
}

func TestPeaks_serverWarns_partialHasWhatMayBeMissing(t *testing.T) {
	for with, want := range map[string]string{
		`"warnings":["no store matched"],`:                             "[no store matched]",
		`"isPartial":true,`:                                            "[the result is partial]",
		`"warnings":["PromQL info: metric might not be a counter"],`:   "[]",
		`"isPartial":false,"infos":["a remark that omits no series"],`: "[]",
	} {
		p := &peaksServer{count: "40", with: with, result: func(string) (int, string) {
			return http.StatusOK, valuesOf("app", now.Truncate(time.Hour).Add(-time.Hour), "0.5")
		}}
		s, err := New(Config{Address: "http://prometheus.example", Transport: p})
		if err != nil {
			t.Fatal(err)
		}
		got, partial, err := s.Peaks(t.Context(), Pods{Namespace: "shop", Names: "web-.*"}, now.Add(-24*time.Hour), now)
		if err != nil || len(got) != 1 || fmt.Sprint(partial) != want {
			t.Errorf("%s: got %v, partial %q, %v; want %s", with, got, partial, err, want)
		}
	}
}
