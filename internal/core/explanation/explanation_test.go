// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package explanation

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"podfit.dev/podfit/internal/core/admissible"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/decision"
	"podfit.dev/podfit/internal/core/gate"
	"podfit.dev/podfit/internal/core/ledger"
	"podfit.dev/podfit/internal/core/policy"
	"podfit.dev/podfit/internal/core/rollout"
	"podfit.dev/podfit/internal/core/wording"
)

// explained are the scenes of the golden file explanations.txt.
var explained = map[string]func() *Input{
	"quiet": func() *Input { return quietInput("cart-0", "cart-1") },
	"busy":  busyInput,
	"no pods": func() *Input {
		in := quietInput()
		in.Replicas = cluster.Scale{}
		return in
	},
	"no VPA": func() *Input {
		in := quietInput("cart-0")
		in.Autoscaler, in.Decisions = nil, nil
		in.Replicas = cluster.Scale{}
		return in
	},
	"pod without controller": func() *Input {
		in := quietInput("cart-0")
		in.Autoscaler, in.Decisions = nil, nil
		in.Subject = Subject{Kind: OfPod, Name: "shop/Pod/cart-0", Pods: in.Pods}
		return in
	},
	"pod": func() *Input {
		in := quietInput("cart-0")
		in.Subject.Kind, in.Subject.Name = OfPod, "shop/Pod/cart-0"
		in.Autoscaler.Recommender = "cost"
		return in
	},
	"pod that should grow": func() *Input {
		in := quietInput("cart-0")
		in.Subject.Kind, in.Subject.Name = OfPod, "shop/Pod/cart-0"
		in.leave(0, decision.Reason{Code: decision.PodTooYoung, Until: noon.Add(3 * time.Hour)})
		in.Waiting = []ledger.WaitingState{{Reason: "Young", Pods: 1, First: "cart-0"}}
		return in
	},
	"update mode Off": func() *Input {
		in := quietInput("cart-0", "cart-1")
		in.Autoscaler.Mode = cluster.Off
		for i := range in.Decisions {
			in.Decisions[i].Reason, in.Decisions[i].With = decision.Reason{Code: decision.ModeOff, Text: "Off"}, nil
		}
		return in
	},
	"update mode Initial": func() *Input {
		in := quietInput("cart-0")
		in.Autoscaler.Mode = cluster.Initial
		in.Decisions[0].Reason, in.Decisions[0].With = decision.Reason{Code: decision.ModeOff, Text: "Initial"}, nil
		return in
	},
	"VPAs that cannot be read": func() *Input {
		in := quietInput("cart-0")
		in.Autoscaler, in.Decisions, in.NoAutoscalers = nil, nil, true
		return in
	},
	"conditions of podfit": func() *Input {
		in := quietInput("cart-0")
		in.Events = []Event{{At: minutesAgo(5), Kind: "VerticalPodAutoscaler", Name: "cart", Reason: "OOMRescue", Message: "Pod cart-1 was evicted at once.", Count: 1}}
		in.Conditions = []Condition{
			{Type: "OOMRescue", True: true, Reason: "Evicted", Message: "Pod cart-1 was evicted at once."},
			{Type: "OOMRescue", Reason: "Frozen", Message: "Changes are frozen."},
			{Type: "OOMKillLoop", True: true, Reason: "TargetAtMaximum", Message: "The target is at maxAllowed."},
			{Type: "Reverted", True: true, Reason: "NotReady", Message: "The canary was not ready."},
			{Type: "Updating", True: true, Reason: "InProgress", Message: "0 of 1 pods have the recommended size."},
		}
		return in
	},
	"frozen, and all pods have their size": func() *Input {
		in := quietInput("cart-0")
		in.Autoscaler.Rules.Frozen = true
		in.Rules = rollout.Rules{Autoscaler: in.Autoscaler}
		return in
	},
	"frozen namespace": func() *Input {
		in := quietInput("cart-0")
		in.Rules = rollout.Rules{Autoscaler: in.Autoscaler, Namespace: cluster.ChangeRules{Frozen: true}}
		return in
	},
	"frozen cluster": func() *Input {
		in := quietInput("cart-0")
		in.Rules = rollout.Rules{Autoscaler: in.Autoscaler, Cluster: cluster.Freeze{On: true, By: cluster.Key{Namespace: "kube-system", Name: "podfit-freeze"}, Reason: "incident 7"}}
		return in
	},
	"frozen": func() *Input {
		in := quietInput("cart-0", "cart-1")
		in.leave(1, decision.Reason{Code: decision.Frozen, Text: "annotation podfit.dev/freeze of the VPA"}, gate.Window)
		return in
	},
	"pod that is not ready": func() *Input {
		in := quietInput("cart-0")
		in.Pods[0].Ready = false
		in.leave(0, decision.Reason{Code: decision.BudgetSpent, Have: 1, Want: 1})
		return in
	},
	"pod without a node": func() *Input {
		in := quietInput("cart-0")
		in.Pods[0].Node = ""
		return in
	},
	"pod that ended": func() *Input {
		in := quietInput()
		in.Subject.Kind, in.Subject.Name = OfPod, "shop/Pod/cart-0"
		return in
	},
	"node": func() *Input {
		in := quietInput("cart-0", "cart-1")
		in.Pods[1].Namespace = "web"
		in.Autoscaler = nil
		in.Subject = Subject{Kind: OfNode, Name: "n1", Pods: in.Pods, Autoscaler: in.Autoscaler}
		return in
	},
	"node with problems": func() *Input {
		in := quietInput("cart-0")
		in.Autoscaler = nil
		in.Subject = Subject{Kind: OfNode, Name: "n1", Pods: in.Pods, Autoscaler: in.Autoscaler}
		in.Nodes[0].Ready, in.Nodes[0].Cordoned, in.Nodes[0].LowMemory = false, true, true
		in.AllPods = nil
		return in
	},
	"node that is not known": func() *Input {
		in := quietInput()
		in.Autoscaler = nil
		in.Subject = Subject{Kind: OfNode, Name: "n9", Pods: in.Pods, Autoscaler: in.Autoscaler}
		return in
	},
}

// busyInput returns the input of a Deployment in which many things happen at once.
func busyInput() *Input {
	in := quietInput("cart-0", "cart-1", "cart-2", "cart-3", "cart-4", "cart-5")
	in.oomKilled(0, 2, minutesAgo(70))
	in.Pods[0].Containers[0].Exit.Now = false
	in.oomKilled(1, 1, minutesAgo(10))
	in.Pods[2].Node, in.Pods[2].Phase = "", cluster.Pending
	in.resizing(3, cluster.ResizeDeferred, minutesAgo(3), "node has no room. ")
	in.resizing(4, cluster.ResizeDeferred, minutesAgo(2), "other")
	in.resizing(5, cluster.ResizeInProgress, minutesAgo(1), "")
	for i := range 3 {
		d := &in.Decisions[i]
		d.With = sizeOf(500, 2*gib)
		d.Do, d.Fallback = decision.Resize, true
		d.Reason = decision.Reason{Code: decision.BelowRange, Resource: cluster.Memory, From: gib, To: 2 * gib}
	}
	in.Decisions[1].Do, in.Decisions[1].Fallback = decision.Evict, false
	in.leave(3, decision.Reason{Code: decision.ResizeWaiting, Text: "node n1 has 180Mi free", Until: minutesAgo(-5)})
	in.leave(4, decision.Reason{Code: decision.DisruptionBudget, Text: "cart", Until: minutesAgo(-5)}, gate.Resizing, gate.Budget)
	in.leave(5, decision.Reason{Code: decision.ResizeRunning, Until: minutesAgo(-59)})
	in.EvictionGates[in.Pods[3].UID] = []gate.Gate{{Name: gate.Budget, Blocked: true, Reason: decision.Reason{Code: decision.BudgetSpent, Have: 1, Want: 6}}, {Name: gate.Quota}}
	in.protect(3, 4)
	in.Waiting = []ledger.WaitingState{
		{Reason: "Frozen", Pods: 1, First: "cart-3"},
		{Reason: "RateLimited", Pods: 3, First: "cart-4", NotBefore: minutesAgo(-1)},
		{Reason: "Probing", Pods: 1, First: "gone"},
	}
	in.Events = []Event{
		{At: minutesAgo(90), Kind: "Pod", Name: "cart-9", Reason: "EvictedByVPA", Message: "the oldest is not shown"},
		{At: minutesAgo(60), Kind: "Pod", Name: "cart-0", Reason: "InPlaceResizedByVPA", Message: "resized"},
		{At: minutesAgo(50), Kind: "Pod", Name: "cart-0", Reason: "Scheduled", Message: "not of podfit"},
		{At: minutesAgo(40), Kind: "Pod", Name: "cart-1", Reason: "OOMRescue", Message: "rescued", Count: 4},
		{At: minutesAgo(30), Kind: "VerticalPodAutoscaler", Name: "cart", Reason: "UpdateHeld", Message: "held"},
		{At: minutesAgo(-30), Kind: "Pod", Name: "cart-1", Reason: "EvictedByVPA", Message: "in the future"},
		{Kind: "Pod", Name: "cart-1", Reason: "EvictedByVPA", Message: "without a time"},
	}
	in.Conditions = []Condition{
		{Type: "RecommendationProvided", True: true, Reason: "fine"},
		{Type: "LowConfidence", True: true, Message: "Only 2 hours of history.", Since: noon.Add(-3 * dayLength)},
		{Type: "SizingProfileUsable", Reason: "NotFound"},
		{Type: "NoPodsMatched"},
		{Type: "NeedsLargerNode", True: true},
		{Type: "NeedsMoreReplicas", Message: "A DaemonSet runs one pod per node."},
	}
	return in
}

func TestExplain_scene_matchesGoldenFile(t *testing.T) {
	var out strings.Builder
	for _, name := range sortedKeys(explained) {
		in := explained[name]()
		fmt.Fprintf(&out, "# %s\n%s\n", name, in.named(t, render(Explain(in))))
	}
	golden(t, "explanations.txt", out.String())
}

func TestExplain_contentionForCPU_isShownWithItsCause(t *testing.T) {
	for _, kind := range []string{"UsageAboveRequest", "CPUThrottled", "NoCPURequest", "JVMSeesAllCores"} {
		in := quietInput("cart-0")
		in.Conditions = []Condition{{Type: kind, True: true, Reason: "Cause", Message: "Container app needs more CPU.", Since: noon.Add(-time.Hour)}}
		if got := strings.Join(Explain(in).Now, "\n"); !strings.Contains(got, "VPA "+kind+"=True since ") || !strings.Contains(got, ": Container app needs more CPU.") {
			t.Errorf("NOW lacks the condition %s:\n%s", kind, got)
		}
	}
}

func TestExplain_selectedContainer_hasOnlyItsTexts(t *testing.T) {
	in := quietInput("cart-0")
	in.oomKilled(0, 1, minutesAgo(5))
	in.leave(0, decision.Reason{Code: decision.PodTooYoung, Until: minutesAgo(-5)})
	all := strings.Join(Explain(in).Now, "\n")
	for _, text := range []string{"app was OOM-killed", "app: cpu stays"} {
		if !strings.Contains(all, text) {
			t.Errorf("without a selection, NOW lacks %q:\n%s", text, all)
		}
	}
	in.Container = "web"
	if got := strings.Join(Explain(in).Now, "\n"); strings.Contains(got, "app") {
		t.Errorf("NOW of container web contains another one:\n%s", got)
	}
}

func TestNow_oomKill_isReportedForADay(t *testing.T) {
	for name, c := range map[string]struct {
		at   time.Time
		want bool
	}{
		"now":              {noon, true},
		"a day ago":        {noon.Add(-dayLength), true},
		"more than a day":  {noon.Add(-dayLength - time.Second), false},
		"no time":          {time.Time{}, false},
		"clock of a node":  {noon.Add(time.Minute), true},
		"another day, UTC": {noon.Add(-13 * time.Hour), true},
	} {
		in := quietInput("cart-0")
		in.oomKilled(0, 1, c.at)
		if got := kills(in); len(got) > 0 != c.want {
			t.Errorf("%s: %q, want a text: %t", name, got, c.want)
		}
	}
}

func TestNow_resizeWithoutATime_hasNone(t *testing.T) {
	in := quietInput("cart-0", "cart-1", "cart-2")
	for i := range in.Pods {
		in.resizing(i, cluster.ResizeError, time.Time{}, " ")
	}
	in.resizing(2, cluster.ResizeUnknown, time.Time{}, "odd.")
	if got, want := resizes(in), []string{"Resizes of 2 pods Error.", "Resize of cart-2 unknown: odd."}; !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

func TestNow_kills_countPodsAndKills(t *testing.T) {
	in := quietInput("cart-0", "cart-1")
	in.oomKilled(0, 0, minutesAgo(5))
	in.Pods[0].Containers[0].Limits = cluster.Resources{}
	if got, want := strings.Join(kills(in), ""), "app was OOM-killed at least once in 1 pod, last at 11:55, and has not restarted since."; got != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	in.oomKilled(1, 200, minutesAgo(3))
	in.Pods[0].Containers[0].Exit.Now, in.Pods[1].Containers[0].Exit.Now = false, false
	in.Pods[0].Containers[0].Restarts = 211
	if got, want := strings.Join(kills(in), ""), "app was OOM-killed at least 201 times in 2 pods with 211 restarts, last at 11:57 with a limit of 2Gi."; got != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

func TestArrows_amounts_areComparedWithThePrecisionOfAResize(t *testing.T) {
	for _, c := range []struct {
		from cluster.Resources
		res  cluster.Resource
		to   int64
		want string
	}{
		{cluster.Resources{}, cluster.CPU, 633, "cpu none → 633m"},
		{cluster.Amounts(500, gib), cluster.CPU, 633, "cpu 500m → 633m"},
		{cluster.Amounts(500, gib), cluster.Memory, gib + 4096, "memory stays 1Gi"},
		{cluster.Amounts(500, gib), cluster.Memory, gib + 5*mib, "memory 1Gi → 1029Mi"},
		{cluster.Amounts(0, 0), cluster.CPU, 1000, "cpu 0 → 1"},
	} {
		if got := arrows(c.from, cluster.Resources{}.Set(c.res, c.to)); got != c.want {
			t.Errorf("%v to %d: %q, want %q", c.from, c.to, got, c.want)
		}
	}
}

func TestSizes_insertedContainer_isLeftOut(t *testing.T) {
	in := quietInput("cart-0")
	in.leave(0, decision.Reason{Code: decision.SmallChange})
	in.Pods[0].Containers = append(in.Pods[0].Containers, cluster.Container{Name: "web", Requests: cluster.Amounts(100, gib)})
	in.Decisions[0].With = append(in.Decisions[0].With, policy.Fitted{Container: "web", Requests: cluster.Amounts(200, gib), Inserted: true})
	if got, want := sizes(in), []string{"app: cpu stays 500m, memory 1Gi → 2Gi."}; !slices.Equal(got, want) {
		t.Errorf("sizes %q, want %q", got, want)
	}
}

func TestNext_sameReason_isOneStep(t *testing.T) {
	in := quietInput("a", "b", "c", "d")
	tooYoung := decision.Reason{Code: decision.PodTooYoung, Until: minutesAgo(-5)}
	later := decision.Reason{Code: decision.PodTooYoung, Until: minutesAgo(-6)}
	in.leave(0, tooYoung)
	in.leave(1, later)
	in.leave(2, tooYoung)
	in.leave(3, tooYoung, gate.Quota)
	var got []string
	for _, s := range next(in) {
		got = append(got, strings.Join(s.Pods, " "))
	}
	if want := []string{"a c", "b", "d"}; !slices.Equal(got, want) {
		t.Errorf("steps %q, want %q: pods with other times or gates have steps of their own", got, want)
	}
}

func TestNext_order_isChangesThenWaitingPodsThenTheRest(t *testing.T) {
	in := quietInput("fits", "waits", "evicts")
	in.leave(1, decision.Reason{Code: decision.BudgetSpent})
	in.Decisions[2].Do = decision.Evict
	var got []string
	for _, s := range next(in) {
		got = append(got, strings.Join(s.Pods, " "))
	}
	if want := []string{"evicts", "waits", "fits"}; !slices.Equal(got, want) {
		t.Errorf("order %q, want %q", got, want)
	}
}

// A change is carried out by a pass that begins within the interval. What is left has no such time.
func TestNext_change_hasTheTimeOfThePass(t *testing.T) {
	in := quietInput("cart-0", "cart-1")
	in.Decisions[0].Do = decision.Resize
	steps := next(in)
	if len(steps) != 2 || !steps[0].By.Equal(noon.Add(in.Interval)) || !steps[1].By.IsZero() {
		t.Errorf("steps %+v", steps)
	}
}

// The plan with another update mode is separate from what happens next.
func TestExplain_modeOff_hasWhatHappensIfSwitchedOn(t *testing.T) {
	in := quietInput("cart-0")
	in.Autoscaler.Mode = cluster.Off
	in.Decisions[0].Reason.Code = decision.ModeOff
	on := in.Decisions[0]
	on.Do, on.Reason = decision.Resize, decision.Reason{}
	in.Switched = &Switched{Mode: cluster.InPlaceOrRecreate, Plan: Plan{Decisions: []decision.Decision{on}}}
	e := Explain(in)
	if len(e.Next) != 1 || e.Next[0].Act != decision.Leave || len(e.IfOn) != 1 || e.IfOn[0].Act != decision.Resize || e.IfMode != cluster.InPlaceOrRecreate {
		t.Errorf("next %+v, if switched on %+v", e.Next, e.IfOn)
	}
}

// A paused updater changes no pods, whatever its plan is.
func TestNext_updaterIsPaused_changesWait(t *testing.T) {
	in := quietInput("cart-0", "cart-1")
	in.Paused = "The updater changes no pods."
	in.Decisions[0].Do, in.Gates["uid-cart-0"] = decision.Evict, []gate.Gate{{Name: gate.Need}}
	s := next(in)[0]
	if s.Act != decision.Leave || !s.Waits() || s.Code != UpdaterPaused || !s.By.IsZero() || !strings.HasPrefix(s.Reason, "The updater changes no pods. Otherwise: evict. ") {
		t.Errorf("step %+v", s)
	}
}

// The planner does not ask PodDisruptionBudgets, but the API server does.
func TestNext_evictionWithoutBudget_namesTheBudgetThatRefusesIt(t *testing.T) {
	for name, tt := range map[string]struct {
		act     decision.Act
		healthy int32
		want    bool
	}{
		"eviction, no budget":  {decision.Evict, 2, true},
		"eviction, one may go": {decision.Evict, 3, false},
		"resize, no budget":    {decision.Resize, 2, false},
	} {
		in := quietInput("cart-0", "cart-1")
		in.protect(tt.healthy, 2)
		in.Decisions[0].Do = tt.act
		if got := next(in)[0].Refused; (got != "") != tt.want || tt.want && !strings.Contains(got, "PodDisruptionBudget cart allows no eviction now (2 healthy, 2 required)") {
			t.Errorf("%s: refused %q", name, got)
		}
	}
}

// The API server does not count by a status that is older than the spec. It allows the eviction of a pod that is not ready without counting.
func TestNext_statusOfTheBudgetIsOlderThanItsSpec_evictionIsRefused(t *testing.T) {
	const outdated = "PodDisruptionBudget cart allows no eviction now (its status is older than its spec)"
	for name, tt := range map[string]struct {
		ready, always bool
		want          string
	}{
		"ready":                     {true, false, outdated},
		"not ready":                 {false, false, ""},
		"ready, always allowed":     {true, true, outdated},
		"not ready, always allowed": {false, true, ""},
	} {
		in := quietInput("cart-0", "cart-1")
		in.protect(3, 2)
		in.Disruption[0].Current, in.Disruption[0].AlwaysAllow = false, tt.always
		in.Decisions[0].Do = decision.Evict
		in.Pods[0].Ready = tt.ready
		if got := next(in)[0].Refused; got != tt.want {
			t.Errorf("%s: refused %q, want %q", name, got, tt.want)
		}
	}
}

// The updater does not look at the pods of a VPA with mode Off, and they still have a NEXT.
func TestNext_modeOffWithoutDecisions_leavesThePods(t *testing.T) {
	in := quietInput("cart-0", "cart-1")
	in.Autoscaler.Mode, in.Decisions = cluster.Off, nil
	steps := next(in)
	if len(steps) != 1 || steps[0].Act != decision.Leave || steps[0].Waits() || len(steps[0].Pods) != 2 || steps[0].Code != "ModeOff" {
		t.Errorf("steps %+v", steps)
	}
}

func TestNotBefore_reasonsThatMayEndEarlier_haveNone(t *testing.T) {
	until := minutesAgo(-5)
	for _, c := range []struct {
		d    decision.Decision
		want time.Time
	}{
		{decision.Decision{Reason: decision.Reason{Code: decision.PodTooYoung, Until: until}}, until},
		{decision.Decision{Reason: decision.Reason{Code: decision.DisruptionBudget, Until: until}}, time.Time{}},
		{decision.Decision{Reason: decision.Reason{Code: decision.AwaitingCapacity, Until: until}}, time.Time{}},
		{decision.Decision{Reason: decision.Reason{Code: decision.Surging, Until: until}}, time.Time{}},
		{decision.Decision{Do: decision.Resize, Reason: decision.Reason{Code: decision.BelowRange, Until: until}}, time.Time{}},
	} {
		if got := notBefore(&c.d); !got.Equal(c.want) {
			t.Errorf("%s of %s: %v, want %v", c.d.Do, c.d.Reason.Code, got, c.want)
		}
	}
}

// forbidden is why a pod with an annotation is not evicted.
var forbidden = decision.Reason{Code: decision.Protected, Text: "karpenter.sh/do-not-disrupt: true"}

// forbid makes that a gate of the eviction of a pod.
func (in *Input) forbid(pod int) {
	in.EvictionGates[in.Pods[pod].UID] = []gate.Gate{{Name: gate.Protection, Blocked: true, Reason: forbidden}, {Name: gate.Budget, Blocked: true}}
}

func TestFallback_pod_dependsOnModeAndResize(t *testing.T) {
	waiting := decision.Reason{Code: decision.ResizeWaiting}
	for name, c := range map[string]struct {
		edit func(*Input)
		want string
	}{
		"waits": {func(in *Input) { in.leave(0, waiting) }, "If it still waits at 12:02, the pod is evicted."},
		"in progress": {func(in *Input) { in.leave(0, decision.Reason{Code: decision.ResizeRunning}) },
			"If it still waits at 12:57, the pod is evicted."},
		"waits, PDB without room": {func(in *Input) { in.leave(0, waiting); in.protect(2, 2) },
			"If it still waits at 12:02, the pod is evicted unless that is blocked as it is now: PodDisruptionBudget cart allows no eviction now (2 healthy, 2 required)."},
		"waits, PDB with room":                  {func(in *Input) { in.leave(0, waiting); in.protect(2, 1) }, "If it still waits at 12:02, the pod is evicted."},
		"not ready, PDB with all required pods": {func(in *Input) { in.leave(0, waiting); in.Pods[0].Ready = false; in.protect(2, 2) }, "If it still waits at 12:02, the pod is evicted."},
		"waits, protected":                      {func(in *Input) { in.leave(0, waiting); in.forbid(0) }, forbidden.String()},
		"waits, protected, and the reason says it": {func(in *Input) {
			in.leave(0, decision.Reason{Code: decision.ResizeWaiting, Note: forbidden.String()})
			in.forbid(0)
		}, ""},
		"other reason":             {func(in *Input) { in.leave(0, decision.Reason{Code: decision.Frozen}) }, ""},
		"mode that does not evict": {func(in *Input) { in.leave(0, waiting); in.Autoscaler.Mode = cluster.InPlace }, ""},
		"waits, within its bounds": {func(in *Input) { in.leave(0, waiting); in.Decisions[0].Wanted.Code = decision.Incomplete }, ""},
		"a boost ends after it": {func(in *Input) {
			in.leave(0, decision.Reason{Code: decision.ResizeRunning})
			in.Decisions[0].Wanted.Code = decision.BoostOver
		}, ""},
		"no VPA":         {func(in *Input) { in.leave(0, waiting); in.Decisions[0].Autoscaler = nil }, ""},
		"no resize":      {func(in *Input) { in.leave(0, waiting); in.Pods[0].Resize = nil }, ""},
		"waits, no time": {func(in *Input) { in.leave(0, waiting); in.resizing(0, cluster.ResizeDeferred, time.Time{}, "") }, ""},
		"resize, may be evicted": {func(in *Input) { in.Decisions[0].Do, in.Decisions[0].Fallback = decision.Resize, true },
			"If the API server refuses the resize, the pod is evicted."},
		"resize, not evicted": {func(in *Input) { in.Decisions[0].Do = decision.Resize }, ""},
		"evicted":             {func(in *Input) { in.Decisions[0].Do = decision.Evict }, ""},
	} {
		in := quietInput("cart-0", "cart-1")
		in.resizing(0, cluster.ResizeDeferred, minutesAgo(3), "")
		c.edit(in)
		if got := fallback(in, &in.Decisions[0]); got != c.want {
			t.Errorf("%s:\ngot  %q\nwant %q", name, got, c.want)
		}
	}
}

func TestDisagreements_recordedReason_isReportedIfThePlanDiffers(t *testing.T) {
	in := quietInput("cart-0", "cart-1")
	in.leave(0, decision.Reason{Code: decision.PodTooYoung})
	for name, c := range map[string]struct {
		recorded ledger.WaitingState
		want     int
	}{
		"another reason":            {ledger.WaitingState{Reason: "Frozen", First: "cart-1"}, 1},
		"same reason":               {ledger.WaitingState{Reason: "Young", First: "cart-1"}, 0},
		"reason that ends soon":     {ledger.WaitingState{Reason: "BudgetSpent", First: "cart-1"}, 0},
		"room of another pod":       {ledger.WaitingState{Reason: "RoomReserved", First: "cart-1"}, 0},
		"pod that no longer exists": {ledger.WaitingState{Reason: "Frozen", First: "cart-9"}, 0},
	} {
		in.Waiting = []ledger.WaitingState{c.recorded}
		if got := disagreements(in, next(in)); len(got) != c.want {
			t.Errorf("%s: %q, want %d texts", name, got, c.want)
		}
	}
}

func TestKubectl_namespace_isThatOfTheSubject(t *testing.T) {
	in := quietInput("cart-0")
	for _, c := range []struct {
		edit func()
		want string
	}{
		{func() {}, "kubectl -n shop get pods"},
		{func() { in.Subject.Workload.Namespace, in.Autoscaler.Namespace = "", "of-vpa" }, "kubectl -n of-vpa get pods"},
		{func() { in.Autoscaler, in.Pods[0].Namespace = nil, "of-pod" }, "kubectl -n of-pod get pods"},
		{func() { in.Pods = nil }, "kubectl get pods"},
	} {
		c.edit()
		if got := in.kubectl("get", "pods"); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}

func TestExplain_eventsOfEvictions_areOneLinePerReason(t *testing.T) {
	pod := func(minutes int, name, reason string) Event {
		return Event{At: minutesAgo(minutes), Kind: "Pod", Name: name, Reason: reason, Message: "changed", Count: 1}
	}
	vpa := func(minutes int, evicted string) Event {
		return Event{At: minutesAgo(minutes), Kind: "VerticalPodAutoscaler", Name: "cart", Reason: "EvictedPod", Message: "VPA Updater evicted Pod " + evicted, Count: 1}
	}
	combined := vpa(5, "cart-3")
	combined.Count = 4
	late := vpa(20, "cart-0")
	late.At = late.At.Add(time.Second)
	for name, c := range map[string]struct {
		events []Event
		want   []string
	}{
		"pod and VPA": {[]Event{pod(20, "cart-0", "EvictedByVPA"), late}, []string{"11:40  cart-0 EvictedByVPA: changed"}},
		"two pods and their VPA": {
			[]Event{pod(20, "cart-0", "EvictedByVPA"), vpa(20, "cart-0"), pod(10, "cart-1", "EvictedByVPA"), vpa(10, "cart-1")},
			[]string{"11:50  cart-1 and 1 other pod EvictedByVPA (2 times since 11:40): changed"}},
		"reason of the last change":         {[]Event{pod(9, "cart-1", "EvictedByVPA"), {At: minutesAgo(8), Kind: "Pod", Name: "cart-2", Reason: "EvictedByVPA", Message: "It has no request.", VPA: "cart"}}, []string{"11:52  cart-2 and 1 other pod EvictedByVPA (2 times since 11:51): The last one: It has no request."}},
		"pods that are replaced":            {[]Event{vpa(20, "a"), vpa(10, "b"), vpa(5, "c")}, []string{"11:55  cart EvictedPod (3 times since 11:40): VPA Updater evicted Pod c"}},
		"one pod is replaced":               {[]Event{vpa(20, "a"), pod(10, "cart-1", "EvictedByVPA"), vpa(10, "cart-1")}, []string{"11:40  cart EvictedPod: VPA Updater evicted Pod a", "11:50  cart-1 EvictedByVPA: changed"}},
		"several in one event":              {[]Event{pod(5, "cart-3", "EvictedByVPA"), combined}, []string{"11:55  cart-3 EvictedByVPA: changed", "11:55  cart EvictedPod (4 times): VPA Updater evicted Pod cart-3"}},
		"the first of several is not known": {[]Event{combined, vpa(4, "x")}, []string{"11:56  cart EvictedPod (5 times): VPA Updater evicted Pod x"}},
		"other reasons stay":                {[]Event{pod(9, "cart-1", "UpdateHeld"), pod(8, "cart-2", "UpdateHeld"), pod(7, "cart-1", "InPlaceResizedByVPA"), pod(6, "cart-1", "InPlaceResizedByVPA")}, []string{"11:51  cart-1 UpdateHeld: changed", "11:52  cart-2 UpdateHeld: changed", "11:54  cart-1 InPlaceResizedByVPA (2 times since 11:53): changed"}},
	} {
		in := quietInput("cart-0")
		in.Events = c.events
		got := slices.DeleteFunc(Explain(in).Now, func(line string) bool { return !strings.HasPrefix(line, "11:") })
		if !slices.Equal(got, c.want) {
			t.Errorf("%s:\ngot  %q\nwant %q", name, got, c.want)
		}
	}
}

func TestExplain_thousandPods_hasBoundedOutput(t *testing.T) {
	const pods = 1000
	var names []string
	for i := range pods {
		names = append(names, fmt.Sprintf("cart-%d", i))
	}
	in := quietInput(names...)
	for i := range pods {
		in.oomKilled(i, 1, minutesAgo(i%60))
		in.resizing(i, cluster.ResizeDeferred, minutesAgo(i%60), "no room")
		in.leave(i, noRoom)
		in.Events = append(in.Events, Event{At: minutesAgo(pods - i), Name: names[i], Reason: "EvictedByVPA", Message: "evicted"})
	}
	in.protect(0, 500)
	out := Explain(in)
	if n := len(out.Now) + len(out.Situations) + len(out.You); n > 20 {
		t.Errorf("%d texts for %d pods, want at most 20", n, pods)
	}
	if got, want := out.You[0].Text, "Delete the OOM-killed pods (the first 5 of 1000); a deletion ignores PodDisruptionBudgets, and the new pods get the recommended memory:"; got != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	for _, a := range out.You {
		if len(a.Command) > 300 {
			t.Errorf("command of %d characters: %.100s", len(a.Command), a.Command)
		}
	}
	listed := 0
	for _, s := range out.Next {
		listed += len(s.Pods)
	}
	if listed != pods {
		t.Errorf("NEXT has %d pods, want %d", listed, pods)
	}
}

func TestClock_time_hasItsDayIfThatIsNotToday(t *testing.T) {
	for _, c := range []struct {
		at   time.Time
		want string
	}{
		{noon, "12:00"},
		{noon.Add(11*time.Hour + 59*time.Minute), "23:59"},
		{noon.Add(12 * time.Hour), "Mon 00:00"},
		{noon.Add(-13 * time.Hour), "Sat 23:00"},
		{noon.Add(-6 * dayLength), "2026-11-16 12:00"},
		{noon.Add(-5 * dayLength).In(time.FixedZone("", 3600)), "Tue 12:00"},
		{noon.AddDate(1, 0, 0), "2027-11-22 12:00"},
	} {
		if got := clock(noon, c.at); got != c.want {
			t.Errorf("%v: %q, want %q", c.at, got, c.want)
		}
	}
}

func TestWords_numbers_haveSingularAndPlural(t *testing.T) {
	for got, want := range map[string]string{
		wording.Count(1, "pod"): "1 pod", wording.Count(0, "pod"): "0 pods", wording.Form(1, "has", "have"): "has", wording.Form(2, "has", "have"): "have",
		wording.Form(1, "it", "them"): "it", wording.Form(0, "it", "them"): "them",
		wording.Amount(cluster.Memory, 1536*mib): "1536Mi", wording.Amount(cluster.Memory, 10*gib+gib/2): "10.5Gi", wording.Amount(cluster.Memory, 2*gib): "2Gi",
		wording.ShellWord("n1"): "n1", wording.ShellWord(""): "''", wording.ShellWord("a b"): "'a b'", wording.ShellWord("it's"): `'it'\''s'`, wording.ShellWord("$(x)"): "'$(x)'",
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// recorded is a state with attempts on pods, and events.
func pastInput() (*Input, *ledger.State) {
	in := quietInput("cart-0")
	in.Events = []Event{
		{Name: "cart-0", Reason: "EvictedByVPA", Message: "without a time"},
		{At: minutesAgo(60), Name: "cart-0", Reason: "EvictedByVPA", Message: "evicted", Count: 2},
		{At: minutesAgo(10), Name: "cart-1", Reason: "Scheduled", Message: "on n1"},
		{At: minutesAgo(5), Name: "cart-2", Reason: "Killing"},
		{At: minutesAgo(-10), Name: "cart-2", Reason: "EvictedByVPA", Message: "in the future"},
	}
	return in, &ledger.State{Pods: []ledger.PodState{
		{Name: "cart-9", Do: decision.Evict},
		{Name: "cart-0", Do: decision.Evict, At: minutesAgo(61)},
		{Name: "cart-1", Do: decision.Resize, At: minutesAgo(30), Failed: &ledger.FailedState{Refusal: decision.Refusal{Text: "quota"}}},
		{Name: "cart-2", Do: decision.Resize, At: minutesAgo(30), Failed: &ledger.FailedState{}},
		{Name: "cart-3", Do: decision.Evict, At: minutesAgo(-5)},
	}}
}

func TestPast_time_hasTheRecordsUntilThen(t *testing.T) {
	for name, c := range map[string]struct {
		at   time.Time
		want []string
	}{
		"now": {noon, []string{"10:59  cart-0 evict: done", "11:00  cart-0 EvictedByVPA (2 times): evicted", "11:30  cart-1 resize: refused: quota",
			"11:30  cart-2 resize: refused or not answered", "11:50  cart-1 Scheduled: on n1", "11:55  cart-2 Killing"}},
		"at a record":         {minutesAgo(60), []string{"10:59  cart-0 evict: done", "11:00  cart-0 EvictedByVPA (2 times): evicted"}},
		"later than now":      {noon.Add(time.Hour), []string{"10:59  cart-0 evict: done", "11:00  cart-0 EvictedByVPA (2 times): evicted", "11:30  cart-1 resize: refused: quota", "11:30  cart-2 resize: refused or not answered", "11:50  cart-1 Scheduled: on n1", "11:55  cart-2 Killing"}},
		"after first attempt": {minutesAgo(61), []string{"10:59  cart-0 evict: done"}},
	} {
		in, state := pastInput()
		got, err := Past(in, state, c.at)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if !slices.Equal(got.Now, c.want) {
			t.Errorf("%s:\ngot  %q\nwant %q", name, got.Now, c.want)
		}
		if !got.At.Equal(c.at) || len(got.Next) > 0 || len(got.Unknown()) != 1 || len(got.You) != 1 {
			t.Errorf("%s: at %v, next %v, missing %q, you %v", name, got.At, got.Next, got.Unknown(), got.You)
		}
	}
}

func TestPast_manyRecords_hasTheLastOnes(t *testing.T) {
	in := quietInput("cart-0")
	for i := range 1000 {
		in.Events = append(in.Events, Event{At: minutesAgo(1000 - i), Name: fmt.Sprint(i), Reason: "Killing"})
	}
	got, err := Past(in, &ledger.State{}, noon)
	if err != nil {
		t.Fatal(err)
	}
	if want := "950 earlier records until 11:09 are omitted."; len(got.Now) != 51 || got.Now[0] != want || got.Now[1] != "11:10  950 Killing" || got.Now[50] != "11:59  999 Killing" {
		t.Errorf("%d texts, first %q and %q, last %q; want %q and the last 50", len(got.Now), got.Now[0], got.Now[1], got.Now[len(got.Now)-1], want)
	}
	if got, err = Past(in, &ledger.State{}, minutesAgo(951)); err != nil || len(got.Now) != 50 {
		t.Errorf("%v, %d texts, want all 50", err, len(got.Now))
	}
}

func TestPast_nothingRecorded_isAnErrorThatNamesTheFirstRecord(t *testing.T) {
	in, state := pastInput()
	for _, c := range []struct {
		at    time.Time
		state *ledger.State
		want  error
	}{
		{minutesAgo(62), state, errors.New("nothing is recorded about shop/Deployment/cart until 2026-11-22 10:58 UTC: the first event or attempt about it is from 2026-11-22 10:59 UTC. " +
			"The cluster stores no earlier states of pods; events are kept for an hour by default")},
		{time.Time{}, &ledger.State{}, errors.New("nothing is recorded about shop/Deployment/cart until 0001-01-01 00:00 UTC: there is no event or attempt about it. " +
			"The cluster stores no earlier states of pods; events are kept for an hour by default")},
	} {
		if len(c.state.Pods) == 0 {
			in.Events = nil
		}
		got, err := Past(in, c.state, c.at)
		if got != nil || err == nil || err.Error() != c.want.Error() {
			t.Errorf("got  %v, %v\nwant %v", got, err, c.want)
		}
	}
}

func TestPodLevel_changesWithTheContainers_isShown(t *testing.T) {
	p := &cluster.Pod{PodLevel: &cluster.PodResources{Requests: cluster.Amounts(1000, 1<<30), Limits: cluster.Amounts(2000, 2<<30)}}
	to := &cluster.PodResources{Requests: cluster.Amounts(350, 250<<20), Limits: cluster.Resources{}.Set(cluster.CPU, 700)}
	got := podLevel(&decision.Decision{Pod: p, With: []admissible.Fitted{{PodLevel: to}}})
	want := []string{
		"Pod-level requests of all containers together: cpu 1 → 350m, memory 1Gi → 250Mi.",
		"Pod-level limits of all containers together: cpu 2 → 700m, memory stays 2Gi.",
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if got := podLevel(&decision.Decision{Pod: &cluster.Pod{}, With: []admissible.Fitted{{}}}); len(got) > 0 {
		t.Errorf("%q for a pod without pod-level resources", got)
	}
	target := cluster.Estimate{Target: cluster.Amounts(400, 300<<20)}
	shared := cluster.Amounts(175, 0).Only(cluster.Of(cluster.CPU))
	p.Containers = []cluster.Container{{Name: "app"}, {Name: "proxy"}}
	a := &cluster.Autoscaler{Advice: []cluster.Advice{{Container: "app", Estimate: target, Shared: shared}, {Container: "proxy", Estimate: target, Shared: shared}}}
	got = podLevel(&decision.Decision{Autoscaler: a, Pod: p, With: []admissible.Fitted{{PodLevel: to}}})
	want = append(want, "The pod as a whole needs 350m of CPU; the sum of its containers would be 800m. They do not need their targets at the same time.")
	if !slices.Equal(got, want) {
		t.Errorf("headroom is shared: %q, want %q", got, want)
	}
}
