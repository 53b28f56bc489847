// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package updater

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"podfit.dev/podfit/internal/app/process"
	"podfit.dev/podfit/internal/app/updater/freeze"
	"podfit.dev/podfit/internal/app/updater/queue"
	"podfit.dev/podfit/internal/app/updater/scalepoint"
	"podfit.dev/podfit/internal/app/updater/surges"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/decision"
	"podfit.dev/podfit/internal/core/headroom"
	"podfit.dev/podfit/internal/core/plan"
	"podfit.dev/podfit/internal/core/policy"
	"podfit.dev/podfit/internal/edge/kube"
)

// execution carries out the decisions of one pass.
type execution struct {
	*updater
	now       time.Time
	began     time.Time              // of the pass, by the clock of this process
	sizeClass map[cluster.Key]string // label value of each autoscaler's number of pods
	exists    map[string]bool        // the governed pods, by UID
	guard     *scalepoint.Guard      // nil: no change waits for an HPA

	queues   *queue.Lanes
	siblings *queue.Siblings

	mu        sync.Mutex // guards the pass, its ledger and the fields below while pods are changed
	pass      *plan.Pass
	evicted   map[cluster.Key]decision.Decision
	resized   map[cluster.Key]decision.Decision
	unchecked map[string]int // dry runs without an answer since the last one with an answer, by namespace
}

func newExecution(u *updater, now, began time.Time, pass *plan.Pass, governed []cluster.Governed, decisions []decision.Decision) *execution {
	e := &execution{
		updater: u, now: now, began: began, sizeClass: make(map[cluster.Key]string, len(governed)), exists: make(map[string]bool, len(decisions)),
		queues: queue.NewLanes(), siblings: queue.NewSiblings(), pass: pass,
		evicted: map[cluster.Key]decision.Decision{}, resized: map[cluster.Key]decision.Decision{}, unchecked: map[string]int{},
	}
	for i := range decisions {
		e.exists[decisions[i].Pod.UID] = true
	}
	for i := range governed {
		e.sizeClass[governed[i].Autoscaler.Key] = process.SizeLog2(len(governed[i].Pods))
	}
	return e
}

// execute carries out all actions of the pass, or only logs them in a dry run.
func (e *execution) execute(ctx context.Context) {
	e.rates.Begin()
	var actions []decision.Decision
	for _, d := range e.pass.Decisions() {
		switch {
		case d.Do == decision.Leave:
		case e.config.DryRun:
			e.report.dryRun(&d)
		default:
			actions = append(actions, d)
		}
	}
	e.executeCapacity(ctx)
	e.add(actions)
	process.Each(len(queue.EveryLane), queue.EveryLane, func(l queue.Lane) { e.executeLane(ctx, l) })
}

// executeLane carries out the actions of one lane in order, a few at a time.
func (e *execution) executeLane(ctx context.Context, l queue.Lane) {
	var workers errgroup.Group
	workers.SetLimit(maxWorkers)
	if l.Boost {
		workers.SetLimit(max(e.config.BoostSyncs, 1))
	}
	for d, more := e.queues.Next(l); more; d, more = e.queues.Next(l) {
		why, held := e.heldBy(&d)
		allowed := held || e.waitForRate(ctx, &d)
		e.siblings.Sent(&d)
		workers.Go(func() error {
			defer e.queues.Done()
			defer e.siblings.Answered(&d)
			e.siblings.AfterShrinks(&d)
			process.Attempt(e.log, e.health, d.Pod.Key.String(), func() { e.add(e.try(ctx, &turn{d, allowed, why})) })
			e.health.Active(time.Now())
			return nil
		})
	}
	_ = workers.Wait() // errors are counted and logged where they occur
}

func (e *execution) add(actions []decision.Decision) {
	e.siblings.Add(actions)
	e.queues.Add(actions)
}

// A turn is a decision that is about to be carried out.
type turn struct {
	decision.Decision
	allowed bool            // by the rate limit
	held    decision.Reason // why it cannot be announced, as was known when its turn came
}

// stops are the reasons not to send the request of a decision, in this order. The first that applies is its outcome.
var stops = []func(*execution, context.Context, *turn) (decision.Reason, bool){
	(*execution).notAllowed,
	(*execution).frozen,
	(*execution).awaitsHPA,
	(*execution).overQuota,
	(*execution).isHeld,
	(*execution).staysUnsized,
	(*execution).notAnnounced,
}

// try carries out one decision, if nothing stops it. It returns the decisions to carry out instead if it was not carried out.
func (e *execution) try(ctx context.Context, d *turn) []decision.Decision {
	for _, stop := range stops {
		if why, stopped := stop(e, ctx, d); stopped {
			return e.stop(&d.Decision, why)
		}
	}
	err := e.perform(ctx, &d.Decision)
	if err == nil {
		e.succeeded(&d.Decision)
		e.capacity.ReleaseAfter(ctx, &d.Decision)
		return nil
	}
	next := e.failed(&d.Decision, err)
	if d.Do == decision.Resize && len(next) > 0 && next[0].Pod == d.Pod {
		e.report.fallback(&d.Decision, kube.Answer(err))
	}
	return next
}

// stop reports to the pass that the request of a decision is not sent, and returns the decisions to carry out instead.
func (e *execution) stop(d *decision.Decision, why decision.Reason) []decision.Decision {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.pass.Stopped(*d, why)
}

// failed reports to the pass why a decision was not carried out, and returns the decisions to carry out instead.
func (e *execution) failed(d *decision.Decision, err error) []decision.Decision {
	var stopped *freeze.Error
	switch {
	case errors.As(err, &stopped):
		return e.stop(d, stopped.Reason)
	case errors.Is(err, kube.ErrNotSent):
		return e.stop(d, decision.Reason{Code: decision.OutOfTime})
	case errors.Is(err, kube.ErrNotFound), d.Do != decision.Resize && errors.Is(err, kube.ErrConflict):
		e.report.logger(d).Debug("Pod was deleted or replaced before it was changed", slog.Any("error", err))
		e.mu.Lock()
		defer e.mu.Unlock()
		e.pass.Gone(*d)
		return nil
	}
	e.countFailure(d, failureOf(d, err))
	refusal := decision.Refusal{Kind: kindOf(err), Text: kube.Answer(err), RetryAfter: kube.RetryAfter(err), QuotaUsed: errors.Is(err, kube.ErrQuotaUsed)}
	e.report.logger(d).Info("Failed to change a pod", slog.String("error", refusal.Text))
	e.mu.Lock()
	defer e.mu.Unlock()
	e.pass.Elapsed = time.Since(e.began)
	next := e.pass.Refused(*d, refusal)
	for i := range next {
		if d.Do == decision.Evict && next[i].Do == decision.Delete && next[i].Pod == d.Pod {
			e.rates.Keep(d.Pod)
		}
	}
	return next
}

func (e *execution) notAllowed(ctx context.Context, d *turn) (decision.Reason, bool) {
	if ctx.Err() != nil {
		return decision.Reason{Code: decision.OutOfTime}, !d.allowed
	}
	return decision.Reason{Code: decision.RateLimited}, !d.allowed
}

// frozen reads the current state of the watches, because a freeze may begin in the middle of a pass.
func (e *execution) frozen(_ context.Context, d *turn) (decision.Reason, bool) {
	return plan.FrozenBy(e.world.Rules(d.Autoscaler))
}

func (e *execution) awaitsHPA(_ context.Context, d *turn) (decision.Reason, bool) {
	return decision.Reason{Code: decision.HPANotWritten}, e.guard.Holds(&d.Decision)
}

// overQuota reports whether a quota has refused a resize of the same controller since an eviction was planned, and returns the reason to
// leave the pod. It first waits for the answers to the resizes of the controller: they show whether the quota admits the replacement.
func (e *execution) overQuota(_ context.Context, d *turn) (decision.Reason, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.pass.DependsOnResizes(d.Decision) {
		e.mu.Unlock()
		e.siblings.AfterResizes(d.Pod.Controller)
		e.mu.Lock()
	}
	return e.pass.OverQuota(d.Decision)
}

func (e *execution) isHeld(_ context.Context, d *turn) (decision.Reason, bool) {
	return d.held, d.held.Code == decision.NotAnnounced
}

const (
	// dryRunTimeout limits the dry run of one replacement.
	dryRunTimeout = 10 * time.Second
	// maxUnanswered is the number of dry runs without an answer in time after which the other pods of the namespace wait for the next pass.
	// Otherwise, a namespace in which the creation of pods hangs would occupy all workers.
	maxUnanswered = 2
)

// staysUnsized reports whether a replacement of the pod would not get the recommended requests, where that is in doubt. If the API server cannot
// tell, the pod is changed, and the back-off limits how often.
func (e *execution) staysUnsized(ctx context.Context, d *turn) (decision.Reason, bool) {
	if e.actuators.replacements == nil {
		return decision.Reason{}, false
	}
	needed, why, stopped := e.needsDryRun(&d.Decision)
	if !needed {
		return why, stopped
	}
	began := time.Now()
	replacement, failed, known := e.dryRun(ctx, &d.Decision)
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.unchecked[d.Pod.Namespace]++; known || time.Since(began) < dryRunTimeout {
		e.unchecked[d.Pod.Namespace] = 0
	}
	if !known {
		return decision.Reason{}, false
	}
	why, stopped = e.pass.DryRun(d.Decision, replacement, failed)
	if stopped {
		e.report.logger(&d.Decision).Info("Not replacing a pod: a dry run shows that its replacement would not get the recommended requests")
	}
	return why, stopped
}

// needsDryRun reports whether a dry run must show whether the replacement of a pod gets the recommended requests, or why the pod is left without.
func (e *execution) needsDryRun(d *decision.Decision) (needed bool, why decision.Reason, stopped bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.pass.NeedsDryRun(*d) {
		return false, why, false
	}
	why, stopped = e.pass.Unsized(*d)
	if !stopped && e.unchecked[d.Pod.Namespace] >= maxUnanswered {
		e.rates.GiveBack(d)
		why = decision.Reason{Code: decision.DryRunUnanswered}
		stopped = true
	}
	return !stopped, why, stopped
}

// dryRun creates the replacement of a pod in a dry run. It returns its containers or, if it would not be created, why. known is false if the
// API server cannot tell, and without the right to create pods.
func (e *execution) dryRun(ctx context.Context, d *decision.Decision) (replacement *cluster.Pod, failed string, known bool) {
	if e.rights.missing[featureDryRuns] {
		return nil, "", false
	}
	ctx, cancel := context.WithTimeout(ctx, dryRunTimeout)
	defer cancel()
	replacement, err := e.actuators.replacements.DryRun(ctx, d.Pod)
	switch {
	case errors.Is(err, kube.ErrWebhook):
		return nil, kube.Answer(err), true
	case err != nil:
		e.report.logger(d).Debug("The dry run of a replacement failed, so it is not known whether it would get the recommended requests", slog.Any("error", err))
		return nil, "", false
	}
	return replacement, "", true
}

func (e *execution) diagnose(ctx context.Context) {
	if e.actuators.replacements == nil || e.config.DryRun {
		return
	}
	process.Each(maxWorkers, e.pass.Undiagnosed(), func(d decision.Decision) {
		replacement, failed, known := e.dryRun(ctx, &d)
		e.mu.Lock()
		defer e.mu.Unlock()
		if known {
			e.pass.Diagnosed(d, replacement, failed)
		} else {
			e.pass.NotDiagnosed(d)
		}
	})
}

// kindOf returns the kind of a failed action. The first error of the table that matches decides.
func kindOf(err error) decision.RefusalKind {
	var surge surges.Refused
	if errors.As(err, &surge) {
		return surge.Kind
	}
	for _, k := range []struct {
		err  error
		kind decision.RefusalKind
	}{
		{kube.ErrBudget, decision.DeniedByBudget},
		{kube.ErrNodeCapacity, decision.DeniedByNode},
		{kube.ErrQuota, decision.DeniedByQuota},
		{kube.ErrWebhook, decision.WebhookFailed},
		{kube.ErrBusy, decision.ServerBusy},
		{kube.ErrConflict, decision.ServerBusy},
		{kube.ErrUnreachable, decision.NotReached},
		{kube.ErrForbidden, decision.Denied},
		{kube.ErrDenied, decision.Denied},
		{kube.ErrInvalid, decision.Denied},
		{kube.ErrUnsupported, decision.Unsupported},
	} {
		if errors.Is(err, k.err) {
			return k.kind
		}
	}
	return decision.OutcomeIsUnknown
}

// failureOf returns upstream's label value for a failed action.
func failureOf(d *decision.Decision, err error) string {
	switch {
	case d.Do == decision.Evict:
		return "EvictionError"
	case d.Do == decision.Delete:
		return "DeletionError"
	case d.Do == decision.Surge:
		return "SurgeError"
	case len(d.Unboost) > 0:
		return "UnboostError"
	case errors.Is(err, kube.ErrNodeCapacity):
		return "InPlaceUpdateInfeasible"
	}
	return "InPlaceUpdateError"
}

// waitForRate waits until the rate limit allows a decision. It returns false if the limit allows no more actions of this kind
// in this pass, or the pass ends first. The next pass decides on these pods again.
func (e *execution) waitForRate(ctx context.Context, d *decision.Decision) bool {
	if ctx.Err() != nil {
		return false
	}
	allowed, exhausted := e.rates.Take(d)
	if allowed || exhausted {
		return allowed
	}
	failure := "EvictionRateLimiterWaitFailed"
	if d.Do == decision.Resize {
		failure = "InPlaceUpdateRateLimiterWaitFailed"
		e.siblings.Slow()
	}
	isNew, err := e.rates.Wait(ctx, d)
	if isNew {
		e.countFailure(d, failure)
		e.log.Debug("Rate limit reached; the remaining pods are decided on again in the next pass", slog.String("action", d.Do.String()), slog.Any("error", err))
	}
	return err == nil
}

// perform resizes or replaces a pod, unless a freeze has begun. The annotation completes a resize, also during a freeze. An error wraps one of the
// refusals of package kube, or is transient.
func (e *execution) perform(ctx context.Context, d *decision.Decision) error {
	gated, err := e.gate(ctx, d)
	if err != nil {
		return err
	}
	switch d.Do {
	case decision.Evict:
		return e.actuators.pods.Evict(gated, d.Pod)
	case decision.Delete:
		return e.actuators.pods.Delete(gated, d.Pod) // without asking disruption budgets
	case decision.Surge: // the pod is removed in a later pass, when an additional pod is ready
		return e.actuators.surges.Start(gated, e.now, d.Pod)
	case decision.Resize, decision.Leave:
	}
	if err := e.actuators.pods.Resize(gated, d.Pod, d.With); err != nil {
		return err
	}
	boosts := cluster.Each(d.Unboost, func(c *string) string { return policy.BoostAnnotation + *c }) // that have ended
	err = e.actuators.pods.Annotate(ctx, d.Pod, map[string]string{annotationInPlace: "true"}, boosts...)
	switch {
	case err == nil, errors.Is(err, kube.ErrNotFound):
	case len(boosts) > 0:
		// With the annotation, each pass would end the boost again. The pod was resized, so its budget is spent: the error does
		// not wrap a refusal.
		return errors.New("pod resized, but failed to remove the annotation of its startup boost: " + kube.Answer(err))
	default:
		e.report.logger(d).Warn("Resized a pod in place, but failed to annotate it", slog.String("error", kube.Answer(err)))
	}
	return nil
}

// annotationInPlace marks pods that were resized in place, as upstream does.
const annotationInPlace = "vpaInPlaceUpdated"

// succeeded records a decision that was carried out, and reports it.
func (e *execution) succeeded(d *decision.Decision) {
	a := d.Autoscaler
	class := e.sizeClass[a.Key]
	e.mu.Lock()
	e.pass.Elapsed = time.Since(e.began)
	e.pass.Done(*d)
	switch d.Do {
	case decision.Resize:
		e.resized[a.Key] = *d
		e.metrics.resized.WithLabelValues(class, a.Name, a.Namespace).Inc()
	case decision.Evict, decision.Delete:
		e.evicted[a.Key] = *d
		e.metrics.evicted.WithLabelValues(class, a.Mode.String(), a.Name, a.Namespace).Inc()
		if d.Do == decision.Evict {
			e.pending.evicted(e.now, d)
		}
	case decision.Surge, decision.Leave:
	}
	e.mu.Unlock()
	e.report.changed(d)
}

func (e *execution) countFailure(d *decision.Decision, reason string) {
	a := d.Autoscaler
	class := e.sizeClass[a.Key]
	if d.Do == decision.Resize {
		e.metrics.resizeFailed.WithLabelValues(class, reason, a.Name, a.Namespace).Inc()
		return
	}
	e.metrics.evictFailed.WithLabelValues(class, a.Mode.String(), reason, a.Name, a.Namespace).Inc()
}

func (e *execution) finish() {
	withEvicted := process.NewTally(e.metrics.withEvicted)
	for key, d := range e.evicted {
		withEvicted.Add(e.sizeClass[key], d.Autoscaler.Mode.String(), 1)
	}
	withEvicted.Publish()
	withResized := process.NewTally(e.metrics.withResized)
	for key := range e.resized {
		withResized.Add(e.sizeClass[key], "", 1)
	}
	withResized.Publish()
}

// governs reports whether an autoscaler takes part in this pass.
func (e *execution) governs(key cluster.Key) bool {
	_, ok := e.sizeClass[key]
	return ok
}

// mustAnnounce reports whether a decision is carried out only if it was announced.
func (e *execution) mustAnnounce(d *decision.Decision) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.pass.MustAnnounce(*d)
}

// heldBy returns why a decision is not carried out, because it is known that it cannot be announced. It takes nothing from the rate limit, so
// it is not carried out in this pass even if the hold ends before.
func (e *execution) heldBy(d *decision.Decision) (decision.Reason, bool) {
	why, held := e.states.Held(e.now, d.Pod.Workload())
	if !held || !e.mustAnnounce(d) {
		return decision.Reason{}, false
	}
	return why, true
}

// notAnnounced stores that the updater acts on the workload of a decision. It reports whether that fails and the decision must be announced. The
// rate limit then allows another action instead.
func (e *execution) notAnnounced(ctx context.Context, d *turn) (decision.Reason, bool) {
	why, announced := e.states.Announce(ctx, e.now, d.Pod.Workload())
	if announced || !e.mustAnnounce(&d.Decision) {
		return decision.Reason{}, false
	}
	e.rates.GiveBack(&d.Decision)
	return why, true
}

// announceRequest announces a request for capacity, which precedes an eviction. It reports whether it may be created: not during a freeze.
func (e *execution) announceRequest(ctx context.Context, step *headroom.Step) bool {
	why, frozen := plan.FrozenBy(e.world.Rules(step.Autoscaler)) // which may have begun since the decision
	announced := !frozen
	if announced {
		why, announced = e.states.Announce(ctx, e.now, step.Pod.Workload())
	}
	if !announced {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.pass.NotAnnounced(step, why)
	}
	return announced
}
