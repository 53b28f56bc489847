// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package updater

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"podfit.dev/podfit/internal/app/process"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/plan"
	"podfit.dev/podfit/internal/core/policy"
	"podfit.dev/podfit/internal/edge/kube"
)

// round is what one pass does.
type execution struct {
	*updater
	now    time.Time
	size   map[cluster.Key]string // the size class of each autoscaler
	exists map[string]bool        // the governed pods, by UID

	mu      sync.Mutex // guards the pass, its ledger and what follows while pods are changed
	pass    *plan.Pass
	evicted map[cluster.Key]plan.Decision
	resized map[cluster.Key]plan.Decision
	ended   map[plan.Act]bool // what the rate limit, or the end of the pass, allows no more of
}

// report publishes what was decided, before it is done.
func (r *execution) report(w plan.World, ds []plan.Decision) {
	m := r.metrics
	controlled, evictable, withEvictable := process.NewTally(m.controlled), process.NewTally(m.evictable), process.NewTally(m.withEvictable)
	resizable, withResizable := process.NewTally(m.resizable), process.NewTally(m.withResizable)
	for i := range w.Governed {
		g := &w.Governed[i]
		size, mode := r.size[g.Autoscaler.Key], g.Autoscaler.Mode.String()
		controlled.Add(size, mode, len(g.Pods))
		if len(g.Pods) > 0 {
			evictable.Add(size, mode, 0)
		}
		m.begin(g.Autoscaler, len(g.Pods))
	}
	type seen struct {
		a  cluster.Key
		do plan.Act
	}
	first := map[seen]bool{}
	for i := range ds {
		d := &ds[i]
		size, mode := r.size[d.Autoscaler.Key], d.Autoscaler.Mode.String()
		key := seen{d.Autoscaler.Key, d.Do}
		switch d.Do {
		case plan.Evict:
			evictable.Add(size, mode, 1)
			if !first[key] {
				withEvictable.Add(size, mode, 1)
			}
		case plan.Resize:
			resizable.Add(size, "", 1)
			if !first[key] {
				withResizable.Add(size, "", 1)
			}
		case plan.Leave:
			if d.Reason.Code == plan.NotSmallerThanRefused {
				m.infeasibleSkip.WithLabelValues(size, d.Autoscaler.Name, d.Autoscaler.Namespace).Inc()
			}
		}
		first[key] = true
	}
	controlled.Publish(true)
	evictable.Publish(true)
	withEvictable.Publish(true)
	resizable.Publish(false)
	withResizable.Publish(false)
}

// explain publishes what became of each decision, and says why pods were left.
func (r *execution) explain(ds []plan.Decision) {
	left := make(map[string]remark, len(r.left))
	r.metrics.decisions.Reset()
	for i := range ds {
		d := &ds[i]
		r.metrics.decisions.WithLabelValues(d.Do.String(), d.Reason.Code.String()).Inc()
		if d.Do == plan.Leave {
			now := r.remarkOn(d)
			left[d.Pod.UID] = now
			r.leave(d, now)
		}
	}
	r.left = left
}

// A remark is what is said of a pod that is left. It is said again when it changes.
type remark struct {
	why        plan.ReasonCode
	often      bool // something that usually passes at once has not
	unanswered bool // actions on the pod have had no answer for long, whatever it is left for now
}

func (r *execution) remarkOn(d *plan.Decision) remark {
	before, now := r.left[d.Pod.UID], remark{why: d.Reason.Code}
	if d.Reason.Code == plan.ReplicasUnknown {
		now.often = before.why == now.why
	}
	_, now.unanswered = r.pass.Unanswered(*d)
	return now
}

// leave says why a pod that should change is left alone: in the log when the reason is new for the pod, and to the
// autoscaler's users when it is one that they may want to do something about.
func (r *execution) leave(d *plan.Decision, now remark) {
	if d.Wanted.Code == plan.Fits || r.left[d.Pod.UID] == now {
		return
	}
	if now.why == plan.NotSmallerThanRefused {
		r.events.ResizeSkipped(d.Pod)
	}
	r.log.Info("Left a pod as it is", slog.String("action", d.Do.String()), slog.String("pod", d.Pod.Key.String()), slog.String("vpa", d.Autoscaler.Key.String()),
		slog.String("reason", d.Reason.String()), slog.String("wanted", d.Wanted.String()))
	if hindrances[now.why] || now.often {
		r.tellHeld(d, d.Reason)
	}
	if now.unanswered {
		reason, _ := r.pass.Unanswered(*d)
		r.tellHeld(d, reason)
	}
}

// tellHeld tells the autoscaler's users why a pod is left, once for each reason until a pod is changed.
func (r *execution) tellHeld(d *plan.Decision, reason plan.Reason) {
	told := r.held[d.Autoscaler.Key]
	if told[reason.Code] {
		return
	}
	if told == nil {
		told = map[plan.ReasonCode]bool{}
		r.held[d.Autoscaler.Key] = told
	}
	told[reason.Code] = true
	r.events.Autoscaler(d.Autoscaler, "UpdateHeld", "Pod "+d.Pod.Name+" is not updated: "+reason.String())
}

// hindrances are the reasons to leave a pod that do not pass by themselves, or that mean that something is wrong.
var hindrances = map[plan.ReasonCode]bool{
	plan.BackingOff: true, plan.NoNodeFits: true, plan.QoSChange: true, plan.NoController: true, plan.TooFewReplicas: true,
	plan.ResizeImpossible: true, plan.MemoryInUse: true, plan.NotSmallerThanRefused: true,
	plan.SameSize: true, plan.GateOff: true, plan.Unscheduled: true,
	plan.EvictionRefused: true, plan.DisruptionBudget: true, plan.ResizeRefused: true, plan.ResizeOverQuota: true,
	plan.OverQuota: true,
}

// tellShortages tells users, once, that evicted pods have no replacement.
func (r *execution) tellShortages(shortages []plan.Shortage) {
	short := make(map[cluster.Workload]bool, len(shortages))
	for _, s := range shortages {
		short[s.Controller] = true
		if r.short[s.Controller] {
			continue
		}
		text := fmt.Sprintf("%s %s has %d of %d pods %s after an eviction. No more of its pods are evicted until it has them all again. "+
			"Look at its events for what keeps replacements from being created, such as a ResourceQuota or an admission webhook.",
			s.Controller.Kind, s.Controller.Name, s.Present, s.Wanted, r.now.Sub(s.Since).Round(time.Minute))
		r.log.Warn("Evicted pods have no replacement", slog.String("workload", s.Controller.String()), slog.Int("pods", s.Present), slog.Int("wanted", s.Wanted))
		if s.Autoscaler != nil {
			r.events.Autoscaler(s.Autoscaler, "ReplacementMissing", text)
		}
	}
	r.short = short
}

// execute carries out what is to be done, in order, a few pods at a time.
func (r *execution) execute(ctx context.Context) {
	r.evicted, r.resized = map[cluster.Key]plan.Decision{}, map[cluster.Key]plan.Decision{}
	r.ended = map[plan.Act]bool{}
	todo := newLanes()
	var first []plan.Decision
	for _, d := range r.pass.Decisions() {
		switch {
		case d.Do == plan.Leave:
		case r.config.DryRun:
			r.pretend(&d)
		default:
			first = append(first, d)
		}
	}
	todo.add(first)
	var all errgroup.Group
	for _, l := range everyLane {
		all.Go(func() error {
			var workers errgroup.Group
			workers.SetLimit(maxWorkers)
			if l.boost {
				workers.SetLimit(max(r.config.BoostSyncs, 1))
			}
			for d, more := todo.next(l); more; d, more = todo.next(l) {
				paid := r.afford(ctx, &d)
				workers.Go(func() error {
					defer todo.done()
					process.Attempt(r.log, r.health, d.Pod.Key.String(), func() { todo.add(r.try(ctx, d, paid)) })
					r.health.Active(time.Now())
					return nil
				})
			}
			return workers.Wait()
		})
	}
	_ = all.Wait() // what went wrong was counted and logged where it happened
}

// try carries out one decision and returns what is to be done instead, if it was not done.
func (r *execution) try(ctx context.Context, d plan.Decision, paid bool) []plan.Decision {
	if !paid {
		why := plan.RateLimited
		if ctx.Err() != nil {
			why = plan.OutOfTime
		}
		return r.settle(func() []plan.Decision { return r.pass.Skipped(d, why) })
	}
	err := r.do(ctx, &d)
	switch {
	case err == nil:
		return r.done(&d)
	case errors.Is(err, kube.ErrNotSent):
		return r.settle(func() []plan.Decision { return r.pass.Skipped(d, plan.OutOfTime) })
	case errors.Is(err, kube.ErrNotFound), d.Do == plan.Evict && errors.Is(err, kube.ErrConflict):
		r.logger(&d).Debug("A pod was gone before it could be changed", slog.Any("error", err))
		return r.settle(func() []plan.Decision {
			r.pass.Gone(d)
			return nil
		})
	}
	r.failed(&d, failureOf(&d, err))
	refusal := plan.Refusal{Kind: kindOf(err), Text: kube.Answer(err)}
	r.logger(&d).Info("A pod could not be changed", slog.String("error", refusal.Text))
	next := r.settle(func() []plan.Decision { return r.pass.Refused(d, refusal) })
	if len(next) > 0 && next[0].Pod == d.Pod {
		r.tellFallback(&d, refusal.Text)
	}
	return next
}

// tellFallback tells users, once until a resize succeeds, that pods are evicted because they cannot be resized.
func (r *execution) tellFallback(d *plan.Decision, text string) {
	r.mu.Lock()
	told := r.fallback[d.Autoscaler.Key]
	r.fallback[d.Autoscaler.Key] = true
	r.mu.Unlock()
	if !told {
		r.events.Autoscaler(d.Autoscaler, "ResizeRefused", "Pod "+d.Pod.Name+" is to be evicted, because the API server refused to resize it: "+text)
	}
}

// settle tells the pass what became of a decision.
func (r *execution) settle(tell func() []plan.Decision) []plan.Decision {
	r.mu.Lock()
	defer r.mu.Unlock()
	return tell()
}

// kindOf returns why an action failed.
func kindOf(err error) plan.RefusalKind {
	for _, k := range []struct {
		err  error
		kind plan.RefusalKind
	}{
		{kube.ErrBudget, plan.DeniedByBudget},
		{kube.ErrNodeCapacity, plan.DeniedByNode},
		{kube.ErrQuota, plan.DeniedByQuota},
		{kube.ErrWebhook, plan.WebhookFailed},
		{kube.ErrBusy, plan.ServerBusy},
		{kube.ErrConflict, plan.ServerBusy},
		{kube.ErrUnreachable, plan.ServerBusy},
		{kube.ErrForbidden, plan.Denied},
		{kube.ErrDenied, plan.Denied},
		{kube.ErrInvalid, plan.Denied},
		{kube.ErrUnsupported, plan.Unsupported},
	} {
		if errors.Is(err, k.err) {
			return k.kind
		}
	}
	return plan.OutcomeIsUnknown
}

// failureOf returns upstream's name for a failed action, for metrics.
func failureOf(d *plan.Decision, err error) string {
	switch {
	case d.Do == plan.Evict:
		return "EvictionError"
	case len(d.Unboost) > 0:
		return "UnboostError"
	case errors.Is(err, kube.ErrNodeCapacity):
		return "InPlaceUpdateInfeasible"
	}
	return "InPlaceUpdateError"
}

// An intent is what a dry run would do with a pod, and why.
type intent struct {
	do  plan.Act
	why plan.ReasonCode
}

// pretend says what would be done with a pod, once: while it would be the same, there is nothing new to say.
func (r *execution) pretend(d *plan.Decision) {
	if now := (intent{d.Do, d.Reason.Code}); r.dryRunLogged[d.Pod.UID] != now {
		r.dryRunLogged[d.Pod.UID] = now
		r.logger(d).Info("Would change a pod")
	}
}

func (r *execution) logger(d *plan.Decision) *slog.Logger {
	return r.log.With(slog.String("action", d.Do.String()), slog.String("pod", d.Pod.Key.String()), slog.String("vpa", d.Autoscaler.Key.String()), slog.String("reason", d.Reason.String()))
}

// afford waits for the rate limit of a decision. It returns false when the limit allows no more of these in this pass, or
// the pass ends first; the rest is decided anew in the next.
func (r *execution) afford(ctx context.Context, d *plan.Decision) bool {
	limiter, failure := r.evicts, "EvictionRateLimiterWaitFailed"
	if d.Do == plan.Resize {
		limiter, failure = r.resizes, "InPlaceUpdateRateLimiterWaitFailed"
	}
	if r.hasEnded(d.Do, false) {
		return false
	}
	if ctx.Err() != nil {
		return false
	}
	if limiter.Allow() {
		return true
	}
	// What is allowed just before the pass ends could not be used any more.
	patience := ctx
	if end, ends := ctx.Deadline(); ends {
		var cancel context.CancelFunc
		patience, cancel = context.WithDeadline(ctx, end.Add(-timeToAct))
		defer cancel()
	}
	err := limiter.Wait(patience)
	if err != nil && !r.hasEnded(d.Do, true) {
		r.failed(d, failure)
		r.log.Debug("The rate limit allows no more in this pass", slog.String("action", d.Do.String()), slog.Any("error", err))
	}
	return err == nil
}

// timeToAct is how long before its end a pass waits for the rate limit no more.
const timeToAct = 10 * time.Second

// hasEnded reports whether the rate limit allows no more of an act in this pass, and notes that it does not when now.
func (r *execution) hasEnded(do plan.Act, now bool) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	before := r.ended[do]
	r.ended[do] = before || now
	return before
}

// do evicts or resizes a pod.
func (r *execution) do(ctx context.Context, d *plan.Decision) error {
	if d.Do == plan.Evict {
		return r.pods.Evict(ctx, d.Pod)
	}
	if err := r.pods.Resize(ctx, d.Pod, d.With); err != nil {
		return err
	}
	var over []string
	for _, c := range d.Unboost {
		over = append(over, policy.BoostAnnotation+c)
	}
	err := r.pods.Annotate(ctx, d.Pod, map[string]string{annotationInPlace: "true"}, over...)
	switch {
	case err == nil, errors.Is(err, kube.ErrNotFound):
	case len(over) > 0:
		// The boost would end again in each pass. The pod was resized, so its budget is spent: the error is no refusal.
		return errors.New("resized, but the annotation of the startup boost cannot be removed: " + kube.Answer(err))
	default:
		r.logger(d).Warn("Resized a pod in place, but cannot annotate it", slog.String("error", kube.Answer(err)))
	}
	return nil
}

// annotationInPlace marks pods that were resized in place, as upstream does.
const annotationInPlace = "vpaInPlaceUpdated"

// done notes a decision that was carried out, and tells users.
func (r *execution) done(d *plan.Decision) []plan.Decision {
	r.mu.Lock()
	r.pass.Done(*d)
	by := r.evicted
	if d.Do == plan.Resize {
		by = r.resized
		delete(r.fallback, d.Autoscaler.Key)
	}
	by[d.Autoscaler.Key] = *d
	delete(r.held, d.Autoscaler.Key)
	r.mu.Unlock()

	a, size := d.Autoscaler, r.size[d.Autoscaler.Key]
	if d.Do == plan.Evict {
		r.logger(d).Info("Evicted a pod")
		r.events.Evicted(d.Pod, a)
		r.metrics.evicted.WithLabelValues(size, a.Mode.String(), a.Name, a.Namespace).Inc()
		return nil
	}
	r.logger(d).Info("Resized a pod in place")
	r.events.Resized(d.Pod)
	r.metrics.resized.WithLabelValues(size, a.Name, a.Namespace).Inc()
	return nil
}

// failed counts an attempt that did not succeed.
func (r *execution) failed(d *plan.Decision, reason string) {
	a, size := d.Autoscaler, r.size[d.Autoscaler.Key]
	if d.Do == plan.Resize {
		r.metrics.resizeFailed.WithLabelValues(size, reason, a.Name, a.Namespace).Inc()
		return
	}
	r.metrics.evictFailed.WithLabelValues(size, a.Mode.String(), reason, a.Name, a.Namespace).Inc()
}

// finish publishes what was done.
func (r *execution) finish() {
	withEvicted, withResized := process.NewTally(r.metrics.withEvicted), process.NewTally(r.metrics.withResized)
	for key, d := range r.evicted {
		withEvicted.Add(r.size[key], d.Autoscaler.Mode.String(), 1)
	}
	for key := range r.resized {
		withResized.Add(r.size[key], "", 1)
	}
	withEvicted.Publish(true)
	withResized.Publish(false)
	maps.DeleteFunc(r.dryRunLogged, func(uid string, _ intent) bool { return !r.exists[uid] })
	maps.DeleteFunc(r.fallback, func(key cluster.Key, _ bool) bool { _, governed := r.size[key]; return !governed })
	maps.DeleteFunc(r.held, func(key cluster.Key, _ map[plan.ReasonCode]bool) bool { _, governed := r.size[key]; return !governed })
}
