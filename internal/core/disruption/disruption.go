// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package disruption counts how many pods of a controller may be out of service at once: upstream's eviction tolerance, for pods that are
// available. PodDisruptionBudgets come on top of it: the API server applies them to evictions.
package disruption

import (
	"cmp"
	"math"
	"strconv"
	"strings"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/decision"
	"podfit.dev/podfit/internal/core/ledger"
	"podfit.dev/podfit/internal/core/need"
	"podfit.dev/podfit/internal/core/policy"
	"podfit.dev/podfit/internal/core/rollout"
)

// Limits limit the disruption. Those that are set by a flag of upstream's updater name the flag.
type Limits struct {
	MinReplicas int     // --min-replicas: a group with fewer live pods is left alone
	Tolerance   float64 // --eviction-tolerance: the fraction of a group's replicas that may be unavailable

	StuckFor time.Duration // a pod that is not Ready for longer than this does not recover by itself

	// Window is how long the change of a pod takes from the disruption budget, if that does not follow from the state of the pods. It is
	// a little less than the interval of passes, so that passes in between do not change more pods. 0: only for the same pass.
	Window time.Duration

	// StatefulSetPause (--statefulset-pause) is how long a pod of a StatefulSet is ready at least before the next one is disrupted.
	StatefulSetPause time.Duration
}

// A Counter counts the pods of the groups in a pass. It is not safe for concurrent use.
type Counter struct {
	Now      time.Time
	Limits   *Limits
	Need     *need.Rules
	Scales   map[cluster.Workload]cluster.Scale
	Ledger   *ledger.Ledger
	Complete map[cluster.Workload]bool // controllers that have replaced all evicted pods since the last pass

	revived map[cluster.Workload]int // stuck pods that earlier passes have changed within Limits.Window, by controller; nil until it is needed
}

// A Group is the pods of one controller that one autoscaler governs. Disruptions are counted for each group.
type Group struct {
	Wanted    int    // replicas that the controller should have
	Known     bool   // Wanted is known and not zero
	Tolerance int    // number of replicas that may be unavailable
	from      string // the annotation with the tolerance, "" for the flag
	Live      int    // scheduled pods that are not terminating or finished
	Ready     int    // live pods that are available
	gone      int    // evicted pods that the watch still shows
	Spent     int    // pods that this pass takes out of service, or that an earlier one did within Limits.Window
	Revived   int    // stuck pods that this pass changes, or that an earlier one did within Limits.Window
	Replaced  int    // evicted pods that have no replacement yet, and pods that are down and that this pass changes
	Least     int    // minimum number of live pods
	Below     bool   // fewer live pods than the minimum
	Unclear   int    // live pods that may have been evicted: their eviction had no answer
	open      int    // evicted pods that have no replacement
	Changed   int    // pods that were changed in this pass, or may have been, and took from the budget
	Trial     bool   // this pass evicts a pod to test whether its replacement is refused too

	next time.Time // when the next ready pod becomes available; zero if all are
}

// Groups returns the groups of an autoscaler's pods, by controller.
func (c *Counter) Groups(a *cluster.Autoscaler, pods []*cluster.Pod) map[cluster.Workload]*Group {
	groups := map[cluster.Workload]*Group{}
	present := map[cluster.Workload]int{}  // pods that have not finished, with terminating ones, which will be replaced
	existing := map[cluster.Workload]int{} // the same without terminating and evicted ones
	for _, p := range pods {
		if p.Controller.IsZero() || p.HasFinished() {
			continue
		}
		g := cluster.Memo(&groups, p.Controller, func() *Group { return new(Group) })
		present[p.Controller]++
		if !p.Deleting && c.Ledger.IsEvicted(c.Now, p) {
			g.gone++
			continue
		}
		if !p.Deleting {
			existing[p.Controller]++
		}
		if p.Deleting || p.Node == "" {
			continue
		}
		c.count(g, p)
	}
	required := c.Limits.MinReplicas
	if a.MinReplicas > 0 {
		required = int(a.MinReplicas)
	}
	c.addSpends(groups, pods)
	for controller, g := range groups {
		g.Wanted, g.Known = c.Scales[controller].Wanted(controller, present[controller])
		g.Tolerance = int(float64(g.Wanted) * a.Rules.EvictionTolerance.Or(c.Limits.Tolerance))
		if a.Rules.EvictionTolerance.Set {
			g.from = rollout.AnnotationTolerance
		}
		surplus := g.Live + g.gone - g.Wanted
		missing := 0
		if !c.Complete[controller] {
			missing = c.Ledger.Missing(controller)
		}
		g.Replaced = max(0, min(missing, g.Wanted-existing[controller]))
		g.open = g.Replaced
		if g.Known && !c.Need.UpstreamRules && (surplus > 0 || missing > 0 && existing[controller] >= g.Wanted && c.Ledger.IsScaledDown(controller, g.Wanted)) {
			// After a scale-down, the watch may still show pods that the controller has deleted or is going to delete. These may be
			// the ready ones. A StatefulSet deletes the pods with the highest ordinals even if the evicted ones below have no
			// replacement.
			g.Live = min(g.Live, g.Wanted)
			g.Ready = max(0, g.Ready-max(0, surplus)-missing)
			g.open = max(g.open, missing)
		}
		g.Least = required
		g.Below = g.Live < required
	}
	return groups
}

// Open returns for each workload how many evicted pods have no replacement, or may have none. judged are the decisions on the pods, if they
// are made.
func (c *Counter) Open(groups map[cluster.Workload]*Group, pods []*cluster.Pod, judged []decision.Decision) map[cluster.Workload]int {
	with := map[string][]policy.Fitted{} // by UID, of the pods without a node
	for i := range judged {
		if p := judged[i].Pod; p.Node == "" {
			with[p.UID] = judged[i].With
		}
	}
	out := map[cluster.Workload]int{}
	for _, p := range pods {
		if g := groups[p.Controller]; g != nil && g.open > 0 { // for the first pod of the controller
			out[p.Workload()] += g.open
			g.open = 0
		}
		if !p.Deleting && !p.Controller.IsZero() && (c.Ledger.MayBeEvicted(c.Now, p) || c.Ledger.IsUnproven(p, with[p.UID])) {
			out[p.Workload()]++
		}
	}
	return out
}

func (c *Counter) count(g *Group, p *cluster.Pod) {
	g.Live++
	switch {
	case c.Ledger.MayBeEvicted(c.Now, p):
		g.Unclear++
	case c.isAvailable(p), c.Need.UpstreamRules && p.Phase == cluster.Running:
		g.Ready++
	case p.Serves():
		g.next = cluster.Earliest(g.next, c.availableAt(p))
	}
}

// availableAt returns when a ready pod is available: it has been ready for the minReadySeconds of its controller and, in a StatefulSet, for
// Limits.StatefulSetPause. Such pods often have to find each other, or to copy data, when they are ready.
func (c *Counter) availableAt(p *cluster.Pod) time.Time {
	pause := c.Scales[p.Controller].MinReady
	if p.Controller.Group == "apps" && p.Controller.Kind == "StatefulSet" {
		pause = max(pause, c.Limits.StatefulSetPause)
	}
	return p.ReadySince.Add(pause)
}

// isAvailable reports whether a pod is in service, and has been for long enough that the next pod of its controller may be disrupted.
func (c *Counter) isAvailable(p *cluster.Pod) bool {
	return p.Serves() && !c.Now.Before(c.availableAt(p))
}

// ReadyBeside returns the number of available pods without a pod of the group. The eviction of a pod leaves that many, whether or not it is
// available.
func (c *Counter) ReadyBeside(g *Group, p *cluster.Pod) int {
	if c.isAvailable(p) {
		return max(0, g.Ready-1)
	}
	return g.Ready
}

// Health is the state of a pod that determines what its disruption takes from the budget.
type Health uint8

// The states.
const (
	Serving   Health = iota // ready, or not ready for a short time: its disruption takes from the budget
	Stuck                   // not ready for so long that it does not recover by itself
	Down                    // OOM-killed again and again
	Unstarted               // no container has started
)

// IsDown reports whether a pod is not in service, and was not recently.
func (h Health) IsDown() bool { return h == Down || h == Unstarted }

// Health returns the state of a pod.
func (c *Counter) Health(p *cluster.Pod) Health {
	switch {
	case p.Phase == cluster.Pending:
		return Unstarted
	case p.Ready, c.Need.UpstreamRules:
		return Serving
	}
	for i := range p.Containers {
		if e := p.Containers[i].Exit; e != nil && e.OOM && (e.Now || c.Now.Sub(e.Finished) < c.Need.QuickOOM) {
			return Down
		}
	}
	since := cmp.Or(p.ReadySince, p.Started)
	if !since.IsZero() && c.Now.Sub(since) >= c.Limits.StuckFor {
		return Stuck
	}
	return Serving
}

// First returns the pod for which the controller of a StatefulSet may wait before it replaces evicted pods; nil if there is none. Unless
// podManagementPolicy is Parallel, the controller creates no pod while one with a lower ordinal is not Ready. So this pod must not wait for the
// replacements. All pods with lower ordinals are in service, and it has not been Ready for Limits.StuckFor: a pod that is Ready in between gives
// the controller the time to create others, and if it does not, the cause is another one, such as a quota. A set whose ordinals start above 0 has
// no such pod.
func (c *Counter) First(of cluster.Workload, pods []*cluster.Pod) *cluster.Pod {
	if of.Group != "apps" || of.Kind != "StatefulSet" {
		return nil
	}
	var first *cluster.Pod
	least, serving := math.MaxInt, map[int]bool{} // by ordinal
	for _, p := range pods {
		n, err := strconv.Atoi(p.Name[strings.LastIndexByte(p.Name, '-')+1:])
		if err != nil || p.Controller != of || !p.Live() {
			continue
		}
		serving[n] = p.Serves()
		if c.Health(p) != Serving && n < least {
			first, least = p, n
		}
	}
	for n := 0; first != nil && n < least; n++ {
		if !serving[n] {
			return nil
		}
	}
	if first == nil || c.Now.Sub(cmp.Or(first.ReadySince, first.Started, first.Created)) < c.Limits.StuckFor {
		return nil
	}
	return first
}

// MayChange reports whether the budget allows changing a pod. A pod that is down, stuck or not started is not in service. But a quota or an
// admission webhook may refuse its replacement, so no more pods that are down or stuck are evicted than may be unavailable until their
// replacements exist; for pods that have not started, upstream has no limit. And stuck pods may be kept unready on purpose, as standbys, so
// no more of them are changed at once.
func (g *Group) MayChange(h Health) bool {
	most := max(1, g.Tolerance)
	switch h {
	case Unstarted:
		return true
	case Down:
		return g.Replaced < most
	case Stuck:
		return g.Replaced < most && g.Revived < most
	default: // more pods are ready than required, or all are ready, the tolerance is zero, and this is the first disruption
		return g.Ready-g.Spent > g.Wanted-g.Tolerance || g.Ready == g.Wanted && g.Tolerance == 0 && g.Spent == 0
	}
}

// Take takes the change of a pod from the budget.
func (g *Group) Take(h Health) { g.add(h, 1) }

// GiveBack returns the budget of a pod that was not changed.
func (g *Group) GiveBack(h Health) { g.add(h, -1) }

func (g *Group) add(h Health, n int) {
	switch h {
	case Serving:
		g.Spent += n
	case Stuck:
		g.Revived += n
	case Down:
		g.Replaced += n
	case Unstarted: // it is not in service
	}
}

// Reason returns why the budget does not allow changing a pod.
func (g *Group) Reason(h Health) decision.Reason {
	if h == Serving && g.Spent == 0 && g.Ready < g.Wanted {
		return decision.Reason{Code: decision.NotReady, Have: g.Ready, Want: g.Wanted, Until: g.next}
	}
	return decision.Reason{Code: decision.BudgetSpent, Have: g.Spent + g.Revived + g.Replaced, Want: g.Wanted, Text: g.from}
}

func (c *Counter) addSpends(groups map[cluster.Workload]*Group, pods []*cluster.Pod) {
	if c.Limits.Window == 0 {
		return
	}
	for _, p := range pods {
		if g := groups[p.Controller]; g != nil && c.IsInSpent(p) {
			g.Spent++
		}
	}
	if c.revived == nil {
		c.revived = c.Ledger.Revived(c.Now)
	}
	for controller, g := range groups {
		g.Revived = c.revived[controller]
	}
}

// IsInSpent reports whether the change of an available pod by an earlier pass is a part of Group.Spent.
func (c *Counter) IsInSpent(p *cluster.Pod) bool {
	return !p.Deleting && p.Node != "" && c.isAvailable(p) && c.HasSpent(p, Serving) && !c.Ledger.IsEvicted(c.Now, p) && !c.Ledger.MayBeEvicted(c.Now, p)
}

// IsAwaited reports whether evicted pods of a group have no replacement yet, or one is evicted in this pass to test whether it is replaced.
func (c *Counter) IsAwaited(controller cluster.Workload, g *Group) bool {
	return g.Trial || c.Ledger.Missing(controller) > 0 && !c.Complete[controller]
}

// HasSpent reports whether an earlier pass has taken the budget for a change of the pod within Limits.Window.
func (c *Counter) HasSpent(p *cluster.Pod, h Health) bool {
	return c.Limits.Window > 0 && !h.IsDown() && c.Ledger.HasSpent(c.Now, p, h == Stuck)
}
