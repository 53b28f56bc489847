// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package updater

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"podfit.dev/podfit/api/podfit/v1alpha1"
	v1 "podfit.dev/podfit/api/v1"
	"podfit.dev/podfit/internal/app/updater/freeze"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/decision"
	"podfit.dev/podfit/internal/core/plan"
	"podfit.dev/podfit/internal/core/policy"
	"podfit.dev/podfit/internal/core/rollout"
	"podfit.dev/podfit/internal/edge/kube"
	"podfit.dev/podfit/internal/edge/kube/watcher"
)

// gate returns a context whose requests are not sent during a freeze, not even if they waited for the rate limit of the client when the
// freeze began. It returns an error if there is a freeze now.
func (e *execution) gate(ctx context.Context, d *decision.Decision) (context.Context, error) {
	g := freeze.NewGate(e.world, d.Autoscaler.Namespace, d.Autoscaler)
	return kube.WithGate(ctx, g), g.Closed()
}

// A rolloutReport is what was reported about the annotations, the canary and the memory limits of an autoscaler. The zero value is nothing.
type rolloutReport struct {
	problem  string // the errors in the annotations
	cause    string // the reason of the condition Reverted
	reverted string // its message
	limits   string // the message of the condition MemoryLimitInProportion
}

// reportRollouts reports errors in annotations and reverted recommendations, by conditions and once by a warning event, and by a condition which quota
// keeps memory limits. An autoscaler that changes no pods, as in mode Off, gets none, and loses those that it has.
func (e *execution) reportRollouts(ctx context.Context, now time.Time, w plan.World, all map[cluster.Key]*cluster.Autoscaler) {
	reports := make(map[cluster.Key]rolloutReport, len(all))
	for i := range w.Governed {
		a := w.Governed[i].Autoscaler
		report := reportOf(w.Rules[a.Key], e.ledger.Canary(a.Target), a)
		report.limits = limitsOf(&w.Governed[i], w.Limits[a.Namespace])
		reports[a.Key] = report
	}
	var due []conditionWrite
	for _, key := range slices.SortedFunc(maps.Keys(all), cluster.Key.Compare) {
		a, shown, report := all[key], e.conditions.rollouts.of(key), reports[key]
		if report != shown.last {
			e.report.rollout(a, report, shown.last)
		}
		shown.set(report)
		if e.conditions.writer != nil && !e.config.DryRun && shown.isDue(now) {
			due = append(due, conditionWrite{a, []watcher.Condition{
				conditionOf(v1alpha1.ConditionAnnotationInvalid, v1alpha1.ReasonInvalid, report.problem),
				conditionOf(v1alpha1.ConditionReverted, report.cause, report.reverted),
				conditionOf(v1alpha1.ConditionMemoryLimitInProportion, v1alpha1.ReasonQuota, report.limits),
			}, &shown.conditionAttempt})
		}
	}
	e.conditions.write(ctx, now, due)
	maps.DeleteFunc(e.conditions.rollouts, func(key cluster.Key, _ *report[rolloutReport]) bool { return all[key] == nil })
}

// conditionOf returns a condition that is True, or removed if there is no message.
func conditionOf(kind, reason, message string) watcher.Condition {
	if message == "" {
		return watcher.Condition{Type: v1.VerticalPodAutoscalerConditionType(kind), Status: watcher.Removed}
	}
	return watcher.Condition{Type: v1.VerticalPodAutoscalerConditionType(kind), Status: watcher.True, Reason: reason, Message: message}
}

var revertReasons = map[rollout.Cause]string{
	rollout.OOMKilled: v1alpha1.ReasonOOMKilled, rollout.Restarted: v1alpha1.ReasonRestarted, rollout.NotReady: v1alpha1.ReasonNotReady,
	rollout.Throttled: v1alpha1.ReasonThrottled,
}

func reportOf(rules rollout.Rules, canary rollout.State, a *cluster.Autoscaler) rolloutReport {
	var out rolloutReport
	var problems []string
	if p := a.Rules.WindowProblem; p != "" {
		problems = append(problems, "Annotation "+rollout.AnnotationWindow+" is invalid, so no running pod is changed: "+p+".")
	} else if p := rules.Namespace.WindowProblem; p != "" && !a.Rules.HasWindows() {
		problems = append(problems, "Annotation "+rollout.AnnotationWindow+" of namespace "+a.Namespace+" is invalid, so no running pod is changed: "+p+".")
	}
	if p := a.Canary.Problem; p != "" && a.Canary.On {
		problems = append(problems, "A"+strings.TrimPrefix(p, "a")+".")
	}
	if a.Canary.Objective.Query != "" && !a.Canary.On {
		problems = append(problems, "Annotation podfit.dev/canary-query has no effect, because no canary is in effect. Set the annotation podfit.dev/rollout to canary, or remove the query.")
	}
	for _, p := range [...]string{a.Rules.SettingProblem, a.Guards.Problem, a.CPULimits.Problem, a.MemoryLimits.Problem, a.Learning.Problem} {
		if p != "" {
			problems = append(problems, strings.ToUpper(p[:1])+p[1:]+".")
		}
	}
	if p := rules.Namespace.SettingProblem; p != "" {
		problems = append(problems, "Namespace "+a.Namespace+": "+p+".")
	}
	out.problem = strings.Join(problems, " ")
	if canary.Phase == rollout.Held {
		out.cause = revertReasons[canary.Cause]
		out.reverted = "The recommendation was reverted, because after the change " + canary.Text() + ". The previous size applies until " + canary.Until.UTC().Format(time.RFC3339) + "."
	}
	return out
}

// limitsOf returns a message if a ResourceQuota keeps memory limits that should follow the highest usage. Quotas that are not known are not reported.
func limitsOf(g *cluster.Governed, l policy.Limits) string {
	quota := policy.QuotaOfLimits(l, cluster.Standing{}, cluster.Memory)
	if !quota.Refused() || !g.Autoscaler.Mode.Applies() || !slices.ContainsFunc(g.Pods, func(p *cluster.Pod) bool {
		return p.Live() && cluster.Find(p.Containers, func(c *cluster.Container) bool {
			return policy.MemoryLimitOf(g.Autoscaler, l, p, c) == policy.LimitOfQuota
		}) != nil
	}) {
		return ""
	}
	return "Memory limits keep their ratio to the request and do not follow the highest usage, because higher limits could exceed a quota: " + quota.String() +
		". Change the quotas, or set the annotation " + v1alpha1.AnnotationMemoryLimits + " to proportional."
}

// assumeChanges makes the updater change nothing for an hour if the amount of changes is limited and it is unknown what an earlier updater
// has changed, because states cannot be stored.
func (u *updater) assumeChanges(now time.Time) {
	if !u.budget.LimitsRadius() || u.states.IsActive() {
		return
	}
	u.ledger.AssumeChanges(now)
	u.log.Warn("The changes of the last hour are unknown, so no pods are changed for one hour",
		slog.Time("until", now.Add(rollout.Span)),
		slog.String("remedy", "install the CRD UpdateState and grant the rights to it, as deploy/ does; or remove --max-change-per-hour-namespace and --max-change-per-hour-cluster"))
}
