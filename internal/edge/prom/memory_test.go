// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package prom

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"podfit.dev/podfit/internal/core/contention"
	"podfit.dev/podfit/internal/core/usage"
	"podfit.dev/podfit/internal/edge/prom/answer"
)

// A flood is a server whose answers have 256 MiB. It makes them while they are read, and records the largest heap in use meanwhile.
type flood struct {
	begin, again string
	requests     int
	peak         uint64
}

func (f *flood) RoundTrip(r *http.Request) (*http.Response, error) {
	f.requests++
	body := io.MultiReader(strings.NewReader(f.begin), io.LimitReader(&repeated{f: f}, 256<<20))
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(body), Request: r}, nil
}

type repeated struct {
	f        *flood
	at, read int
	measured int
}

func (r *repeated) Read(p []byte) (int, error) {
	for n := 0; n < len(p); {
		copied := copy(p[n:], r.f.again[r.at:])
		r.at = (r.at + copied) % len(r.f.again)
		n += copied
	}
	if r.read += len(p); r.read-r.measured > 8<<20 {
		r.measured = r.read
		runtime.GC() // what a collection that other processes delay leaves does not count
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		r.f.peak = max(r.f.peak, m.HeapAlloc)
	}
	return len(p), nil
}

// No server can use up the memory of podfit: an answer is bounded, and decoded while it is read. Before, an answer of 256 MiB took 10.6 GiB.
func TestClient_answersOf256MiB_heapIsBounded(t *testing.T) {
	if testing.Short() {
		t.Skip("takes long")
	}
	now := time.Unix(1_700_000_000, 0)
	var points strings.Builder
	for i := range 1440 {
		fmt.Fprintf(&points, "[%d,\"0.25\"],", now.Unix()-int64(60*i))
	}
	matrix := fmt.Sprintf(`{"metric":{"namespace":"shop","pod_name":"web-1","name":"app"},"values":[%s]},`, strings.TrimSuffix(points.String(), ","))
	const sample = `{"metric":{"namespace":"shop","pod_name":"web-1","name":"app","podfit_part":"all","kubernetes_namespace":"shop","kubernetes_pod_name":"web-1"},"value":[1700000000,"1"]},`
	begin := func(kind string) string { return `{"status":"success","data":{"resultType":"` + kind + `","result":[` }
	for name, c := range map[string]struct {
		begin, again string
		read         func(*Client) error
		requests     int
	}{
		"history": {begin("matrix"), matrix, func(c *Client) error { return each(c.History(t.Context(), "shop", now), func(usage.Sample) {}) }, 5}, // of 24, 12, 6, 3 and 1 hours
		"one series": {begin("matrix") + `{"metric":{"namespace":"shop","pod_name":"web-1","name":"app"},"values":[`, points.String(),
			func(c *Client) error { return each(c.History(t.Context(), "shop", now), func(usage.Sample) {}) }, 5},
		"series without values": {begin("matrix"), "{},", func(c *Client) error { return each(c.History(t.Context(), "shop", now), func(usage.Sample) {}) }, 5},
		"requests": {begin("matrix"), matrix, func(c *Client) error {
			_, err := c.Requests(t.Context(), RequestsQuery{From: now, To: now})
			return err
		}, 1},
		"labels":     {begin("vector"), sample, func(c *Client) error { _, err := c.PodLabels(t.Context(), now); return err }, 1},
		"namespaces": {`{"status":"success","data":[`, `"some-namespace",`, func(c *Client) error { _, err := c.Namespaces(t.Context(), now, now); return err }, 1},
		"throttling": {begin("vector"), sample, func(c *Client) error {
			_, err := c.ContainerThrottling(t.Context(), contention.ThrottlingQuery{Namespace: "shop", Pods: []string{"web-1"}}, now)
			return err
		}, 1},
	} {
		f := &flood{begin: c.begin, again: c.again}
		client, err := NewWithTransport(config("http://prometheus.invalid"), f)
		if err != nil {
			t.Fatal(err)
		}
		runtime.GC()
		var before runtime.MemStats
		runtime.ReadMemStats(&before)
		err = c.read(client)
		if !errors.Is(err, answer.ErrTooLarge) || !IsTooLarge(err) || !strings.Contains(fmt.Sprint(err), "read less") {
			t.Errorf("%s: error %v", name, err)
		}
		if f.requests != c.requests {
			t.Errorf("%s: %d requests, want %d", name, f.requests, c.requests)
		}
		const most = 96 << 20
		if grown := int64(f.peak) - int64(before.HeapAlloc); grown > most {
			t.Errorf("%s: the heap grew by %d MiB, want at most %d", name, grown>>20, most>>20)
		} else {
			t.Logf("%s: the heap grew by %d MiB", name, grown>>20)
		}
	}
}

// A day whose samples are too many for one answer is read in parts, once each.
func TestHistory_answerIsTooLarge_dayIsReadInParts(t *testing.T) {
	now := time.Unix(1_700_000_000, 0).Truncate(time.Hour)
	padding := strings.Repeat(`{"metric":{"x":"`+strings.Repeat("y", 1000)+`"},"values":[]},`, maxHistory/1000/10)
	at := func(r *http.Request, name string) time.Time {
		var seconds int64
		_, _ = fmt.Sscan(r.FormValue(name), &seconds)
		return time.Unix(seconds, 0)
	}
	for name, refuses := range map[string]bool{"the answer is too large for podfit": false, "Prometheus refuses the query": true} {
		c := serve(t, func(r *http.Request, _ string) (string, any) { return "matrix", []any{} })
		c.http.Transport = transport(func(r *http.Request) *http.Response {
			from, to := at(r, "start"), at(r, "end")
			hours := int(to.Sub(from)/time.Hour) + 1
			status, body := http.StatusOK, `{"status":"success","data":{"resultType":"matrix","result":[`
			switch {
			case !refuses:
				body += strings.Repeat(padding, hours)
			case hours > 6:
				status, body = http.StatusUnprocessableEntity, `{"status":"error","errorType":"execution","error":"query processing would load too many samples into memory"}`
			}
			if status == http.StatusOK {
				body += fmt.Sprintf(`{"metric":{"pod_name":"web-1","name":"app"},"values":[[%d,"5"]]}]}}`, from.Unix())
			}
			return &http.Response{StatusCode: status, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(body)), Request: r}
		})
		var starts []string
		if err := each(c.HistorySince(t.Context(), "shop", now.Add(-23*time.Hour), now), func(s usage.Sample) {
			if s.Memory > 0 {
				starts = append(starts, fmt.Sprintf("%.0fh", now.Sub(s.At).Hours()))
			}
		}); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if got, want := strings.Join(starts, " "), "23h 17h 11h 5h"; got != want {
			t.Errorf("%s: parts begin %s before the end, want %s", name, got, want)
		}
	}
}

// A server that was overloaded for a moment is not asked for short times for ever.
func TestHistory_serverIsOverloadedOnce_queriesGetLongerAgain(t *testing.T) {
	now := time.Unix(1_700_000_000, 0).Truncate(time.Hour)
	c := serve(t, func(r *http.Request, _ string) (string, any) { return "matrix", []any{} })
	queries := 0
	c.http.Transport = checked{transport(func(r *http.Request) *http.Response {
		queries++
		status := http.StatusOK
		if queries <= 3 {
			status = http.StatusServiceUnavailable
		}
		return &http.Response{StatusCode: status, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(`{"status":"success","data":{"resultType":"matrix","result":[]}}`)), Request: r}
	})}
	if err := each(c.HistorySince(t.Context(), "shop", now.Add(-8*24*time.Hour), now), func(usage.Sample) {}); err != nil {
		t.Fatal(err)
	}
	if queries > 3+2*12 {
		t.Errorf("%d queries for eight days, want about two a day", queries)
	}
}

// transport is a server in this process.
type transport func(*http.Request) *http.Response

func (t transport) RoundTrip(r *http.Request) (*http.Response, error) { return t(r), r.ParseForm() }
