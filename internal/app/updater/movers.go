// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package updater

import (
	"context"
	"log/slog"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/decision"
	"podfit.dev/podfit/internal/core/plan"
)

// A mover replaces a pod by one with other requests, or on another node. An error wraps one of the refusals of package kube, or is
// transient.
type mover interface {
	move(ctx context.Context, d *decision.Decision) error
}

// movers returns the movers by action.
func (e *execution) movers() map[decision.Act]mover {
	return map[decision.Act]mover{
		decision.Evict:  evictor{e.pods},
		decision.Delete: deleter{e.pods},
		decision.Surge:  surger{e},
	}
}

// An evictor evicts pods: the pod is out of service until its replacement is ready.
type evictor struct{ pods podChanger }

func (m evictor) move(ctx context.Context, d *decision.Decision) error {
	return m.pods.Evict(ctx, d.Pod)
}

// A deleter deletes pods, without asking disruption budgets.
type deleter struct{ pods podChanger }

func (m deleter) move(ctx context.Context, d *decision.Decision) error {
	return m.pods.Delete(ctx, d.Pod)
}

// A surger begins surges: the pod is removed in a later pass, when an additional pod is ready.
type surger struct{ *execution }

func (m surger) move(ctx context.Context, d *decision.Decision) error {
	return m.surges.Start(ctx, m.now, d.Pod)
}

// advanceSurges carries out the next step of each surge in progress. It returns what the plan must know about surges; nil if no surge may
// begin.
func (u *updater) advanceSurges(ctx context.Context, now time.Time) *plan.Surges {
	if u.surges == nil {
		return nil
	}
	inProgress, failed := u.surges.Advance(ctx, now)
	for _, f := range failed {
		if f.Pod != nil {
			u.ledger.SurgeFailed(now, f.Pod, f.Reason)
		}
	}
	return inProgress
}

// reportInvalidMovers logs annotations podfit.dev/mover without a valid value, once for each value.
func (u *updater) reportInvalidMovers(served []*cluster.Autoscaler) {
	var current map[cluster.Key]string
	for _, a := range served {
		if _, ok := plan.ParseMover(a.Mover); ok || a.Mover == "" {
			continue
		}
		if current == nil {
			current = map[cluster.Key]string{}
		}
		current[a.Key] = a.Mover
		if u.moverInvalid[a.Key] != a.Mover {
			u.log.Warn("The annotation podfit.dev/mover is invalid, so --mover applies; it must be evict, room or surge",
				slog.String("vpa", a.Key.String()), slog.String("used", a.Mover))
		}
	}
	u.moverInvalid = current
}
