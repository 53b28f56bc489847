// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package web

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/overview"
	"podfit.dev/podfit/internal/core/recommend"
	"podfit.dev/podfit/internal/core/review"
	"podfit.dev/podfit/internal/core/usage"
	"podfit.dev/podfit/internal/edge/prom/survey"
	"podfit.dev/podfit/internal/edge/web"
)

// recordedServer is a transport that answers as a Prometheus does.
type recordedServer struct {
	mu      sync.Mutex
	queries []url.Values
	running int
	most    int // queries at a time
	delay   time.Duration
	values  func(i int) string // value of an hour; "" is no sample
	status  int                // 0: 200
	body    string             // instead of an answer
	with    string             // additional fields of an answer
}

func (p *recordedServer) RoundTrip(r *http.Request) (*http.Response, error) {
	p.mu.Lock()
	p.queries = append(p.queries, r.URL.Query())
	p.running++
	p.most = max(p.most, p.running)
	delay, status, body := p.delay, p.status, p.body
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		p.running--
		p.mu.Unlock()
	}()
	select {
	case <-r.Context().Done():
		return nil, r.Context().Err()
	case <-time.After(delay):
	}
	if status == 0 {
		status = http.StatusOK
	}
	if body == "" {
		body = p.answer(r.URL)
	}
	return &http.Response{StatusCode: status, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(body)), Request: r}, nil
}

func (p *recordedServer) answer(u *url.URL) string {
	if strings.HasSuffix(u.Path, "/query") {
		return `{"status":"success",` + p.with + `"data":{"resultType":"vector","result":[{"metric":{},"value":[1,"20"]}]}}`
	}
	var from, to int64
	fmt.Sscan(u.Query().Get("start"), &from)
	fmt.Sscan(u.Query().Get("end"), &to)
	var values []string
	for i, at := 0, from; at <= to; i, at = i+1, at+3600 {
		value := "0.25"
		if p.values != nil {
			value = p.values(i)
		}
		if strings.Contains(u.Query().Get("query"), "memory") && value == "0.25" {
			value = "3e8"
		}
		if value != "" {
			values = append(values, fmt.Sprintf(`[%d,%q]`, at, value))
		}
	}
	return `{"status":"success",` + p.with + `"data":{"resultType":"matrix","result":[{"metric":{"container":"app"},"values":[` + strings.Join(values, ",") + `]}]}}`
}

func (p *recordedServer) asked() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.queries)
}

// refined returns a source with a Prometheus.
func refined(t *testing.T, f *fake, p *recordedServer) *source {
	t.Helper()
	s := newSource(&source{world: f, usage: f.Read, events: f.RecentEvents, store: f, archive: f, registrations: f.Registrations, log: slog.New(slog.DiscardHandler)})
	var err error
	if s.recordings, err = newRecordings(survey.Config{Address: "http://prometheus.example:9090", Transport: p}, s.log); err != nil {
		t.Fatal(err)
	}
	return s
}

// shown is a row of a workload without a VPA.
func shown(name string) *overview.Row {
	return &overview.Row{Workload: cluster.Workload{Group: "apps", Kind: "Deployment", Namespace: "shop", Name: name}, Containers: []*overview.Container{{Row: review.Row{Subject: review.Subject{Container: "app"}}}}}
}

func TestHistory_noVPA_peaksAreFromPrometheus(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &recordedServer{}
		s := refined(t, &fake{}, p)
		h, err := s.History(t.Context(), shown("web"))
		if err != nil || h.Unrecorded != "" || len(h.Containers) != 1 {
			t.Fatalf("got %+v, %v", h, err)
		}
		c := &h.Containers[0]
		if len(c.CPU) != 14*24 || c.CPURecorded != 14*24 || len(c.Memory) != 14*24 || c.CPU[0].Value != 0.25 || c.Memory[0].Value != 3e8 {
			t.Errorf("got %d and %d peaks, want those of 14 days", len(c.CPU), len(c.Memory))
		}
		if last := time.Now().Truncate(time.Hour).Add(-time.Hour); !c.CPU[len(c.CPU)-1].At.Equal(last) {
			t.Errorf("the last hour starts at %v, want %v", c.CPU[len(c.CPU)-1].At, last)
		}
		if _, err := s.History(t.Context(), shown("web")); err != nil || p.asked() != 3 {
			t.Errorf("%d queries after the second view, want 3", p.asked())
		}
		time.Sleep(freshRecording.age + time.Second)
		if _, err := s.History(t.Context(), shown("web")); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if p.asked() != 6 {
			t.Errorf("%d queries after five minutes, want 6", p.asked())
		}
	})
}

func TestHistory_prometheusFails_pageHasCauseAndOtherData(t *testing.T) {
	for _, tt := range []struct {
		name string
		p    *recordedServer
		want string
	}{
		{"wrong password", &recordedServer{status: 401, body: "no"}, "Prometheus could not be read: the credentials are missing or not permitted. Check the token"},
		{"login page", &recordedServer{body: "<html>"}, "Prometheus could not be read: the answer is not from Prometheus"},
		{"wrong path", &recordedServer{status: 404, body: "404 page not found"}, "there is no Prometheus API at this address. Check the address"},
		{"overloaded", &recordedServer{status: 503, body: "secret text of the server"}, "Prometheus is overloaded or not available. Reload the page"},
		{"too large", &recordedServer{status: 422, body: `{"status":"error","error":"too many samples"}`}, "Prometheus permits. Reload"},
		{"answer without end", &recordedServer{body: strings.Repeat(" ", maxRecordedSize+1)}, "Prometheus permits. Reload"},
		{"slow", &recordedServer{delay: time.Hour}, "Prometheus has not answered yet. Reload the page in a minute."},
		{"no series", &recordedServer{body: `{"status":"success","data":{"result":[]}}`}, "Prometheus has no usage of this workload. Check that it scrapes"},
		{"no numbers", &recordedServer{values: func(i int) string { return []string{"NaN", "+Inf", "-1", "1e300"}[i%4] }}, "Prometheus has no usage of this workload."},
		{"several clusters", &recordedServer{body: `{"status":"success","data":{"result":[{"metric":{"cluster":"a","container":"app"},"values":[],"value":[1,"1"]},{"metric":{"cluster":"b","container":"app"},"values":[],"value":[1,"1"]}]}}`},
			"Prometheus stores several clusters. Select one with --cluster-label of podfit web."},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := refined(t, &fake{found: true}, tt.p)
				row := shown("web")
				row.VPA = "web"
				began := time.Now()
				h, err := s.History(t.Context(), row)
				if took := time.Since(began); took > freshRecording.patience {
					t.Errorf("the page waited for %v", took)
				}
				if err != nil || !strings.Contains(h.Unrecorded, tt.want) || strings.Contains(h.Unrecorded, "secret") {
					t.Errorf("got %q, %v; want %q", h.Unrecorded, err, tt.want)
				}
				if len(h.Containers) != 1 || len(h.Containers[0].CPUBuckets) == 0 || h.Containers[0].CPURecorded != 0 {
					t.Errorf("got %+v, want the histogram of the checkpoint", h.Containers)
				}
				time.Sleep(time.Minute)
			})
		})
	}
}

// A Prometheus that does not answer delays one page. Pages of other workloads do not wait for 30 seconds, and then one does again.
func TestHistory_prometheusDoesNotAnswer_otherPagesDoNotWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &recordedServer{delay: time.Hour}
		s := refined(t, &fake{}, p)
		waits := func(name string) time.Duration {
			began := time.Now()
			if h, _ := s.History(t.Context(), shown(name)); !strings.Contains(h.Unrecorded, "has not answered") && !strings.Contains(h.Unrecorded, "timed out") {
				t.Errorf("got %q", h.Unrecorded)
			}
			return time.Since(began)
		}
		if took := waits("a"); took != freshRecording.patience {
			t.Errorf("the first page waited for %v, want %v", took, freshRecording.patience)
		}
		for i := range 40 {
			if took := waits(fmt.Sprint("other-", i)); took > time.Second {
				t.Fatalf("page %d waited for %v", i, took)
			}
		}
		time.Sleep(time.Minute)
		p.mu.Lock()
		p.delay = 0
		p.mu.Unlock()
		if h, _ := s.History(t.Context(), shown("a")); h.Unrecorded != "" || len(h.Containers) != 1 {
			t.Errorf("got %q after Prometheus works again", h.Unrecorded)
		}
	})
}

func TestHistory_manyViewers_queriesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &recordedServer{delay: 100 * time.Millisecond}
		s := refined(t, &fake{}, p)
		var viewers sync.WaitGroup
		for i := range 400 {
			viewers.Go(func() { _, _ = s.History(t.Context(), shown(fmt.Sprint("w-", i%200))) })
		}
		viewers.Wait()
		time.Sleep(time.Minute)
		synctest.Wait()
		if p.most > maxQueries {
			t.Errorf("%d queries at a time, want at most %d", p.most, maxQueries)
		}
		if n := p.asked(); n == 0 || n > 3*maxWaiting {
			t.Errorf("%d queries, want at most those of %d workloads", n, maxWaiting)
		}
		if n := len(s.recordings.all); n > maxRecordings {
			t.Errorf("%d workloads are kept, want at most %d", n, maxRecordings)
		}
	})
}

func TestHistory_oneWorkloadManyViewers_isReadOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &recordedServer{delay: 500 * time.Millisecond}
		s := refined(t, &fake{}, p)
		var viewers sync.WaitGroup
		for range 50 {
			viewers.Go(func() {
				if h, err := s.History(t.Context(), shown("web")); err != nil || h.Unrecorded != "" {
					t.Errorf("got %q, %v", h.Unrecorded, err)
				}
			})
		}
		viewers.Wait()
		if n := p.asked(); n != 3 {
			t.Errorf("%d queries, want 3", n)
		}
	})
}

func TestHistory_hostileNames_areQuoted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &recordedServer{}
		s := refined(t, &fake{}, p)
		row := shown(`a"} or vector(1) or x{y="\E.*`)
		row.Workload.Namespace = `n",z="\`
		if _, err := s.History(t.Context(), row); err != nil {
			t.Fatal(err)
		}
		want := `{namespace="n\",z=\"\\",pod=~"a\"\\} or vector\\(1\\) or x\\{y=\"\\\\E\\.\\*-`
		for _, q := range p.queries {
			if !strings.Contains(q.Get("query"), want) {
				t.Errorf("got %s, want %s", q.Get("query"), want)
			}
		}
	})
}

// elsewhere permits viewers to see one other namespace.
type elsewhere struct{}

func (elsewhere) Authenticate(context.Context, string) (overview.User, bool, error) {
	return overview.User{Name: "anna"}, true, nil
}

func (elsewhere) MayList(_ context.Context, _ *overview.User, namespace string) (bool, error) {
	return namespace == "elsewhere", nil
}

func (elsewhere) Namespaces() ([]string, bool) { return []string{"elsewhere", "shop"}, true }

func TestPage_viewerMayNotSeeNamespace_prometheusIsNotAsked(t *testing.T) {
	p := &recordedServer{}
	f := &fake{owned: true}
	s := refined(t, f, p)
	closed := web.New(web.Config{Source: s, Access: web.NewAccess(web.AccessConfig{Mode: web.Token, Reviewer: elsewhere{}, Namespaces: elsewhere{}})})
	path := "/workloads/shop/" + target.Kind + "/" + target.Name
	ask := func(h http.Handler) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://localhost"+path, http.NoBody)
		r.Header.Set("Authorization", "Bearer token")
		h.ServeHTTP(w, r)
		return w
	}
	if w := ask(closed); w.Code != http.StatusNotFound || p.asked() != 0 {
		t.Errorf("status %d, %d queries; want no page and no query", w.Code, p.asked())
	}
	if w := ask(web.New(web.Config{Source: s, Access: web.NewAccess(web.AccessConfig{Mode: web.None})})); w.Code != http.StatusOK || p.asked() != 3 || !strings.Contains(w.Body.String(), "Source: Prometheus, 14 days.") {
		t.Errorf("status %d, %d queries: %s", w.Code, p.asked(), w.Body)
	}
}

// The note and the failure are on the page, in the saved file and in JSON.
func TestPage_eachFormat_saysWhereThePeaksAreFrom(t *testing.T) {
	for _, tt := range []struct {
		p          *recordedServer
		html, json string
	}{
		{&recordedServer{}, "Source: Prometheus, 14 days.", `"hoursFromPrometheus": 336`},
		{&recordedServer{status: 401, body: "no"}, "the credentials are missing", `"prometheusProblem": "Prometheus could not be read: the credentials`},
	} {
		handler := web.New(web.Config{Source: refined(t, &fake{owned: true}, tt.p), Access: web.NewAccess(web.AccessConfig{Mode: web.None})})
		for query, want := range map[string]string{"": tt.html, "?save=1": tt.html, "?format=json": tt.json} {
			w := httptest.NewRecorder()
			handler.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://localhost/workloads/shop/"+target.Kind+"/"+target.Name+query, http.NoBody))
			if w.Code != http.StatusOK || !strings.Contains(w.Body.String(), want) {
				t.Errorf("%s: status %d, want %q: %s", query, w.Code, want, w.Body)
			}
		}
	}
}

// Prometheus fills the hours that a UsageHistory lacks. Stored peaks are not replaced.
func TestHistory_usageHistory_prometheusFillsTheRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		profile, _ := recommend.Builtin("balanced")
		state := profile.Extend()
		at := time.Now().Truncate(time.Hour).Add(-2 * time.Hour)
		state.Observe(usage.Sample{At: at.Add(time.Minute), CPU: 2, Memory: 9e8, Has: cluster.Both}, cluster.Both)
		data, err := state.AppendBinary(nil)
		if err != nil {
			t.Fatal(err)
		}
		s := refined(t, &fake{histories: []usage.History{{Container: "app", Form: state.Form(), Data: data, LastSample: at}}}, &recordedServer{})
		row := shown("web")
		row.VPA = "web"
		h, err := s.History(t.Context(), row)
		if err != nil || len(h.Containers) != 1 {
			t.Fatalf("got %+v, %v", h, err)
		}
		c := &h.Containers[0]
		for _, p := range c.CPU {
			if stored := p.At.Equal(at); stored != (p.Value > 1.9) {
				t.Errorf("the peak at %v is %v", p.At, p.Value)
			}
		}
		if len(c.CPU) != 336 || c.CPURecorded != 335 || c.MemoryRecorded != 335 {
			t.Errorf("%d peaks, %d and %d of Prometheus; want 335 of 336", len(c.CPU), c.CPURecorded, c.MemoryRecorded)
		}
	})
}
