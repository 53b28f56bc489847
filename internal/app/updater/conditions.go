// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package updater

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"podfit.dev/podfit/internal/app/process"
	"podfit.dev/podfit/internal/app/updater/summary"
	"podfit.dev/podfit/internal/core/attempt"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/decision"
	"podfit.dev/podfit/internal/core/plan"
	"podfit.dev/podfit/internal/core/recommend"
	"podfit.dev/podfit/internal/edge/kube"
	"podfit.dev/podfit/internal/edge/kube/watcher"
)

const (
	// conditionsTimeout limits the writes of conditions after a pass, because the next pass waits for them.
	conditionsTimeout = 5 * time.Second
	// conditionBackoff is the pause after a failed write. Each further one doubles it.
	conditionBackoff     = time.Second
	conditionBackoffMost = 10 * time.Minute
)

type conditionReporter struct {
	config       *Config
	writer       conditionWriter         // nil: no conditions are written
	profileNames func() ([]string, bool) // of SizingProfiles; nil: there are none
	summaries    *summary.Writer         // nil: no condition Updating is written
	health       *process.Health
	log          *slog.Logger
	rollouts     reports[rolloutReport]
	rescues      reports[rescueState]
}

// A conditionAttempt is the state of the write of conditions of one autoscaler. A change of the conditions sets written to false.
type conditionAttempt struct {
	written bool
	attempt.Failures
}

// reports are what was reported by conditions, by autoscaler.
type reports[State comparable] map[cluster.Key]*report[State]

type report[State comparable] struct {
	last State
	conditionAttempt
}

// of returns what was reported about an autoscaler.
func (r reports[State]) of(key cluster.Key) *report[State] {
	if r[key] == nil {
		r[key] = new(report[State])
	}
	return r[key]
}

// set replaces what is reported about an autoscaler.
func (r *report[State]) set(next State) {
	if next != r.last {
		r.last = next
		r.written = false
	}
}

func (c *conditionAttempt) isDue(now time.Time) bool { return !c.written && !now.Before(c.Retry) }

func (c *conditionAttempt) record(now time.Time, err error) {
	if err == nil {
		*c = conditionAttempt{written: true}
		return
	}
	c.Add(now, conditionBackoff, conditionBackoffMost)
}

// A conditionWrite is a write that is due.
type conditionWrite struct {
	autoscaler *cluster.Autoscaler
	say        []watcher.Condition
	attempt    *conditionAttempt
}

// write writes conditions in parallel. What fails, for example because the object has changed, or is not done in time, is
// written by a later pass.
func (c *conditionReporter) write(ctx context.Context, now time.Time, due []conditionWrite) {
	isOurs := c.recommended()
	due = slices.DeleteFunc(due, func(w conditionWrite) bool { return !isOurs(w.autoscaler) })
	ctx, cancel := context.WithTimeout(ctx, conditionsTimeout)
	defer cancel()
	process.Each(maxWorkers, due, func(w conditionWrite) {
		if ctx.Err() != nil {
			return // not tried
		}
		key := w.autoscaler.Key.String()
		err := process.Try(c.log, c.health, key, func() error {
			_, err := c.writer.WriteConditions(ctx, w.autoscaler, now, w.say...)
			return err
		})
		w.attempt.record(now, err)
		if err != nil {
			c.log.Debug("Failed to write a condition of a VPA", slog.String("vpa", key), slog.String("error", kube.Answer(err)))
		}
	})
}

// recommended returns whether podfit's recommender serves an autoscaler. The status of others belongs to the recommender that they name, so
// podfit writes nothing to them; it changes their pods as upstream's updater does.
func (c *conditionReporter) recommended() func(*cluster.Autoscaler) bool {
	if c.config.Recommends != nil {
		return c.config.Recommends
	}
	var profiles []string
	if c.profileNames != nil {
		profiles, _ = c.profileNames()
	}
	return func(a *cluster.Autoscaler) bool {
		_, builtin := recommend.Builtin(a.Recommender)
		return a.Recommender == "" || builtin || slices.Contains(profiles, a.Recommender)
	}
}

// summarizeUpdates sends the summaries of a pass to the writer of conditions.
func (e *execution) summarizeUpdates(now time.Time, all []*cluster.Autoscaler, decisions []decision.Decision) {
	if e.conditions.summaries == nil || e.config.DryRun {
		return
	}
	failed := cluster.SetOf(e.pass.Failures, func(f plan.Failure) cluster.Key { return f.Autoscaler.Key })
	isOurs := e.conditions.recommended()
	all = slices.DeleteFunc(slices.Clone(all), func(a *cluster.Autoscaler) bool {
		return !e.config.Serves(a.Namespace) || failed[a.Key] || !isOurs(a)
	})
	var summaries map[cluster.Key]summary.Summary // without a summary, the condition is removed
	if e.config.UpdatingCondition {
		summaries = summary.Of(decisions)
	}
	e.conditions.summaries.Pace(len(e.evicted) + len(e.resized))
	e.conditions.summaries.Update(now, all, summaries)
}

// pauseShownAfter is how long passes are skipped before the conditions Updating show it. A restart of the admission controller, for example,
// takes less.
const pauseShownAfter = 2 * time.Minute

// pauses makes the conditions Updating and the metric of nodes show that the updater changes no pods, because what the last pass wrote is outdated.
func (u *updater) pauses(now time.Time, why string) {
	u.metrics.publishNodes(nil, 0)
	u.pausedSince = cluster.Earliest(u.pausedSince, now)
	if u.conditions.summaries == nil || u.config.DryRun || !u.config.UpdatingCondition || now.Sub(u.pausedSince) < pauseShownAfter {
		return
	}
	s := u.world.Snapshot()
	isOurs := u.conditions.recommended()
	all := slices.DeleteFunc(slices.Clone(s.Autoscalers), func(a *cluster.Autoscaler) bool { return !u.config.Serves(a.Namespace) || !isOurs(a) })
	u.conditions.summaries.Update(now, all, summary.Paused(cluster.Gather(u.served(s.Autoscalers), s.Pods, u.budget.StartupBoost), why))
}
