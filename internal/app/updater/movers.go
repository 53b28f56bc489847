// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package updater

import (
	"context"

	"podfit.dev/podfit/internal/core/decision"
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
	return m.surges.start(ctx, m.now, d.Pod)
}
