// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/plan"
	"podfit.dev/podfit/internal/core/policy"
	"podfit.dev/podfit/internal/edge/kube"
)

// round is what one pass does.
type round struct {
	*updater
	now    time.Time
	size   map[cluster.Key]string // the size class of each autoscaler
	exists map[string]bool        // the governed pods, by UID

	mu      sync.Mutex // guards the ledger and what follows while pods are changed
	evicted map[cluster.Key]plan.Decision
	resized map[cluster.Key]plan.Decision
}

// report publishes what was decided, before it is done.
func (r *round) report(w plan.World, ds []plan.Decision) {
	m := r.metrics
	controlled, evictable, withEvictable := newTally(m.controlled), newTally(m.evictable), newTally(m.withEvictable)
	resizable, withResizable := newTally(m.resizable), newTally(m.withResizable)
	for i := range w.Governed {
		g := &w.Governed[i]
		size, mode := r.size[g.Autoscaler.Key], g.Autoscaler.Mode.String()
		controlled.add(size, mode, len(g.Pods))
		if len(g.Pods) > 0 {
			evictable.add(size, mode, 0)
		}
		m.begin(g.Autoscaler, len(g.Pods))
	}
	type seen struct {
		a  cluster.Key
		do plan.Act
	}
	first := map[seen]bool{}
	left := make(map[string]plan.Why, len(r.left))
	m.decisions.Reset()
	for i := range ds {
		d := &ds[i]
		m.decisions.WithLabelValues(d.Do.String(), d.Reason.Why.String()).Inc()
		size, mode := r.size[d.Autoscaler.Key], d.Autoscaler.Mode.String()
		key := seen{d.Autoscaler.Key, d.Do}
		switch d.Do {
		case plan.Evict:
			evictable.add(size, mode, 1)
			if !first[key] {
				withEvictable.add(size, mode, 1)
			}
		case plan.Resize:
			resizable.add(size, "", 1)
			if !first[key] {
				withResizable.add(size, "", 1)
			}
		case plan.Leave:
			left[d.Pod.UID] = d.Reason.Why
			r.leave(d)
		}
		first[key] = true
	}
	r.left = left
	controlled.publish(true)
	evictable.publish(true)
	withEvictable.publish(true)
	resizable.publish(false)
	withResizable.publish(false)
}

// leave says why a pod that should change is left alone: in the log when the reason is new for the pod, and to the
// autoscaler's users when it is one that they may want to do something about.
func (r *round) leave(d *plan.Decision) {
	if d.Reason.Why == plan.NotSmallerThanRefused {
		a := d.Autoscaler
		r.metrics.infeasibleSkip.WithLabelValues(r.size[a.Key], a.Name, a.Namespace).Inc()
		if r.left[d.Pod.UID] != d.Reason.Why {
			r.tell.ResizeSkipped(d.Pod)
		}
	}
	if d.Wanted.Why == plan.Fits || r.left[d.Pod.UID] == d.Reason.Why {
		return
	}
	r.log.Info("Left a pod as it is", "do", d.Do.String(), "pod", d.Pod.Key.String(), "vpa", d.Autoscaler.Key.String(),
		"reason", d.Reason.String(), "wanted", d.Wanted.String())
	if !hindrances[d.Reason.Why] || r.held[d.Autoscaler.Key] == d.Reason.Why {
		return
	}
	r.held[d.Autoscaler.Key] = d.Reason.Why
	r.tell.Autoscaler(d.Autoscaler, "UpdateHeld", "Pod "+d.Pod.Name+" is not updated: "+d.Reason.String())
}

// hindrances are the reasons to leave a pod that do not pass by themselves, or that mean that something is wrong.
var hindrances = map[plan.Why]bool{
	plan.BackingOff: true, plan.Unplaceable: true, plan.QoSChange: true, plan.Unowned: true, plan.TooFewReplicas: true,
	plan.ReplicasUnknown: true, plan.ResizeImpossible: true, plan.MemoryInUse: true, plan.NotSmallerThanRefused: true,
	plan.SameSize: true, plan.GateOff: true, plan.Unscheduled: true,
}

// execute carries out what is to be done, in order, a few pods at a time.
func (r *round) execute(ctx context.Context, ds []plan.Decision) {
	r.evicted, r.resized = map[cluster.Key]plan.Decision{}, map[cluster.Key]plan.Decision{}
	var g, unboost errgroup.Group
	g.SetLimit(updaterWorkers)
	unboost.SetLimit(max(r.config.BoostSyncs, 1))
	for _, d := range ds {
		if d.Do == plan.Leave {
			continue
		}
		if r.config.DryRun {
			r.pretend(&d)
			continue
		}
		if !r.afford(ctx, &d) {
			break
		}
		group := &g
		if len(d.Unboost) > 0 {
			group = &unboost
		}
		group.Go(func() error {
			attempt(r.log, r.health, d.Pod.Key.String(), func() { r.do(ctx, d) })
			r.health.Active(time.Now())
			return nil
		})
	}
	_, _ = g.Wait(), unboost.Wait() // what went wrong was counted and logged where it happened
}

// An intent is what a dry run would do with a pod, and why.
type intent struct {
	do  plan.Act
	why plan.Why
}

// pretend says what would be done with a pod, once: while it would be the same, there is nothing new to say.
func (r *round) pretend(d *plan.Decision) {
	if now := (intent{d.Do, d.Reason.Why}); r.would[d.Pod.UID] != now {
		r.would[d.Pod.UID] = now
		r.logger(d).Info("Would change a pod")
	}
}

func (r *round) logger(d *plan.Decision) *slog.Logger {
	return r.log.With("do", d.Do.String(), "pod", d.Pod.Key.String(), "vpa", d.Autoscaler.Key.String(), "reason", d.Reason.String())
}

// afford waits for the rate limit of a decision. It returns false when the pass ends first; the rest is decided anew in
// the next.
func (r *round) afford(ctx context.Context, d *plan.Decision) bool {
	limiter, failure := r.evicts, "EvictionRateLimiterWaitFailed"
	if d.Do == plan.Resize {
		limiter, failure = r.resizes, "InPlaceUpdateRateLimiterWaitFailed"
	}
	if err := limiter.Wait(ctx); err != nil {
		r.failed(d, failure)
		r.log.Debug("The rate limit ends this pass", "error", err)
		return false
	}
	return true
}

// do carries out one decision.
func (r *round) do(ctx context.Context, d plan.Decision) {
	if d.Do == plan.Resize && r.resize(ctx, &d) {
		return
	}
	if d.Do == plan.Evict {
		r.evict(ctx, &d)
	}
}

// resize resizes a pod. When that cannot be and the decision allows it, it turns the decision into an eviction and
// returns false.
func (r *round) resize(ctx context.Context, d *plan.Decision) (settled bool) {
	err := r.pods.Resize(ctx, d.Pod, d.With)
	if err == nil {
		var over []string
		for _, c := range d.Unboost {
			over = append(over, policy.BoostAnnotation+c)
		}
		if err := r.pods.Annotate(ctx, d.Pod, map[string]string{annotationInPlace: "true"}, over...); err != nil && !errors.Is(err, kube.ErrNotFound) {
			r.logger(d).Warn("Resized a pod in place, but cannot annotate it", "error", err)
		} else {
			r.logger(d).Info("Resized a pod in place")
		}
		r.tell.Resized(d.Pod)
		r.done(d, r.resized)
		r.metrics.resized.WithLabelValues(r.size[d.Autoscaler.Key], d.Autoscaler.Name, d.Autoscaler.Namespace).Inc()
		return true
	}
	if errors.Is(err, kube.ErrNotFound) || errors.Is(err, kube.ErrConflict) || ctx.Err() != nil {
		r.logger(d).Debug("A pod was gone before it could be resized", "error", err)
		return true
	}
	// What the API server refuses for good is remembered; a server that is busy will have time again.
	never := errors.Is(err, kube.ErrNodeCapacity)
	lasting := never || errors.Is(err, kube.ErrInvalid) || errors.Is(err, kube.ErrUnsupported) || errors.Is(err, kube.ErrForbidden)
	r.mu.Lock()
	switch {
	case never:
		r.ledger.Refused(r.now, *d)
	case lasting:
		r.ledger.Failed(r.now, *d)
	}
	r.mu.Unlock()
	switch {
	case len(d.Unboost) > 0:
		r.failed(d, "UnboostError")
	case never:
		r.failed(d, "InPlaceUpdateInfeasible")
	default:
		r.failed(d, "InPlaceUpdateError")
	}
	if !d.Fallback || !lasting {
		r.logger(d).Warn("Cannot resize a pod in place", "failed", err)
		return true
	}
	r.logger(d).Info("Cannot resize a pod in place; it is evicted instead", "failed", err)
	d.Do = plan.Evict
	return !r.afford(ctx, d)
}

func (r *round) evict(ctx context.Context, d *plan.Decision) {
	err := r.pods.Evict(ctx, d.Pod)
	switch {
	case err == nil:
	case errors.Is(err, kube.ErrNotFound), errors.Is(err, kube.ErrConflict), ctx.Err() != nil:
		r.logger(d).Debug("A pod was gone before it could be evicted", "error", err)
		return
	case errors.Is(err, kube.ErrBudget):
		r.failed(d, "EvictionError")
		if r.firstTime(d.Pod) {
			r.logger(d).Info("A disruption budget does not allow to evict a pod now", "failed", err)
		}
		return
	default:
		r.failed(d, "EvictionError")
		r.logger(d).Warn("Cannot evict a pod", "failed", err)
		return
	}
	r.logger(d).Info("Evicted a pod")
	r.tell.Evicted(d.Pod, d.Autoscaler)
	r.done(d, r.evicted)
	r.metrics.evicted.WithLabelValues(r.size[d.Autoscaler.Key], d.Autoscaler.Mode.String(), d.Autoscaler.Name, d.Autoscaler.Namespace).Inc()
}

// firstTime reports whether a disruption budget has not been in the way of this pod before.
func (r *round) firstTime(p *cluster.Pod) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.guarded[p.UID] {
		return false
	}
	r.guarded[p.UID] = true
	return true
}

// annotationInPlace marks pods that were resized in place, as upstream does.
const annotationInPlace = "vpaInPlaceUpdated"

// done notes a decision that was carried out.
func (r *round) done(d *plan.Decision, by map[cluster.Key]plan.Decision) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ledger.Done(r.now, *d)
	by[d.Autoscaler.Key] = *d
	delete(r.held, d.Autoscaler.Key)
}

// failed counts an attempt that did not succeed.
func (r *round) failed(d *plan.Decision, reason string) {
	a, size := d.Autoscaler, r.size[d.Autoscaler.Key]
	if d.Do == plan.Resize {
		r.metrics.resizeFailed.WithLabelValues(size, reason, a.Name, a.Namespace).Inc()
		return
	}
	r.metrics.evictFailed.WithLabelValues(size, a.Mode.String(), reason, a.Name, a.Namespace).Inc()
}

// finish publishes what was done.
func (r *round) finish() {
	withEvicted, withResized := newTally(r.metrics.withEvicted), newTally(r.metrics.withResized)
	for key, d := range r.evicted {
		withEvicted.add(r.size[key], d.Autoscaler.Mode.String(), 1)
	}
	for key := range r.resized {
		withResized.add(r.size[key], "", 1)
	}
	withEvicted.publish(true)
	withResized.publish(false)
	maps.DeleteFunc(r.would, func(uid string, _ intent) bool { return !r.exists[uid] })
	maps.DeleteFunc(r.guarded, func(uid string, _ bool) bool { return !r.exists[uid] })
	maps.DeleteFunc(r.held, func(key cluster.Key, _ plan.Why) bool { _, governed := r.size[key]; return !governed })
}
