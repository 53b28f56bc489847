// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package updater

import (
	"context"
	"errors"

	"podfit.dev/podfit/internal/app/process"
	"podfit.dev/podfit/internal/app/updater/provision"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/decision"
	"podfit.dev/podfit/internal/core/headroom"
	"podfit.dev/podfit/internal/edge/kube"
	"podfit.dev/podfit/internal/edge/kube/capacity"
)

// The values of --capacity-before-eviction.
const (
	capacityOff = "off"
	capacityAsk = "ask"
)

// connectCapacity sets the ways to ask for capacity. There are none where the pods of all namespaces are not watched: free room is unknown.
func (u *updater) connectCapacity(clients *kube.Clients) {
	if !u.config.WatchesAllPods() {
		return
	}
	requests := capacity.NewProvisioningRequests(clients, u.config.ProvisioningClass, u.config.PlaceholderImage)
	u.capacity.Use(map[cluster.RequestKind]provision.Client{
		cluster.PlaceholderPod: capacity.NewPlaceholders(clients, u.config.PlaceholderImage), cluster.ProvisioningRequest: requests,
	}, requests)
}

// executeCapacity creates and deletes requests for capacity before the actions of the pass, or only logs that in a dry run. Deletions come
// first, because they free room.
func (e *execution) executeCapacity(ctx context.Context) {
	steps := e.pass.CapacitySteps()
	if e.config.DryRun {
		e.capacity.LogSteps(steps)
		return
	}
	for _, creates := range []bool{false, true} {
		part := cluster.Where(steps, func(s *headroom.Step) bool { return (s.Request == nil) == creates })
		process.Each(maxWorkers, part, func(step *headroom.Step) {
			process.Attempt(e.log, e.health, provision.About(step).String(), func() { e.tryCapacity(ctx, step) })
		})
	}
	if len(steps) > 0 {
		e.capacity.Reread()
	}
}

// tryCapacity carries out one step and reports its outcome.
func (e *execution) tryCapacity(ctx context.Context, step *headroom.Step) {
	if !e.capacity.Asks(step.Kind) || step.Request == nil && !e.announceRequest(ctx, step) {
		return
	}
	err := e.capacity.CarryOut(ctx, step)
	if errors.Is(err, kube.ErrNotSent) || errors.Is(err, kube.ErrNotFound) {
		return // the next pass decides again
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if err != nil {
		e.pass.CapacityRefused(step, decision.Refusal{Kind: kindOf(err), Text: kube.Answer(err)})
		return
	}
	e.pass.CapacityDone(step)
}
