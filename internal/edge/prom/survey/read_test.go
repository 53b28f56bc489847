// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package survey

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/edge/prom"
)

func TestRead_fewNamespaces_oneQueryPerMeasureAndDay(t *testing.T) {
	f := newFake(map[string]int{"shop": 3, "pay": 2, "other": 4})
	s := f.survey(t)
	r := read(t, s, 2, "shop", "pay")
	r.checkComplete(t, f, "shop", "pay")
	if len(f.ranges) != 3*5 || r.plan.Queries != 3*5 || r.parts != 3 {
		t.Errorf("%d range queries, %d planned, %d parts, want 15, 15 and 3", len(f.ranges), r.plan.Queries, r.parts)
	}
	if got := s.Progress(); got.Done != 18 || got.Planned != 18 || got.Failed != 0 {
		t.Errorf("progress is %+v, want 18 of 18 queries, of which 3 search for OOM kills", got)
	}
	first := r.hours[0]
	want := Hour{
		Namespace: "pay", Container: "app", Workload: cluster.Workload{Group: "apps", Kind: "Deployment", Namespace: "pay", Name: "w0"},
		End: time.Date(1999, 12, 8, 1, 0, 0, 0, time.UTC), CPU: 0.25, Memory: 64 << 20, Has: cluster.Both, Kills: 2, Throttled: 0.5, KilledRequest: 96 << 20,
	}
	if first != want {
		t.Errorf("first hour is\n%+v, want\n%+v", first, want)
	}
	if got := first.Sample(); got.Pod != (cluster.Key{Namespace: "pay", Name: "Deployment/w0"}) || !got.At.Equal(first.End) || got.CPU != 0.25 {
		t.Errorf("its sample is %+v", got)
	}
	if !slices.IsSortedFunc(r.hours, func(a, b Hour) int { return a.End.Compare(b.End) }) {
		t.Error("the hours are not sorted by time")
	}
	if last := r.hours[len(r.hours)-1].End; !last.Equal(now.Truncate(time.Hour)) {
		t.Errorf("the last hour ends at %v, want the last whole hour", last)
	}
}

func TestRead_ownersNotStored_podsAreReadOneByOne(t *testing.T) {
	f := newFake(map[string]int{"shop": 1, "pay": 1})
	f.byPod = []string{"shop"}
	r := read(t, f.survey(t), 1)
	r.checkComplete(t, f, "shop", "pay")
	for _, h := range r.hours {
		if byPod := h.Namespace == "shop"; byPod != h.Workload.IsZero() || byPod != (h.Pod == "w0-0") {
			t.Fatalf("got %+v", h)
		}
	}
	if !slices.Equal(r.plan.ByPod, []string{"shop"}) || len(r.plan.Notes) != 1 {
		t.Errorf("by pod %v, notes %q, want shop and one note", r.plan.ByPod, r.plan.Notes)
	}
}

func TestRead_measureNotRecorded_isNotQueried(t *testing.T) {
	f := newFake(map[string]int{"shop": 1})
	f.unrecorded = []string{restartsMetric, oomMetric, periodsMetric}
	r := read(t, f.survey(t), 1)
	r.checkComplete(t, f, "shop")
	if len(f.ranges) != 2*2 || len(r.plan.Notes) != 2 {
		t.Errorf("%d range queries, notes %q, want 4 queries and 2 notes", len(f.ranges), r.plan.Notes)
	}
}

// cAdvisor counts OOM kills, too. Without kube-state-metrics they are read from it.
func TestRead_onlyCAdvisorCountsOOMKills_killsAreRead(t *testing.T) {
	f := newFake(map[string]int{"shop": 1})
	f.unrecorded = []string{restartsMetric, requestsMetric}
	r := read(t, f.survey(t), 1)
	r.checkComplete(t, f, "shop")
	if r.hours[0].Kills != 2 || r.hours[0].KilledRequest != 0 || !slices.Equal(r.plan.NotRecorded, []Measure{KilledRequest}) {
		t.Errorf("got %+v, not recorded %v", r.hours[0], r.plan.NotRecorded)
	}
}

// Expressions of OOM kills contain the names of the namespaces several times, and servers reject URLs with more than 8 KiB.
func TestRead_manyNamespacesWithOOMKills_queriesAreShortEnough(t *testing.T) {
	f := newFake(map[string]int{})
	var names []string
	for i := range 150 {
		name := fmt.Sprintf("namespace-%d", i)
		f.containers[name] = 2
		names = append(names, name)
	}
	f.byPod = names[:70]
	r := read(t, f.survey(t), 1)
	r.checkComplete(t, f, names...)
}

// Kills are read only of namespaces with a container that was OOM-killed, unless it is not certain that these are all.
func TestRead_fewOOMKills_restartsOfOtherNamespacesAreNotRead(t *testing.T) {
	for name, tt := range map[string]struct {
		answer func() *http.Response
		want   []string
	}{
		"search works": {nil, []string{"shop"}},
		"search fails": {func() *http.Response { return status(http.StatusUnprocessableEntity) }, []string{"pay", "shop"}},
		"search is partial": {func() *http.Response {
			return reply(200, "application/json", `{"status":"success","warnings":["w"],"data":{"result":[]}}`)
		}, []string{"pay", "shop"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFake(map[string]int{"shop": 1, "pay": 1})
				f.killed = []string{"shop"}
				s := f.survey(t)
				plan, err := s.Plan(t.Context(), nil, now.Truncate(day), now)
				if err != nil {
					t.Fatal(err)
				}
				f.down = tt.answer
				r := readPlan(t.Context(), s, plan)
				r.checkComplete(t, f, "shop", "pay")
				for _, q := range f.ranges {
					if (q.measure == Kills || q.measure == KilledRequest) && !slices.Equal(q.namespaces, tt.want) {
						t.Errorf("restarts of %v are read, want %v", q.namespaces, tt.want)
					}
				}
				if p := s.Progress(); p.Done != p.Planned {
					t.Errorf("progress is %+v", p)
				}
			})
		})
	}
}

// Prometheus rejects queries with more than a tenth of the samples that the plan assumed.
func TestRead_queryTooLarge_isHalvedAndNotSentAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		containers := map[string]int{"big": 1000}
		for i := range 40 {
			containers[fmt.Sprintf("ns-%02d", i)] = 5 + i
		}
		f := newFake(containers)
		f.fails = func(q *asked) *http.Response {
			if q.samples(f) > 500_000 {
				return status(http.StatusUnprocessableEntity)
			}
			return nil
		}
		s := f.survey(t)
		r := read(t, s, 3)
		r.checkComplete(t, f, keys(containers)...)
		if again := f.unchanged(); len(again) > 0 {
			t.Errorf("requests were repeated unchanged: %v", again)
		}
		p := s.Progress()
		if p.Failed == 0 || p.Failed > 12 || p.Done != p.Planned {
			t.Errorf("progress %+v after %d queries, want a few failed ones", p, len(f.ranges))
		}
	})
}

func keys(m map[string]int) (out []string) {
	for k := range m {
		out = append(out, k)
	}
	return out
}

func TestRead_oneNamespaceAlwaysTooLarge_isANamedGapAndOthersAreComplete(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(map[string]int{"a": 5, "bad": 5, "c": 5, "d": 5})
		f.fails = func(q *asked) *http.Response {
			if q.measure == Memory && slices.Contains(q.namespaces, "bad") {
				return status(http.StatusUnprocessableEntity)
			}
			return nil
		}
		s := f.survey(t)
		r := read(t, s, 5)
		if r.err != nil || len(r.gaps) != 1 {
			t.Fatalf("error %v, gaps %v, want one gap", r.err, r.gaps)
		}
		g := r.gaps[0]
		if g.Namespace != "bad" || g.Measure != Memory || !g.From.Equal(r.plan.From) || !g.To.Equal(r.plan.To) || causeOf(g.Err) != TooLarge {
			t.Errorf("gap is %+v, want the memory usage of namespace bad in the whole time", g)
		}
		for _, h := range r.hours {
			if want := h.Namespace != "bad"; h.Has.Has(cluster.Memory) != want {
				t.Fatalf("got %+v", h)
			}
		}
		if n := s.Progress().Failed; n > 14 {
			t.Errorf("%d queries failed, want at most 14: two parts that are read at a time, each down to an hour", n)
		}
	})
}

func TestRead_overloaded_waitsAndSendsOneQueryAtATime(t *testing.T) {
	for name, cause := range map[string]func() *http.Response{
		"503": func() *http.Response { return status(http.StatusServiceUnavailable) },
		"429": func() *http.Response { return status(http.StatusTooManyRequests) },
		"broken body": func() *http.Response {
			return reply(200, "application/json", `{"status":"success","data":{"resultType":"matrix","result":[`)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFake(map[string]int{"a": 5, "b": 5})
				f.delay = time.Second
				failures, afterwards := 0, 0
				var end time.Time
				f.fails = func(q *asked) *http.Response {
					f.mu.Lock()
					defer f.mu.Unlock()
					if failures < 3 && len(f.ranges) > 3 {
						failures++
						end = time.Now()
						return cause()
					}
					if failures == 3 {
						afterwards = max(afterwards, f.running)
					}
					return nil
				}
				begin := time.Now()
				r := read(t, f.survey(t), 3)
				r.checkComplete(t, f, "a", "b")
				if again := f.unchanged(); len(again) > 0 {
					t.Errorf("requests were repeated unchanged: %v", again)
				}
				if f.most != 2 || afterwards > 1 {
					t.Errorf("%d queries at a time, and %d after failures, want 2 and 1", f.most, afterwards)
				}
				if took := end.Sub(begin); took < 3*time.Second {
					t.Errorf("the third failure was after %v, want pauses of 1 s and 2 s before it", took)
				}
			})
		})
	}
}

func TestRead_retryAfter_isRespected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(map[string]int{"a": 5})
		var failed time.Time
		var pause time.Duration
		f.fails = func(*asked) *http.Response {
			if failed.IsZero() {
				failed = time.Now()
				a := status(http.StatusTooManyRequests)
				a.Header.Set("Retry-After", "40")
				return a
			}
			if pause == 0 {
				pause = time.Since(failed)
			}
			return nil
		}
		r := read(t, f.survey(t, func(c *Config) { c.Parallel = 1 }), 1)
		r.checkComplete(t, f, "a")
		if pause != 40*time.Second {
			t.Errorf("the pause is %v, want 40 s", pause)
		}
	})
}

func TestRead_serverDies_givesUpAfterBoundedQueriesAndKeepsTheRest(t *testing.T) {
	for name, dead := range map[string]func(*fake) *http.Response{
		"503": func(*fake) *http.Response { return status(http.StatusServiceUnavailable) },
		"hangs": func(*fake) *http.Response {
			time.Sleep(2 * time.Minute)
			return status(http.StatusGatewayTimeout)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				containers := map[string]int{}
				for i := range 30 {
					containers[fmt.Sprintf("ns-%02d", i)] = 10
				}
				f := newFake(containers)
				f.fails = func(q *asked) *http.Response {
					f.mu.Lock()
					n := len(f.ranges)
					if n > 40 {
						f.down = func() *http.Response { return dead(f) }
					}
					f.mu.Unlock()
					if n > 40 {
						return dead(f)
					}
					return nil
				}
				begin := time.Now()
				r := read(t, f.survey(t), 14)
				if causeOf(r.err) != GivenUp || len(r.hours) == 0 {
					t.Fatalf("error %v with %d hours, want that it gave up", r.err, len(r.hours))
				}
				if n := len(f.ranges) - 40; n > maxFailures+1 {
					t.Errorf("%d queries failed, want at most %d", n, maxFailures+1)
				}
				if took := time.Since(begin); took > 12*time.Minute {
					t.Errorf("it gave up after %v", took)
				}
				checkGaps(t, &r, containers)
			})
		})
	}
}

// checkGaps checks that each hour of each namespace was read, or is in a gap.
func checkGaps(t *testing.T, r *result, containers map[string]int) {
	t.Helper()
	type key struct {
		namespace string
		at        time.Time
	}
	has := map[key]cluster.Set{}
	for _, h := range r.hours {
		has[key{h.Namespace, h.End}] |= h.Has
	}
	for _, g := range r.gaps {
		for at := g.From; at.Before(g.To); at = at.Add(time.Hour) {
			resources := map[Measure]cluster.Set{CPU: cluster.Of(cluster.CPU), Memory: cluster.Of(cluster.Memory)}
			has[key{g.Namespace, at.Add(time.Hour)}] |= resources[g.Measure]
		}
	}
	for name := range containers {
		for at := r.plan.From.Add(time.Hour); !at.After(r.plan.To); at = at.Add(time.Hour) {
			if has[key{name, at}] != cluster.Both {
				t.Fatalf("%s at %v is neither read nor in a gap", name, at)
			}
		}
	}
}

func TestRead_contextEnds_partsAreValidAndTheRestIsAGap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		containers := map[string]int{"a": 5, "b": 5}
		f := newFake(containers)
		f.delay = time.Second
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		s := f.survey(t)
		plan, err := s.Plan(ctx, nil, now.AddDate(0, 0, -14), now)
		if err != nil {
			t.Fatal(err)
		}
		r := readPlan(ctx, s, plan)
		if !errors.Is(r.err, context.DeadlineExceeded) || len(r.hours) == 0 || len(r.gaps) == 0 {
			t.Fatalf("error %v, %d hours, %d gaps, want some of each", r.err, len(r.hours), len(r.gaps))
		}
		checkGaps(t, &r, containers)
	})
}

func TestRead_callerStops_queriesEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(map[string]int{"a": 5})
		f.delay = time.Second
		s := f.survey(t)
		plan, err := s.Plan(t.Context(), nil, now.AddDate(0, 0, -14), now)
		if err != nil {
			t.Fatal(err)
		}
		for range s.Read(t.Context(), plan) {
			break
		}
		n := len(f.ranges)
		time.Sleep(time.Minute)
		if len(f.ranges) != n || n > 3*4 {
			t.Errorf("%d queries, and %d a minute later", n, len(f.ranges))
		}
	})
}

func TestRead_credentialsExpire_endsAtOnce(t *testing.T) {
	f := newFake(map[string]int{"a": 5})
	f.fails = func(q *asked) *http.Response {
		if q.from.After(now.AddDate(0, 0, -5)) {
			return reply(http.StatusUnauthorized, "text/plain", "expired")
		}
		return nil
	}
	r := read(t, f.survey(t, func(c *Config) { c.Parallel = 1 }), 14)
	if causeOf(r.err) != Unauthorized || len(r.hours) == 0 || len(f.ranges) > 10*5+1 {
		t.Errorf("error %v after %d queries with %d hours", r.err, len(f.ranges), len(r.hours))
	}
}

func TestRead_resultMayBePartial_isReportedAndNotCached(t *testing.T) {
	cache := OpenCache(t.TempDir(), "uid")
	f := newFake(map[string]int{"a": 1})
	f.fails = func(q *asked) *http.Response {
		return reply(200, "application/json", `{"status":"success","isPartial":true,"warnings":["store-1 is down"],"data":{"resultType":"matrix","result":[]}}`)
	}
	r := read(t, f.survey(t, func(c *Config) { c.Cache = cache }), 1)
	if !slices.Equal(r.partial, []string{"the result is partial", "store-1 is down"}) || len(r.notes) > 0 {
		t.Errorf("partial %q, notes %q", r.partial, r.notes)
	}
	if files := cacheFiles(t, cache); len(files) > 0 {
		t.Errorf("cached: %v", files)
	}
}

func TestPlan_failure_hasCauseAndRemedy(t *testing.T) {
	for name, tt := range map[string]struct {
		answer *http.Response
		cause  Cause
		want   string
	}{
		"401":          {reply(401, "text/plain", "no"), Unauthorized, "credentials"},
		"API server":   {reply(403, "application/json", `{"kind":"Status","message":"services/proxy is forbidden"}`), Unauthorized, "services/proxy is forbidden"},
		"login page":   {reply(200, "text/html; charset=utf-8", "<html>"), NotPrometheus, "login page"},
		"other server": {reply(200, "application/json", `<html>`), NotPrometheus, "not from Prometheus"},
		"other JSON":   {reply(200, "application/json", `[1]`), NotPrometheus, "not from Prometheus"},
		"404":          {reply(404, "text/plain", "404 page not found"), WrongPath, "no Prometheus API"},
		"400":          {reply(400, "application/json", `{"status":"error","error":"parse error\nhere"}`), Rejected, "parse error here"},
		"422":          {status(422), TooLarge, "too many samples"},
		"503":          {status(503), Overloaded, "overloaded"},
		"no series":    {reply(200, "application/json", `{"status":"success","data":{"resultType":"vector","result":[]}}`), NoSeries, memoryMetric},
		"null":         {reply(200, "application/json", `{"status":"success","data":null}`), NoSeries, memoryMetric},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := New(Config{Address: "http://user:secret@prometheus.invalid", Transport: answering(func(*http.Request) (*http.Response, error) { return tt.answer, nil })})
			if err != nil {
				t.Fatal(err)
			}
			_, err = s.Plan(t.Context(), nil, now.AddDate(0, 0, -1), now)
			checkFailure(t, err, tt.cause, tt.want)
		})
	}
	t.Run("no connection", func(t *testing.T) {
		s, err := New(Config{Address: "http://prometheus.invalid", Transport: answering(func(*http.Request) (*http.Response, error) {
			return nil, errors.New("connection refused")
		})})
		if err != nil {
			t.Fatal(err)
		}
		_, err = s.Plan(t.Context(), nil, now.AddDate(0, 0, -1), now)
		checkFailure(t, err, Unreachable, "connection refused")
	})
	t.Run("time-out", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			f := newFake(map[string]int{"a": 1})
			f.delay = time.Hour
			_, err := f.survey(t).Plan(t.Context(), nil, now.AddDate(0, 0, -1), now)
			checkFailure(t, err, TimedOut, "timed out")
		})
	})
}

func TestPlan_redirectToALogin_isNotFollowedWithTheCredentials(t *testing.T) {
	login := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("the login got a request with Authorization %q", r.Header.Get("Authorization"))
	}))
	defer login.Close()
	var paths []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		paths = append(paths, r.URL.Path)
		if r.URL.Path == "/api/v1/query" {
			http.Redirect(w, r, "/slash"+r.URL.Path, http.StatusMovedPermanently)
			return
		}
		http.Redirect(w, r, login.URL, http.StatusFound)
	}))
	defer server.Close()
	transport, err := prom.Transport(prom.Config{Token: "secret"})
	if err != nil {
		t.Fatal(err)
	}
	s, err := New(Config{Address: server.URL, Transport: transport})
	if err != nil {
		t.Fatal(err)
	}
	_, err = s.Plan(t.Context(), nil, now.AddDate(0, 0, -1), now)
	checkFailure(t, err, NotPrometheus, "login page")
	if !slices.Equal(paths, []string{"/api/v1/query", "/slash/api/v1/query"}) {
		t.Errorf("requests for %v", paths)
	}
}

func checkFailure(t *testing.T, err error, cause Cause, want string) {
	t.Helper()
	var failed *Error
	if !errors.As(err, &failed) || failed.Cause != cause || !strings.Contains(err.Error(), want) || failed.Remedy() == "" {
		t.Errorf("got error %v, want cause %q and %q", err, cause, want)
		return
	}
	for _, hidden := range []string{"secret", "count by", "\n"} {
		if strings.Contains(err.Error(), hidden) {
			t.Errorf("the error contains %q: %v", hidden, err)
		}
	}
}

type answering func(*http.Request) (*http.Response, error)

func (a answering) RoundTrip(r *http.Request) (*http.Response, error) { return a(r) }

func TestQuery_labels_areSent(t *testing.T) {
	f := newFake(map[string]int{"shop": 1})
	s := f.survey(t, func(c *Config) {
		c.Labels = []Label{{"cluster", `eu"1`}}
		c.Parallel = 1
	})
	r := read(t, s, 1)
	r.checkComplete(t, f, "shop")
	for _, q := range f.ranges {
		if n := strings.Count(q.query, `{cluster="eu\"1",`); n != strings.Count(q.query, "{") {
			t.Errorf("a selector has no cluster label: %s", q.query)
		}
	}
	for _, query := range f.probes {
		if n := strings.Count(query, `{cluster="eu\"1",`); n != strings.Count(query, "{") {
			t.Errorf("a selector has no cluster label: %s", query)
		}
	}
}

func TestQuery_server_getsTheTokenAndFewConnections(t *testing.T) {
	f := newFake(map[string]int{"shop": 500})
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte("rotated\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var connections atomic.Int32
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer rotated" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		a, err := f.RoundTrip(r)
		if err != nil {
			t.Error(err)
			return
		}
		w.Header().Set("Content-Type", a.Header.Get("Content-Type"))
		w.WriteHeader(a.StatusCode)
		_, _ = io.Copy(w, a.Body)
	}))
	server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			connections.Add(1)
		}
	}
	server.Start()
	defer server.Close()
	transport, err := prom.Transport(prom.Config{TokenFile: file})
	if err != nil {
		t.Fatal(err)
	}
	r := read(t, f.survey(t, func(c *Config) { c.Address, c.Transport = server.URL, transport }), 5)
	r.checkComplete(t, f, "shop")
	if n := connections.Load(); n > 3 {
		t.Errorf("%d connections for %d queries, want that they are reused", n, len(f.ranges))
	}
}

func TestNew_invalidConfig_isAnError(t *testing.T) {
	for name, c := range map[string]Config{
		"no URL":     {Address: "localhost:9090"},
		"label name": {Address: "http://localhost:9090", Labels: []Label{{`a="x"} or b{c`, "d"}}},
	} {
		if _, err := New(c); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
