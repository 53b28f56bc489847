// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package updater

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/room"
	"podfit.dev/podfit/internal/edge/kube"
)

// The values of --scheduler-resize-preemption.
const (
	preemptionAuto = "auto"
	preemptionOn   = "on"
	preemptionOff  = "off"
)

const (
	// preemptionInterval is how often the updater reads whether the scheduler preempts pods for deferred resizes. The API server must be
	// restarted to change it.
	preemptionInterval = time.Hour
	// preemptionRetry is how long the updater waits after it could not read it.
	preemptionRetry = 5 * time.Minute
	// preemptionTimeout limits the request. The metrics of an API server may have several megabytes.
	preemptionTimeout = 10 * time.Second
)

// preemptionReader reads whether the scheduler preempts pods for deferred resizes.
type preemptionReader interface {
	ResizePreemption(ctx context.Context) (bool, error)
}

// preemption is whether the scheduler preempts pods for deferred resizes (KEP-5836). Then no pod is moved to make room: two components
// would make room for the same resize.
type preemption struct {
	reader   preemptionReader // nil: it is assumed that it does not
	next     time.Time        // when it is read again
	on       bool
	reported string // what was logged
}

// schedulerPreempts reports whether the scheduler preempts pods for deferred resizes, or may do so. It is read only if pods may be moved.
func (u *updater) schedulerPreempts(ctx context.Context, now time.Time, served []*cluster.Autoscaler) bool {
	p := &u.preemption
	switch {
	case !u.mayMove(served):
		return false
	case u.config.ResizePreemption != preemptionAuto:
		p.on = u.config.ResizePreemption == preemptionOn
		u.reportPreemption(nil)
	case p.reader == nil:
		return false
	case now.Before(p.next) && now.After(p.next.Add(-preemptionInterval)):
	default:
		ctx, cancel := context.WithTimeout(ctx, preemptionTimeout)
		on, err := p.reader.ResizePreemption(ctx)
		cancel()
		p.next = now.Add(preemptionInterval)
		p.on = on
		if err != nil {
			p.next = now.Add(preemptionRetry)
			p.on = true
		}
		u.reportPreemption(err)
	}
	return p.on
}

// mayMove reports whether the updater may move a pod to make room.
func (u *updater) mayMove(served []*cluster.Autoscaler) bool {
	return u.budget.MakeRoom == room.Move || slices.ContainsFunc(served, func(a *cluster.Autoscaler) bool {
		own, ok := room.ParseAllowed(a.MakeRoom)
		return ok && own == room.Move
	})
}

// reportPreemption logs that no pod is moved to make room, and that pods may be moved again.
func (u *updater) reportPreemption(err error) {
	state := preemptionOff
	switch {
	case err != nil:
		state = preemptionAuto
	case u.preemption.on:
		state = preemptionOn
	}
	before := u.preemption.reported
	u.preemption.reported = state
	switch {
	case state == before:
	case state == preemptionAuto:
		u.log.Warn("Not moving pods to make room: it is not known whether the scheduler preempts pods for deferred resizes. "+
			"Grant the right to get /metrics (deploy/rights/api-server-metrics), or set --scheduler-resize-preemption", slog.String("error", kube.Answer(err)))
	case state == preemptionOn:
		u.log.Info("Not moving pods to make room: the scheduler preempts pods for deferred resizes")
	case before != "":
		u.log.Info("Pods may be moved to make room: the scheduler does not preempt pods for deferred resizes")
	}
}
