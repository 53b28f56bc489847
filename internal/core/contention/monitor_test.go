// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package contention

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
)

var start = time.Date(2026, 3, 10, 12, 0, 0, 0, time.UTC)

// replicas returns pods with a container app that requests an amount of CPU, in millicores. They have run for a day.
func replicas(n int, request int64) []*cluster.Pod {
	var out []*cluster.Pod
	for i := range n {
		name := fmt.Sprintf("web-%03d", i)
		out = append(out, &cluster.Pod{Key: cluster.Key{Namespace: "shop", Name: name}, UID: name, Node: "n1", Phase: cluster.Running, Created: start.Add(-24 * time.Hour),
			Containers: []cluster.Container{{Name: "app", Requests: cluster.Amounts(request, 0)}}})
	}
	return out
}

// A scene feeds a monitor with a sample of each pod per minute.
type scene struct {
	*Monitor
	now  time.Time
	pods []*cluster.Pod
	use  []float64 // cores, by pod; the last one is that of all others
}

func newScene(n int, request int64, use ...float64) *scene {
	return &scene{NewMonitor(), start, replicas(n, request), use}
}

func (s *scene) pass(sampled bool) {
	s.Tick(s.now)
	for i, p := range s.pods {
		if sampled {
			s.Add(p, "app", s.use[min(i, len(s.use)-1)])
		}
	}
	s.now = s.now.Add(time.Minute)
}

func (s *scene) run(d time.Duration) *scene {
	for range d / time.Minute {
		s.pass(true)
	}
	return s
}

func (s *scene) idle(d time.Duration) *scene {
	for range d / time.Minute {
		s.pass(false)
	}
	return s
}

func (s *scene) found() []Excess { return s.Excesses(s.pods, s.now) }

func TestExcesses_usageOverTime_isFoundAfterHalfAnHourAndEndsAfterCalm(t *testing.T) {
	const used, calm = 0.4, 0.1
	for name, c := range map[string]struct {
		request int64
		run     func(*scene)
		want    int
	}{
		"30 minutes":        {200, func(s *scene) { s.run(31 * time.Minute) }, 1},
		"25 minutes":        {200, func(s *scene) { s.run(26 * time.Minute) }, 0},
		"without a request": {0, func(s *scene) { s.run(time.Hour) }, 0},
		"at the request":    {400, func(s *scene) { s.run(time.Hour) }, 0},
		"49m above":         {351, func(s *scene) { s.run(time.Hour) }, 0},
		"51m above":         {349, func(s *scene) { s.run(time.Hour) }, 1},
		"a pause before": {200, func(s *scene) {
			s.run(20 * time.Minute)
			s.use[0] = calm
			s.run(5 * time.Minute)
			s.use[0] = used
			s.run(20 * time.Minute)
		}, 0},
		"a pause after":       {200, func(s *scene) { s.run(time.Hour); s.use[0] = calm; s.run(10 * time.Minute) }, 1},
		"the end":             {200, func(s *scene) { s.run(time.Hour); s.use[0] = calm; s.run(20 * time.Minute) }, 0},
		"slightly above":      {200, func(s *scene) { s.run(time.Hour); s.use[0] = 0.21; s.run(time.Hour) }, 1},
		"a short gap":         {200, func(s *scene) { s.run(20 * time.Minute).idle(10 * time.Minute).run(10 * time.Minute) }, 1},
		"a long gap":          {200, func(s *scene) { s.run(time.Hour).idle(25 * time.Minute) }, 0},
		"a long gap, again":   {200, func(s *scene) { s.run(time.Hour).idle(25 * time.Minute).run(20 * time.Minute) }, 0},
		"the clock goes back": {200, func(s *scene) { s.run(time.Hour); s.now = s.now.Add(-3 * time.Hour); s.run(20 * time.Minute) }, 0},
		"back and then long":  {200, func(s *scene) { s.run(time.Hour); s.now = s.now.Add(-3 * time.Hour); s.run(40 * time.Minute) }, 1},
		"the clock jumps":     {200, func(s *scene) { s.run(20 * time.Minute); s.now = s.now.Add(24 * time.Hour); s.run(20 * time.Minute) }, 0},
		"a higher request":    {200, func(s *scene) { s.run(time.Hour); s.pods[0].Containers[0].Requests.CPU = 500 }, 0},
		"too low a raise":     {200, func(s *scene) { s.run(time.Hour); s.pods[0].Containers[0].Requests.CPU = 300 }, 1},
		"actual request": {200, func(s *scene) {
			s.pods[0].Containers[0].Applied = &cluster.Applied{Requests: cluster.Amounts(500, 0)}
			s.run(time.Hour)
		}, 0},
		"a removed request": {200, func(s *scene) { s.run(time.Hour); s.pods[0].Containers[0].Requests = cluster.Resources{} }, 0},
		"another pod with the same name": {200, func(s *scene) {
			s.run(time.Hour)
			p := *s.pods[0]
			p.UID = "new"
			s.pods[0] = &p
			s.run(20 * time.Minute)
		}, 0},
		"deleting": {200, func(s *scene) { s.run(time.Hour); s.pods[0].Deleting = true }, 0},
		"no usage": {200, func(s *scene) {
			for _, v := range []float64{math.NaN(), math.Inf(1), math.Inf(-1), -1, 1e300} {
				s.use[0] = v
				s.run(40 * time.Minute)
			}
		}, 0},
		"some samples are invalid": {200, func(s *scene) {
			for i := range 40 {
				s.use[0] = []float64{math.NaN(), used, math.Inf(1), -3}[i%4]
				s.run(time.Minute)
			}
		}, 1},
		"bursts below the request on average": {200, func(s *scene) {
			for i := range 120 {
				s.use[0] = []float64{0.5, 0.1, 0.1, 0, 0}[i%5]
				s.run(time.Minute)
			}
		}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(1, c.request, used)
			c.run(s)
			if got := s.found(); len(got) != c.want {
				t.Errorf("found %+v, want %d", got, c.want)
			}
		})
	}
}

func TestExcesses_replicas_nameTheCause(t *testing.T) {
	started := func(ago time.Duration) func(*scene) {
		return func(s *scene) { s.pods[0].Started = start.Add(40*time.Minute - ago) }
	}
	restarted := func(ago time.Duration) func(*scene) {
		return func(s *scene) {
			s.pods[0].Containers[0].Exit = &cluster.Exit{Finished: start.Add(40*time.Minute - ago)}
		}
	}
	for name, c := range map[string]struct {
		n      int
		use    []float64
		change func(*scene)
		want   Reason
		pods   int
	}{
		"the only replica":                       {1, []float64{0.9}, nil, "", 1},
		"all replicas":                           {4, []float64{0.9}, nil, "", 4},
		"most replicas":                          {4, []float64{0.1, 0.9}, nil, "", 3},
		"one of ten":                             {10, []float64{0.9, 0.1}, nil, OneReplica, 1},
		"one of two":                             {2, []float64{0.9, 0.1}, nil, OneReplica, 1},
		"one of ten, at three times the median":  {10, []float64{0.9, 0.3, 0.1, 0.3}, nil, "", 9},
		"one of ten, not far from the others":    {10, []float64{0.5, 0.18}, nil, "", 1},
		"two of ten":                             {10, []float64{0.9, 0.8, 0.1}, nil, OneReplica, 2},
		"the others are idle":                    {10, []float64{0.9, 0}, nil, OneReplica, 1},
		"a thousand replicas":                    {1000, []float64{0.9, 0.1}, nil, OneReplica, 1},
		"just started":                           {1, []float64{0.9}, started(41 * time.Minute), Starting, 1},
		"restarted meanwhile":                    {1, []float64{0.9}, restarted(10 * time.Minute), Starting, 1},
		"restarted long ago":                     {1, []float64{0.9}, restarted(5 * time.Hour), "", 1},
		"started before the time":                {1, []float64{0.9}, started(55 * time.Minute), "", 1},
		"starting has precedence over the pod":   {10, []float64{0.9, 0.1}, started(39 * time.Minute), Starting, 1},
		"one of the replicas is started freshly": {4, []float64{0.9}, started(39 * time.Minute), "", 4},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(c.n, 200, c.use...)
			if c.change != nil {
				c.change(s)
			}
			got := s.run(40 * time.Minute).found()
			if len(got) != 1 || got[0].Cause != c.want || len(got[0].Pods) != c.pods || got[0].Replicas != c.n {
				t.Fatalf("found %+v, want cause %q with %d pods", got, c.want, c.pods)
			}
		})
	}
}

func TestExcesses_longStart_isNoStartAfterAWhile(t *testing.T) {
	s := newScene(1, 200, 0.9)
	s.pods[0].Started = start
	if got := s.run(40 * time.Minute).found(); len(got) != 1 || got[0].Cause != Starting {
		t.Errorf("found %+v after 40 minutes, want %s", got, Starting)
	}
	if got := s.run(6 * time.Minute).found(); len(got) != 1 || got[0].Cause != "" {
		t.Errorf("found %+v after 46 minutes, want another cause", got)
	}
}

func TestMonitor_withoutTickOrUnknownContainer_ignoresSamples(t *testing.T) {
	m := NewMonitor()
	p := replicas(1, 100)[0]
	m.Add(p, "app", 1)
	m.Tick(start)
	m.Add(p, "other", 1)
	p.Containers[0].Role = cluster.Init
	m.Add(p, "app", 1)
	if len(m.pods) > 0 || m.Warm() {
		t.Errorf("%d pods, warm %t", len(m.pods), m.Warm())
	}
}

func TestMonitor_startAndOutage_isWarmAfterTheTimeOfAProblem(t *testing.T) {
	s := newScene(1, 200, 0.1)
	for _, step := range []struct {
		run, idle time.Duration
		want      bool
	}{{34 * time.Minute, 0, false}, {2 * time.Minute, 0, true}, {0, 15 * time.Minute, true}, {0, 10 * time.Minute, false}, {30 * time.Minute, 0, false}, {6 * time.Minute, 0, true}} {
		if got := s.run(step.run).idle(step.idle).Warm(); got != step.want {
			t.Errorf("after %v and %v without samples: warm %t, want %t", step.run, step.idle, got, step.want)
		}
	}
	s.now = s.now.Add(-time.Hour)
	if s.run(time.Minute).Warm() {
		t.Error("warm after the clock went back")
	}
}

func TestMonitor_podsAreGone_forgetsThem(t *testing.T) {
	s := newScene(3, 200, 0.9)
	s.run(40 * time.Minute)
	replaced := *s.pods[1]
	replaced.UID = "new"
	s.Keep(map[cluster.Key]*cluster.Pod{s.pods[0].Key: s.pods[0], s.pods[1].Key: &replaced})
	if len(s.Monitor.pods) != 1 || len(s.found()) != 1 {
		t.Errorf("%d pods, found %+v", len(s.Monitor.pods), s.found())
	}
	s.Keep(nil)
	if len(s.Monitor.pods) != 0 {
		t.Errorf("%d pods", len(s.Monitor.pods))
	}
}

// A workload may have pods with different containers, as many as a tenant likes.
func TestExcesses_manyContainerNames_isBounded(t *testing.T) {
	s := newScene(200, 200, 0.9)
	for i, p := range s.pods {
		p.Containers[0].Name = fmt.Sprintf("app-%03d", i)
	}
	for range 40 {
		s.Tick(s.now)
		for _, p := range s.pods {
			s.Add(p, p.Containers[0].Name, 0.9)
		}
		s.now = s.now.Add(time.Minute)
	}
	found := s.found()
	finding, _ := AboveRequest(found, &Situation{Autoscaler: new(cluster.Autoscaler)}, nil)
	if len(found) != mostGroups || strings.Count(finding.Message, "Container app-") != mostDescribed || !strings.Contains(finding.Message, "Other containers have this condition, too.") {
		t.Errorf("%d found, message %s", len(found), finding.Message)
	}
}

func TestMonitor_samples_allocateNothing(t *testing.T) {
	s := newScene(100, 200, 0.1)
	s.run(time.Hour)
	if n := testing.AllocsPerRun(100, func() {
		s.run(time.Minute)
		s.found()
	}); n > 0 {
		t.Errorf("%v allocations for each pass, want none", n)
	}
}

func BenchmarkExcesses(b *testing.B) {
	for _, n := range []int{1000, 10_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			s := newScene(n, 200, 0.9, 0.1)
			s.run(40 * time.Minute)
			for b.Loop() {
				s.found()
			}
		})
	}
}
