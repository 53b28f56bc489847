// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"testing"
	"time"
)

func TestRole_labels_valueIsFound(t *testing.T) {
	member := Pod{Key: Key{Name: "db-x-12"}, Controller: Workload{Kind: "StatefulSet", Name: "db-x"}, Marks: &Marks{Labels: "app=db,role=leader"}}
	for label, want := range map[string]string{"role": "leader", "app": "db", PodIndex: "12", "rol": "", "leader": "", "": ""} {
		if got := member.Role(label); got != want {
			t.Errorf("%q: %q, want %q", label, got, want)
		}
	}
	if got := new(Pod).Role("role"); got != "" {
		t.Errorf("%q without labels", got)
	}
}

func grouped() (*Autoscaler, *Pod) {
	a := &Autoscaler{Mode: InPlaceOrRecreate, Advice: []Advice{
		{Container: "app", Estimate: Estimate{Lower: Amounts(50, 500), Target: Amounts(100, 1000), Upper: Amounts(200, 2000)}, Groups: []GroupSize{
			{Role: "bad", Target: Resources{}.Set(CPU, 101)}, {Role: "follower", Target: Resources{}.Set(CPU, 30)},
		}},
		{Container: "proxy", Estimate: Estimate{Target: Amounts(10, 10)}},
	}}
	a.Rules.RoleLabel = "role"
	return a, &Pod{Marks: &Marks{Labels: "role=follower"}, Containers: []Container{{Name: "app"}, {Name: "proxy"}}}
}

// A pod whose role changes is outside of the close bounds of its new size, whatever those of the status are.
func TestFor_roleHasASize_boundsAreClose(t *testing.T) {
	a, p := grouped()
	want := Estimate{Lower: Amounts(25, 500), Target: Amounts(30, 1000), Upper: Amounts(36, 2000)}
	if got := a.For(p).AdviceFor("app").Estimate; got != want {
		t.Errorf("%v, want %v", got, want)
	}
	leader := &Pod{Marks: &Marks{Labels: "role=leader"}, Containers: p.Containers}
	want = Estimate{Lower: Amounts(85, 500), Target: Amounts(100, 1000), Upper: Amounts(120, 2000)}
	if got := a.For(leader).AdviceFor("app").Estimate; got != want {
		t.Errorf("leader %v, want %v", got, want)
	}
	if a.For(p).AdviceFor("proxy").Target != Amounts(10, 10) || a.AdviceFor("app").Target != Amounts(100, 1000) {
		t.Error("another recommendation has changed")
	}
}

func TestFor_noSizeForThePod_isTheAutoscalerItself(t *testing.T) {
	for name, change := range map[string]func(*Autoscaler, *Pod){
		"no role":          func(_ *Autoscaler, p *Pod) { p.Marks = nil },
		"Recreate":         func(a *Autoscaler, _ *Pod) { a.Mode = Recreate },
		"Initial":          func(a *Autoscaler, _ *Pod) { a.Mode = Initial },
		"canaries":         func(a *Autoscaler, _ *Pod) { a.Canary.On = true },
		"limited steps":    func(a *Autoscaler, _ *Pod) { a.Rules.MaxStep.Value.Percent = 50 },
		"shape of a pod":   func(a *Autoscaler, _ *Pod) { a.Rules.MemoryPerCPU.Value.Least = 1 << 30 },
		"none":             func(a *Autoscaler, _ *Pod) { a.Rules.RoleLabel = "none" },
		"HPA":              func(a *Autoscaler, _ *Pod) { a.Horizontal = []*HorizontalAutoscaler{{}} },
		"no annotation":    func(a *Autoscaler, _ *Pod) { a.Rules.RoleLabel = "" },
		"restarts":         func(_ *Autoscaler, p *Pod) { p.Containers[0].Restart = Both },
		"no group":         func(a *Autoscaler, _ *Pod) { a.Advice[0].Groups = nil },
		"without a status": func(a *Autoscaler, _ *Pod) { a.Advice = nil },
	} {
		a, p := grouped()
		change(a, p)
		if a.For(p) != a {
			t.Errorf("%s: %v", name, a.For(p).Advice)
		}
	}
	// Others can change the status.
	a, p := grouped()
	p.Marks.Labels = "role=bad"
	if got := a.For(p).AdviceFor("app").Target; got != a.Advice[0].Target {
		t.Errorf("a size above the target and one of 0 change the target: %v", got)
	}
}

func TestRepresents_smallGroup_comesLast(t *testing.T) {
	a, follower := grouped()
	leader := &Pod{Marks: &Marks{Labels: "role=leader"}, Containers: follower.Containers}
	follower.Created = time.Unix(2, 0)
	if !a.Represents(leader, follower) || a.Represents(follower, leader) || !a.Represents(follower, nil) {
		t.Error("a follower represents the workload")
	}
	var none *Autoscaler
	if !none.Represents(follower, leader) || none.Represents(leader, follower) {
		t.Error("the newest pod does not represent a workload without a VPA")
	}
}

func TestUngrouped_keyOfGroup_isItsWorkload(t *testing.T) {
	w := Workload{Kind: "StatefulSet", Name: "db"}
	if of, isGroup := w.InGroup("a").Ungrouped(); of != w || !isGroup {
		t.Errorf("%v, %t", of, isGroup)
	}
	if of, isGroup := w.Ungrouped(); of != w || isGroup {
		t.Errorf("%v, %t", of, isGroup)
	}
}

// agents returns the autoscaler of a DaemonSet, and a pod on a small node.
func agents(mode Mode) (*Autoscaler, *Pod) {
	a, p := grouped()
	a.Rules.RoleLabel, a.Mode, a.Target.Kind = "", mode, "DaemonSet"
	a.NodeSizes = map[string]string{"n1": "4cpu-16Gi", "n2": "64cpu-256Gi"}
	a.Advice[0].Groups = []GroupSize{{Role: "4cpu-16Gi", Target: Amounts(30, 200)}}
	p.Marks, p.Node = nil, "n1"
	return a, p
}

// The size of the node of a DaemonSet's pod stays, whatever the mode: bounds are in proportion, and restarts change nothing.
func TestFor_podOfDaemonSet_hasTheSizeOfItsNode(t *testing.T) {
	for _, mode := range []Mode{Off, Initial, Recreate, InPlace, InPlaceOrRecreate} {
		a, p := agents(mode)
		p.Containers[0].Restart = Both
		want := Estimate{Lower: Amounts(15, 100), Target: Amounts(30, 200), Upper: Amounts(60, 400)}
		if got := a.For(p).AdviceFor("app").Estimate; got != want {
			t.Errorf("%v: %v, want %v", mode, got, want)
		}
		for node, why := range map[string]string{"n2": "the node has no size of its own", "n3": "unknown node", "": "not scheduled"} {
			p.Node = node
			if got := a.For(p).AdviceFor("app").Estimate; got != a.Advice[0].Estimate {
				t.Errorf("%v, %s: %v", mode, why, got)
			}
		}
	}
	a, p := agents(Recreate)
	p.Node, p.Marks = "", &Marks{Labels: NodeName + "=n1"}
	if got := a.For(p).AdviceFor("app").Target; got != Amounts(30, 200) {
		t.Errorf("a pod that waits for its node: %v", got)
	}
	p.Node, p.Marks = "n1", nil
	for node, unknown := range map[string]bool{"n1": false, "n3": true, "": false} {
		if p.Node = node; a.IsOfUnknownSize(p) != unknown {
			t.Errorf("the size for node %q is unknown: %t, want %t", node, !unknown, unknown)
		}
	}
	p.Node = "n1"
	for _, label := range []string{"none", "role"} {
		if a.Rules.RoleLabel = label; a.For(p) != a {
			t.Errorf("podfit.dev/role-label: %s has no effect", label)
		}
	}
	a.Rules.RoleLabel, a.Target.Kind = NodeSize, "Deployment"
	if a.For(p) != a {
		t.Error("a pod of a Deployment, whose replacement may run on another node, has the size of its node")
	}
}

func TestSizeClass_nodes_areRoundedUp(t *testing.T) {
	for want, allocatable := range map[string]Resources{
		"4cpu-16Gi": Amounts(3920, 15<<30+1), "64cpu-256Gi": Amounts(47_000, 180<<30), "1cpu-1Gi": Amounts(1, 1), "2cpu-8Gi": Amounts(2000, 8<<30), "": {},
	} {
		if got := (&Node{Allocatable: allocatable}).SizeClass(); got != want {
			t.Errorf("%v: %q, want %q", allocatable, got, want)
		}
	}
}

func TestRoleOf_usageLevel_quietPodsAreListed(t *testing.T) {
	a, p := grouped()
	a.Rules.RoleLabel = UsageLevel
	p.UID = "u1"
	if got := a.RoleOf(p); got != "" {
		t.Errorf("no pod is listed: %q", got)
	}
	a.Advice[0].Groups = []GroupSize{{Role: Quiet, Target: Resources{}.Set(CPU, 30), Pods: "u0,u1"}}
	for uid, want := range map[string]string{"u1": Quiet, "u": Busy, "u0,u1": Busy, "": ""} {
		p.UID = uid
		size := map[string]int64{Quiet: 30, Busy: 100, "": 100}[want]
		if got := a.RoleOf(p); got != want || a.For(p).Advice[0].Target.CPU != size {
			t.Errorf("%q: %q of size %v, want %q", uid, got, a.For(p).Advice[0].Target, want)
		}
	}
	if a.Target.Kind = "DaemonSet"; !a.SizesByNode() || a.SizesByUsage() {
		t.Error("a DaemonSet is not sized by its nodes")
	}
}
