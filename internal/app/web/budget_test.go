// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package web

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"runtime"
	"testing"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/usage"
	"podfit.dev/podfit/internal/edge/metrics"
	"podfit.dev/podfit/internal/edge/web"
)

// large is a cluster with many workloads, whose snapshot is made once, as podfit has it anyway.
type large struct {
	fake
	snapshot *cluster.Snapshot
	samples  []usage.Sample
	nodes    []cluster.Node
}

func (l *large) Snapshot() *cluster.Snapshot { return l.snapshot }
func (l *large) Nodes() []cluster.Node       { return l.nodes }
func (l *large) Read(context.Context) (metrics.Reading, error) {
	return metrics.Reading{Samples: l.samples}, nil
}

func newLarge(workloads, podsEach int) *large {
	l := &large{}
	var pods []*cluster.Pod
	var autoscalers []*cluster.Autoscaler
	for i := range workloads {
		w := cluster.Workload{Group: "apps", Kind: "Deployment", Namespace: fmt.Sprintf("team-%03d", i%200), Name: fmt.Sprintf("service-%05d", i)}
		for j := range podsEach {
			p := &cluster.Pod{
				Key: cluster.Key{Namespace: w.Namespace, Name: fmt.Sprint(w.Name, "-7d9f-", j)}, UID: fmt.Sprint(i, "-", j), Top: w, Controller: w, Phase: cluster.Running,
				Node:       fmt.Sprintf("n%03d", i%500),
				Containers: []cluster.Container{{Name: "app", Requests: cluster.Amounts(500, 512<<20), Limits: cluster.Amounts(0, 1<<30)}},
			}
			pods = append(pods, p)
			for _, c := range p.Containers {
				l.samples = append(l.samples, usage.Sample{Pod: p.Key, Container: c.Name, At: time.Now(), CPU: 0.1, Memory: 9e7, Has: cluster.Both})
			}
		}
		a := &cluster.Autoscaler{Key: cluster.Key{Namespace: w.Namespace, Name: w.Name}, Target: w}
		a.Advice = []cluster.Advice{{Container: "app", Estimate: cluster.Estimate{Target: cluster.Amounts(int64(100+i%500), 300<<20)}}}
		autoscalers = append(autoscalers, a)
	}
	for i := range 500 {
		l.nodes = append(l.nodes, cluster.Node{Name: fmt.Sprintf("n%03d", i), Ready: true, Allocatable: cluster.Amounts(64000, 256<<30)})
	}
	l.snapshot = cluster.NewSnapshot(pods, autoscalers)
	return l
}

// inUse returns the memory that is in use after a collection, in bytes: the heap and its pages that are filled in part, and stacks. It does not
// count what the kernel and the runtime return later, which depends on what else the machine does.
func inUse() int {
	runtime.GC()
	runtime.GC() // ends sweeping, so that free pages do not count
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapInuse + m.StackInuse)
}

// The page adds at most 20 MB to the memory of podfit in a cluster of 10,000 workloads with 20,000 pods, while a viewer reads all pages.
func TestBudget_tenThousandWorkloads_memoryIsSmall(t *testing.T) {
	if raceDetector {
		t.Skip("the race detector needs several times the memory")
	}
	const most = 20 << 20
	l := newLarge(10_000, 2)
	s := newSource(&source{world: l, usage: l.Read, events: l.RecentEvents, store: &l.fake, archive: &l.fake, registrations: l.Registrations, allPods: true, log: slog.New(slog.DiscardHandler)})
	handler := web.New(web.Config{Source: s})
	before := inUse()
	visit := func() {
		for _, path := range []string{"/", "/workloads", "/workloads?page=77&sort=memory", "/workloads/team-000/Deployment/service-00000", "/nodes", "/activity", "/profiles", "/about", "/?format=json"} {
			r := httptest.NewRequest(http.MethodGet, path, nil)
			r.Host = "localhost"
			w := httptest.NewRecorder()
			handler.ServeHTTP(w, r)
			if w.Code != 200 {
				t.Fatalf("%s: status %d", path, w.Code)
			}
		}
	}
	began := time.Now()
	for range 3 {
		visit()
		s.state.mu.Lock()
		s.state.at = time.Time{} // the next request computes the state again
		s.state.mu.Unlock()
	}
	for { // the reading of surplus ends
		s.surplus.mu.Lock()
		running := s.surplus.running
		s.surplus.mu.Unlock()
		if running == nil {
			break
		}
		<-running
	}
	after := inUse()
	t.Logf("%d KiB more than %d KiB; three visits took %v", (after-before)/1024, before/1024, time.Since(began))
	if after-before > most {
		t.Errorf("the page added %d bytes, want at most %d", after-before, most)
	}
	runtime.KeepAlive(l)
	runtime.KeepAlive(s)
}
