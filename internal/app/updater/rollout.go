// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package updater

import (
	"context"

	"podfit.dev/podfit/internal/core/plan"
	"podfit.dev/podfit/internal/edge/kube"
)

// A frozenError is the error of an action that was not sent because of a freeze.
type frozenError struct{ reason plan.Reason }

func (e *frozenError) Error() string { return e.reason.String() }

// frozen reports whether a freeze stops a decision now. It reads the current state of the watches, because a freeze may begin in the
// middle of a pass.
func (e *execution) frozen(d *plan.Decision) (plan.Reason, bool) {
	return plan.FrozenBy(e.world.Rules(d.Autoscaler))
}

// gate returns a context whose requests are not sent during a freeze, not even if they waited for the rate limit of the client when the
// freeze began. It returns an error if there is a freeze now.
func (e *execution) gate(ctx context.Context, d *plan.Decision) (context.Context, error) {
	check := func() error {
		if reason, frozen := e.frozen(d); frozen {
			return &frozenError{reason}
		}
		return nil
	}
	return kube.WithGate(ctx, check), check()
}
