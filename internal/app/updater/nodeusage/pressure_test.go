// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package nodeusage

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/rest"

	"podfit.dev/podfit/internal/app/process"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/guard"
	"podfit.dev/podfit/internal/core/plan"
	"podfit.dev/podfit/internal/core/usage"
	"podfit.dev/podfit/internal/edge/kubelet"
	"podfit.dev/podfit/internal/edge/metrics"
)

// A pressureBench is a node of 20 GiB of which 15 are in use, and what its kubelet answers. Its clock is its own.
type pressureBench struct {
	*Observer
	book     guard.Book
	world    *plan.World
	clock    atomic.Int64 // Unix seconds
	log      strings.Builder
	requests atomic.Int32
}

// An answer is what a kubelet answers at a time.
type answer func(w http.ResponseWriter, now time.Time)

// full answers with the pressure of all tasks.
func full(text string) answer {
	return func(w http.ResponseWriter, now time.Time) { _, _ = io.WriteString(w, summaryOf(now, text)) }
}

// fullAfter answers with what was measured some time ago.
func fullAfter(ago time.Duration) answer {
	return func(w http.ResponseWriter, now time.Time) { full(`{"total": 1, "avg60": 25}`)(w, now.Add(-ago)) }
}

func status(code int) answer {
	return func(w http.ResponseWriter, _ time.Time) { w.WriteHeader(code) }
}

func summaryOf(at time.Time, full string) string {
	return fmt.Sprintf(`{"node": {"nodeName": "n", "memory": {"time": %q, "psi": {"full": %s}}}, "pods": []}`, at.UTC().Format(time.RFC3339), full)
}

func newPressureBench(t *testing.T, a answer) *pressureBench {
	t.Helper()
	b := &pressureBench{world: oneNode(true)}
	b.clock.Store(time.Now().Unix())
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		b.requests.Add(1)
		a(w, b.now())
	}))
	t.Cleanup(server.Close)
	client, err := kubelet.New(&rest.Config{BearerToken: "secret"}, true)
	if err != nil {
		t.Fatal(err)
	}
	b.world.Nodes[0].Allocatable.Memory = 20 << 30
	b.world.Nodes[0].Kubelet = server.Listener.Addr().String()
	log := slog.New(slog.NewTextHandler(&b.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	h := process.NewHealth(time.Hour)
	b.Observer = New(b, client, Wait, h, log)
	b.book.PressureLine = 0.1
	return b
}

func (b *pressureBench) now() time.Time { return time.Unix(b.clock.Load(), 0) }

// Read is the Metrics API.
func (b *pressureBench) Read(context.Context) (metrics.Reading, error) {
	return metrics.Reading{Samples: []usage.Sample{{Pod: cluster.Key{Namespace: "shop", Name: "web"}, Container: "app", At: b.now(), Memory: 15 << 30, Has: cluster.Both}}}, nil
}

// watch runs passes, 16 seconds after each other, and waits for the kubelets in each one.
func (b *pressureBench) watch(t *testing.T, passes int) {
	t.Helper()
	for range passes {
		b.Watch(t.Context(), b.now(), b.world, &b.book, true)
		if b.pressing != nil && !b.pressing.ends(time.Minute) {
			t.Fatal("the reading does not end")
		}
		b.clock.Add(16)
	}
}

func TestPressure_kubeletAnswers_onlyPressureIsAnAlarm(t *testing.T) {
	for name, c := range map[string]struct {
		answer   answer
		want     float64 // the pressure of the alarm; 0: there is none
		requests int32   // in ten passes of 16 seconds
		log      string
	}{
		"under pressure": {full(`{"total": 1, "avg60": 25}`), 0.25, 9, ""},
		"little":         {full(`{"total": 1, "avg60": 5}`), 0, 9, ""},
		"no PSI": {func(w http.ResponseWriter, _ time.Time) {
			_, _ = io.WriteString(w, `{"node": {"memory": {}}, "pods": []}`)
		}, 0, 9,
			"level=DEBUG msg=\"Kubelets report no memory pressure (PSI)"},
		"no right":      {status(http.StatusForbidden), 0, 9, "403 Forbidden"},
		"wrong token":   {status(http.StatusUnauthorized), 0, 9, "401 Unauthorized"},
		"below zero":    {full(`{"total": 1, "avg60": -25}`), 0, 9, "between 0 and 100 %, got -25"},
		"1e308":         {full(`{"total": 1, "avg60": 1e308}`), 0, 9, "between 0 and 100 %, got 1e+308"},
		"no number":     {full(`{"total": 1, "avg60": NaN}`), 0, 9, "invalid character 'N'"},
		"deep":          {full(strings.Repeat(`{"a":`, 20_000)), 0, 9, "exceeded max depth"},
		"large":         {full(`"` + strings.Repeat("x", 10<<20) + `"`), 0, 9, "too large"},
		"long number":   {full(`{"total": 1, "avg60": ` + strings.Repeat("9", 100_000) + `}`), 0, 9, "cannot unmarshal number 999"},
		"old":           {fullAfter(time.Hour), 0, 9, ""},
		"in the future": {fullAfter(-time.Hour), 0, 9, ""},
	} {
		t.Run(name, func(t *testing.T) {
			b := newPressureBench(t, c.answer)
			b.watch(t, 10)
			var got float64
			for _, a := range b.book.Alarms {
				got = a.Pressure
			}
			if got != c.want || len(b.book.Alarms) > 1 {
				t.Errorf("alarms %+v, want one with pressure %v", b.book.Alarms, c.want)
			}
			if n := b.requests.Load(); n != c.requests {
				t.Errorf("%d requests, want %d", n, c.requests)
			}
			if lines := strings.Count(b.log.String(), "\n"); lines != min(len(c.log), 1) || !strings.Contains(b.log.String(), c.log) || b.log.Len() > 2000 {
				t.Errorf("%d bytes logged in %d lines, want %q:\n%.2000s", b.log.Len(), lines, c.log, b.log.String())
			}
		})
	}
}

// Kubelets are asked only about watched nodes below the line, of which at least 70 % are in use, and only with the right.
func TestPressure_nothingDependsOnIt_kubeletsAreNotAsked(t *testing.T) {
	for name, change := range map[string]func(*pressureBench){
		"no right, or switched off":   func(b *pressureBench) { b.book.PressureLine = 0 },
		"little usage":                func(b *pressureBench) { b.world.Nodes[0].Allocatable.Memory = 30 << 30 },
		"usage is above the line":     func(b *pressureBench) { b.world.Nodes[0].Allocatable.Memory = 16 << 30 },
		"the node is not watched":     func(b *pressureBench) { b.world.Governed[0].Autoscaler.MemoryLimits.Peaks = false },
		"its address is not known":    func(b *pressureBench) { b.world.Nodes[0].Kubelet = "" },
		"the node does not exist now": func(b *pressureBench) { b.world.Nodes = nil },
	} {
		b := newPressureBench(t, fullAfter(0))
		change(b)
		b.watch(t, 5)
		if n := b.requests.Load(); n > 0 {
			t.Errorf("%s: %d requests", name, n)
		}
	}
}

// When the right to read pressure is taken away, what was read before does not count any more.
func TestPressure_rightIsTakenAway_lastAnswerDoesNotCount(t *testing.T) {
	b := newPressureBench(t, fullAfter(0))
	b.watch(t, 4)
	if len(b.book.Alarms) != 1 || !b.book.Filling["n"] {
		t.Fatalf("alarms %+v", b.book.Alarms)
	}
	b.book.PressureLine = 0
	if b.watch(t, 2); len(b.book.Alarms) > 0 {
		t.Errorf("alarms %+v without the right", b.book.Alarms)
	}
	before := b.requests.Load()
	if b.watch(t, 2); b.requests.Load() > before {
		t.Error("kubelets are asked without the right")
	}
	b.book.PressureLine = 0.1
	if b.watch(t, 3); len(b.book.Alarms) != 1 {
		t.Errorf("alarms %+v after the right was added again", b.book.Alarms)
	}
	b.Watch(t.Context(), b.now(), b.world, &b.book, false)
	if len(b.book.Alarms) > 0 || b.pressing != nil {
		t.Errorf("alarms %+v without the right to read usage", b.book.Alarms)
	}
}

// slowKubelets are kubelets that answer after some time.
type slowKubelets struct {
	takes            time.Duration
	open, most, asks atomic.Int32
	nodes            sync.Map // that were asked
	panics           bool
}

func (k *slowKubelets) Pressures(ctx context.Context, nodes []cluster.Node) (map[string]guard.Pressure, error) {
	k.asks.Add(1)
	k.most.Store(max(k.most.Load(), k.open.Add(int32(len(nodes)))))
	defer k.open.Add(-int32(len(nodes)))
	if k.panics {
		panic("defect")
	}
	known := map[string]guard.Pressure{}
	for i := range nodes {
		k.nodes.Store(nodes[i].Name, true)
		known[nodes[i].Name] = guard.Pressure{At: time.Now(), Share: 0.5}
	}
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-time.After(k.takes):
		return known, nil
	}
}

// Kubelets that hang delay no pass, and are not asked again while they do. Nodes take turns.
func TestPressure_manyKubeletsAreSlow_passesAreNotDelayed(t *testing.T) {
	for name, k := range map[string]*slowKubelets{"they hang": {takes: time.Hour}, "they are slow": {takes: 2 * time.Second}, "reading panics": {panics: true}} {
		synctest.Test(t, func(t *testing.T) {
			var log strings.Builder
			w, book, api := &plan.World{}, &guard.Book{PressureLine: 0.1}, &fullNodes{}
			o := New(api, k, Wait, process.NewHealth(time.Hour), slog.New(slog.NewTextHandler(&log, nil)))
			for i := range 60 {
				one := oneNode(true)
				one.Nodes[0].Name, one.Nodes[0].Kubelet, one.Nodes[0].Allocatable.Memory = fmt.Sprint("n", i), fmt.Sprint("10.0.0.1:", i), 20<<30
				one.Pods[0].Name, one.Pods[0].Node = fmt.Sprint("web-", i), fmt.Sprint("n", i)
				w.Nodes, w.Pods, w.Governed = append(w.Nodes, one.Nodes...), append(w.Pods, one.Pods...), append(w.Governed, one.Governed...)
			}
			api.pods = w.Pods
			alarmed := map[string]bool{}
			for range 12 * 30 { // half an hour
				began := time.Now()
				o.Watch(t.Context(), began, w, book, true)
				if took := time.Since(began); took > 10*time.Millisecond {
					t.Fatalf("%s: a pass took %v", name, took)
				}
				for _, a := range book.Alarms {
					alarmed[a.Node] = a.Pressure == 0.5
				}
				if len(book.Pressure) > len(w.Nodes) {
					t.Fatalf("%s: the pressure of %d nodes is kept", name, len(book.Pressure))
				}
				time.Sleep(5 * time.Second)
			}
			time.Sleep(time.Minute)
			synctest.Wait()
			if k.most.Load() != maxKubelets || k.asks.Load() > 30*4 || k.open.Load() != 0 {
				t.Errorf("%s: %d kubelets are asked at a time, %d times in half an hour, %d at the end", name, k.most.Load(), k.asks.Load(), k.open.Load())
			}
			if want := map[bool]int{true: 60}[name == "they are slow"]; len(alarmed) != want {
				t.Errorf("%s: %d nodes have alarms, want %d", name, len(alarmed), want)
			}
			if n, most := strings.Count(log.String(), "Cannot read the memory pressure"), 1; n > most || (n == 0) != (name == "they are slow") {
				t.Errorf("%s: logged %d times in half an hour", name, n)
			}
		})
	}
}

// fullNodes is a Metrics API with pods that use 15 GiB each.
type fullNodes struct{ pods []*cluster.Pod }

func (f *fullNodes) Read(context.Context) (metrics.Reading, error) {
	var out metrics.Reading
	for _, p := range f.pods {
		out.Samples = append(out.Samples, usage.Sample{Pod: p.Key, Container: "app", At: time.Now(), Memory: 15 << 30, Has: cluster.Both})
	}
	return out, nil
}
