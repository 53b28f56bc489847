// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package updater

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"golang.org/x/sync/errgroup"

	"podfit.dev/podfit/internal/app/process"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/decision"
	"podfit.dev/podfit/internal/core/plan"
	"podfit.dev/podfit/internal/edge/kube"
)

// The values of --capacity-before-eviction.
const (
	capacityOff = "off"
	capacityAsk = "ask"
)

const (
	// providerInterval is how often the updater checks whether it can ask for capacity.
	providerInterval = 5 * time.Minute
	// placeholderTimeout limits one request about a placeholder pod, so that a pass does not wait for it for long.
	placeholderTimeout = 10 * time.Second
)

// placeholderClient creates and deletes placeholder pods.
type placeholderClient interface {
	Available(ctx context.Context, dryRun bool) (problem string, err error)
	Create(ctx context.Context, p *cluster.Pod, size cluster.Resources) error
	Delete(ctx context.Context, placeholder *cluster.Pod) error
}

// capacityProvider is how the updater asks for capacity before an eviction.
type capacityProvider struct {
	client  placeholderClient // nil: it does not ask
	checked time.Time         // when Available last answered
	known   bool              // Available has answered once
	problem string            // why placeholder pods cannot be created; "" if they can
	logged  map[string]bool   // steps that a dry run has logged, by the UID of the pod
}

// provider returns how capacity is asked for in this pass. While that cannot be checked, the last answer applies. If there is none yet, it
// is assumed that placeholder pods can be created, so that no pod is evicted whose replacement has no room.
func (u *updater) provider(ctx context.Context, now time.Time) plan.Provider {
	c := &u.capacity
	if c.client == nil || u.config.CapacityBeforeEviction == capacityOff {
		return plan.NoProvider
	}
	if !c.known || now.Sub(c.checked) >= providerInterval || now.Before(c.checked) {
		u.checkProvider(ctx, now)
	}
	if c.problem != "" {
		return plan.NoProvider
	}
	return plan.PlaceholderPods
}

func (u *updater) checkProvider(ctx context.Context, now time.Time) {
	c := &u.capacity
	ctx, cancel := context.WithTimeout(ctx, placeholderTimeout)
	defer cancel()
	problem, err := c.client.Available(ctx, u.config.DryRun)
	if err != nil {
		u.log.Warn("Cannot check whether placeholder pods can be created", slog.Any("error", err))
		return
	}
	if !c.known || problem != c.problem {
		if problem == "" {
			u.log.Info("Capacity for replacements is asked for with placeholder pods before evictions")
		} else {
			u.log.Info("No capacity is asked for before evictions, because placeholder pods cannot be created", slog.String("reason", problem),
				slog.String("remedy", "kubectl apply -f deploy/17-placeholders.yaml, or set --capacity-before-eviction=off"))
		}
	}
	c.known, c.problem, c.checked = true, problem, now
}

// executeCapacity creates and deletes placeholder pods before the actions of the pass, or only logs that in a dry run. Deletions come
// first, because they free room.
func (e *execution) executeCapacity(ctx context.Context) {
	steps := e.pass.CapacitySteps()
	if e.config.DryRun {
		e.logCapacity(steps)
		return
	}
	if e.capacity.client == nil {
		return
	}
	for _, creates := range []bool{false, true} {
		var workers errgroup.Group
		workers.SetLimit(maxWorkers)
		for i := range steps {
			if (steps[i].Placeholder == nil) != creates {
				continue
			}
			workers.Go(func() error {
				process.Attempt(e.log, e.health, aboutStep(&steps[i]).String(), func() { e.tryCapacity(ctx, &steps[i]) })
				return nil
			})
		}
		_ = workers.Wait() // errors are logged where they occur
	}
}

// aboutStep returns the pod that a step is about.
func aboutStep(step *plan.CapacityStep) cluster.Key {
	if step.Pod != nil {
		return step.Pod.Key
	}
	return step.Placeholder.Key
}

// tryCapacity carries out one step and reports its outcome.
func (e *execution) tryCapacity(ctx context.Context, step *plan.CapacityStep) {
	ctx, cancel := context.WithTimeout(ctx, placeholderTimeout)
	defer cancel()
	log := e.log.With(slog.String("pod", aboutStep(step).String()))
	var err error
	if step.Placeholder == nil {
		log = log.With(slog.String("vpa", step.Autoscaler.Key.String()), slog.String("wanted", step.Size.String()))
		err = e.capacity.client.Create(ctx, step.Pod, step.Size)
	} else {
		log = log.With(slog.String("object", step.Placeholder.Key.String()), slog.String("reason", string(step.Release)))
		err = e.capacity.client.Delete(ctx, step.Placeholder)
	}
	switch {
	case err == nil && step.Placeholder == nil:
		log.Info("Created a placeholder pod to get capacity before an eviction")
	case err == nil:
		log.Info("Deleted a placeholder pod")
	case errors.Is(err, kube.ErrNotSent), errors.Is(err, kube.ErrNotFound):
		log.Debug("Nothing was done about a placeholder pod", slog.Any("error", err))
		return // the next pass decides again
	default:
		log.Warn("Failed to create or delete a placeholder pod", slog.String("error", kube.Answer(err)))
		e.record(func() []decision.Decision {
			e.pass.CapacityRefused(step, decision.Refusal{Kind: kindOf(err), Text: kube.Answer(err)})
			return nil
		})
		return
	}
	e.record(func() []decision.Decision {
		e.pass.CapacityDone(step)
		return nil
	})
}

// releaseAfter deletes the placeholder of an evicted pod, so that its replacement gets the room. It comes after the eviction: before, the
// eviction may still be refused, and other pods would take the room. If the scheduler is faster, it preempts the placeholder. If the
// deletion fails, the next pass repeats it, and the garbage collector deletes the placeholder with the evicted pod.
func (e *execution) releaseAfter(ctx context.Context, d *decision.Decision) {
	if d.Placeholder == nil || d.Do != decision.Evict {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, placeholderTimeout)
	defer cancel()
	log := e.log.With(slog.String("pod", d.Pod.Key.String()), slog.String("object", d.Placeholder.Key.String()))
	if err := e.capacity.client.Delete(ctx, d.Placeholder); err != nil {
		log.Info("Failed to delete a placeholder pod after the eviction; the next pass repeats it", slog.String("error", kube.Answer(err)))
		return
	}
	log.Info("Deleted a placeholder pod", slog.String("reason", string(plan.ReleaseGone)))
}

// logCapacity logs what would be done about placeholder pods, once for each pod.
func (e *execution) logCapacity(steps []plan.CapacityStep) {
	current := make(map[string]bool, len(steps))
	for i := range steps {
		step := &steps[i]
		if step.Placeholder != nil {
			continue // it belongs to the updater that is not a dry run
		}
		current[step.Pod.UID] = true
		if !e.capacity.logged[step.Pod.UID] {
			e.log.Info("Would create a placeholder pod to get capacity before an eviction", slog.String("pod", step.Pod.Key.String()),
				slog.String("vpa", step.Autoscaler.Key.String()), slog.String("wanted", step.Size.String()))
		}
	}
	e.capacity.logged = current
}
