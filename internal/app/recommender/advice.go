// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package recommender

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"podfit.dev/podfit/api/podfit/v1alpha1"
	v1 "podfit.dev/podfit/api/v1"
	"podfit.dev/podfit/internal/app/process"
	"podfit.dev/podfit/internal/app/recommender/grouping"
	"podfit.dev/podfit/internal/app/recommender/history"
	"podfit.dev/podfit/internal/core/changelog"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/contention"
	"podfit.dev/podfit/internal/core/policy"
	"podfit.dev/podfit/internal/core/recommend"
	"podfit.dev/podfit/internal/core/sizing"
	"podfit.dev/podfit/internal/core/usage"
	"podfit.dev/podfit/internal/edge/kube"
	"podfit.dev/podfit/internal/edge/kube/watcher"
)

// advice is the new status of one autoscaler.
type advice struct {
	to         *cluster.Autoscaler
	containers []cluster.Advice
	conditions []watcher.Condition

	// What the status depends on.
	by        *recommender
	now       time.Time
	in        *view
	choice    *sizing.Choice
	pods      []*cluster.Pod // of the target
	seen      podsSeen
	governing bool // the autoscaler governs its target
}

// advise computes the status of each served autoscaler and writes those that changed, several concurrently. It removes podfit's conditions from
// autoscalers that are no longer served.
func (r *recommender) advise(ctx context.Context, now time.Time, v *view) {
	var writers errgroup.Group
	writers.SetLimit(r.config.Workers)
	for _, a := range v.Autoscalers {
		if r.isToRelease(a) {
			writers.Go(func() error {
				process.Attempt(r.log, r.health, a.Key.String(), func() { r.release(ctx, now, a) })
				return nil
			})
		}
	}
	count := make(map[objectKey]int)
	conditions := make(map[[2]string]int) // by type and reason
	for _, a := range v.served {
		process.Attempt(r.log, r.health, a.Key.String(), func() {
			adv := r.adviseOne(now, v, a)
			count[adv.class()]++
			adv.count(conditions)
			writers.Go(func() error {
				process.Attempt(r.log, r.health, a.Key.String(), func() {
					if r.write(ctx, now, adv) {
						r.noteAdvised(adv.to)
					}
				})
				return nil
			})
		})
	}
	_ = writers.Wait() // always nil: write logs errors
	r.keep(v.Autoscalers, r.governed)
	r.metrics.publishObjects(count)
	r.metrics.publishConditions(conditions)
	r.metrics.publishLacks(r.contention.MostLacking())
}

// isToRelease reports whether podfit's conditions must be removed from an autoscaler, because it is served by another recommender now. That is
// done once for each recommender: if they appear again, the other one is podfit, too, and has written them.
func (r *recommender) isToRelease(a *cluster.Autoscaler) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.serves(a) {
		delete(r.released, a.Key)
		return false
	}
	return a.Remarked && r.config.Common.Serves(a.Namespace) && r.catalog.IsListed() && r.released[a.Key] != released{a.UID, a.Recommender}
}

// release removes podfit's conditions from an autoscaler that another recommender serves. The rest of the status belongs to that one.
func (r *recommender) release(ctx context.Context, now time.Time, a *cluster.Autoscaler) {
	defer func() { r.health.Active(time.Now()) }()
	var none advice
	for _, c := range append(v1alpha1.Conditions(), v1alpha1.ConditionUpdating) {
		none.report(v1.VerticalPodAutoscalerConditionType(c), "", "")
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	if _, err := r.world.WriteConditions(ctx, a, now, none.conditions...); err != nil {
		r.log.Debug("Cannot remove conditions from a VPA that another recommender serves; the next pass tries again",
			slog.String("vpa", a.Key.String()), slog.Any("error", err))
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.released[a.Key] = released{a.UID, a.Recommender}
}

// adviseOne returns the new status of an autoscaler, and updates the metrics of changed recommendations.
func (r *recommender) adviseOne(now time.Time, v *view, a *cluster.Autoscaler) advice {
	adv := r.advice(now, v, a)
	if len(a.Advice) == 0 && len(adv.containers) > 0 {
		r.metrics.latency.Observe(now.Sub(a.Created).Seconds())
	}
	for i := range adv.containers {
		if before := a.AdviceFor(adv.containers[i].Container); before != nil {
			r.metrics.quality.changed(a.Mode, before.Target, adv.containers[i].Target, len(adv.pods))
		}
	}
	return adv
}

func (r *recommender) advice(now time.Time, v *view, a *cluster.Autoscaler) advice {
	choice := r.catalog.Of(a)
	assignment, conflicts := v.assignments.Conflict(a, choice)
	to := *r.own(a)
	to.MemoryLimits = to.MemoryLimits.Under(choice.MemoryLimits)
	adv := advice{to: &to, by: r, now: now, in: v, choice: choice, pods: v.PodsOf(a.Target)}
	adv.seen = cluster.Memo(&v.podsSeen, a.Target, func() podsSeen { return lookAt(adv.pods, now) })
	var conflict sizing.Problem
	if conflicts {
		conflict = sizing.ConflictProblem(adv.to, choice, assignment)
	} else {
		adv.containers = adv.recommend()
	}
	problem, known := r.world.TargetProblem(adv.to)
	if len(adv.containers) == 0 && (!known || problem != "" || len(adv.pods) == 0 || r.outage != nil) {
		adv.containers = adv.to.Advice // no input shows that the last recommendation is wrong
	}
	if r.pace.Keeps(adv.to, adv.containers, adv.pods) {
		adv.containers = adv.to.Advice
	}
	adv.sayTarget(problem, known)
	adv.sayPods()
	adv.sayConflict()
	adv.logChanges()
	adv.sayProfile(conflict)
	adv.sayDisruption(problem == "")
	adv.sayLeaks()
	adv.sayHistory()
	adv.sayOOMLoops()
	adv.sayAdmission()
	adv.sayNodes()
	if !conflicts {
		adv.sayCriticality()
		adv.sayReplicas()
		adv.sayPacking()
	}
	adv.sayHorizontal()
	situation := contention.Situation{Autoscaler: adv.to, Advice: adv.containers, Governs: adv.governing, Packs: choice.Packs()}
	adv.conditions = append(adv.conditions, r.contention.Conditions(now, v.Snapshot, situation)...)
	return adv
}

// maxChanges is the number of changes of the recommendation that are kept of a workload: 4 KB.
const maxChanges = 270

// logChanges adds the changes of the recommendation to the logs of the containers. Of several autoscalers of a workload, only the governing one
// has logs.
func (a *advice) logChanges() {
	for i := range a.containers {
		to := &a.containers[i]
		series := a.by.usageStore.Series(a.to.Target, to.Container)
		if series == nil || !a.governing {
			continue
		}
		killed, _, _ := series.LastOOM()
		log := series.Changes()
		next := log.Observe(&changelog.Situation{
			Now: a.now, Settings: a.choice.Sum, Before: a.to.AdviceFor(to.Container), After: to, Killed: killed,
			Limit: min(changelog.Most, maxChanges/len(a.containers)),
		})
		if next != log {
			series.SetChanges(next)
		}
	}
}

// recommend returns the recommendation for the autoscaler. It is the last one while the profile is not usable, or while the nodes that bound
// it are unknown. It is empty while the usage history for the first one is still being read.
func (a *advice) recommend() []cluster.Advice {
	r := a.by
	target := a.to.Target
	isFirst := len(a.to.Advice) == 0
	if isFirst && r.backfill.State(a.to, a.now) == history.BackfillPending {
		return nil
	}
	if !a.choice.Usable || !isFirst && a.seen.live == 0 && r.workloads.AwaitsNode(a.choice, target) {
		return a.to.Advice
	}
	p := r.workloads.Profile(a.choice, target)
	recommended := recommend.Workload(p.Params, p.Estimator, r.usageStore, a.to, target, a.now)
	held := r.workloads.Held(a.choice, target, a.now) || r.backfill.Holds(a.to, a.now)
	if held {
		recommended = sizing.Hold(a.to, r.usageStore.Containers(target), recommended)
	}
	if r.workloads.LimitsCPU(a.choice, target) {
		recommended = sizing.LimitCPU(a.to, recommended)
	}
	rounding := r.rounding(a.to)
	capped := policy.Cap(rounding, recommended, r.config.MaxAllowed(), p.Node)
	running := policy.Running{Pods: a.pods, Now: a.now}
	running.Step(rounding, r.config.MaxAllowed(), capped, nil)
	if held {
		r.groups.Keep(a.to, capped)
	} else {
		by := &grouping.Sizing{Profile: p, Autoscaler: rounding, MaxAllowed: r.config.MaxAllowed(), LimitsCPU: r.workloads.LimitsCPU(a.choice, target)}
		capped = r.groups.Share(by, r.groups.Apply(by, capped))
	}
	capped = a.withMemoryLimits(a.withLearntBoosts(capped), held)
	return a.withInitContainers(rounding, capped)
}

// withInitContainers adds the recommendations of ordinary init containers, which do not take part in what bounds the pod as a whole.
func (a *advice) withInitContainers(rounding *cluster.Autoscaler, all []cluster.Advice) []cluster.Advice {
	r := a.by
	params := r.workloads.Profile(a.choice, a.to.Target).Params
	init, _ := recommend.InitContainers(params, r.usageStore.All(a.to.Target), a.to, a.now)
	all = append(all, policy.Cap(rounding, init, r.config.MaxAllowed(), cluster.NodeShare{})...)
	slices.SortFunc(all, func(x, y cluster.Advice) int { return strings.Compare(x.Container, y.Container) })
	return all
}

// sayTarget reports whether the target of the autoscaler can be governed.
func (a *advice) sayTarget(problem string, known bool) {
	switch {
	case known && problem != "":
		a.say(v1.ConfigUnsupported, watcher.True, "", problem)
	case known:
		a.report(v1.ConfigUnsupported, "", "")
	}
}

// sayPods reports whether the target has pods, and whether there is a recommendation.
func (a *advice) sayPods() {
	reason := ""
	message := ""
	if !a.seen.begun {
		reason = ReasonNoPodsMatched
		message = "No pods match this VPA object"
	}
	a.report(v1.NoPodsMatched, reason, message)
	if len(a.containers) > 0 {
		a.say(v1.RecommendationProvided, watcher.True, "", "")
	} else {
		a.say(v1.RecommendationProvided, watcher.False, reason, message)
	}
}

// sayConflict determines whether the autoscaler governs its target, and reports whether another one does although it changes pods. Unlike for
// usage history, autoscalers of all recommenders count.
func (a *advice) sayConflict() {
	to := a.to
	startupBoost := a.by.config.Gates.On(process.CPUStartupBoost)
	first := cluster.Memo(&a.in.applied, to.Target, func() *cluster.Autoscaler { return cluster.Governing(a.in.AutoscalersOf(to.Target), startupBoost) })
	a.governing = first != nil && first.Key == to.Key
	if first == nil || a.governing || !to.ChangesPods(startupBoost) || to.Target.IsZero() {
		a.report(v1alpha1.ConditionTargetConflict, "", "")
		return
	}
	precedes := "is older"
	if first.Created.Equal(to.Created) {
		precedes = "is as old, and comes first by name"
	}
	a.report(v1alpha1.ConditionTargetConflict, ReasonOlderGoverns,
		"VerticalPodAutoscaler "+first.Name+" names the same target and "+precedes+": it governs the pods, this one does not")
}

// maxLooping is the maximum number of pods in an OOM kill loop that are examined for each autoscaler of a workload.
const maxLooping = 100

func lookAt(pods []*cluster.Pod, now time.Time) podsSeen {
	var seen podsSeen
	for _, p := range pods {
		seen.begun = seen.begun || p.Phase != cluster.Pending
		if !p.Live() {
			continue
		}
		seen.live++
		if len(seen.looping) < maxLooping && slices.ContainsFunc(p.Containers, func(c cluster.Container) bool { return inOOMLoop(&c, now) }) {
			seen.looping = append(seen.looping, p)
		}
	}
	return seen
}

// rounding returns the autoscaler, without its setting for whole cores if the flag does not allow that.
func (r *recommender) rounding(a *cluster.Autoscaler) *cluster.Autoscaler {
	if r.config.IntegerCPU || len(a.IntegerCPU) == 0 {
		return a
	}
	b := *a
	b.IntegerCPU = nil
	return &b
}

// report sets a condition with the reason of a problem, or removes it if there is no reason.
func (a *advice) report(kind v1.VerticalPodAutoscalerConditionType, reason, message string) {
	status := watcher.Status(watcher.True)
	if reason == "" {
		status = watcher.Removed
	}
	a.say(kind, status, reason, message)
}

func (a *advice) say(kind v1.VerticalPodAutoscalerConditionType, status watcher.Status, reason, message string) {
	a.conditions = append(a.conditions, watcher.Condition{Type: kind, Status: status, Reason: reason, Message: message})
}

// class returns the labels of the metric that counts the autoscaler.
func (a *advice) class() objectKey {
	k := objectKey{mode: a.to.Mode.String(), advised: len(a.containers) > 0, matches: true}
	for _, c := range a.conditions {
		switch {
		case c.Type == v1.NoPodsMatched && c.Status == watcher.True:
			k.matches = false
		case c.Type == v1.ConfigUnsupported && c.Status == watcher.True:
			k.unsupported = true
		}
	}
	return k
}

// count adds the conditions of the autoscaler that report a problem.
func (a *advice) count(conditions map[[2]string]int) {
	for _, c := range a.conditions {
		if c.Status != watcher.Removed {
			conditions[[2]string{string(c.Type), c.Reason}]++
		}
	}
}

// requestTimeout is the timeout of one request of a pass, so that an API server that does not respond cannot block the pass.
const requestTimeout = 30 * time.Second

// write writes a status unless the API server already has it. It reports whether the API server has it now.
func (r *recommender) write(ctx context.Context, now time.Time, adv advice) bool {
	defer func() { r.health.Active(time.Now()) }()
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	wrote, err := r.world.WriteStatus(ctx, adv.to, adv.containers, now, adv.conditions...)
	switch {
	case errors.Is(err, kube.ErrNotFound), errors.Is(err, kube.ErrConflict):
		r.log.Debug("VPA changed while its status was written; the next pass writes it", slog.String("vpa", adv.to.Key.String()), slog.Any("error", err))
	case err != nil && !errors.Is(ctx.Err(), context.Canceled):
		r.log.Warn("Cannot write a recommendation", slog.String("vpa", adv.to.Key.String()), slog.Any("error", err))
	case wrote && r.config.ReadOnly:
		r.pretend(adv)
	case wrote:
		r.log.Debug("Wrote a recommendation", slog.String("vpa", adv.to.Key.String()), slog.Int("containers", len(adv.containers)))
	}
	return err == nil
}

// pretend logs what a dry run recommends for each container: the first time, and after changes of more than a tenth.
func (r *recommender) pretend(adv advice) {
	for _, c := range adv.containers {
		if r.isNews(usage.Ref{Workload: adv.to.Target, Container: c.Container}, c.Target) {
			r.log.Info("Would recommend", slog.String("vpa", adv.to.Key.String()), slog.String("container", c.Container), slog.String("target", c.Target.String()),
				slog.String("lower", c.Lower.String()), slog.String("upper", c.Upper.String()))
		}
	}
}
