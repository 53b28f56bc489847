// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package behaviour

import (
	"math"
	"regexp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"podfit.dev/podfit/internal/core/decision"
)

// Limits of the properties.
const (
	grace        = 12 // passes for which podfit may be behind upstream
	attempts     = 24 // requests for one pod in a day while nothing changes: 8 with back-offs of up to 64 minutes, 14 with 90 minutes, and some slack
	outdated     = 8  // passes for which a reason may be outdated
	reportWithin = 20 // minutes after which users must have an event about an action that is refused or has no response
	unclear      = 5  // minutes for which an eviction without a response counts as carried out
	stuckAfter   = 10 // minutes after which a pod that is not ready does not become ready by itself
	retries      = 12 // evictions per day that may be ineffective
	rescueFor    = 10 // minutes after an OOM kill in which a pod that is not ready may be changed whatever its minimum of replicas is
)

// never is a minute before the simulation.
const never = -1000

// A checker checks the actions of podfit in a simulation.
type checker struct {
	sim       *simulation
	podfit    *podfit
	reference *course // of upstream
	violation string
	used      map[string]int

	states    []state                   // by workload
	began     int                       // minute in which the pass began
	inWatch   map[types.UID]*corev1.Pod // as the watch showed them when the pass began
	behind    lag                       // in satisfied pods over all workloads; used if there is a rate limit
	lacking   lag                       // the same in ready pods
	incorrect map[string]int            // passes for which the reason of a pod is incorrect, by UID
	held      map[string]int            // last minute in which no pod of the workload was evicted, and that was reported, by UID
	killed3   map[string]int            // minute of the first pass after the third OOM kill of a pod, by UID
}

// A state is the history of a workload.
type state struct {
	live       int // pods with a node at the start of the pass
	behind     lag // in satisfied pods
	lacking    lag // in ready pods
	acted      int // minute of the last change
	evicted    int // minute of the last eviction
	evictions  int
	rescued    bool          // pods were changed to rescue them although other limits do not allow it
	deleted    int           // the replica that was deleted last; -1 if none was
	replaced   bool          // the replacement of that one was ready, or OOM-killed, at some time
	deletedAt  int           // minute of that deletion
	futile     bool          // some evicted pod was replaced without the recommended size
	hidden     bool          // some evicted pod was replaced with the size that it had, because that was recommended by then
	was        map[size]bool // the sizes of the evicted pods
	placed     bool          // a pod without a node was evicted although the workload has fewer pods than the minimum
	unreplaced int           // minute since which the quota rejects replacements; -1 if it does not
	missing    int           // last minute in which pods were missing
	unready    int           // last minute in which pods were missing or not ready
	probes     probes
}

func newChecker(s *simulation, p *podfit, reference *course) *checker {
	c := &checker{sim: s, podfit: p, reference: reference, used: map[string]int{}, incorrect: map[string]int{}, killed3: map[string]int{}, held: map[string]int{}}
	for range s.workloads {
		c.states = append(c.states, state{acted: -1, evicted: -1, deleted: -1, unreplaced: -1, missing: never, unready: never, was: map[size]bool{}})
	}
	s.onEvict = c.evicting
	s.onDelete = c.deleting
	s.onResize = c.resizing
	return c
}

func (c *checker) before(minute int) {
	c.began = minute
	shown := c.sim.all()
	if c.sim.world.Lag > 0 {
		shown = c.sim.shown[0]
	}
	c.inWatch = make(map[types.UID]*corev1.Pod, len(shown))
	for _, p := range shown {
		c.inWatch[p.UID] = p
	}
	for i, w := range c.sim.workloads {
		st := &c.states[i]
		st.live = w.scheduled()
		st.futile = st.futile || w.unsized
		st.replaced = st.replaced || st.deleted >= 0 && st.deleted < w.Replicas && c.isReplaced(w, st.deleted)
		st.hidden = st.hidden || slices.ContainsFunc(w.pods, func(p *replica) bool {
			return st.evicted >= 0 && st.was[sizeOf(p.pod)] && c.sim.createdAt(p) >= 0 && w.sameSize(p.pod)
		})
		st.probes.begin(c.isIneffective(w, minute))
		switch {
		case w.refused == 0, w.count().pods >= c.described(w).fewest(minute):
			st.unreplaced = -1 // only pods that a scale-up added can be missing
		case st.unreplaced < 0:
			st.unreplaced = minute
		}
	}
}

// described returns a workload as in the world, with its initial number of replicas.
func (c *checker) described(w *simulated) *workload { return &c.sim.world.Workloads[w.index] }

// evicting checks the disruption limits when a pod is evicted (P2), and that no pods are lost to a quota (P5).
func (c *checker) evicting(w *simulated, p *replica, refusal string) {
	minute, st := c.sim.minute(), &c.states[w.index]
	if refusal != "" {
		return
	}
	c.probing(w, p)
	ready := c.readyInWatch(w)
	least := w.minimum(c.sim.world)
	tolerance := c.tolerance(w)
	switch {
	case w.Mode == "InPlace":
		c.fail(minute, "the update mode is respected", "%s is evicted in mode InPlace", p.pod.Name)
	case p.pod.Spec.NodeName == "", c.inWatch[p.pod.UID] != nil && c.inWatch[p.pod.UID].Spec.NodeName == "":
		st.placed = st.placed || st.live < least
	case c.sim.world.Lag > 0 && c.described(w).scaledDown(minute-c.sim.world.Lag, minute):
		// The watch is stale: an updater cannot know which pods the controller has deleted, or would have deleted anyway.
	case st.live < least && !c.isRescue(w, p):
		c.fail(minute, "disruption limits are respected", "%s is evicted with %d live pods, and the minimum is %d", p.pod.Name, st.live, least)
	case p.unserved < c.oldest() && ready-1 < w.Replicas-tolerance:
		c.fail(minute, "disruption limits are respected", "%s is evicted, which leaves %d of %d pods ready, and %d may be missing", p.pod.Name, ready-1, w.Replicas, tolerance)
	}
	// The stale watch does not show yet that a scale-down has removed pods. If the controller now wants as many pods as the watch
	// shows, they may as well be the right ones: a ReplicaSet that lacks a pod removes none when it is scaled down by one.
	unseen := c.sim.world.Lag > 0 && c.described(w).scaledDown(minute-c.sim.world.Lag, minute)
	if st.unreplaced >= 0 && minute-st.unreplaced > 15 && !unseen && !c.mayBlock(w, p) && !c.makesRoom(w, p) {
		c.fail(minute, "no pods are lost to a quota", "%s is evicted although the quota has rejected the replacement of an evicted pod for %d minutes", p.pod.Name, minute-st.unreplaced)
	}
	c.pausing(w, p)
	if p.over && w.exceedsQuota(p, minute) {
		c.fail(minute, "no pods are lost to a quota", "%s is evicted because a quota refused its resize", p.pod.Name)
	}
	if o := c.overQuotaBeside(w, p); o != nil {
		c.fail(minute, "no pods are lost to a quota", "%s is evicted although a quota refused the resize of %s", p.pod.Name, o.pod.Name)
	}
	st.acted, st.evicted = minute, minute
	st.evictions++
	st.was[sizeOf(p.pod)] = true
	if w.leavesUnsized(minute) {
		st.futile = true
	}
}

// overQuotaBeside returns a pod whose resize a quota refused, so that podfit knows that it would refuse the replacement of another one,
// too: both grow by the same, and the quota has no more room since.
func (c *checker) overQuotaBeside(w *simulated, p *replica) *replica {
	minute := c.sim.minute()
	if c.sim.world.Lag > 0 || !w.exceedsQuota(p, minute) {
		return nil
	}
	for _, o := range w.pods {
		refused := o.last["resize"]
		recent := minute-refused <= 15 && !slices.ContainsFunc(w.Advice, func(a advice) bool { return a.At > refused && a.At <= minute })
		// An eviction that was sent before the refusal cannot be taken back: a slow one is carried out seconds later.
		if o != p && o.over && o.overSince.Before(p.sent) && recent && cpu(o.pod) == cpu(p.pod) && memory(o.pod) == memory(p.pod) {
			return o
		}
	}
	return nil
}

// spentFor is how long the restart of a pod by a resize takes from the budget, which is less than a minute.
const spentFor = 54 * time.Second

// deleting checks the deletion of a pod: it is not ready because of OOM kills, and the last pod that was deleted has been replaced.
func (c *checker) deleting(w *simulated, p *replica) {
	minute, st := c.sim.minute(), &c.states[w.index]
	switch {
	case !c.sim.world.Rescue:
		c.fail(minute, "only OOM-killed pods are deleted", "%s is deleted without --oom-rescue", p.pod.Name)
	case p.pod.Status.ContainerStatuses[0].RestartCount < 3, isReady(p.pod), w.sameSize(p.pod):
		c.fail(minute, "only OOM-killed pods are deleted", "%s is deleted with %d OOM kills", p.pod.Name, p.pod.Status.ContainerStatuses[0].RestartCount)
	case c.sim.world.Lag == 0 && st.deleted >= 0 && st.deleted < w.Replicas && st.deleted != p.number && !st.replaced && !c.isReplaced(w, st.deleted) && !c.isAwaited(w, p):
		c.fail(minute, "disruption limits are respected", "%s is deleted while another deleted pod has no replacement that is ready", p.pod.Name)
	}
	st.acted, st.evicted, st.rescued = minute, minute, true
	st.deleted, st.deletedAt, st.replaced = p.number, minute, false
	st.was[sizeOf(p.pod)] = true
	st.evictions++
	st.futile = st.futile || w.leavesUnsized(minute)
}

// resizing checks the disruption limits when a pod is resized (P2): they apply to resizes that restart a container, and the minimum
// number of replicas applies to all, unless --in-place-skip-disruption-budget is set.
func (c *checker) resizing(w *simulated, p *replica, restarts bool) {
	minute, st := c.sim.minute(), &c.states[w.index]
	if w.Mode != "InPlace" && w.Mode != "InPlaceOrRecreate" {
		c.fail(minute, "the update mode is respected", "%s is resized in mode %s", p.pod.Name, w.Mode)
	}
	if c.sim.world.Lag > 0 && c.described(w).scaledDown(minute-c.sim.world.Lag, minute) {
		return // see evicting
	}
	least := w.minimum(c.sim.world)
	if st.live < least && !c.sim.world.SkipBudget && !c.isRescue(w, p) && (restarts || !c.isRescueInService(w, p)) {
		c.fail(minute, "disruption limits are respected", "%s is resized with %d live pods, and the minimum is %d", p.pod.Name, st.live, least)
	}
	if !restarts || p.unserved >= c.oldest() { // the restart of a pod that is down takes nothing out of service
		return
	}
	p.restarted = time.Now()
	left := c.readyInWatch(w) - 1
	for _, o := range w.pods {
		if o != p && o.pod.DeletionTimestamp == nil && isReady(o.pod) && time.Since(o.restarted) < spentFor {
			left-- // it is restarted by a resize, too
		}
	}
	if tolerance := c.tolerance(w); left < w.Replicas-tolerance {
		c.fail(minute, "disruption limits are respected", "%s is restarted by a resize, which leaves %d of %d pods ready, and %d may be missing", p.pod.Name, left, w.Replicas, tolerance)
	}
}

// tolerance returns how many pods of a workload may be missing because of changes.
func (c *checker) tolerance(w *simulated) int {
	return max(1, int(float64(w.Replicas)*c.sim.world.Tolerance))
}

// isAwaited reports whether the controller of a StatefulSet may wait for a pod: those with lower ordinals are ready, and for five minutes it has
// not created the replacement of another deleted one.
func (c *checker) isAwaited(w *simulated, p *replica) bool {
	st := &c.states[w.index]
	serving := map[int]bool{}
	for _, o := range w.pods {
		if o.number == st.deleted {
			return false // it exists
		}
		serving[o.number] = isReady(o.pod)
	}
	for n := range p.number {
		if !serving[n] {
			return false
		}
	}
	return w.StatefulSet && c.sim.minute() >= st.deletedAt+5
}

// mayBlock reports whether the controller of a StatefulSet may wait for a pod before it creates missing ones: all pods with lower ordinals are ready,
// and the pod has not been ready for ten minutes. An updater without access to quotas may evict it, because it cannot know that a quota is the cause.
func (c *checker) mayBlock(w *simulated, p *replica) bool {
	before := 0
	for _, o := range w.pods {
		if o.number < p.number && (isReady(o.pod) || o.served >= c.oldest()) {
			before++
		}
	}
	return w.StatefulSet && before == p.number && !isReady(p.pod) && c.sim.minute()-max(p.served, p.startsAt) >= stuckAfter
}

// makesRoom reports whether the eviction of a pod makes room in a quota that podfit may read, for its replacement and for all missing pods.
func (c *checker) makesRoom(w *simulated, p *replica) bool {
	size, missing := w.total(c.sim.minute()).CPU, int64(w.Replicas-w.count().pods)
	return c.sim.world.Quotas && w.requested()+size > w.hard && w.requested()-cpu(p.pod)+(1+missing)*size <= w.hard
}

// isReplaced reports whether a deleted replica has a replacement that is ready, was OOM-killed too, or does not become ready by itself.
// A Deployment does not show which of its new pods replaces which old one. So if one of them is ready, the others that are not scheduled
// for a while may be for something else.
func (c *checker) isReplaced(w *simulated, number int) bool {
	since := c.states[w.index].deletedAt
	serves := !w.StatefulSet && slices.ContainsFunc(w.pods, func(p *replica) bool { return isReady(p.pod) && c.sim.createdAt(p) > since })
	return slices.ContainsFunc(w.pods, func(p *replica) bool {
		if p.number != number || p.pod.DeletionTimestamp != nil {
			return false
		}
		if p.startsAt < 0 {
			return serves && c.sim.minute()-c.sim.createdAt(p) >= stuckAfter
		}
		return isReady(p.pod) || p.killed >= 0 || c.sim.minute()-p.startsAt >= stuckAfter
	})
}

// oldest returns the first minute whose state the watch may show in this pass.
func (c *checker) oldest() int { return c.began - c.sim.world.Lag }

// readyInWatch returns how many pods of a workload are ready, or were when the watch showed them.
func (c *checker) readyInWatch(w *simulated) (n int) {
	for _, p := range w.pods {
		if p.pod.DeletionTimestamp == nil && (isReady(p.pod) || p.served >= c.oldest()) {
			n++
		}
	}
	return n
}

// isRescue reports whether podfit may evict a pod although its workload has too few replicas: it is not ready, so its eviction makes
// nothing worse, it was OOM-killed minutes ago, and its replacement gets more memory. The container need not be down now: a pod that
// does not become ready between its OOM kills serves as little as one in CrashLoopBackOff. What counts is what the watch showed.
func (c *checker) isRescue(w *simulated, p *replica) bool {
	return p.unserved >= c.oldest() && c.isRescueInService(w, p)
}

// isRescueInService reports whether podfit may resize a pod without a restart although its workload has too few replicas: it was
// OOM-killed minutes ago, and gets more memory.
func (c *checker) isRescueInService(w *simulated, p *replica) bool {
	return c.sim.world.Rescue && p.killed >= c.oldest()-rescueFor && (w.getsMoreMemory(p.pod) || w.getsMoreMemory(c.watched(p)))
}

// watched returns a pod as the watch showed it when the pass began. A stale watch does not show yet that the kubelet has resized it.
func (c *checker) watched(p *replica) *corev1.Pod {
	if o := c.inWatch[p.pod.UID]; o != nil && len(o.Status.ContainerStatuses) > 0 {
		return o
	}
	return p.pod
}

// getsMoreMemory reports whether the replacement of a pod would be OOM-killed later: it has a larger memory limit, or without a limit a
// larger memory request.
func (w *simulated) getsMoreMemory(p *corev1.Pod) bool {
	r, _, err := w.provider.GetContainersResourcesForPod(p, w.vpa)
	if err != nil {
		panic(err)
	}
	has := running(p, 0)
	if limit := has.Limits.Memory(); !limit.IsZero() {
		return r[0].Limits.Memory().Cmp(*limit) > 0
	}
	return r[0].Requests.Memory().Cmp(*has.Requests.Memory()) > 0
}

// noteActions records which workloads a pass changed.
func (c *checker) noteActions(minute int) {
	for i, w := range c.sim.workloads {
		st := &c.states[i]
		st.look(w.count(), w.Replicas, minute)
		for _, p := range w.pods {
			if p.lastAt == minute && p.done {
				st.acted = minute
				st.rescued = st.rescued || c.sim.world.Rescue && p.killed >= 0 && st.live < w.minimum(c.sim.world)
			}
		}
	}
}

// after checks the results of a pass.
func (c *checker) after(minute int) {
	c.noteActions(minute)
	for i, w := range c.sim.workloads {
		st := &c.states[i]
		for _, p := range w.pods {
			c.pod(w, p, minute)
		}
		if st.unreplaced >= 0 && minute-st.unreplaced > reportWithin && st.evictions > 0 && len(c.podfit.events[w.namespace]) == 0 {
			c.fail(minute, "refusals are reported", "the quota of %s has rejected the replacement of an evicted pod for %d minutes", w.namespace, minute-st.unreplaced)
		}
		// Each recommendation may cause one eviction per pod, and another one if the recommendation changes in the meantime.
		// Ineffective evictions are tried with one pod at a time, with a growing back-off. Upstream has no such limit: it evicts
		// such pods every minute (W-13).
		if most := 2*c.described(w).most()*len(w.Advice) + retries; st.evictions > most {
			c.fail(minute, "attempts are bounded", "%d evictions from a workload of %d pods", st.evictions, w.Replicas)
		}
	}
}

// pod checks that attempts are bounded (P3), and that a pod without a change has a correct reason (P4).
func (c *checker) pod(w *simulated, p *replica, minute int) {
	for _, verb := range []string{"evict", "resize"} {
		if n := p.tried[verb]; n > attempts+c.early(w, verb) {
			c.fail(minute, "attempts are bounded", "%s: %d requests to %s it without any change; the last reply was %q", p.pod.Name, n, verb, p.replies[verb])
		}
	}
	if most := 2 * (len(w.Advice) + attempts); p.resizes > most {
		c.fail(minute, "attempts are bounded", "%s was resized %d times", p.pod.Name, p.resizes)
	}
	if w.satisfied(p) {
		p.fine = minute // earlier refusals are obsolete
	}
	if _, known := c.killed3[string(p.pod.UID)]; !known && p.killed >= 0 && c.killsInWatch(p) >= 3 {
		c.killed3[string(p.pod.UID)] = minute
	}
	if p.pod.DeletionTimestamp != nil || w.satisfied(p) {
		return
	}
	uid := string(p.pod.UID)
	d, decided := c.podfit.decisions[uid]
	switch {
	case !decided && c.sim.createdAt(p) > minute-c.sim.world.Lag-1:
	case !decided:
		c.fail(minute, "every pod has a decision", "no decision about %s", p.pod.Name)
	case d.Do != decision.Leave:
		delete(c.incorrect, uid)
	case c.isCorrect(w, p, d, minute):
		delete(c.incorrect, uid)
	default:
		if c.incorrect[uid]++; c.incorrect[uid] > outdated+c.sim.world.Lag {
			c.fail(minute, "every reason is correct", "%s is left because: %s (%v)", p.pod.Name, d.Reason, d.Reason.Code)
		}
	}
	for _, verb := range []string{"evict", "resize"} {
		since := c.since(w, p, minute, verb)
		// An action that stays refused for minutes must be reported, however often it was tried: a pod with a refused action waits
		// for the other pods of its workload, which may take hours. Upstream does not report it; it logs each attempt.
		// A refusal for an earlier recommendation is obsolete. So is one before the kubelet completed a resize: after a resize by a part,
		// the pod waits for room, and not for an eviction.
		if verb == "evict" && c.isRescueReported(w, p, minute) {
			continue
		}
		// The action would not be tried now, because a quota that podfit can read has no room, or because changes of the workload have no
		// lasting effect, and now and then another pod is tried when enough of them are ready: users have the event about that.
		code := c.podfit.decisions[uid].Reason.Code
		if code == decision.OverQuota && c.hasEvent(w, overQuotaEvent) ||
			(c.isHeld(w, code) && code != decision.ReplacementMissing || (code == decision.BudgetSpent || code == decision.NotReady) && c.hasEvent(w, backOffEvent)) {
			continue
		}
		if isRefusal(p.replies[verb]) && p.last[verb] >= max(since, p.applied) && minute-max(since, p.triedFrom[verb]) > reportWithin && !c.isReported(w, verb) {
			c.fail(minute, "refusals are reported", "%s: %s has been refused since minute %d with %q; it is left because: %v", p.pod.Name, verb, since, p.replies[verb], c.podfit.decisions[uid].Reason.Code)
		}
	}
}

// early returns how many requests for one pod may be made before the end of the back-off. The readiness of other pods may change what a
// disruption budget allows. But a budget that has refused an eviction with a number of other ready pods refuses it again with as many or
// fewer, however often their readiness changes. Its status may count a pod late, so two requests with each number are justified.
func (c *checker) early(w *simulated, verb string) int {
	if verb != "evict" || len(w.PDBs) == 0 {
		return 0
	}
	return 2 * c.described(w).most()
}

// refusalEvents match the texts of events about an action that was refused or had no response.
var refusalEvents = map[string]*regexp.Regexp{
	"evict": eventsAbout("A PodDisruptionBudget does not allow the eviction of the OOM-killed pod|",
		decision.EvictionRefused, decision.DisruptionBudget, decision.Unanswered, decision.ServerNotReached, decision.DeletionRefused),
	"resize": eventsAbout("^ResizeRefused: |",
		decision.ResizeRefused, decision.ResizeOverQuota, decision.NotSmallerThanRefused, decision.Unanswered, decision.ServerNotReached),
}

// eventsAbout returns an expression that matches the texts of some reasons, with any duration and reply, or another expression.
func eventsAbout(or string, codes ...decision.ReasonCode) *regexp.Regexp {
	var texts []string
	for _, code := range codes {
		text, _, _ := strings.Cut(decision.Reason{Code: code, Text: "REPLY", For: 7 * time.Hour}.String(), "REPLY")
		texts = append(texts, strings.ReplaceAll(regexp.QuoteMeta(text), "7h", `\S+`))
	}
	return regexp.MustCompile(or + strings.Join(texts, "|"))
}

// isReported reports whether users got an event about refused actions, or actions without a response, on pods of a workload.
func (c *checker) isReported(w *simulated, verb string) bool {
	return c.hasEvent(w, refusalEvents[verb])
}

func (c *checker) hasEvent(w *simulated, text *regexp.Regexp) bool {
	return slices.ContainsFunc(c.podfit.events[w.namespace], text.MatchString)
}

// isRescueReported reports whether users know without an event about a refused eviction that an OOM-killed pod waits for its rescue.
func (c *checker) isRescueReported(w *simulated, p *replica, minute int) bool {
	st, why := &c.states[w.index], c.podfit.decisions[string(p.pod.UID)].Reason.Code
	switch {
	case !c.sim.world.Rescue || p.killed < 0:
		return false
	case st.deleted >= 0 && minute-st.deletedAt <= reportWithin:
		return true // the event about another pod that was deleted; this one is deleted next
	case c.isHeld(w, why):
		c.held[string(p.pod.UID)] = minute
		return true
	case c.held[string(p.pod.UID)] > 0 && minute-c.held[string(p.pod.UID)] <= reportWithin:
		return true // it has its turn again, and the next attempt leads to a deletion or an event
	case c.sim.world.Rate > 0 && minute-c.since(w, p, minute, "evict") <= reportWithin+3*c.turn():
		return true // each pod gets one attempt in a turn, and it may take three OOM kills until one leads to a deletion or an event
	case why == decision.ResizeRunning && p.served >= c.oldest():
		return minute-p.resized <= 60 // both updaters wait an hour for the resize of a pod that serves between two OOM kills
	case why == decision.ResizeRunning:
		return minute-p.inProgressSince(c.sim) <= stuckAfter+1+c.sim.world.Lag // one that is down waits ten minutes for it, and is evicted instead
	case c.killsInWatch(p) >= 3:
		return minute-c.killed3[string(p.pod.UID)] <= reportWithin // before that, refusals are not reported, see below
	}
	// The VPA has the conditions OOMKillLoop and OOMRescue, and the next OOM kill leads to a deletion or an event. If the workload has
	// too few replicas, which is reported, or other pods are not ready, podfit tries to evict the pod only while it is down. Between two OOM
	// kills it is ready, or starts.
	between := isReady(p.pod) || minute-p.killed <= stuckAfter+c.sim.world.Lag
	waits := (why == decision.NotReady || why == decision.BudgetSpent) && between
	return why == decision.FewKills || waits || why == decision.TooFewReplicas && c.hasEvent(w, tooFewEvent)
}

// isHeld reports whether no pod of a workload is evicted because evicted pods have no replacement, or because evictions had no effect, and
// users have the event about that. Whether the reason is justified is checked elsewhere.
func (c *checker) isHeld(w *simulated, why decision.ReasonCode) bool {
	switch why {
	case decision.ReplacementMissing:
		return c.hasEvent(w, missingEvent)
	case decision.BackingOff, decision.Probing, decision.EffectUnknown:
		return c.hasEvent(w, backOffEvent)
	default:
		return false
	}
}

// Texts of events about workloads with too few replicas, and about ineffective evictions.
var (
	missingEvent   = regexp.MustCompile("None of its pods is evicted until all of them exist again")
	overQuotaEvent = regexp.MustCompile("would exceed a ResourceQuota")
	tooFewEvent    = regexp.MustCompile("less than the minimum of")
	backOffEvent   = regexp.MustCompile("had no lasting effect|not known whether the last eviction had an effect")
)

// turn returns the number of minutes in which the rate limit allows one eviction of each pod.
func (c *checker) turn() int {
	pods := 0
	for _, w := range c.sim.workloads {
		pods += w.Replicas
	}
	return int(math.Ceil(float64(pods) / c.sim.world.Rate))
}

// killsInWatch returns how often a pod was OOM-killed, without a kill that the watch may not show yet.
func (c *checker) killsInWatch(p *replica) int {
	n := int(p.pod.Status.ContainerStatuses[0].RestartCount)
	if p.killed > c.oldest() {
		n--
	}
	return n
}

// since returns the minute since which changes of a pod to its current recommendation have been refused.
func (c *checker) since(w *simulated, p *replica, minute int, verb string) int {
	return max(p.since[verb], p.fine, w.advisedAt(minute))
}

// advisedAt returns the minute of the current recommendation.
func (w *simulated) advisedAt(minute int) int {
	at := 0
	for _, a := range w.Advice {
		if a.At <= minute {
			at = max(at, a.At)
		}
	}
	return at
}

// isCorrect reports whether the reason not to change a pod is correct in the simulation.
func (c *checker) isCorrect(w *simulated, p *replica, d decision.Decision, minute int) bool {
	check := conditions[d.Reason.Code.String()]
	return check != nil && check(observation{c, w, p.number, p, minute})
}

// conditions are the conditions under which each reason not to change an unsatisfied pod is correct. A reason without a condition
// is always incorrect: its cause does not occur in the simulation, or it is a reason for satisfied pods.
var conditions = map[string]func(observation) bool{
	"BudgetSpent": isShort,
	"FewKills": func(o observation) bool {
		return o.p.pod.Status.ContainerStatuses[0].RestartCount < 3 && refused("evict", disruptionBudget, "")(o)
	},
	"RescueInProgress": isRescuingOther,
	"BudgetOfOthers": func(o observation) bool {
		return refused("evict", disruptionBudget, "")(o) && o.isBudgetOfOthers()
	},
	"NotEnoughMemory": func(o observation) bool { return o.w.OOM.NeedMB > 0 && o.state().evicted >= 0 },
	"NotReady":        isShort,
	"ReplacementMissing": func(o observation) bool {
		return o.w.count().pods < o.w.Replicas && (o.state().evicted >= 0 || o.w.evictedLeaving)
	},
	"TooFewReplicas": func(o observation) bool { return o.w.scheduled() < o.w.minimum(o.sim.world) },
	"SameSize":       func(o observation) bool { return o.w.sameSize(o.p.pod) },
	"Probing": func(o observation) bool {
		// The effect of other evictions is not known yet.
		if len(o.w.effects.evicted) > 0 || o.state().evicted >= 0 && o.watchShows(o.state().evicted) || o.w.unclear(o.minute) {
			return true
		}
		// The probes were evicted in this pass, or the rate limit did not allow their evictions.
		probes := 0
		for _, p := range o.w.pods {
			why := o.podfit.decisions[string(p.pod.UID)].Reason.Code
			if p != o.p && (p.last["evict"] == o.minute && p.lastAt == o.minute || why == decision.RateLimited || why == decision.OutOfTime) {
				probes++
			}
		}
		return probes >= 2 || probes == 1 && o.isFutile()
	},
	// An evicted pod has no replacement yet, or the watch may not show it yet. An eviction without a response may have been carried
	// out: until the watch must have shown the outcome, its replacement is awaited, too. After refused resizes, one pod is evicted to see
	// whether it is replaced. If that eviction is refused, the next pod has its turn in the next pass. If the rate limit does not allow
	// it, it is planned again in the next pass.
	"AwaitingReplacement": func(o observation) bool {
		evicted := o.state().evicted
		if slices.ContainsFunc(o.w.pods, func(p *replica) bool {
			why := o.podfit.decisions[string(p.pod.UID)].Reason.Code
			waits := o.sim.world.Rate > 0 && (why == decision.RateLimited || why == decision.OutOfTime)
			return p != o.p && (p.last["evict"] == o.minute && p.replies["evict"] != "" || waits)
		}) {
			return true
		}
		return o.watchShows(o.state().missing) || evicted >= 0 && o.minute-evicted <= unclear+o.sim.world.Lag || o.w.unclear(o.minute)
	},
	"Starting":    func(o observation) bool { return o.p.pod.Status.Phase == corev1.PodPending },
	"Unscheduled": func(o observation) bool { return o.p.pod.Spec.NodeName == "" },
	"RateLimited": func(o observation) bool { return o.sim.world.Rate > 0 },
	"OutOfTime":   func(o observation) bool { return o.sim.world.Rate > 0 },
	"BackingOff": func(o observation) bool {
		left := o.why().Until.Sub(o.sim.at(o.minute).Time)
		// After a new recommendation, the stale watch shows a pod of the old size only after the next eviction, as if it replaced that pod.
		since := slices.ContainsFunc(o.w.Advice, func(a advice) bool { return a.At > 0 && a.At <= o.minute })
		outdatedSize := o.sim.world.Lag > 0 && since
		// The stale watch does not show yet that a scale-down deletes a pod. The API server accepts its eviction, too.
		leaving := o.sim.world.Lag > 0 && len(o.w.Scales) > 0
		had := map[string]bool{
			"eviction": o.state().futile || (o.isTooLarge() || outdatedSize) && (o.state().evicted >= 0 || leaving), "deletion": o.state().deleted >= 0,
			"resize": o.w.undone > 0,
		}
		return left <= 6*time.Hour+time.Minute && had[o.why().Text]
	},
	"EffectUnknown": func(o observation) bool {
		return o.state().hidden && o.why().Until.Sub(o.sim.at(o.minute).Time) <= 6*time.Hour+time.Minute
	},
	"OverQuota": func(o observation) bool {
		// Changes of other pods in this pass, or that the rate limit did not allow, need the rest of the quota.
		pods := int64(1)
		for _, p := range o.w.pods {
			why := o.podfit.decisions[string(p.pod.UID)].Reason.Code
			if p != o.p && (p.lastAt == o.minute || why == decision.RateLimited || why == decision.OutOfTime) {
				pods++
			}
		}
		// A quota that podfit cannot read refused the resize of another pod, which is not tried again before its back-off ends.
		beside := !o.sim.world.Quotas && slices.ContainsFunc(o.w.pods, func(p *replica) bool {
			return p.over && o.minute-p.last["resize"] <= 105 && !o.w.hasFreed(o.p, p.overTotal, o.minute)
		})
		// While the kubelet has not completed a resize to a smaller size, podfit counts what the pod has.
		total := o.w.total(o.minute).CPU
		own := int64(0)
		for i := range o.p.pod.Spec.Containers {
			has := running(o.p.pod, i).Requests
			own += has.Cpu().MilliValue()
		}
		return beside || o.w.hard > 0 && o.w.requested()+(pods-1)*total+max(total, own) > o.w.hard
	},
	"ChangesTooOften": func(o observation) bool {
		return o.why().Until.Sub(o.sim.at(o.minute).Time) <= 6*time.Hour+time.Minute && o.state().evicted >= 0
	},
	"Unplaceable": func(o observation) bool {
		t, node := o.w.total(o.minute), o.sim.world.Node
		return o.sim.world.Nodes > 0 && (t.CPU > node.CPU || t.Memory > node.Memory || o.p.pod.Spec.NodeName == "")
	},
	"ResizeWaiting": resizeIs(corev1.PodResizePending, corev1.PodReasonDeferred),
	"AwaitingRoom":  func(o observation) bool { return !o.hasRoom() },
	// The other pod may be gone when the pass has ended.
	"RoomReserved": func(o observation) bool {
		now := o.sim.at(o.minute).Time
		if left := o.why().Until.Sub(now); left < -time.Minute || left > 5*time.Minute || o.hasRoom() && o.isAlone() {
			return false
		}
		for _, w := range o.sim.workloads {
			for _, p := range w.pods {
				if p.pod.Namespace+"/"+p.pod.Name == o.why().Text {
					return p != o.p && p.pod.Spec.NodeName == o.p.pod.Spec.NodeName
				}
			}
		}
		return true
	},
	"ResizeImpossible": resizeIs(corev1.PodResizePending, corev1.PodReasonInfeasible),
	"ResizeFailed": func(o observation) bool {
		return resizeIs(corev1.PodResizeInProgress, corev1.PodReasonError)(o) && o.w.Resizing.How == "error"
	},
	"MemoryInUse": func(o observation) bool {
		return resizeIs(corev1.PodResizeInProgress, corev1.PodReasonError)(o) && o.w.Resizing.How == "memory in use"
	},
	// The stale watch does not show yet that the kubelet has completed the resize, or that another client has undone it.
	"ResizeRunning": func(o observation) bool {
		if o.isRescueOverdue() {
			return false
		}
		return !isResized(o.p.pod) || o.w.undone > 0 && o.minute-o.p.last["resize"] <= unclear || o.watchShows(o.p.applied)
	},
	"ResizeStalled": func(o observation) bool {
		return o.sim.world.Rescue && o.w.Mode == "InPlace" && o.p.killed >= 0 && !isResized(o.p.pod) && o.minute-o.p.resized >= stuckAfter
	},
	"EvictionRefused":       refused("evict", "", "disruption budget does not"),
	"ServerNotReached":      func(o observation) bool { return o.p.replies["evict"] == notSent || o.p.replies["resize"] == notSent },
	"DeletionRefused":       refused("delete", "", ""), // the stale watch shows an outdated version of the pod, which is a precondition
	"DisruptionBudget":      refused("evict", disruptionBudget, ""),
	"ResizeRefused":         refused("resize", "", "exceeded quota"),
	"ResizeOverQuota":       refused("resize", "exceeded", ""),
	"NotSmallerThanRefused": refused("resize", "node didn't have enough", ""),
	"Unanswered": func(o observation) bool {
		if o.sim.world.Rate > 0 {
			return true // the pass ended before the request was sent, for example while waiting for the rate limit
		}
		for _, what := range []string{noReply, "done"} { // done: the reply was lost
			if o.p.replies["evict"] == what || o.p.replies["resize"] == what {
				return true
			}
		}
		return false
	},
}

// isTooLarge reports whether a recommendation so far fits on no node. The simulated webhook gives new pods that size, but podfit expects
// what fits on the largest node.
func (o observation) isTooLarge() bool {
	return o.sim.world.Nodes > 0 && slices.ContainsFunc(o.w.Advice, func(a advice) bool {
		t, node := o.w.total(a.At), o.sim.world.Node
		return a.At <= o.minute && (t.CPU > node.CPU || t.Memory > node.Memory)
	})
}

// isFutile reports whether an eviction had no effect: the replacement did not have the recommended size, or it fits no node.
func (o observation) isFutile() bool {
	return o.state().futile || o.isTooLarge() && o.state().evicted >= 0
}

// showsOldKill reports whether the last OOM kill that the watch shows of the pod is older than those that count for a rescue.
func (o observation) showsOldKill() bool {
	shown := o.inWatch[o.p.pod.UID]
	if shown == nil || len(shown.Status.ContainerStatuses) == 0 {
		return false
	}
	last := shown.Status.ContainerStatuses[0].LastTerminationState.Terminated
	return last != nil && o.sim.started.Add(time.Duration(o.minute)*time.Minute).Sub(last.FinishedAt.Time) >= rescueFor*time.Minute-time.Minute
}

// hasRoom reports whether the node of the pod has room for the recommended target. As for the scheduler, a pod that is asked to shrink
// keeps its capacity until the kubelet has resized it.
func (o observation) hasRoom() bool {
	if o.sim.world.Nodes == 0 {
		return true
	}
	used := o.w.total(o.minute)
	for _, w := range o.sim.workloads {
		for _, p := range w.pods {
			if p == o.p || p.pod.Spec.NodeName != o.p.pod.Spec.NodeName {
				continue
			}
			for i := range p.pod.Spec.Containers {
				asks, has := p.pod.Spec.Containers[i].Resources.Requests, running(p.pod, i).Requests
				used.CPU += max(asks.Cpu().MilliValue(), has.Cpu().MilliValue())
				used.Memory += max(asks.Memory().Value(), has.Memory().Value()) >> 20
			}
		}
	}
	return used.CPU <= o.sim.world.Node.CPU && used.Memory <= o.sim.world.Node.Memory
}

// isAlone reports whether no other pod has the node of the pod.
func (o observation) isAlone() bool {
	return !slices.ContainsFunc(o.sim.workloads, func(w *simulated) bool {
		return slices.ContainsFunc(w.pods, func(p *replica) bool { return p != o.p && p.pod.Spec.NodeName == o.p.pod.Spec.NodeName })
	})
}

// disruptionBudget is in the reply to an eviction that a disruption budget does not allow.
const disruptionBudget = "violate the pod's disruption budget"

// isRescuingOther reports whether the replacement of a deleted pod is not ready yet, or the deletion may have been carried out. A stale
// watch shows later that it is ready. Of several new pods of a ReplicaSet, podfit does not know which one replaces the deleted pod.
func isRescuingOther(o observation) bool {
	st := o.state()
	recent := func(at int) bool { return o.minute-at <= unclear+o.sim.world.Lag }
	if st.deleted >= 0 && (recent(st.deletedAt) || o.sim.world.Lag > 0 || !o.isReplaced(o.w, st.deleted)) {
		return true
	}
	return slices.ContainsFunc(o.w.pods, func(p *replica) bool {
		created := o.sim.createdAt(p)
		isNew := st.deleted >= 0 && !o.w.StatefulSet && created > st.deletedAt && !isReady(p.pod) && o.minute-created < stuckAfter
		return isNew || p.replies["delete"] == noReply && recent(p.last["delete"])
	})
}

// isBudgetOfOthers reports whether the disruption budget would not allow the eviction if the pods that were OOM-killed minutes ago were
// ready. A stale watch shows later which ones are.
func (o observation) isBudgetOfOthers() bool {
	of := 0
	for _, b := range o.w.PDBs {
		if b.FirstOnly && o.number != 0 {
			continue
		}
		of++
		healthy, desired := o.w.health(b)
		for _, p := range o.w.pods {
			if (!b.FirstOnly || p.number == 0) && p.pod.DeletionTimestamp == nil && !isReady(p.pod) && p.killed > o.oldest()-rescueFor {
				healthy++
			}
		}
		if healthy < desired {
			return true
		}
	}
	return of > 1 || o.sim.world.Lag > 0
}

// isShort reports whether pods are missing or not ready, or were changed recently, or may have been changed.
func isShort(o observation) bool {
	for _, p := range o.w.pods {
		if p.lastAt >= o.minute && (isTemporary(p.replies["evict"]) || isTemporary(p.replies["resize"])) {
			return true // in this pass: podfit does not send the next request immediately to an overloaded or unresponsive server
		}
	}
	return o.w.unclear(o.minute) || o.w.count().ready < o.w.Replicas || o.state().acted >= o.minute-1-o.sim.world.Lag
}

// unclear reports whether podfit cannot know yet whether one of the pods was evicted: an eviction had no response, and the watch
// may be stale.
func (w *simulated) unclear(minute int) bool {
	return slices.ContainsFunc(w.pods, func(p *replica) bool {
		return p.replies["evict"] == noReply && minute-p.last["evict"] <= unclear
	})
}

// isTemporary reports whether the next attempt may succeed after a reply.
func isTemporary(reply string) bool {
	return slices.Contains([]string{noReply, notSent, faults[busy429].Message, faults[failed500].Message, faults[conflict].Message}, reply)
}

// failsAll reports whether all requests with a verb fail in a minute, whatever the pod is, and may succeed later.
func (w *simulated) failsAll(verb string, minute int) bool {
	return slices.ContainsFunc(w.Faults, func(f fault) bool {
		temporary := slices.Contains([]string{noReply, notSent, busy429, failed500, conflict}, f.What)
		return f.Verb == verb && temporary && !f.First && f.Every == 0 && f.When.open(minute)
	})
}

// resizeIs returns a function that reports whether the pod has a resize condition of a type with a reason.
func resizeIs(t corev1.PodConditionType, reason string) func(observation) bool {
	return func(o observation) bool {
		c := condition(o.p.pod, t)
		return c != nil && c.Reason == reason
	}
}

// refused returns a function that reports whether the last reply to a request for the pod was a refusal that contains one text and
// does not contain another.
func refused(verb, with, without string) func(observation) bool {
	return func(o observation) bool {
		text := o.p.replies[verb]
		return isRefusal(text) && strings.Contains(text, with) && (without == "" || !strings.Contains(text, without))
	}
}

func isRefusal(reply string) bool { return reply != "" && reply != "done" }

func (o observation) state() *state { return &o.states[o.w.index] }

// wanted returns the recommended target in a minute.
func (w *simulated) wanted(minute int) size {
	t := w.Advice[0].Target
	for _, a := range w.Advice {
		if a.At <= minute {
			t = a.Target
		}
	}
	return t
}

// exceedsQuota reports whether the recommended size of a pod exceeds the quota.
func (w *simulated) exceedsQuota(p *replica, minute int) bool {
	return w.hard > 0 && w.requested()-cpu(p.pod)+w.total(minute).CPU > w.hard
}

// exceedsQuotaBeside reports whether another pod of the recommended size exceeds the quota.
func (w *simulated) exceedsQuotaBeside(minute int) bool {
	return w.hard > 0 && w.requested()+w.total(minute).CPU > w.hard
}

// minimum returns the minimum number of pods for an eviction.
func (w *simulated) minimum(in *world) int {
	if w.MinReplicas > 0 {
		return int(w.MinReplicas)
	}
	return in.Min
}

// scheduled returns the number of pods with a node.
func (w *simulated) scheduled() (n int) {
	for _, p := range w.pods {
		if p.pod.DeletionTimestamp == nil && p.pod.Spec.NodeName != "" {
			n++
		}
	}
	return n
}

// sameSize reports whether a replacement would have about the size of the pod.
func (w *simulated) sameSize(p *corev1.Pod) bool {
	r, _, err := w.provider.GetContainersResourcesForPod(p, w.vpa)
	if err != nil {
		panic(err)
	}
	near := func(a, b int64, least int64) bool { return a-b <= least && b-a <= least }
	for i := range r {
		has, want := running(p, i), corev1.ResourceRequirements{Requests: r[i].Requests, Limits: r[i].Limits}
		same := near(want.Requests.Cpu().MilliValue(), has.Requests.Cpu().MilliValue(), 1) &&
			near(want.Requests.Memory().Value(), has.Requests.Memory().Value(), 4096) &&
			near(want.Limits.Cpu().MilliValue(), has.Limits.Cpu().MilliValue(), 1) &&
			near(want.Limits.Memory().Value(), has.Limits.Memory().Value(), 4096)
		if !same {
			return false
		}
	}
	return true
}

// compare compares the pods with those of upstream at the end of a minute (P1, P5).
func (c *checker) compare(minute int) {
	var satisfied, explained, wanted, pods, undone int
	var ready, unready, theirReady int
	for i, w := range c.sim.workloads {
		st, ours, theirs := &c.states[i], w.count(), c.reference.counts[minute][i]
		st.look(ours, w.Replicas, minute)
		because, becauseUnready := 0, 0
		if theirs.satisfied > ours.satisfied {
			because = c.explained(w, minute, w.satisfied)
		}
		if theirs.ready > ours.ready {
			becauseUnready = c.explained(w, minute, func(p *replica) bool { return isReady(p.pod) })
		}
		satisfied += ours.satisfied
		explained += because
		pods += w.Replicas
		wanted += theirs.satisfied
		undone += w.undone
		st.behind.note(theirs.satisfied-ours.satisfied, because, w.undone)
		st.lacking.note(theirs.ready-ours.ready, becauseUnready, w.undone)
		ready += ours.ready
		unready += becauseUnready
		theirReady += theirs.ready
		if c.sim.world.Rate == 0 && st.behind.exceeds(grace*(1+c.sim.world.Lag), w.undone) {
			c.fail(minute, "no fewer pods are satisfied than with upstream", "%d of %s, with upstream %d: %s", ours.satisfied, w.namespace, theirs.satisfied, c.reasons(w))
		}
		// Under a rate limit, it differs which workload has its turn first, and until then its pods with too little memory are killed.
		// All workloads are compared together below.
		killed := c.sim.world.Rate > 0 && w.OOM.NeedMB > 0
		if !killed && st.lacking.exceeds(2*grace+w.Delay+w.Grace+w.Start, w.undone) {
			c.fail(minute, "no fewer pods are ready than with upstream", "%d of %s, with upstream %d: %s", ours.ready, w.namespace, theirs.ready, c.reasons(w))
		}
	}
	c.behind.note(wanted-satisfied, explained, undone)
	c.lacking.note(theirReady-ready, unready, undone)
	if c.sim.world.Rate == 0 {
		return
	}
	// Each refused action may use up one token of the rate limit.
	most := grace*(1+c.sim.world.Lag) + int(float64(2+pods)/c.sim.world.Rate)
	if c.behind.exceeds(most, undone) {
		c.fail(minute, "no fewer pods are satisfied than with upstream", "%d in all, with upstream %d: %s", satisfied, wanted, c.allReasons())
	}
	if c.lacking.exceeds(grace+most, undone) {
		c.fail(minute, "no fewer pods are ready than with upstream", "%d in all, with upstream %d: %s", ready, theirReady, c.allReasons())
	}
}

// look stores whether pods are missing or not ready in a minute.
func (st *state) look(has count, wanted, minute int) {
	if has.pods < wanted {
		st.missing = minute
	}
	if has.ready < wanted {
		st.unready = minute
	}
}

// watchShows reports whether the watch still shows what was true in an earlier minute.
func (o observation) watchShows(last int) bool { return o.minute-last <= o.sim.world.Lag }

// A lag counts passes with fewer pods than upstream has that no difference explains. It restarts only when podfit has as many pods
// as upstream: passes with an explanation do not count, and do not reset it, so that an explanation that comes and goes cannot hide
// that podfit stays behind.
type lag struct {
	passes int
	undone int // resizes that had been undone when podfit last had as many pods as upstream
}

// note counts a pass with a number of missing pods, of which a number is explained. undone is how many resizes have been undone.
func (l *lag) note(missing, explained, undone int) {
	switch {
	case missing <= 0:
		*l = lag{undone: undone}
	case missing > explained:
		l.passes++
	}
}

// exceeds reports whether podfit has been behind for longer than a number of passes. Where resizes are undone again and again, the
// number of pods need not reach upstream's in any pass, and each one that is undone costs a pass: until the pod is resized again.
func (l *lag) exceeds(passes, undone int) bool { return l.passes > passes+undone-l.undone }

// reasons formats podfit's decisions about the pods of a workload.
func (c *checker) reasons(w *simulated) string {
	var out []string
	for _, p := range w.pods {
		if d, ok := c.podfit.decisions[string(p.pod.UID)]; ok {
			out = append(out, p.pod.Name+" "+d.Do.String()+": "+d.Reason.String())
		}
	}
	return strings.Join(out, "; ")
}

// allReasons formats podfit's decisions about all pods.
func (c *checker) allReasons() string {
	var out []string
	for _, w := range c.sim.workloads {
		out = append(out, c.reasons(w))
	}
	return strings.Join(out, "; ")
}

// settled reports whether every pod is satisfied and ready, and no more events will occur.
func (c *checker) settled(minute int) bool {
	if c.sim.next(minute) < c.sim.world.Minutes {
		return false
	}
	for _, w := range c.sim.workloads {
		if n := w.count(); n.satisfied < w.Replicas || n.ready < w.Replicas || len(w.pods) > w.Replicas || w.OOM.NeedMB > 0 {
			return false
		}
		if w.Undo > 0 && slices.ContainsFunc(w.pods, func(p *replica) bool { return p.resized > 0 }) {
			return false // the resize is undone later
		}
	}
	return true
}

// explained returns the number of pods that are missing or not well because of a named difference.
func (c *checker) explained(w *simulated, minute int, isWell func(*replica) bool) int {
	n := 0
	for number := range w.Replicas {
		var p *replica
		for _, o := range w.pods {
			if o.number == number && (p == nil || o.pod.DeletionTimestamp == nil) {
				p = o
			}
		}
		if p != nil && isWell(p) {
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

// An observation is a replica that is missing, unsatisfied or not ready.
type observation struct {
	*checker
	w      *simulated
	number int
	p      *replica // nil if it is missing
	minute int
}

// why returns podfit's reason not to change the pod; the zero Reason if there is none.
func (o observation) why() decision.Reason {
	if o.p == nil {
		return decision.Reason{}
	}
	d := o.podfit.decisions[string(o.p.pod.UID)]
	if d.Do != decision.Leave {
		return decision.Reason{}
	}
	return d.Reason
}

// A difference is a cause for fewer satisfied or ready pods than with upstream.
type difference struct {
	name         string // as in docs/migrate.md
	circumstance bool   // not intended, and not in docs/migrate.md: it results from changes at other times than upstream's
	reason       string
	explains     func(observation) bool
}

var differences = []difference{
	{
		name: "under way", circumstance: true, reason: "a pod that is being replaced counts again when its replacement is due",
		explains: func(o observation) bool {
			if o.p == nil {
				since := o.w.vacant[o.number]
				return since < 0 || o.minute-since <= o.w.Delay+1 && o.w.refused == 0
			}
			return o.p.pod.DeletionTimestamp != nil || o.p.pod.Spec.NodeName != "" && o.minute < o.p.readyAt
		},
	},
	{
		name: "W-14 pods that are not ready", reason: "podfit waits until evicted pods are ready again; upstream counts pods that are not ready",
		explains: func(o observation) bool {
			why := o.why().Code
			return (why == decision.NotReady || why == decision.BudgetSpent) && o.watchShows(o.state().unready)
		},
	},
	{
		// While all evictions fail, podfit sends one request for the workload in each pass.
		name: "W-14 pods that are not ready", reason: "upstream had evicted more pods when evictions began to fail, because it had not waited until evicted pods were ready again",
		explains: func(o observation) bool {
			why := o.why().Code
			return (why == decision.NotReady || why == decision.BudgetSpent) && o.w.failsAll("evict", o.minute)
		},
	},
	{
		name: "W-13 ineffective evictions", reason: "podfit backs off from a workload whose replacements did not have the recommended size",
		explains: func(o observation) bool {
			backs := o.why().Code == decision.BackingOff && o.why().Text == "eviction" || o.why().Code == decision.Probing
			return backs && o.isFutile()
		},
	},
	{
		name: "W-13 ineffective evictions", reason: "podfit backs off from a workload whose replacements do not show whether evictions have an effect",
		explains: func(o observation) bool { return o.why().Code == decision.EffectUnknown },
	},
	{
		name: "W-13 ineffective evictions", reason: "podfit evicts two pods at most until their replacements show that evictions have an effect",
		explains: func(o observation) bool {
			return o.why().Code == decision.Probing && (len(o.w.effects.evicted) > 0 || o.watchShows(o.state().evicted) || o.w.unclear(o.minute))
		},
	},
	{
		name: "W-13 ineffective evictions", reason: "podfit backs off from a pod whose resizes are undone",
		explains: func(o observation) bool {
			return o.why().Code == decision.BackingOff && o.why().Text == "resize" && o.w.Undo > 0
		},
	},
	{
		// Upstream resizes the pod again in the pass after each undone resize, and has all pods resized when podfit ends a back-off.
		name: "W-13 ineffective evictions", reason: "after the back-off from undone resizes, podfit resizes the pod once, and the kubelet needs time for it",
		explains: func(o observation) bool {
			again := o.p != nil && o.p.resizes > 1 && o.w.undone > 0
			return again && o.p.resized > 0 && o.minute-o.p.resized <= o.w.Resizing.For+1
		},
	},
	{
		name: "recommendations that keep changing", reason: "podfit backs off from a workload whose replacements are outside the bounds again",
		explains: func(o observation) bool { return o.why().Code == decision.ChangesTooOften },
	},
	{
		name: "nodes for the replacement", reason: "podfit does not evict a pod whose replacement fits on no node",
		explains: func(o observation) bool { return o.why().Code == decision.NoNodeFits && o.sim.world.Nodes > 0 },
	},
	{
		name: "full nodes", circumstance: true, reason: "other pods use the free capacity of the node; upstream lost pods, or moved them to other nodes",
		explains: func(o observation) bool {
			homeless := o.w.scheduled() < o.w.count().pods
			if o.p != nil && o.why().Code == decision.AwaitingRoom {
				return !o.hasRoom()
			}
			if o.why().Code == decision.RoomReserved {
				return true // for at most 5 minutes, see reasons
			}
			if o.p != nil && o.sim.world.Rescue && o.p.killed >= 0 && o.w.Mode == "InPlaceOrRecreate" {
				// It waits for room, too, and its reason is why it is not rescued otherwise in the meantime.
				switch o.why().Code {
				case decision.DisruptionBudget, decision.BudgetOfOthers, decision.FewKills, decision.RescueInProgress:
					return !o.hasRoom()
				default:
				}
			}
			total := o.w.total(o.minute)
			grows := o.p != nil && (total.CPU > cpu(o.p.pod) || total.Memory > memory(o.p.pod))
			if grows && o.why().Code == decision.TooFewReplicas && o.p.resizes > 0 && isResized(o.p.pod) {
				return !o.hasRoom() // it has a part of its increase, and is not evicted for the rest
			}
			if o.p != nil && o.sim.world.Nodes > 0 && resizeIs(corev1.PodResizePending, corev1.PodReasonDeferred)(o) {
				// The pod that was resized first on this node uses its capacity. Neither updater evicts a pod of a workload with too few
				// replicas.
				full := !o.sim.fits(o.p.pod.Spec.NodeName, o.p, cpu(o.p.pod), memory(o.p.pod))
				return full && (o.why().Code == decision.ResizeWaiting || o.why().Code == decision.TooFewReplicas)
			}
			return o.p != nil && homeless && (o.p.pod.Spec.NodeName == "" || o.why().Code == decision.TooFewReplicas)
		},
	},
	{
		name: "evictions under a quota", reason: "podfit does not evict or resize a pod if the replacement would not get the recommended size because of a quota",
		explains: func(o observation) bool {
			return o.why().Code == decision.OverQuota && o.w.exceedsQuotaBeside(o.minute)
		},
	},
	{
		name: "resizes over quota", reason: "podfit does not evict a pod whose replacement the quota rejects; upstream does, and its other pods use the free quota",
		explains: func(o observation) bool {
			// Without the right to read quotas, podfit knows what a quota refused, and not how much the quota has left. While resizes fail
			// for another reason, the quota does not answer. podfit knows only that there is room again when the workload requests so
			// much less than at the time of the refusal. Upstream evicts the pod whether or not there is room.
			unknown := o.p != nil && !o.sim.world.Quotas && o.p.overTotal != size{} && isRefusal(o.p.replies["resize"]) && !o.w.hasFreed(o.p, o.p.overTotal, o.minute)
			return o.p != nil && (unknown || o.w.exceedsQuota(o.p, o.minute))
		},
	},
	{
		name: "temporary resize failures", reason: "podfit repeats a resize for a while before it evicts the pod if the server is overloaded or unresponsive or a webhook fails",
		explains: func(o observation) bool {
			if o.p == nil || o.w.Mode != "InPlaceOrRecreate" {
				return false
			}
			since, last := o.p.since["resize"], o.p.last["resize"]
			// Attempts without a connection count in the back-off, but their time is not a time of failures.
			refused := slices.ContainsFunc(o.w.Faults, func(f fault) bool { return f.Verb == "resize" && f.What == notSent })
			if o.minute-since > 45 && !(refused && o.minute-last <= last-since+2) {
				return false
			}
			switch o.why().Code.String() {
			case "ResizeRefused", "ServerNotReached", "Unanswered", "BudgetSpent", "NotReady": // pods of a group are resized one after the other
				return isTemporary(o.p.replies["resize"])
			}
			return false
		},
	},
	{
		name: "temporary resize failures", reason: "podfit does not evict a pod because no connection could be opened for its resize; the API server has refused nothing",
		// Upstream evicts the pod: it cannot open a connection for the resize, but one for the eviction a moment later. When
		// connections are possible again, podfit continues after the back-off, which is about as long as they were refused.
		explains: func(o observation) bool {
			if o.p == nil || o.p.replies["resize"] != notSent {
				return false
			}
			refused := slices.ContainsFunc(o.w.Faults, func(f fault) bool {
				return f.Verb == "resize" && f.What == notSent && f.When.open(o.minute)
			})
			return refused || o.minute-o.p.lastAt <= o.p.lastAt-o.p.since["resize"]+2
		},
	},
	{
		name: "refused resizes of several pods", reason: "podfit evicts the pods one by one, each after the previous one has been replaced",
		explains: func(o observation) bool {
			return o.why().Code.String() == "AwaitingReplacement" && o.minute-o.state().evicted <= 10+o.w.Delay+o.w.Grace+o.w.Start
		},
	},
	{
		name: "missing replacements", reason: "podfit stops evictions for a controller that does not replace evicted pods",
		explains: func(o observation) bool {
			return o.why().Code.String() == "ReplacementMissing" && o.watchShows(o.state().missing)
		},
	},
	{
		name: "refused actions", reason: "podfit repeats refused actions with a growing back-off; upstream repeats them every minute, so it succeeds earlier when the refusals end",
		explains: func(o observation) bool {
			verb := map[string]string{
				"TooFewReplicas":  "resize", // until the next attempt to resize
				"EvictionRefused": "evict", "DisruptionBudget": "evict", "ResizeRefused": "resize", "ResizeOverQuota": "resize", "Unanswered": "evict",
				"RescueInProgress": "evict", "FewKills": "evict", "BudgetOfOthers": "evict", "NotEnoughMemory": "evict", // why the pod is not deleted instead
			}[o.why().Code.String()]
			if o.why().Code == decision.ServerNotReached {
				verb = "evict"
				if o.p.replies["resize"] == notSent {
					verb = "resize"
				}
			}
			if o.why().Code.String() == "Unanswered" && o.w.Mode == "InPlace" {
				verb = "resize"
			}
			if verb == "" || !isRefusal(o.p.replies[verb]) {
				return false
			}
			few := o.why().Code == decision.TooFewReplicas
			rescue := slices.Contains([]decision.ReasonCode{decision.RescueInProgress, decision.FewKills, decision.BudgetOfOthers, decision.NotEnoughMemory}, o.why().Code)
			// These are reasons not to delete a pod, which is only considered after a disruption budget refused its eviction. They have no
			// time of the next eviction, but it is the same: upstream repeats the eviction every minute, and podfit after its back-off.
			if rescue && (!o.sim.world.Rescue || o.p.killed < 0 || !refused("evict", disruptionBudget, "")(o)) {
				return false
			}
			// Neither updater evicts pods of a workload with too few pods.
			evictable := o.w.Replicas >= o.w.minimum(o.sim.world)
			// A pod whose resize exceeds a quota is not evicted; the resize is repeated after the back-off, even if the quota is free
			// earlier.
			instead := !few && evictable && o.why().Code != decision.ResizeOverQuota
			if verb == "resize" && o.w.Mode != "InPlace" && instead && !isRefusal(o.p.replies["evict"]) {
				return false // podfit should have evicted the pod
			}
			// The back-off is about as long as the refusals have lasted: those of the resize and of the eviction that replaces it.
			since := o.p.since[verb]
			if verb == "evict" && o.w.Mode == "InPlaceOrRecreate" && isRefusal(o.p.replies["resize"]) {
				since = min(since, o.p.since["resize"])
			}
			until := o.minute
			if !few && !rescue {
				until = int(o.why().Until.Sub(o.sim.started) / time.Minute)
			}
			const slack = 2
			return o.minute <= until+1 && until-o.p.lastAt <= o.p.lastAt-since+slack
		},
	},
	{
		// The pod waits for the eviction of another one, but that fails, too. Upstream would have resized it in the meantime.
		name: "refused actions", reason: "podfit repeats a refused resize after its back-off, also while the evictions that replace refused resizes fail",
		explains: func(o observation) bool {
			if o.p == nil || o.why().Code != decision.AwaitingReplacement || !isRefusal(o.p.replies["resize"]) {
				return false
			}
			fails := slices.ContainsFunc(o.w.pods, func(p *replica) bool { return isRefusal(p.replies["evict"]) })
			last := o.p.last["resize"]
			return fails && o.minute-last <= last-o.p.since["resize"]+2
		},
	},
	{
		name: "refused actions", reason: "a refused resize succeeds later than with upstream, and the kubelet needs the same time for it",
		explains: func(o observation) bool {
			takes := o.p != nil && o.p.late && o.w.Mode == "InPlace" && o.minute-o.p.resized <= o.w.Resizing.For+1
			switch o.why().Code {
			case decision.ResizeFailed, decision.ResizeRunning, decision.ResizeWaiting, decision.MemoryInUse, decision.ResizeImpossible:
				return takes
			default:
				return false
			}
		},
	},
	{
		// The eviction may have been carried out, and the watch may show it minutes later: another eviction could exceed the number
		// of pods that may be unavailable. Upstream counts it as not carried out. After five minutes the watch has shown the outcome.
		// This does not apply to refusals, such as those of an overloaded server, nor to refused connections.
		name: "missing responses", reason: "for five minutes after an eviction without a response, podfit counts the pod as evicted",
		explains: func(o observation) bool {
			why := o.why().Code
			return (why == decision.NotReady || why == decision.BudgetSpent) && o.w.unclear(o.minute)
		},
	},
	{
		name: "stale watch", circumstance: true, reason: "the last OOM kill that a stale watch shows is too old for a rescue",
		explains: func(o observation) bool {
			return o.p != nil && o.why().Code == decision.PodTooYoung && o.sim.world.Lag > 0 && o.p.killed >= o.minute-rescueFor && o.showsOldKill()
		},
	},
	{
		name: "scaled up beyond a quota", circumstance: true, reason: "whether the quota admits a pod that a scale-up adds depends on which pods were resized before",
		explains: func(o observation) bool {
			return o.p == nil && o.w.refused > 0 && o.w.Replicas > o.described(o.w).fewest(o.minute)
		},
	},
	{
		name: "scaled up beyond a quota", circumstance: true,
		reason: "podfit's webhook leaves a new pod its own size where a quota rejects the recommended one, and the kubelet cannot resize it; upstream's pod was rejected until the quota had room",
		explains: func(o observation) bool {
			added := o.p != nil && o.sim.createdAt(o.p) > 0 && o.w.Replicas > o.described(o.w).fewest(0)
			return added && o.sim.world.Quotas && o.w.hard > 0 && o.w.Mode == "InPlace" && o.why().Code == decision.ResizeImpossible
		},
	},
	{
		name: "unscheduled below the minimum", circumstance: true,
		reason: "podfit evicts a pod without a node, which serves nothing, so that its replacement has the recommended size and gets a node; that pod is not evicted again. With upstream the pod stays without a node, and a later recommendation may happen to be its size",
		explains: func(o observation) bool {
			return o.why().Code == decision.TooFewReplicas && o.state().placed && o.w.Replicas < o.w.minimum(o.sim.world)
		},
	},
	{
		name: "scaled below the minimum", circumstance: true, reason: "neither updater evicts a pod of a workload with too few replicas; which pods were changed before differs",
		explains: func(o observation) bool {
			return o.why().Code == decision.TooFewReplicas && len(o.w.Scales) > 0 && o.w.Replicas < o.w.minimum(o.sim.world)
		},
	},
	{
		name: "lost to a quota", circumstance: true, reason: "in modes that evict, both updaters lose pods up to the eviction tolerance before the quota is known; which and how many differs",
		explains: func(o observation) bool {
			// podfit that may read quotas, and its webhook, lose none for long.
			if o.p != nil || o.w.refused == 0 || o.sim.world.Quotas {
				return false
			}
			missing := o.w.Replicas - o.w.count().pods
			tolerance := max(1, int(float64(o.described(o.w).most())*o.sim.world.Tolerance)) // before a scale-down, more could be missing
			has := func(matches func(fault) bool) bool { return slices.ContainsFunc(o.w.Faults, matches) }
			switch {
			case o.w.Mode == "Recreate" || o.w.Mode == "Auto":
				return missing <= tolerance
			case o.w.Mode != "InPlaceOrRecreate":
				return false
			// Pods whose resize the node refuses are evicted. And a quota that admits the size that podfit expects may reject that of the
			// simulated webhook, see isTooLarge.
			case has(func(f fault) bool { return f.What == nodeTooBig }) || o.isTooLarge():
				return missing <= tolerance
			// The replacement gets a recommendation that is newer than the eviction. Upstream evicts at another time.
			case slices.ContainsFunc(o.w.Advice, func(a advice) bool { return a.At >= o.state().evicted && a.At <= o.state().evicted+o.w.Delay+1 }):
				return missing <= tolerance
			// After other refusals, one pod at a time is evicted until the quota rejects a replacement. Without a rate limit, upstream loses
			// as many pods. With one, it may use it up on refused resizes: it loses no pod then, and updates none.
			case has(func(f fault) bool { return f.Verb == "resize" && o.sim.world.Rate > 0 }):
				return missing <= 1
			}
			return false
		},
	},
	{
		name: "memory limit below usage", reason: "podfit waits until the memory limit can be lowered",
		explains: func(o observation) bool { return o.why().Code == decision.MemoryInUse },
	},
	{
		name: "W-19 deferred resizes", reason: "podfit sends another resize after the kubelet has finished the last one; upstream replaces a deferred resize",
		explains: func(o observation) bool {
			why := o.why().Code
			return o.w.Mode == "InPlace" && (why == decision.ResizeWaiting || why == decision.ResizeRunning)
		},
	},
	{
		// Upstream has resized more pods when resizes begin to fail. podfit repeats a failed resize of one pod in each pass.
		name: "W-19 deferred resizes", reason: "podfit resizes pods within the eviction tolerance; upstream resizes all pods at once",
		explains: func(o observation) bool {
			why := o.why().Code
			return o.w.Mode == "InPlace" && (why == decision.BudgetSpent || why == decision.NotReady) && slices.ContainsFunc(o.w.pods, func(p *replica) bool {
				return p.last["resize"] == o.minute && isTemporary(p.replies["resize"])
			})
		},
	},
	{
		// The kubelet reports an error while it repeats the resize by itself. A pod that has the recommended size again keeps its obsolete
		// resize until the kubelet has completed it, and is resized after that.
		name: "W-19 deferred resizes", reason: "podfit resizes pods within the eviction tolerance, so a later pod is resized later, and the kubelet needs the same time for it",
		explains: func(o observation) bool {
			if o.w.Mode != "InPlace" || o.why().Code != decision.ResizeFailed || o.minute-o.p.resized > o.w.Resizing.For+1 {
				return false
			}
			return o.p.resizes == 1 || len(o.w.Advice) > 1 && o.p.applied > 0 && o.p.applied <= o.p.resized
		},
	},
	{
		// Both evict a pod whose resize has failed. Then the workload has too few pods for changes, until the pod is replaced.
		name: "W-19 deferred resizes", reason: "podfit resizes pods within the eviction tolerance; upstream had resized all pods at once when the resize of one failed",
		explains: func(o observation) bool {
			return o.w.Mode == "InPlaceOrRecreate" && o.w.Resizing.How == "error" && o.why().Code == decision.TooFewReplicas
		},
	},
	{
		name: "W-20 duration of a resize", reason: "podfit measures from the time in the condition, upstream from when it first saw the name of the pod",
		explains: func(o observation) bool {
			why := o.why().Code
			return o.w.Mode == "InPlaceOrRecreate" && (why == decision.ResizeWaiting || why == decision.ResizeRunning)
		},
	},
	{
		// The disruption budget or the minimum number of replicas does not allow changes of the rescued pods, which are ready. Upstream's
		// pods never got the larger size.
		name: "OOM rescue", reason: "rescued pods keep a size that was recommended when they were OOM-killed; upstream left them too small, as is recommended now",
		explains: func(o observation) bool {
			why := o.why().Code
			return o.state().rescued && len(o.w.Advice) > 1 && (why == decision.DisruptionBudget || why == decision.TooFewReplicas)
		},
	},
	{
		name: "W-13 unchanged size", reason: "podfit does not evict a pod whose replacement would have the same size",
		explains: func(o observation) bool { return o.why().Code == decision.SameSize },
	},
}
