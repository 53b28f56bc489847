// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package contention

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"podfit.dev/podfit/api/podfit/v1alpha1"
	"podfit.dev/podfit/internal/core/cluster"
	judge "podfit.dev/podfit/internal/core/contention"
	"podfit.dev/podfit/internal/core/usage"
	"podfit.dev/podfit/internal/edge/kube/watcher"
)

// nodes is a cluster with nodes, and counts how often they are read.
type nodes struct{ reads int }

func (n *nodes) Nodes() []cluster.Node {
	n.reads++
	return []cluster.Node{{Name: "n1", Allocatable: cluster.Amounts(64_000, 0)}}
}

// A yard is a cluster with workloads of one pod whose usage is above the request.
type yard struct {
	*Reporter
	nodes       *nodes
	now         time.Time
	pods        []*cluster.Pod
	autoscalers []*cluster.Autoscaler
	workloads   map[cluster.Workload]bool
}

func newYard(n int) *yard {
	y := &yard{nodes: new(nodes), now: time.Date(2026, 3, 10, 12, 0, 0, 0, time.UTC), workloads: map[cluster.Workload]bool{}}
	y.Reporter = NewReporter(y.nodes, nil, true)
	for i := range n {
		w := workload(i)
		key := cluster.Key{Namespace: w.Namespace, Name: "web"}
		y.workloads[w] = true
		y.pods = append(y.pods, &cluster.Pod{Key: key, UID: fmt.Sprint(i), Top: w, Node: "n1", Phase: cluster.Running, Created: y.now.Add(-24 * time.Hour),
			Containers: []cluster.Container{{Name: "app", Requests: cluster.Amounts(100, 0)}}})
		y.autoscalers = append(y.autoscalers, &cluster.Autoscaler{Key: key, UID: fmt.Sprint(i), Target: w})
	}
	return y
}

// pass makes a pass and returns the conditions by VPA.
func (y *yard) pass() [][]watcher.Condition {
	y.Tick(y.now)
	s := cluster.NewSnapshot(y.pods, y.autoscalers)
	var samples []usage.Sample
	pods := map[cluster.Key]*cluster.Pod{}
	for _, p := range y.pods {
		pods[p.Key] = p
		samples = append(samples, usage.Sample{Pod: p.Key, Container: "app", CPU: 0.3, Has: cluster.Both})
		y.Observe(p, &samples[len(samples)-1])
	}
	y.Observed(samples, pods)
	var out [][]watcher.Condition
	for _, a := range y.autoscalers {
		out = append(out, y.Conditions(y.now, s, judge.Situation{Autoscaler: a, Governs: true}))
	}
	y.End(s, y.workloads)
	y.now = y.now.Add(time.Minute)
	return out
}

func (y *yard) run(d time.Duration) (last [][]watcher.Condition) {
	for range d / time.Minute {
		last = y.pass()
	}
	return last
}

func TestReporter_objectsAreDeleted_memoryIsReleased(t *testing.T) {
	y := newYard(50)
	last := y.run(40 * time.Minute)
	if len(y.texts) != 50 || last[0][0].Reason != v1alpha1.ReasonNodeHasSpare {
		t.Fatalf("%d texts, conditions %+v", len(y.texts), last[0])
	}
	y.throttled[workload(7)] = throttling{}
	y.pods, y.autoscalers, y.workloads = y.pods[:1], y.autoscalers[:1], map[cluster.Workload]bool{workload(0): true}
	y.pass()
	if len(y.texts) != 1 || len(y.throttled) != 0 || len(y.problems) != 0 || y.samples != nil {
		t.Errorf("%d texts, %d throttled workloads, %d problems", len(y.texts), len(y.throttled), len(y.problems))
	}
}

func TestReporter_podsAreGone_conditionIsRemovedAtOnce(t *testing.T) {
	y := newYard(1)
	y.run(40 * time.Minute)
	y.pods = nil
	if got := y.pass()[0]; len(got) != 4 || got[0].Status != watcher.Removed {
		t.Errorf("conditions %+v", got)
	}
}

func TestReporter_start_keepsTheConditionOfTheStatus(t *testing.T) {
	y := newYard(1)
	for minute := range 60 {
		kinds := map[string]bool{}
		for _, c := range y.pass()[0] {
			kinds[string(c.Type)] = true
		}
		if want := minute >= 30; kinds[v1alpha1.ConditionUsageAboveRequest] != want {
			t.Errorf("minute %d: conditions %v, want UsageAboveRequest: %t", minute, kinds, want)
		}
	}
}

// Nodes are read at most once in a pass, and only if a container has a problem.
func TestReporter_nodes_areReadOnceInAPassAndOnlyIfNeeded(t *testing.T) {
	y := newYard(100)
	y.run(29 * time.Minute)
	if y.nodes.reads != 0 {
		t.Errorf("%d reads without a problem", y.nodes.reads)
	}
	y.run(11 * time.Minute)
	if y.nodes.reads == 0 || y.nodes.reads > 11 {
		t.Errorf("%d reads in 11 passes", y.nodes.reads)
	}
}

// isThrottled returns the condition CPUThrottled of the first VPA in a pass, and whether there is one.
func (y *yard) isThrottled() (watcher.Condition, bool) {
	for _, c := range y.pass()[0] {
		if string(c.Type) == v1alpha1.ConditionCPUThrottled {
			return c, true
		}
	}
	return watcher.Condition{}, false
}

// The condition is not known before the first answer. It outlives the pods that were measured, because their replacements have the same limit, but
// not the limit, and not for longer than an hour.
func TestReporter_podsAreThrottled_conditionLastsUntilReplacementsAreMeasured(t *testing.T) {
	prom := &prometheus{first: judge.Throttling{Pod: "web", Container: "app", Throttled: 6_000, All: 10_000, P95: 0.2, Mean: 0.19}}
	observe(t, prom, func(o *Observer, _ *bytes.Buffer) {
		y := newYard(1)
		y.observer = o
		y.pods[0].Containers[0].Limits = cluster.Amounts(200, 0)
		expect := func(when, want string) {
			t.Helper()
			y.now = time.Now()
			got := "unknown"
			if c, ok := y.isThrottled(); ok {
				got = cmp.Or(c.Reason, "none")
			}
			if got != want {
				t.Errorf("%s: throttling %s, want %s", when, got, want)
			}
			y.pods[0].Created = y.now.Add(-24 * time.Hour)
			time.Sleep(6 * time.Minute)
			synctest.Wait()
		}
		expect("before the first query", "unknown")
		expect("after it", v1alpha1.ReasonAtLimit)
		if y.nodes.reads != 1 {
			t.Errorf("nodes, for the versions of their kernels, were read %d times in a pass", y.nodes.reads)
		}
		y.pods[0].Name = "web-2"
		expect("the pod was replaced", v1alpha1.ReasonAtLimit)
		y.pods[0].Phase = cluster.Pending
		expect("the replacement does not run", v1alpha1.ReasonAtLimit)
		y.pods[0].Phase = cluster.Running
		prom.fail(errors.New("503"))
		expect("Prometheus does not answer", v1alpha1.ReasonAtLimit)
		time.Sleep(keepFor)
		synctest.Wait()
		expect("for an hour, so the condition ends", "none")
		prom.fail(nil)
		y.pods[0].Name = "web"
		expect("Prometheus answers again", "none")
		expect("after the answer", v1alpha1.ReasonAtLimit)
		y.pods[0].Containers[0].Limits = cluster.Amounts(0, 0)
		expect("the limit is removed", "none")
	})
}
