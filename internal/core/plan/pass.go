// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
)

// A Pass is the decisions of one updater pass. The caller carries them out and reports the outcome of each: Done, Refused, Gone or
// Skipped. A decision that was not carried out returns its budget, and the pass returns the decisions that take its place. A pass
// ends, because each pod is resized at most once and evicted at most once.
//
// A Pass is not safe for concurrent use.
type Pass struct {
	pass
	ds    []Decision
	index map[string]int // index of the decisions by pod UID

	queued bool // decisions without budget are in the queues of their scope
}

// A queueKey identifies pods that wait for the same budget.
type queueKey struct {
	controller cluster.Workload
	health     health
}

// Begin decides on every governed pod that lives.
func Begin(now time.Time, w World, b Budget) *Pass {
	if w.Ledger == nil {
		w.Ledger = NewLedger()
	}
	p := &Pass{pass: pass{now: now, w: w, b: b, nodeSizes: nodeSizesOf(w), scopes: map[*cluster.Autoscaler]*scope{}}}
	p.short, p.complete = w.Ledger.shortages(now, w, b)
	p.radius = newRadius(now, w, b)
	p.canaries = observeCanaries(now, w)
	p.capacity = capacityOf(w)
	p.ds = p.decide()
	return p
}

// Decisions returns all decisions: first those that change something, in the order of execution, then the pods that are
// left, by name. Reported outcomes change them. The caller must not change them.
func (p *Pass) Decisions() []Decision { return p.ds }

// Shortages returns the controllers of which no pod is evicted because evicted pods have no replacement, sorted.
func (p *Pass) Shortages() []Shortage {
	return slices.SortedFunc(maps.Values(p.short), func(a, b Shortage) int { return a.Controller.Compare(b.Controller) })
}

// A Failure is a panic while the pass decided on the pods of an autoscaler, which is a defect of podfit. These pods have no decision.
type Failure struct {
	Autoscaler *cluster.Autoscaler
	Cause      any    // the value of the panic
	Stack      string // the stack at the panic
}

// Failures returns the autoscalers whose pods have no decision because of a panic, in the order of World.Governed.
func (p *Pass) Failures() []Failure { return p.failures }

// Done reports that a decision was carried out.
func (p *Pass) Done(d Decision) {
	p.w.Ledger.Done(p.now, d)
	own := &p.ds[p.at(d)]
	p.canaryChanged(own, true)
	p.countChange(d)
	if own.taken {
		p.group(own).changed++
	}
	p.spend(own)
}

// spend records that the budget of a decision stays spent after this pass.
func (p *Pass) spend(d *Decision) {
	if d.taken || p.w.Ledger.hasSpent(p.now, p.b, d.Pod, d.health) {
		p.w.Ledger.spendOn(p.now, d, p.b)
	}
}

// Refused reports that the API server refused a decision, or that its outcome is unknown. It returns the decisions that take its
// place: an eviction of the pod if its resize was refused and the mode allows it, else the change of another pod of the group.
func (p *Pass) Refused(d Decision, r Refusal) []Decision {
	at := p.at(d)
	own := &p.ds[at]
	ready := 0
	if g := p.group(own); g != nil {
		ready = g.ready - g.changed
	}
	p.w.Ledger.Refused(p.now, d, r, ready)
	if r.Kind == OutcomeIsUnknown {
		p.countChange(d)
		p.canaryChanged(own, false)
	}
	last, _ := p.w.Ledger.refusal(d.Pod, d.Do)
	if d.Fallback && last.isLasting() {
		return p.replaceInstead(own, last)
	}
	why := last.reason(p.b, d.Do)
	if r.Kind == DeniedByBudget && d.Do == Evict && d.Rescue {
		if p.deleteInstead(own, last) {
			return []Decision{*own}
		}
		why = own.Reason
	}
	p.endRescue(own, r.Kind)
	if !r.Kind.keepsBudget() {
		p.endProbe(own)
		p.endCanary(own)
	}
	if d.Do == Evict && d.Reason.Fallback == ResizeRefused && r.Kind != OutcomeIsUnknown {
		p.group(own).trial = false
	}
	p.leave(own, why)
	if r.Kind == DeniedByNode {
		own.Reason = Reason{Code: NotSmallerThanRefused}
	}
	if r.Kind.keepsBudget() {
		if own.taken {
			p.group(own).changed++
		}
		p.spend(own)
		return nil
	}
	next := p.giveBack(own)
	if d.Do == Resize && last.isLasting() && own.Reason.Code == ResizeRefused {
		p.explainHeldEviction(own)
	}
	return next
}

// replaceInstead decides on a pod whose resize was refused and that may be replaced: by an eviction, by a surge, or not now. It returns the
// decisions that take the place of the resize.
func (p *Pass) replaceInstead(own *Decision, last refused) []Decision {
	g := p.group(own)
	trial := last.Kind.leavesReplacementOpen()
	switch {
	case p.hasProbe(own):
		p.endCanary(own)
		p.leave(own, Reason{Code: Probing})
		return p.giveBack(own)
	case p.candidate(own).surges(false):
		return p.surgeInstead(own, last)
	case trial && p.isAwaited(own.Pod.Controller, g):
		p.endCanary(own)
		p.leave(own, Reason{Code: AwaitingReplacement, Text: last.Text})
		return p.giveBack(own)
	}
	if lacks, awaits := p.lacksCapacity(own); awaits {
		p.endCanary(own)
		p.leave(own, lacks)
		return p.giveBack(own)
	}
	g.trial = g.trial || trial
	own.Do, own.Reason, own.Fallback = Evict, own.Wanted, false
	own.Reason.Fallback = ResizeRefused
	if last.Kind == DeniedByNode {
		own.Reason.Fallback = ResizeImpossible
	}
	p.probe(own)
	return []Decision{*own}
}

// explainHeldEviction makes the check that blocks the eviction of a pod the reason to leave it, if its resize was refused and the mode
// would allow the eviction.
func (p *Pass) explainHeldEviction(d *Decision) {
	if d.scope == nil {
		return
	}
	t := p.candidate(d)
	if !t.evictsInstead() {
		return
	}
	if r, blocked := t.evictionBlocked(); blocked {
		d.Reason, d.Refused = r, d.Reason
	}
}

// surgeInstead decides on the surge of a pod whose resize was refused. It returns the decisions that take the place of the resize.
func (p *Pass) surgeInstead(d *Decision, last refused) []Decision {
	next := p.giveBack(d)
	p.leave(d, last.reason(p.b, Resize))
	because := ResizeRefused
	if last.Kind == DeniedByNode {
		because = ResizeImpossible
	}
	p.candidate(d).try(Surge, surgeChecks, because)
	if d.Do == Leave {
		return next
	}
	return append([]Decision{*d}, next...)
}

// Gone reports that a pod was deleted or replaced before the decision was carried out. Its budget stays spent, because the pod is
// not in service.
func (p *Pass) Gone(d Decision) {
	p.w.Ledger.markServed(p.now, d)
	p.endCanary(&p.ds[p.at(d)])
	p.leave(&p.ds[p.at(d)], Reason{Code: AlreadyGone})
}

// Skipped reports that a decision was not tried in this pass, and why. It returns the decisions that take its place.
func (p *Pass) Skipped(d Decision, why ReasonCode) []Decision { return p.Stopped(d, Reason{Code: why}) }

// Stopped is Skipped with a reason that has more than a code.
func (p *Pass) Stopped(d Decision, why Reason) []Decision {
	own := &p.ds[p.at(d)]
	if own.Do == Evict && own.Reason.Fallback == ResizeRefused {
		p.group(own).trial = false
	}
	p.endProbe(own)
	p.endCanary(own)
	p.endRescue(own, NotReached)
	p.endSurge(own)
	p.leave(own, why)
	return p.giveBack(own)
}

func (p *Pass) leave(d *Decision, r Reason) {
	d.Do, d.Reason, d.Fallback, d.part, d.roomFor, d.Request = Leave, r, false, false, nil, nil
}

func (p *Pass) group(d *Decision) *group {
	if d.scope == nil {
		return nil
	}
	return d.scope.groups[d.Pod.Controller]
}

func (p *Pass) at(d Decision) int {
	if p.index == nil {
		p.index = make(map[string]int, len(p.ds))
		for i := range p.ds {
			p.index[p.ds[i].Pod.UID] = i
		}
	}
	return p.index[d.Pod.UID]
}

// giveBack returns the budget of a decision to its group, and returns the decisions that become possible.
func (p *Pass) giveBack(d *Decision) []Decision {
	if !d.taken {
		return nil
	}
	d.taken = false
	g := p.group(d)
	g.giveBack(d.health)
	p.enqueue()
	key := queueKey{d.Pod.Controller, d.health}
	queue := d.scope.queues[key]
	if len(queue) == 0 {
		return nil
	}
	var next []Decision
	var still []int // decisions that wait for the probe
	for len(queue) > 0 && g.mayChange(d.health) {
		at, waiting := queue[0], &p.ds[queue[0]]
		queue = queue[1:]
		p.candidate(waiting).take()
		p.holdBack(waiting)
		switch {
		case waiting.Do != Leave:
			next = append(next, *waiting)
		case waiting.Reason.Code == Probing, waiting.Reason.Code == AwaitingCanary:
			still = append(still, at)
		}
	}
	d.scope.queues[key] = append(still, queue...)
	return next
}

// enqueue collects the decisions that wait for budget, a probe or a canary.
func (p *Pass) enqueue() {
	if p.queued {
		return
	}
	p.queued = true
	var waiting []int
	for i := range p.ds {
		if d := &p.ds[i]; d.Do == Leave && (d.Reason.Code == BudgetSpent || d.Reason.Code == Probing || d.Reason.Code == AwaitingCanary) {
			waiting = append(waiting, i)
		}
	}
	slices.SortFunc(waiting, func(a, b int) int { return cmp.Compare(p.ds[a].rank, p.ds[b].rank) })
	for _, i := range waiting {
		d := &p.ds[i]
		if d.scope.queues == nil {
			d.scope.queues = map[queueKey][]int{}
		}
		key := queueKey{d.Pod.Controller, healthOf(p.now, p.b, d.Pod)}
		d.scope.queues[key] = append(d.scope.queues[key], i)
	}
}
