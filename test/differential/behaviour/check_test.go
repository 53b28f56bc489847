// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package behaviour

import (
	"regexp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"podfit.dev/podfit/internal/core/plan"
)

// The bounds of the properties.
const (
	grace    = 12 // passes that podfit may be behind upstream
	attempts = 40 // requests for one pod to which nothing happens in the meantime
	falsely  = 15 // passes for which a reason may be out of date
	silence  = 20 // minutes after which somebody must have been told that an action on a pod is refused, or has no answer
	unclear  = 5  // minutes for which an eviction without an answer counts as carried out
	retries  = 12 // evictions a day that may turn out not to help
)

// A checker checks what podfit does in a simulation.
type checker struct {
	sim       *simulation
	podfit    *podfit
	reference [][]count // of upstream, by minute and workload
	violation string
	used      map[string]int

	states []state        // by workload
	behind lag            // over all workloads; used with a rate limit
	untrue map[string]int // passes for which the reason of a pod is not true, by UID
}

// A state is what is remembered of a workload.
type state struct {
	live       int // pods with a node when the pass began
	behind     lag // in satisfied pods
	lacking    lag // in ready pods
	acted      int // minute of the last change that was carried out
	evicted    int // minute of the last eviction that was carried out
	evictions  int
	futile     bool // some eviction was followed by a pod that is not satisfied
	unreplaced int  // minute from which the quota refuses a replacement; -1 when it does not
}

func newChecker(s *simulation, p *podfit, reference [][]count) *checker {
	c := &checker{sim: s, podfit: p, reference: reference, used: map[string]int{}, untrue: map[string]int{}}
	for range s.workloads {
		c.states = append(c.states, state{acted: -1, evicted: -1, unreplaced: -1})
	}
	s.onEvict = c.evicting
	return c
}

func (c *checker) before(minute int) {
	for i, w := range c.sim.workloads {
		st := &c.states[i]
		st.live = w.scheduled()
		switch {
		case w.refused == 0, w.count().pods >= c.described(w).fewest(minute):
			st.unreplaced = -1 // at the most the pods that a scale-up added are missing
		case st.unreplaced < 0:
			st.unreplaced = minute
		}
	}
}

// described returns a workload as the world describes it, with the number of replicas that it begins with.
func (c *checker) described(w *simulated) *workload { return &c.sim.world.Workloads[w.index] }

// evicting checks the budgets when a pod is evicted (P2), and that evictions do not cost pods (P5).
func (c *checker) evicting(w *simulated, p *replica, refusal string) {
	minute, st := c.sim.minute(), &c.states[w.index]
	if refusal != "" {
		return
	}
	ready := w.count().ready
	least := w.least(c.sim.world)
	tolerance := max(1, int(float64(w.Replicas)*c.sim.world.Tolerance))
	switch {
	case w.Mode == "InPlace":
		c.fail(minute, "it keeps to the mode", "%s is evicted in mode InPlace", p.pod.Name)
	case p.pod.Spec.NodeName == "":
	case c.sim.world.Lag > 0 && c.described(w).scaledDown(minute-c.sim.world.Lag, minute):
		// An updater cannot know yet which pods are gone, nor which of those that it has evicted would have been deleted anyway.
	case st.live < least:
		c.fail(minute, "it never breaks a budget", "%s is evicted though only %d pods live, and the minimum is %d", p.pod.Name, st.live, least)
	case c.sim.world.Lag > 0 && (w.OOM.NeedMB > 0 || w.Restart):
		// Pods that an updater cannot know yet not to be ready.
	case isReady(p.pod) && ready-1 < w.Replicas-tolerance:
		c.fail(minute, "it never breaks a budget", "%s is evicted, which leaves %d of %d pods ready, and %d may be missing", p.pod.Name, ready-1, w.Replicas, tolerance)
	}
	if st.unreplaced >= 0 && minute-st.unreplaced > 15 {
		c.fail(minute, "it costs no pods", "%s is evicted though for %d minutes the quota has not let an evicted pod be replaced", p.pod.Name, minute-st.unreplaced)
	}
	if p.over && w.isOver(p, minute) {
		c.fail(minute, "it costs no pods", "%s is evicted because a quota refused its resize", p.pod.Name)
	}
	st.acted, st.evicted = minute, minute
	st.evictions++
	if w.Unsized.open(minute) {
		st.futile = true
	}
}

// after checks a pass.
func (c *checker) after(minute int) {
	for i, w := range c.sim.workloads {
		st := &c.states[i]
		for _, p := range w.pods {
			if p.lastAt == minute && p.done {
				st.acted = minute
			}
		}
		for _, p := range w.pods {
			c.pod(w, p, minute)
		}
		if st.unreplaced >= 0 && minute-st.unreplaced > silence && st.evictions > 0 && len(c.podfit.told[w.namespace]) == 0 {
			c.fail(minute, "somebody is told", "the quota of %s has not let an evicted pod be replaced for %d minutes", w.namespace, minute-st.unreplaced)
		}
		// Users pay for an eviction with a restart, and get the recommended size for it. So each recommendation may cost each pod
		// one eviction, and one more when the recommendation changes meanwhile. Evictions that do not help are tried with one pod
		// at a time, less and less often. Upstream has no such limit: it evicts such pods every minute (W-13).
		if most := 2*c.described(w).most()*len(w.Advice) + retries; st.evictions > most {
			c.fail(minute, "it ends", "%d evictions from a workload of %d pods", st.evictions, w.Replicas)
		}
	}
}

// pod checks that a pod is not tried for ever (P3), and that there is a true reason when it is left (P4).
func (c *checker) pod(w *simulated, p *replica, minute int) {
	for _, verb := range []string{"evict", "resize"} {
		if n := p.tried[verb]; n > attempts {
			c.fail(minute, "it ends", "%s: %d times %s without any change, the last reply was %q", p.pod.Name, n, verb, p.said[verb])
		}
	}
	if most := 2*len(w.Advice) + attempts; p.resizes > most {
		c.fail(minute, "it ends", "%s was resized %d times", p.pod.Name, p.resizes)
	}
	if w.satisfied(p) {
		p.fine = minute // what was refused before is over
	}
	if p.pod.DeletionTimestamp != nil || w.satisfied(p) {
		return
	}
	uid := string(p.pod.UID)
	d, decided := c.podfit.decisions[uid]
	switch {
	case !decided && int(p.pod.CreationTimestamp.Sub(c.sim.started)/time.Minute) > minute-c.sim.world.Lag-1:
	case !decided:
		c.fail(minute, "everything has a reason", "nothing was decided about %s", p.pod.Name)
	case d.Do != plan.Leave:
		delete(c.untrue, uid)
	case c.isTrue(w, p, d, minute):
		delete(c.untrue, uid)
	default:
		if c.untrue[uid]++; c.untrue[uid] > falsely+c.sim.world.Lag {
			c.fail(minute, "every reason is true", "%s is left because: %s (%v)", p.pod.Name, d.Reason, d.Reason.Code)
		}
	}
	for _, verb := range []string{"evict", "resize"} {
		since := c.since(w, p, minute, verb)
		// A refusal that has not been followed by a success within minutes is news, however often the action was tried: a pod that
		// was refused waits for its siblings, which may take hours. Upstream tells nobody; its log has a line for each attempt.
		if isRefusal(p.said[verb]) && minute-since > silence && !c.isTold(w, verb) {
			c.fail(minute, "somebody is told", "%s: %s is refused since minute %d, with %q", p.pod.Name, verb, since, p.said[verb])
		}
	}
}

// news are the texts that say that an action was refused or had no answer.
var news = map[string]*regexp.Regexp{
	"evict":  regexp.MustCompile("refused the eviction|does not allow the eviction|no clear answer"),
	"resize": regexp.MustCompile("refused the resize|does not allow the resize|refused to resize|refused a resize|no clear answer"),
}

// isTold reports whether users were told that actions of a kind on pods of a workload are refused, or have no answer.
func (c *checker) isTold(w *simulated, verb string) bool {
	return slices.ContainsFunc(c.podfit.told[w.namespace], news[verb].MatchString)
}

// since returns the minute from which a pod has been refused a change to its last advice.
func (c *checker) since(w *simulated, p *replica, minute int, verb string) int {
	since := max(p.since[verb], p.fine)
	for _, a := range w.Advice {
		if a.At <= minute {
			since = max(since, a.At)
		}
	}
	return since
}

// isTrue reports whether the reason to leave a pod is true in the simulation.
func (c *checker) isTrue(w *simulated, p *replica, d plan.Decision, minute int) bool {
	check := truths[d.Reason.Code.String()]
	return check != nil && check(observation{c, w, p.number, p, minute})
}

// truths says of each reason to leave a pod that is not as it should be whether it is true. A reason that is not in it is never
// true here: its cause does not occur, or it is for pods that are as they should be.
var truths = map[string]func(observation) bool{
	"BudgetSpent":        isShort,
	"NotReady":           isShort,
	"ReplacementMissing": func(o observation) bool { return o.w.count().pods < o.w.Replicas && o.state().evicted >= 0 },
	"TooFewReplicas":     func(o observation) bool { return o.w.scheduled() < o.w.least(o.sim.world) },
	"SameSize":           func(o observation) bool { return o.w.same(o.p.pod) },
	"Probing": func(o observation) bool {
		// The probe was tried in this pass, or the rate limit let none be tried.
		return o.state().futile && slices.ContainsFunc(o.w.pods, func(p *replica) bool {
			why := o.podfit.decisions[string(p.pod.UID)].Reason.Code
			return p != o.p && (p.last["evict"] == o.minute && p.lastAt == o.minute || why == plan.RateLimited || why == plan.OutOfTime)
		})
	},
	"AwaitingReplacement": func(o observation) bool { return o.w.count().satisfied < o.w.Replicas && o.state().evicted >= 0 },
	"Starting":            func(o observation) bool { return o.p.pod.Status.Phase == corev1.PodPending },
	"Unscheduled":         func(o observation) bool { return o.p.pod.Spec.NodeName == "" },
	"RateLimited":         func(o observation) bool { return o.sim.world.Rate > 0 },
	"OutOfTime":           func(o observation) bool { return o.sim.world.Rate > 0 },
	"BackingOff": func(o observation) bool {
		left := o.why().Until.Sub(o.sim.at(o.minute).Time)
		return left <= 6*time.Hour+time.Minute && (o.state().evicted >= 0 || o.p.lastAt >= 0)
	},
	"Unplaceable": func(o observation) bool {
		t, node := o.w.wanted(o.minute), o.sim.world.Node
		return o.sim.world.Nodes > 0 && (t.CPU > node.CPU || t.Memory > node.Memory || o.p.pod.Spec.NodeName == "")
	},
	"ResizeWaiting":    resizeIs(corev1.PodResizePending, corev1.PodReasonDeferred),
	"ResizeImpossible": resizeIs(corev1.PodResizePending, corev1.PodReasonInfeasible),
	"ResizeFailed":     resizeIs(corev1.PodResizeInProgress, corev1.PodReasonError),
	"MemoryInUse":      resizeIs(corev1.PodResizeInProgress, corev1.PodReasonError),
	"ResizeRunning": func(o observation) bool {
		return !equal(o.p.pod.Spec.Containers[0].Resources, running(o.p.pod))
	},
	"EvictionRefused":       said("evict", "", "disruption budget does not"),
	"DisruptionBudget":      said("evict", "violate the pod's disruption budget", ""),
	"ResizeRefused":         said("resize", "", "exceeded quota"),
	"ResizeOverQuota":       said("resize", "exceeded", ""),
	"NotSmallerThanRefused": said("resize", "node didn't have enough", ""),
	"Unanswered": func(o observation) bool {
		if o.sim.world.Rate > 0 {
			return true // the pass ended while the rate limit was waited for, or before the request was sent
		}
		for _, what := range []string{noReply, "done"} { // done: and the reply was lost
			if o.p.said["evict"] == what || o.p.said["resize"] == what {
				return true
			}
		}
		return false
	},
}

// isShort reports whether pods are missing or not ready, or some were changed a moment ago, or may have been.
func isShort(o observation) bool {
	for _, p := range o.w.pods {
		if p.lastAt >= o.minute && (isMomentary(p.said["evict"]) || isMomentary(p.said["resize"])) {
			return true // in this pass: a server that is busy or silent is not asked for the next pod at once
		}
	}
	return o.w.unclear(o.minute) || o.w.count().ready < o.w.Replicas || o.state().acted >= o.minute-1-o.sim.world.Lag
}

// unclear reports whether podfit cannot know yet whether one of the pods was evicted: an eviction had no answer, and the watch may
// be late.
func (w *simulated) unclear(minute int) bool {
	return slices.ContainsFunc(w.pods, func(p *replica) bool {
		return p.said["evict"] == noReply && minute-p.last["evict"] <= unclear
	})
}

// isMomentary reports whether a reply says that the next attempt may succeed.
func isMomentary(reply string) bool {
	return slices.Contains([]string{noReply, faults[busy429].Message, faults[failed500].Message, faults[conflict].Message}, reply)
}

// resizeIs returns whether the kubelet says this of a resize.
func resizeIs(t corev1.PodConditionType, reason string) func(observation) bool {
	return func(o observation) bool {
		c := condition(o.p.pod, t)
		return c != nil && c.Reason == reason
	}
}

// said returns whether the last reply to a request for the pod was a refusal with one text in it, and without another.
func said(verb, with, without string) func(observation) bool {
	return func(o observation) bool {
		text := o.p.said[verb]
		return isRefusal(text) && strings.Contains(text, with) && (without == "" || !strings.Contains(text, without))
	}
}

func isRefusal(reply string) bool { return reply != "" && reply != "done" }

func (o observation) state() *state { return &o.states[o.w.index] }

// wanted returns the target of a minute.
func (w *simulated) wanted(minute int) size {
	t := w.Advice[0].Target
	for _, a := range w.Advice {
		if a.At <= minute {
			t = a.Target
		}
	}
	return t
}

// isOver reports whether the quota refuses a pod the size that it should have.
func (w *simulated) isOver(p *replica, minute int) bool {
	return w.hard > 0 && w.requested()-cpu(p.pod.Spec.Containers[0].Resources)+w.wanted(minute).CPU > w.hard
}

// least returns how many pods a controller must have for one to be evicted.
func (w *simulated) least(in *world) int {
	if w.MinReplicas > 0 {
		return int(w.MinReplicas)
	}
	return in.Min
}

// scheduled returns how many pods have a node.
func (w *simulated) scheduled() (n int) {
	for _, p := range w.pods {
		if p.pod.DeletionTimestamp == nil && p.pod.Spec.NodeName != "" {
			n++
		}
	}
	return n
}

// same reports whether a pod would get about what it has.
func (w *simulated) same(p *corev1.Pod) bool {
	r, _, err := w.provider.GetContainersResourcesForPod(p, w.vpa)
	if err != nil {
		panic(err)
	}
	has := running(p)
	want := corev1.ResourceRequirements{Requests: r[0].Requests, Limits: r[0].Limits}
	near := func(a, b int64, least int64) bool { return a-b <= least && b-a <= least }
	return near(want.Requests.Cpu().MilliValue(), has.Requests.Cpu().MilliValue(), 1) &&
		near(want.Requests.Memory().Value(), has.Requests.Memory().Value(), 4096) &&
		near(want.Limits.Cpu().MilliValue(), has.Limits.Cpu().MilliValue(), 1) &&
		near(want.Limits.Memory().Value(), has.Limits.Memory().Value(), 4096)
}

// compare compares the pods with those under upstream at the end of a minute (P1, P5).
func (c *checker) compare(minute int) {
	var satisfied, explained, wanted, pods int
	for i, w := range c.sim.workloads {
		st, ours, theirs := &c.states[i], w.count(), c.reference[minute][i]
		because := 0
		if theirs.satisfied > ours.satisfied || theirs.ready > ours.ready {
			because = c.explained(w, minute)
		}
		satisfied += ours.satisfied
		explained += because
		pods += w.Replicas
		wanted += theirs.satisfied
		st.behind.note(theirs.satisfied-ours.satisfied, because)
		st.lacking.note(theirs.ready-ours.ready, because)
		if c.sim.world.Rate == 0 && int(st.behind) > grace*(1+c.sim.world.Lag) {
			c.fail(minute, "no fewer pods are satisfied than with upstream", "%d of %s, with upstream %d: %s", ours.satisfied, w.namespace, theirs.satisfied, c.reasons(w))
		}
		if int(st.lacking) > 2*grace+w.Delay+w.Grace+w.Start {
			c.fail(minute, "no fewer pods are ready than with upstream", "%d of %s, with upstream %d: %s", ours.ready, w.namespace, theirs.ready, c.reasons(w))
		}
	}
	c.behind.note(wanted-satisfied, explained)
	// Each refused pod may take one turn of another.
	if rate := c.sim.world.Rate; rate > 0 && int(c.behind) > grace+int(float64(2+pods)/rate) {
		c.fail(minute, "no fewer pods are satisfied than with upstream", "%d in all, with upstream %d", satisfied, wanted)
	}
}

// A lag counts passes with fewer pods than upstream has that no difference explains. It restarts only when podfit has as many pods
// as upstream: passes with an explanation do not count, and do not reset it, so that an explanation that comes and goes cannot hide
// that podfit stays behind.
type lag int

// note counts a pass with a number of missing pods, of which a number is explained.
func (l *lag) note(missing, explained int) {
	switch {
	case missing <= 0:
		*l = 0
	case missing > explained:
		*l++
	}
}

// reasons says what podfit decided about each pod of a workload.
func (c *checker) reasons(w *simulated) string {
	var out []string
	for _, p := range w.pods {
		if d, ok := c.podfit.decisions[string(p.pod.UID)]; ok {
			out = append(out, p.pod.Name+" "+d.Do.String()+": "+d.Reason.String())
		}
	}
	return strings.Join(out, "; ")
}

// settled reports whether every pod is as it should be, and nothing is going to happen any more.
func (c *checker) settled(minute int) bool {
	if c.sim.next(minute) < c.sim.world.Minutes {
		return false
	}
	for _, w := range c.sim.workloads {
		if n := w.count(); n.satisfied < w.Replicas || n.ready < w.Replicas || len(w.pods) > w.Replicas || w.OOM.NeedMB > 0 {
			return false
		}
	}
	return true
}

// explained returns how many pods that are not satisfied, or not there, a named difference explains.
func (c *checker) explained(w *simulated, minute int) int {
	n := 0
	for number := range w.Replicas {
		var p *replica
		for _, o := range w.pods {
			if o.number == number && (p == nil || o.pod.DeletionTimestamp == nil) {
				p = o
			}
		}
		if p != nil && w.satisfied(p) && isReady(p.pod) {
			continue
		}
		for i := range differences {
			if differences[i].explains(observation{c, w, number, p, minute}) {
				c.used[differences[i].name] = 1
				n++
				break
			}
		}
	}
	return n
}

// An observation is a replica that is not as it should be.
type observation struct {
	*checker
	w      *simulated
	number int
	p      *replica // nil when it is missing
	minute int
}

// why returns the reason for which podfit leaves the pod.
func (o observation) why() plan.Reason {
	if o.p == nil {
		return plan.Reason{}
	}
	d := o.podfit.decisions[string(o.p.pod.UID)]
	if d.Do != plan.Leave {
		return plan.Reason{}
	}
	return d.Reason
}

// A difference is why fewer pods may be satisfied, or ready, than with upstream.
type difference struct {
	name         string // as in docs/migrate.md
	circumstance bool   // not meant by podfit: it comes of pods going at other times, and is not in docs/migrate.md
	reason       string
	explains     func(observation) bool
}

var differences = []difference{
	{
		name: "under way", circumstance: true, reason: "a pod that is being replaced is looked at again when it should be there",
		explains: func(o observation) bool {
			if o.p == nil {
				since := o.w.vacant[o.number]
				return since < 0 || o.minute-since <= o.w.Delay+1 && o.w.refused == 0
			}
			return o.p.pod.DeletionTimestamp != nil || o.p.pod.Spec.NodeName != "" && o.minute < o.p.readyAt
		},
	},
	{
		name: "W-14 pods that are not ready", reason: "podfit waits for evicted pods to be ready again; upstream counts pods that are not ready",
		explains: func(o observation) bool {
			why := o.why().Code
			return (why == plan.NotReady || why == plan.BudgetSpent) && o.w.count().ready < o.w.Replicas
		},
	},
	{
		name: "W-13 ineffective evictions", reason: "podfit leaves a workload alone whose replacements did not get their size",
		explains: func(o observation) bool {
			backs := o.why().Code == plan.BackingOff && o.why().Text == "eviction" || o.why().Code == plan.Probing
			return backs && o.states[o.w.index].futile
		},
	},
	{
		name: "W-13 ineffective evictions", reason: "podfit leaves a pod alone for a while that somebody sets back after each resize",
		explains: func(o observation) bool {
			return o.why().Code == plan.BackingOff && o.why().Text == "resize" && o.w.Undo > 0
		},
	},
	{
		name: "nodes for the replacement", reason: "podfit does not evict a pod whose replacement fits no node",
		explains: func(o observation) bool { return o.why().Code == plan.NoNodeFits && o.sim.world.Nodes > 0 },
	},
	{
		name: "full nodes", circumstance: true, reason: "a pod waits for room that other pods take; upstream lost pods, or moved them elsewhere",
		explains: func(o observation) bool {
			homeless := o.w.scheduled() < o.w.count().pods
			if o.p != nil && o.sim.world.Nodes > 0 && resizeIs(corev1.PodResizePending, corev1.PodReasonDeferred)(o) {
				// Whoever was resized first on this node took the room. Neither evicts a pod of a workload with too few replicas.
				full := !o.sim.fits(o.p.pod.Spec.NodeName, o.p, o.p.pod.Spec.Containers[0].Resources)
				return full && (o.why().Code == plan.ResizeWaiting || o.why().Code == plan.TooFewReplicas)
			}
			return o.p != nil && homeless && (o.p.pod.Spec.NodeName == "" || o.why().Code == plan.TooFewReplicas)
		},
	},
	{
		name: "resizes over quota", reason: "podfit does not evict a pod whose replacement the quota refuses; upstream does, and its pods share what is left",
		explains: func(o observation) bool {
			return o.p != nil && o.w.isOver(o.p, o.minute)
		},
	},
	{
		name: "temporary resize failures", reason: "podfit asks a busy or silent server, or a webhook that fails, again for a while before it evicts a pod instead",
		explains: func(o observation) bool {
			if o.p == nil || o.w.Mode != "InPlaceOrRecreate" || o.minute-o.p.since["resize"] > 45 {
				return false
			}
			switch o.why().Code.String() {
			case "ResizeRefused", "Unanswered", "BudgetSpent", "NotReady": // the pods of a group take turns
				return isMomentary(o.p.said["resize"])
			}
			return false
		},
	},
	{
		name: "refused resizes of several pods", reason: "the pods go one by one, each when the one before has its replacement",
		explains: func(o observation) bool {
			return o.why().Code.String() == "AwaitingReplacement" && o.minute-o.state().evicted <= 10+o.w.Delay+o.w.Grace+o.w.Start
		},
	},
	{
		name: "missing replacements", reason: "podfit evicts no more pods of a controller that does not replace the evicted ones",
		explains: func(o observation) bool {
			return o.why().Code.String() == "ReplacementMissing" && o.w.count().pods < o.w.Replicas
		},
	},
	{
		name: "refused actions", reason: "podfit asks again less and less often; upstream asks each minute, and is the first when the refusals end",
		explains: func(o observation) bool {
			verb := map[string]string{
				"TooFewReplicas":  "resize", // until the next resize is tried
				"EvictionRefused": "evict", "DisruptionBudget": "evict", "ResizeRefused": "resize", "ResizeOverQuota": "resize", "Unanswered": "evict",
			}[o.why().Code.String()]
			if o.why().Code.String() == "Unanswered" && o.w.Mode == "InPlace" {
				verb = "resize"
			}
			if verb == "" || !isRefusal(o.p.said[verb]) {
				return false
			}
			few := o.why().Code == plan.TooFewReplicas
			// A workload with too few pods has none evicted, by upstream neither.
			evictable := o.w.Replicas >= o.w.least(o.sim.world)
			// What a quota refused is not evicted instead, and when the quota has room again it is tried after the back-off.
			instead := !few && evictable && o.why().Code != plan.ResizeOverQuota
			if verb == "resize" && o.w.Mode != "InPlace" && instead && !isRefusal(o.p.said["evict"]) {
				return false // it should have been evicted
			}
			// The wait is about as long as the refusals have lasted.
			until := o.minute
			if !few {
				until = int(o.why().Until.Sub(o.sim.started) / time.Minute)
			}
			return until-o.p.lastAt <= o.p.lastAt-o.p.since[verb]+2
		},
	},
	{
		name: "refused actions", reason: "what was refused is carried out later than with upstream, and the kubelet takes as long for it",
		explains: func(o observation) bool {
			takes := o.p != nil && o.p.late && o.w.Mode == "InPlace" && o.minute-o.p.resized <= o.w.Resizing.For+1
			switch o.why().Code {
			case plan.ResizeFailed, plan.ResizeRunning, plan.ResizeWaiting, plan.MemoryInUse, plan.ResizeImpossible:
				return takes
			}
			return false
		},
	},
	{
		// The eviction may have been carried out, and the watch shows it minutes later: another eviction could take more pods out of
		// service than the user allows. Upstream counts it as not carried out. After five minutes the watch has shown the outcome.
		// Answers that are refusals, such as those of a busy server, explain no such wait.
		name: "missing responses", reason: "for five minutes after an eviction without an answer podfit takes the pod for gone, and evicts no other in its place",
		explains: func(o observation) bool {
			why := o.why().Code
			return (why == plan.NotReady || why == plan.BudgetSpent) && o.w.unclear(o.minute)
		},
	},
	{
		name: "scaled up beyond a quota", circumstance: true, reason: "whether the quota has room for a pod that a scale-up adds depends on which pods have shrunk before",
		explains: func(o observation) bool {
			return o.p == nil && o.w.refused > 0 && o.w.Replicas > o.described(o.w).fewest(o.minute)
		},
	},
	{
		name: "scaled below the minimum", circumstance: true, reason: "neither evicts a pod of a workload with too few replicas; which pods had their turn before differs",
		explains: func(o observation) bool {
			return o.why().Code == plan.TooFewReplicas && len(o.w.Scales) > 0 && o.w.Replicas < o.w.least(o.sim.world)
		},
	},
	{
		name: "lost to a quota", circumstance: true, reason: "in the modes that evict, both lose as many pods as may be missing before the quota shows; which and how many differs",
		explains: func(o observation) bool {
			return o.p == nil && o.w.refused > 0 && (o.w.Mode == "Recreate" || o.w.Mode == "Auto")
		},
	},
	{
		name: "memory limit below usage", reason: "podfit waits until a memory limit can be lowered",
		explains: func(o observation) bool { return o.why().Code == plan.MemoryInUse },
	},
	{
		name: "W-19 deferred resizes", reason: "podfit asks for something else when the kubelet is done; upstream replaces what waits",
		explains: func(o observation) bool {
			why := o.why().Code
			return o.w.Mode == "InPlace" && (why == plan.ResizeWaiting || why == plan.ResizeRunning)
		},
	},
	{
		name: "W-20 duration of a resize", reason: "podfit counts from the condition's own time, upstream from when it saw the pod's name first",
		explains: func(o observation) bool {
			why := o.why().Code
			return o.w.Mode == "InPlaceOrRecreate" && (why == plan.ResizeWaiting || why == plan.ResizeRunning)
		},
	},
	{
		name: "W-13 unchanged size", reason: "podfit does not evict a pod whose replacement would get the same",
		explains: func(o observation) bool { return o.why().Code == plan.SameSize },
	},
}
