// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package watcher

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/test/kubetest"
)

const budgetsPath = "/apis/policy/v1/poddisruptionbudgets"

func budgetJSON(name string, healthy int) string {
	return fmt.Sprintf(`{"metadata":{"namespace":"shop","name":%q},"spec":{"selector":{"matchLabels":{"app":"web"}}},"status":{"currentHealthy":%d,"desiredHealthy":2}}`, name, healthy)
}

func TestWorld_disruptionBudgetChanges_isUpdated(t *testing.T) {
	f := kubetest.NewFakeAPI(t)
	f.Apply(budgetsPath, budgetJSON("b", 0))
	f.Apply(budgetsPath, budgetJSON("a", 0))
	w := startWorld(t, f, Options{Budgets: true})
	all, known := w.DisruptionBudgets("shop")
	if !known || len(all) != 2 || all[0].Name != "a" || !all[0].Selector.Matches([]string{"app=web"}) {
		t.Errorf("known %t: %+v", known, all)
	}
	if all, known := w.DisruptionBudgets("other"); !known || len(all) != 0 {
		t.Errorf("a namespace without budgets: known %t, %+v", known, all)
	}
	f.Apply(budgetsPath, budgetJSON("a", 1))
	kubetest.Eventually(t, "the new status arrives", func() bool {
		all, _ := w.DisruptionBudgets("shop")
		return all[0].Healthy == 1
	})
}

// Upstream's roles grant no right to read PodDisruptionBudgets. podfit starts without them.
func TestWorld_disruptionBudgetsForbidden_areUnknown(t *testing.T) {
	f := kubetest.NewFakeAPI(t)
	f.Reply("GET "+budgetsPath, 403, forbidden)
	var text logText
	w := startWorld(t, f, Options{Budgets: true, Log: slog.New(slog.NewTextHandler(&text, nil))})
	if _, known := w.DisruptionBudgets("shop"); known || !w.Synced() {
		t.Errorf("known %t, synced %t", known, w.Synced())
	}
	if !strings.Contains(text.String(), "resource=poddisruptionbudgets") {
		t.Errorf("no warning:\n%s", text.String())
	}
	if _, known := NewWorld(clientsOf(f), Options{}).DisruptionBudgets("shop"); known {
		t.Error("known without a watch")
	}
}

func TestWorld_changesThatPodsWaitFor_signalAnEarlyPass(t *testing.T) {
	w := NewWorld(clientsOf(kubetest.NewFakeAPI(t)), Options{})
	key := cluster.Key{Namespace: "shop", Name: "web-1"}
	put := func(name string, crash *cluster.Crash) {
		k := cluster.Key{Namespace: key.Namespace, Name: name}
		w.pods.Put(k, &cluster.Pod{Key: k, UID: name, Phase: cluster.Running, Ready: crash == nil, Crash: crash})
	}
	change := func(name string, to func(p *cluster.Pod)) {
		k := cluster.Key{Namespace: key.Namespace, Name: name}
		p := &cluster.Pod{Key: k, UID: name, Phase: cluster.Running, Ready: true, Node: "n1", Controller: cluster.Workload{Kind: "ReplicaSet", Namespace: "shop", Name: "db"},
			Containers: []cluster.Container{{Name: "app", Requests: cluster.Amounts(500, 1<<30)}}}
		to(p)
		w.pods.Put(k, p)
	}
	mode := cluster.Recreate
	advise := func(name string, memory int64) {
		a := &cluster.Autoscaler{Key: cluster.Key{Namespace: key.Namespace, Name: name}, UID: name, Mode: mode}
		a.Advice = []cluster.Advice{{Container: "app", Estimate: cluster.Estimate{Target: cluster.Amounts(100, memory)}}}
		w.autoscalers.Put(a.Key, &autoscalerEntry{Autoscaler: a, version: "1"})
	}
	signalled := func() bool {
		select {
		case <-w.Urgent():
			return true
		default:
			return false
		}
	}
	for i, step := range []struct {
		what string
		do   func()
		want bool
	}{
		{"a ready pod", func() { put("web-1", nil) }, false},
		{"a new recommendation", func() { advise("web", 1<<20) }, true},
		{"a killed pod", func() { put("web-1", &cluster.Crash{Version: "1"}) }, true},
		{"a change of it", func() { put("web-1", &cluster.Crash{Version: "2"}) }, true},
		{"the same recommendation", func() { advise("web", 1<<20) }, false},
		{"another recommendation", func() { advise("web", 2<<20) }, true},
		{"a pod that becomes ready beside it", func() { put("web-2", nil) }, true},
		{"the pod is ready again", func() { put("web-1", nil) }, false},
		{"a recommendation in mode Off", func() { mode = cluster.Off; advise("web", 3<<20) }, false},
		{"another killed pod", func() { put("web-2", &cluster.Crash{}) }, true},
		{"its deletion", func() { w.pods.Remove(cluster.Key{Namespace: "shop", Name: "web-2"}) }, false},
		{"a pod on a node", func() { change("db-1", func(*cluster.Pod) {}) }, false},
		{"a pod of another node", func() { change("db-2", func(p *cluster.Pod) { p.Node = "n2" }) }, false},
		{"a deferred resize", func() {
			change("db-1", func(p *cluster.Pod) { p.Resize = &cluster.Resize{State: cluster.ResizeDeferred} })
		}, true},
		{"a change of its text", func() {
			change("db-1", func(p *cluster.Pod) { p.Resize = &cluster.Resize{State: cluster.ResizeDeferred, Message: "m"} })
		}, false},
		{"a pod becomes smaller, and no pod waits", func() {
			change("db-1", func(p *cluster.Pod) { p.Containers[0].Requests = cluster.Amounts(400, 1<<30) })
		}, false},
		{"a pod becomes ready, and no pod waits", func() {
			change("db-1", func(p *cluster.Pod) { p.Ready = false })
			change("db-1", func(*cluster.Pod) {})
		}, false},
		{"pods wait", func() {
			w.AwaitChanges(Waits{Nodes: map[string]bool{"n1": true}, Controllers: map[cluster.Workload]bool{{Kind: "ReplicaSet", Namespace: "shop", Name: "db"}: true}})
		}, false},
		{"a pod becomes unready", func() { change("db-1", func(p *cluster.Pod) { p.Ready = false }) }, false},
		{"a pod becomes ready", func() { change("db-1", func(*cluster.Pod) {}) }, true},
		{"a pod becomes smaller in the spec", func() {
			change("db-1", func(p *cluster.Pod) {
				p.Containers[0].Applied = &cluster.Applied{Requests: p.Containers[0].Requests}
				p.Containers[0].Requests = cluster.Amounts(300, 1<<30)
			})
		}, false},
		{"the kubelet has applied it", func() {
			change("db-1", func(p *cluster.Pod) { p.Containers[0].Requests = cluster.Amounts(300, 1<<30) })
		}, true},
		{"a pod terminates", func() {
			change("db-1", func(p *cluster.Pod) {
				p.Deleting = true
				p.Containers[0].Requests = cluster.Amounts(300, 1<<30)
			})
		}, false},
		{"a pod is gone", func() { w.pods.Remove(cluster.Key{Namespace: "shop", Name: "db-1"}) }, true},
		{"a pod of another node is gone", func() { w.pods.Remove(cluster.Key{Namespace: "shop", Name: "db-2"}) }, false},
		{"a placeholder pod without a node", func() { change("hold", func(p *cluster.Pod) { p.Placeholder, p.Node, p.Ready = true, "", false }) }, false},
		{"it gets a node", func() { change("hold", func(p *cluster.Pod) { p.Placeholder, p.Ready = true, false }) }, true},
		{"it changes there", func() {
			change("hold", func(p *cluster.Pod) { p.Placeholder, p.Ready, p.Started = true, false, time.Unix(1, 0) })
		}, false},
	} {
		step.do()
		if got := signalled(); got != step.want {
			t.Errorf("step %d, %s: signal %t, want %t", i, step.what, got, step.want)
		}
	}
	if len(w.urgent.crashing) != 0 {
		t.Errorf("namespaces with killed pods: %v, want none", w.urgent.crashing)
	}
}

func TestWorld_podsOfASurge_signalAnEarlyPass(t *testing.T) {
	w := NewWorld(clientsOf(kubetest.NewFakeAPI(t)), Options{})
	owner := cluster.Workload{Kind: "ReplicaSet", Namespace: "shop", Name: "web-1"}
	put := func(name string, ready bool, of cluster.Workload) {
		k := cluster.Key{Namespace: "shop", Name: name}
		w.pods.Put(k, &cluster.Pod{Key: k, UID: name, Phase: cluster.Running, Ready: ready, Node: "n1", Controller: of})
	}
	remove := func(name string) { w.pods.Remove(cluster.Key{Namespace: "shop", Name: name}) }
	put("old", true, owner)
	put("other", true, cluster.Workload{Kind: "ReplicaSet", Namespace: "shop", Name: "db-1"})
	for _, step := range []struct {
		what string
		do   func()
		want bool
	}{
		{"an additional pod of a workload without a surge", func() { put("early", true, owner) }, false},
		{"the surge begins", func() { w.AwaitChanges(Waits{Surging: map[cluster.Workload]bool{owner: true}}) }, false},
		{"an additional pod", func() { put("new", false, owner) }, false},
		{"it becomes ready", func() { put("new", true, owner) }, true},
		{"it stays ready", func() { put("new", true, owner) }, false},
		{"a pod of another workload is gone", func() { remove("other") }, false},
		{"the old pod is gone", func() { remove("old") }, true},
		{"the surge ends", func() { w.AwaitChanges(Waits{}) }, false},
		{"a pod is gone after it", func() { remove("early") }, false},
	} {
		step.do()
		signalled := false
		select {
		case <-w.Urgent():
			signalled = true
		default:
		}
		if signalled != step.want {
			t.Errorf("%s: signalled %v, want %v", step.what, signalled, step.want)
		}
	}
}

func TestWorld_nodeThatPodsWaitFor_signalsAnEarlyPass(t *testing.T) {
	w := NewWorld(clientsOf(kubetest.NewFakeAPI(t)), Options{Nodes: true})
	put := func(ready, cordoned bool, memory int64) {
		w.nodes.Put(cluster.Key{Name: "n"}, cluster.Node{Name: "n", Ready: ready, Cordoned: cordoned, Allocatable: cluster.Amounts(4000, memory)})
	}
	for _, step := range []struct {
		name    string
		do      func()
		signals bool
	}{
		{"nothing waits", func() { put(true, false, 1<<30) }, false},
		{"a node is removed", func() { w.nodes.Remove(cluster.Key{Name: "n"}) }, false},
		{"pods wait for a larger node", func() { w.AwaitChanges(Waits{LargerNode: true}) }, false},
		{"a node that is not ready arrives", func() { put(false, false, 1<<30) }, false},
		{"it becomes ready", func() { put(true, false, 1<<30) }, true},
		{"a heartbeat", func() { put(true, false, 1<<30) }, false},
		{"it is cordoned", func() { put(true, true, 1<<30) }, false},
		{"it is uncordoned", func() { put(true, false, 1<<30) }, true},
		{"it becomes smaller", func() { put(true, false, 1<<29) }, false},
		{"it becomes larger", func() { put(true, false, 1<<31) }, true},
		{"it is removed", func() { w.nodes.Remove(cluster.Key{Name: "n"}) }, false},
		{"it arrives again", func() { put(true, false, 1<<31) }, true},
	} {
		step.do()
		signaled := false
		select {
		case <-w.Urgent():
			signaled = true
		default:
		}
		if signaled != step.signals {
			t.Errorf("%s: signal %t, want %t", step.name, signaled, step.signals)
		}
	}
	if nodes := w.Nodes(); len(nodes) != 1 || nodes[0].Allocatable.Memory != 1<<31 {
		t.Errorf("nodes %+v", nodes)
	}
}

func TestWorld_timeOfTheNextStep_signalsAnEarlyPass(t *testing.T) {
	w := NewWorld(clientsOf(kubetest.NewFakeAPI(t)), Options{})
	w.AwaitChanges(Waits{At: time.Now().Add(time.Hour)})
	w.AwaitChanges(Waits{At: time.Now().Add(time.Millisecond)}) // replaces the first
	<-w.Urgent()
	w.AwaitChanges(Waits{At: time.Now().Add(time.Hour)})
	w.AwaitChanges(Waits{})
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.urgent.timer != nil {
		t.Error("a timer is left although nothing waits")
	}
}
