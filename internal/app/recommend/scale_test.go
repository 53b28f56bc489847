// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package recommend

import (
	"fmt"
	"io"
	"runtime"
	"testing"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/recommend"
	"podfit.dev/podfit/internal/core/review"
	"podfit.dev/podfit/internal/core/sizing"
	"podfit.dev/podfit/internal/core/usage"
	report "podfit.dev/podfit/internal/edge/report/review"
	"podfit.dev/podfit/test/kubetest"
)

// largeScene is a cluster with 3 pods of each workload, and 15 pods on each node.
func largeScene(workloads int) *scene {
	s := &scene{Config: review.Config{Now: time.Date(2026, 11, 22, 15, 0, 0, 0, time.UTC)}, whole: true, catalog: sizing.NewCatalog(recommend.DefaultParams(), false)}
	for i := range workloads / 5 {
		name := fmt.Sprintf("node-%d", i)
		s.Nodes = append(s.Nodes, cluster.Node{Name: name, Ready: true, Allocatable: cluster.Amounts(16000, 64<<30)})
	}
	var pods []*cluster.Pod
	for i := range workloads {
		w := cluster.Workload{Group: "apps", Kind: "Deployment", Namespace: fmt.Sprintf("team-%d", i%50), Name: fmt.Sprintf("w%d", i)}
		for k := range 3 {
			pods = append(pods, &cluster.Pod{
				Key: cluster.Key{Namespace: w.Namespace, Name: fmt.Sprintf("%s-7d4b9c6f5d-x2k9%c", w.Name, "bcd"[k])}, UID: fmt.Sprint(i, k), Top: w, Controller: w,
				Node: fmt.Sprintf("node-%d", (3*i+k)%len(s.Nodes)), Phase: cluster.Running,
				Containers: []cluster.Container{{Name: "app", Requests: cluster.Amounts(1000, 2<<30)}},
			})
		}
	}
	c := Defaults()
	s.gather(&c, pods, nil, nil)
	return s
}

// observeDays adds a sample of each workload for each hour of some days.
func observeDays(c *collector, days int) {
	for hour := days * 24; hour > 0; hour-- {
		at := c.scene.Now.Add(-time.Duration(hour) * time.Hour)
		for i, w := range c.scene.workloads {
			use := float64(1 + (i+hour)%24)
			key := cluster.Key{Namespace: w.key.Namespace, Name: "Deployment/" + w.key.Name}
			c.observe(usage.Sample{Pod: key, Container: "app", At: at, CPU: 0.01 * use, Memory: 2e7 * use, Has: cluster.Both}, w.key)
		}
	}
}

// run reviews a large cluster and writes the report.
func runLarge(tb testing.TB, workloads, days int) (perWorkload float64, rows int) {
	before := kubetest.HeapBytes()
	s := largeScene(workloads)
	j := job{Config: Defaults()}
	c := newCollector(s, j.books(s))
	observeDays(c, days)
	subjects := j.subjects(c)
	r := review.New(review.Config{Now: s.Now, Profiles: []string{"balanced"}, Nodes: s.Nodes, Pods: s.snapshot.Pods}, subjects)
	if err := report.Write(io.Discard, "json", r, report.Options{}); err != nil {
		tb.Fatal(err)
	}
	perWorkload = float64(kubetest.HeapBytes()-before) / float64(workloads)
	runtime.KeepAlive(c)
	runtime.KeepAlive(r)
	return perWorkload, len(r.Rows)
}

// The memory for a workload with 14 days of usage, 3 pods and a row of the report. The measured value is 8,400; 5,000 workloads need 42 MB.
const mostBytes = 20_000

func TestRecommend_manyWorkloads_memoryIsProportionalAndBounded(t *testing.T) {
	runLarge(t, 50, 1) // what is allocated once
	small, _ := runLarge(t, 100, 14)
	large, rows := runLarge(t, 400, 14)
	if rows != 400 {
		t.Errorf("got %d rows", rows)
	}
	if large > mostBytes || large > 1.2*small {
		t.Errorf("got %.0f bytes per workload with 400 workloads, and %.0f with 100; want at most %d", large, small, mostBytes)
	}
}

// A sample of a known container needs no memory, so the work per sample does not grow with the number of samples.
func TestCollector_knownContainer_observesWithoutAllocation(t *testing.T) {
	s := largeScene(50)
	j := job{Config: Defaults()}
	c := newCollector(s, j.books(s))
	observeDays(c, 20)
	w := s.workloads[0]
	key := cluster.Key{Namespace: w.key.Namespace, Name: "Deployment/" + w.key.Name}
	at := s.Now.Add(-time.Minute)
	n := testing.AllocsPerRun(100, func() {
		at = at.Add(time.Second / 4)
		c.observe(usage.Sample{Pod: key, Container: "app", At: at, CPU: 0.1, Memory: 1e8, Has: cluster.Both}, w.key)
	})
	if n > 0.1 {
		t.Errorf("got %.1f allocations per sample", n)
	}
}

func BenchmarkRecommend_5000Workloads14Days(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		runLarge(b, 5000, 14)
	}
}
