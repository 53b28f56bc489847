// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"podfit.dev/podfit/internal/core/backoff"
	"podfit.dev/podfit/internal/core/canary"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/decision"
	"podfit.dev/podfit/internal/core/disruption"
	"podfit.dev/podfit/internal/core/headroom"
	"podfit.dev/podfit/internal/core/ledger"
	"podfit.dev/podfit/internal/core/occupancy"
	"podfit.dev/podfit/internal/core/placement"
	"podfit.dev/podfit/internal/core/quota"
	"podfit.dev/podfit/internal/core/radius"
	"podfit.dev/podfit/internal/core/rescue"
	"podfit.dev/podfit/internal/core/selection"
)

// A Pass is the decisions of one updater pass. The caller carries them out and reports the outcome of each: Done, Refused, Gone or
// Stopped. A decision that was not carried out returns its budget, and the pass returns the decisions that take its place. A pass
// ends, because each pod is resized at most once and evicted at most once.
//
// A Pass is not safe for concurrent use.
type Pass struct {
	pass
	ds      []decision.Decision
	entries []entry           // of ds, in the same order
	byUID   map[string]*entry // the entries by the UID of their pod; nil until it is needed

	queues map[queueKey][]*entry // decisions that wait for budget, a probe or a canary, by rank; nil until they are needed

	// Elapsed is how long after the begin of the pass the next outcome is reported. A change takes from the disruption budget from then on.
	Elapsed time.Duration
}

// replacementFor is how long the replacement of an evicted pod may take. After that, no pod of its controller is evicted until the
// controller has all its pods.
const replacementFor = 5 * time.Minute

// A queueKey identifies pods that wait for the same budget.
type queueKey struct {
	group  *disruption.Group
	health disruption.Health
}

// Begin decides on every governed pod that lives.
func Begin(now time.Time, w World, b Budget) *Pass {
	if w.Ledger == nil {
		w.Ledger = ledger.New()
	}
	p := &Pass{pass: pass{now: now, w: w, b: b, quotas: &quota.Book{Limits: w.Limits, Ledger: w.Ledger}, sizes: placement.SizesOf(w.Nodes, w.Selectors, w.Tolerations, w.Fleet), scopes: map[*cluster.Autoscaler]*scope{}}}
	p.sizes.TakeForNew(now, w.Pods)
	p.occupancy = &occupancy.Book{
		Now: now, MakeRoom: b.MakeRoom, SchedulerPreempts: w.SchedulerPreempts, DeferredFor: b.DeferredFor, Threshold: b.Threshold, InPlace: b.InPlace,
		Limits: w.Limits, Nodes: w.Nodes, Pods: w.Pods, Sizes: p.sizes, Ledger: w.Ledger,
	}
	p.radius = radius.NewBook(now, b.Shares, w.Requested, w.Ledger)
	p.headroom = headroom.New(now, headroom.Rules{Provider: w.Provider, Delays: b.Delays}, w.Ledger.Headroom, w.Requests, w.Pods)
	p.canaries = &canary.Book{Now: now, States: w.Ledger.ObserveCanaries(now, p.view()), NotStored: w.NotStored}
	p.windows.Now = now
	p.counter = &disruption.Counter{Now: now, Limits: &p.b.Limits, Need: &p.b.Rules, Scales: w.Scales, Ledger: w.Ledger}
	p.short, p.counter.Complete = w.Ledger.Shortages(now, p.view(), replacementFor)
	p.backoffs = &backoff.Book{Counter: p.counter, Delays: &p.b.Delays}
	p.rescues = &rescue.Book{Mode: b.Rescue, Counter: p.counter, Delays: &p.b.Delays, Nodes: w.Nodes, Governed: w.Governed, Budgets: w.Budgets}
	p.selector = selection.Selector{
		Now: now, Need: &p.b.Rules, InPlace: b.InPlace, StartupBoost: b.StartupBoost, World: &p.w, Fleet: w.Fleet,
		Sizes: p.sizes, Ledger: w.Ledger, Canaries: p.canaries, Occupancy: p.occupancy, Rescues: p.rescues,
	}
	p.entries = p.decide()
	p.ds = make([]decision.Decision, len(p.entries))
	for i := range p.entries {
		p.ds[i] = *p.entries[i].Decision
		p.entries[i].Decision = &p.ds[i]
	}
	p.made = nil
	return p
}

// Decisions returns all decisions: first those that change something, in the order of execution, then the pods that are
// left, by name. Reported outcomes change them. The caller must not change them.
func (p *Pass) Decisions() []decision.Decision { return p.ds }

// Shortages returns the controllers of which no pod is evicted because evicted pods have no replacement, sorted.
func (p *Pass) Shortages() []ledger.Shortage {
	return slices.SortedFunc(maps.Values(p.short), func(a, b ledger.Shortage) int { return a.Controller.Compare(b.Controller) })
}

// A Failure is a panic while the pass decided on the pods of an autoscaler, which is a defect of podfit. These pods have no decision.
type Failure struct {
	Autoscaler *cluster.Autoscaler
	Cause      any    // the value of the panic
	Stack      string // the stack at the panic
}

// Unanswered reports whether actions on the pod have been without an answer for a long time, and returns the reason to report. The pod may
// currently be left for another reason, such as the disruption budget.
func (p *Pass) Unanswered(d decision.Decision) (decision.Reason, bool) {
	return p.backoffs.Unanswered(d.Pod)
}

// Learn records the observations of the pass in the ledger, and the canaries that it is about to change. It is called once, before the
// decisions are carried out.
func (p *Pass) Learn() {
	l := p.w.Ledger
	l.Learn(p.now, p.view(), p.ds)
	l.Searched(p.now, p.searched)
	for i := range p.entries {
		if d := &p.entries[i]; d.canary && d.Do != decision.Leave {
			l.CanaryPlanned(p.now, d.attempt(p.now, *d.Decision))
		}
	}
}

func (s *pass) view() ledger.View {
	return ledger.View{Governed: s.w.Governed, Scales: s.w.Scales, Requests: s.headroom.Held, Throttling: s.w.Throttling}
}

// Done reports that a decision was carried out.
func (p *Pass) Done(d decision.Decision) {
	own := p.entryOf(d.Pod)
	p.w.Ledger.Done(p.now, own.attempt(p.now, d))
	p.noteMove(own, true)
	p.canaryChanged(own, true)
	p.countChange(d)
	p.spend(own)
}

// Refused reports that the API server refused a decision, or that its outcome is unknown. It returns the decisions that take its
// place: an eviction of the pod if its resize was refused and the mode allows it, else the change of another pod of the group.
func (p *Pass) Refused(d decision.Decision, r decision.Refusal) []decision.Decision {
	own := p.entryOf(d.Pod)
	tried := own.attempt(p.now, d)
	ready := 0
	if g := own.group(); g != nil {
		ready = p.counter.ReadyBeside(g, d.Pod) - g.Changed
		tried.Replicas = g.Wanted
	}
	before, failed := p.w.Ledger.LastFailure(d.Pod, d.Do)
	tried.Early = failed && before.Kind == decision.DeniedByBudget && p.now.Before(before.Until(p.b.Delays))
	if r.QuotaUsed {
		tried.Total = own.scope.siblings.RequestedAtLeast()
	}
	p.w.Ledger.Refused(p.now, tried, r, ready)
	p.noteMove(own, r.Kind == decision.OutcomeIsUnknown)
	if r.Kind == decision.DeniedByQuota {
		own.scope.siblings.Refused(own.Pod)
	}
	if r.Kind == decision.OutcomeIsUnknown {
		p.countChange(d)
		p.canaryChanged(own, false)
	}
	last, _ := p.w.Ledger.LastFailure(d.Pod, d.Do)
	if d.Do == decision.Resize {
		last, _ = p.lastResize(own)
	}
	if d.Fallback && (last.IsLasting() || p.b.UpstreamRules) {
		return p.replaceInstead(own, last, r.Kind)
	}
	why := last.Reason(p.b.Delays, d.Do)
	if r.Kind == decision.DeniedByBudget && d.Do == decision.Evict && d.Rescue {
		own.leave(why)
		p.decider(own).delete()
		if own.Do == decision.Delete {
			return []decision.Decision{*own.Decision}
		}
		why = own.Reason
	}
	p.endRescue(own, r.Kind)
	if !r.Kind.KeepsBudget() {
		p.endProbe(own)
		p.endCanary(own)
	}
	if d.Do == decision.Evict && d.Reason.Fallback == decision.ResizeRefused && r.Kind != decision.OutcomeIsUnknown {
		own.group().Trial = false
	}
	own.leave(why)
	if r.Kind == decision.DeniedByNode {
		own.Reason = decision.Reason{Code: decision.NotSmallerThanRefused}
	}
	if r.Kind.KeepsBudget() {
		return p.settle(own, r.Kind)
	}
	p.release(own)
	next := p.giveBack(own)
	if d.Do == decision.Resize && last.IsLasting() && own.Reason.Code == decision.ResizeRefused {
		p.explainHeldEviction(own)
	}
	return next
}

// replaceInstead decides on a pod whose resize was refused and that may be replaced: by an eviction, by a surge, or not now. It returns the
// decisions that take the place of the resize.
func (p *Pass) replaceInstead(own *entry, last ledger.FailedAttempt, refused decision.RefusalKind) []decision.Decision {
	g := own.group()
	own.unanswered = refused == decision.OutcomeIsUnknown
	trial := last.Kind.LeavesReplacementOpen() && !p.b.UpstreamRules
	because := decision.ResizeRefused
	if last.Kind == decision.DeniedByNode {
		because = decision.ResizeImpossible
	}
	wait := func(why decision.Reason) []decision.Decision {
		p.endCanary(own)
		own.leave(why)
		return p.settle(own, refused)
	}
	if over, blocked := p.decider(own).siblingOverQuota(); blocked { // since the decision
		return wait(over)
	}
	if probing, waits := p.decider(own).probing(); waits {
		return wait(probing)
	}
	switch {
	case p.decider(own).surges(false):
		next := p.settle(own, refused)
		own.leave(last.Reason(p.b.Delays, decision.Resize))
		p.decider(own).try(decision.Surge, surgePod, because)
		if own.Do == decision.Leave {
			return next
		}
		return append([]decision.Decision{*own.Decision}, next...)
	case trial && p.counter.IsAwaited(own.Pod.Controller, g):
		return wait(decision.Reason{Code: decision.AwaitingReplacement, Text: last.Text})
	}
	p.occupancy.Vacate(own.Pod)
	if lacks, awaits := p.lacksHeadroom(own); awaits {
		return wait(lacks)
	}
	g.Trial = g.Trial || trial
	own.Do = decision.Evict
	own.Reason = own.Wanted
	own.Fallback = false
	own.Reason.Fallback = because
	own.scope.backoff.Begin(own.Pod)
	return []decision.Decision{*own.Decision}
}

// explainHeldEviction makes the check that blocks the eviction of a pod the reason to leave it, if its resize was refused and the mode
// would allow the eviction. If other pods block it, the pod can still get the budget that they give back.
func (p *Pass) explainHeldEviction(d *entry) {
	t := p.decider(d)
	if !t.evictsInstead() {
		return
	}
	if r, blocked := t.blocked(t.kindOf(evict)); blocked {
		d.Reason, d.Refused = r, d.Reason
		if awaitsOthers[r.Code] && p.queues != nil {
			p.queue(d)
		}
	}
}

// Gone reports that a pod was deleted or replaced before the decision was carried out. Its budget stays spent, because the pod is
// not in service.
func (p *Pass) Gone(d decision.Decision) {
	p.w.Ledger.MarkServed(p.now, d.Pod)
	p.endCanary(p.entryOf(d.Pod))
	p.entryOf(d.Pod).leave(decision.Reason{Code: decision.AlreadyGone})
}

// Stopped reports that a decision was not tried in this pass, and why. It returns the decisions that take its place.
func (p *Pass) Stopped(d decision.Decision, why decision.Reason) []decision.Decision {
	own := p.entryOf(d.Pod)
	if why.Code != decision.RateLimited && why.Code != decision.OutOfTime {
		p.w.Ledger.MarkServed(p.now, d.Pod) // it has taken from the rate limit
		p.noteMove(own, false)
	}
	if own.Do == decision.Evict && own.Reason.Fallback == decision.ResizeRefused {
		own.group().Trial = false
	}
	p.endProbe(own)
	p.endCanary(own)
	p.endRescue(own, decision.NotReached)
	own.leave(why)
	return p.giveBack(own)
}

func (p *Pass) entryOf(pod *cluster.Pod) *entry { return p.entryOfUID(pod.UID) }

// entryOfUID returns the entry of a pod, or nil.
func (p *Pass) entryOfUID(uid string) *entry {
	if p.byUID == nil {
		p.byUID = make(map[string]*entry, len(p.entries))
		for i := range p.entries {
			p.byUID[p.entries[i].Pod.UID] = &p.entries[i]
		}
	}
	return p.byUID[uid]
}

// settle returns the budget of a refused decision, and the decisions that become possible, unless the action may have been carried out.
func (p *Pass) settle(d *entry, k decision.RefusalKind) []decision.Decision {
	if !k.KeepsBudget() {
		return p.giveBack(d)
	}
	p.spend(d)
	return nil
}

// giveBack returns the budget of a decision to its group, and returns the decisions that become possible.
func (p *Pass) giveBack(d *entry) []decision.Decision {
	if !d.taken {
		return nil
	}
	if d.unanswered {
		return p.settle(d, decision.OutcomeIsUnknown)
	}
	d.taken = false
	g := d.group()
	g.GiveBack(d.health)
	p.enqueue()
	next := p.takeWaiting(d, d.health)
	if d.health == disruption.Down { // pods that are stuck wait for the replacements of those that are down, too
		next = append(next, p.takeWaiting(d, disruption.Stuck)...)
	}
	return next
}

// takeWaiting decides on the pods of a health that wait for what a decision has given back. It returns the decisions that become possible.
func (p *Pass) takeWaiting(d *entry, h disruption.Health) []decision.Decision {
	g := d.group()
	key := queueKey{g, h}
	queue := p.queues[key]
	var next []decision.Decision
	var still []*entry // decisions that wait for the probe
	for len(queue) > 0 && g.MayChange(h) {
		waiting := queue[0]
		queue = queue[1:]
		p.decider(waiting).take()
		p.holdBack(waiting)
		switch {
		case waiting.Do != decision.Leave:
			next = append(next, *waiting.Decision)
		case waiting.Reason.Code == decision.Probing, waiting.Reason.Code == decision.AwaitingCanary, waiting.Reason.Code == decision.ObjectiveMissed:
			still = append(still, waiting)
		}
	}
	p.queues[key] = append(still, queue...)
	return next
}

// enqueue collects the decisions that wait for budget, a probe or a canary.
func (p *Pass) enqueue() {
	if p.queues != nil {
		return
	}
	p.queues = map[queueKey][]*entry{}
	waiting := cluster.Where(p.entries, func(d *entry) bool { return d.Do == decision.Leave && awaitsOthers[d.Reason.Code] })
	slices.SortFunc(waiting, func(a, b *entry) int { return cmp.Compare(a.rank, b.rank) })
	for _, d := range waiting {
		p.queue(d)
	}
}

func (p *Pass) queue(d *entry) {
	key := queueKey{d.group(), p.counter.Health(d.Pod)}
	p.queues[key] = append(p.queues[key], d)
}

// spend counts a change, and records that its budget stays spent after this pass.
func (p *Pass) spend(d *entry) {
	if d.taken {
		d.group().Changed++
	}
	if p.b.Window == 0 || d.health.IsDown() || !d.taken && !p.counter.HasSpent(d.Pod, d.health) {
		return
	}
	p.w.Ledger.Spend(d.attempt(p.now, *d.Decision), d.health == disruption.Stuck, p.now.Add(p.Elapsed+p.b.Window))
}
