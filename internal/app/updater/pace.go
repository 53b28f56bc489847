// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package updater

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"time"

	"podfit.dev/podfit/internal/app/process"
	"podfit.dev/podfit/internal/core/admissible"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/decision"
	"podfit.dev/podfit/internal/core/policy"
	"podfit.dev/podfit/internal/core/surge"
	"podfit.dev/podfit/internal/edge/kube/watcher"
)

// earlyPeriod is the minimum time from the start of a pass to the start of an early one.
const earlyPeriod = time.Second

// changeAwaiter starts an early pass when a change in the cluster occurs that pods wait for.
type changeAwaiter interface {
	AwaitChanges(watcher.Waits)
}

// urgentWatch signals changes because of which a pass before the end of the interval may change pods.
type urgentWatch interface {
	changeAwaiter
	Urgent() <-chan struct{}
}

// passesEarly reports whether there are early passes. Upstream's rules have no back-off, so that early passes could repeat an action every second.
func (c *Config) passesEarly() bool { return c.EarlyPasses && c.Rules == rulesPodfit }

// loop runs passes until ctx ends: one per interval, and early ones unless --early-passes is false.
func (u *updater) loop(ctx context.Context, watch urgentWatch, pass func(context.Context, time.Time)) {
	var early <-chan struct{} // never receives a value
	if u.config.passesEarly() {
		early = watch.Urgent()
		u.waits = watch
	}
	process.EveryOr(ctx, u.config.Interval, early, earlyPeriod, func(ctx context.Context, now time.Time) time.Duration {
		pass(ctx, now)
		return u.cost
	})
}

// awaitChanges registers what the pods that are left and the surges wait for.
func (u *updater) awaitChanges(now time.Time, decisions []decision.Decision, inProgress *surge.State) {
	if u.waits == nil {
		return
	}
	waits := waitsOf(decisions, inProgress)
	waits.At = cluster.Earliest(cluster.Earliest(waits.At, u.capacity.NextRead(now)), u.nodeUsage.NextRead())
	u.waits.AwaitChanges(waits)
}

func waitsOf(decisions []decision.Decision, inProgress *surge.State) watcher.Waits {
	waits := watcher.Waits{Nodes: map[string]bool{}, Controllers: map[cluster.Workload]bool{}, Surging: map[cluster.Workload]bool{}}
	if inProgress != nil {
		waits.At = inProgress.Due
	}
	for i := range decisions {
		d := &decisions[i]
		if d.Do == decision.Surge || inProgress.Has(d.Pod.Top) {
			waits.Surging[d.Pod.Controller] = true
		}
		waits.LargerNode = waits.LargerNode || d.Do == decision.Leave && (d.Reason.Code == decision.NoNodeFits || isHeldToNode(d))
		if d.Do == decision.Leave && d.Reason.Code == decision.NotReady {
			waits.At = cluster.Earliest(waits.At, d.Reason.Until)
		}
		switch {
		case d.Do != decision.Leave:
		case waitsForRoom[d.Reason.Code]:
			waits.Nodes[d.Pod.Node] = true
		case waitsForPods[d.Reason.Code]:
			waits.Controllers[d.Pod.Controller] = true
		}
	}
	return waits
}

// isHeldToNode reports whether a pod is scaled down to the largest node.
func isHeldToNode(d *decision.Decision) bool {
	return slices.ContainsFunc(d.With, func(f policy.Fitted) bool {
		return slices.ContainsFunc(f.Notes, func(n admissible.Note) bool { return n.Kind == admissible.HeldToNode })
	})
}

// waitsForRoom are the reasons to leave a pod that end when its node has room.
var waitsForRoom = map[decision.ReasonCode]bool{decision.ResizeWaiting: true, decision.AwaitingRoom: true, decision.RoomReserved: true}

// waitsForPods are the reasons to leave a pod that may end when another pod of its controller is ready.
var waitsForPods = map[decision.ReasonCode]bool{
	decision.BudgetSpent: true, decision.NotReady: true, decision.TooFewReplicas: true, decision.DisruptionBudget: true, decision.Probing: true,
	decision.AwaitingReplacement: true, decision.ReplacementMissing: true, decision.RescueInProgress: true,
}

// pace is what the time of the next pass depends on.
type pace struct {
	waits changeAwaiter // nil: no early passes
	cost  time.Duration // of the last pass, see passClock
}

// A passClock measures the cost of a pass: its duration without the time for which it waits for the API server and the rate limits.
type passClock struct {
	began  time.Time
	waited time.Duration
}

func (c *passClock) waiting(do func()) {
	began := time.Now()
	defer func() { c.waited += time.Since(began) }()
	do()
}

func (c *passClock) cost() time.Duration { return time.Since(c.began) - c.waited }

// staleWatch is the reason for which a pass is skipped that would decide by an old state of the cluster.
const staleWatch = "StaleWatch"

// isCurrent reports whether all watches are up to date. By an old state, the updater would evict pods whose workload has become
// unhealthy since, or that have been replaced.
func (u *updater) isCurrent(now time.Time) bool {
	if u.stale == nil {
		return true
	}
	stale := u.stale(now)
	switch {
	case len(stale) > 0 && !u.outdated:
		u.log.Warn("Not updating pods: these watches are not complete yet, or may be out of date",
			slog.String("resource", strings.Join(stale, ",")))
	case len(stale) == 0 && u.outdated:
		u.log.Info("All watches are up to date again; updating pods")
	}
	u.outdated = len(stale) > 0
	if !u.outdated {
		u.wasCurrent = true
		return true
	}
	u.metrics.skipped.WithLabelValues(staleWatch).Inc()
	if !u.wasCurrent && u.waits != nil {
		u.waits.AwaitChanges(watcher.Waits{At: now.Add(earlyPeriod)}) // optional resources may be listed some seconds after the others
	}
	return false
}
