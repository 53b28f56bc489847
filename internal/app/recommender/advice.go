// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package recommender

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"podfit.dev/podfit/api/podfit/v1alpha1"
	v1 "podfit.dev/podfit/api/v1"
	"podfit.dev/podfit/internal/app/process"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/policy"
	"podfit.dev/podfit/internal/core/recommend"
	"podfit.dev/podfit/internal/core/usage"
	"podfit.dev/podfit/internal/edge/kube"
	"podfit.dev/podfit/internal/edge/kube/watcher"
)

// The condition that a workload named by several autoscalers gives to those that do not govern it.
const targetConflict v1.VerticalPodAutoscalerConditionType = "TargetConflict"

// advice is what is to be written to one autoscaler.
type advice struct {
	to         *cluster.Autoscaler
	containers []cluster.Advice
	conditions []watcher.Condition
}

// advise computes every recommendation, then writes those that changed, a few at a time.
func (r *recommender) advise(ctx context.Context, now time.Time, s *cluster.Snapshot, ours []*cluster.Autoscaler) {
	var g errgroup.Group
	g.SetLimit(r.config.Workers)
	for _, a := range s.Autoscalers {
		if a.Remarked && !r.serves(a) && r.config.Common.Serves(a.Namespace) && r.profiles.listed { // it names another recommender now
			adv := advice{to: a, containers: a.Advice}
			for _, c := range v1alpha1.Conditions() {
				adv.say(v1.VerticalPodAutoscalerConditionType(c), watcher.Removed, "", "")
			}
			g.Go(func() error {
				process.Attempt(r.log, r.health, a.Key.String(), func() { r.write(ctx, now, adv) })
				return nil
			})
		}
	}
	count := make(map[objectKey]int)
	for _, a := range ours {
		process.Attempt(r.log, r.health, a.Key.String(), func() {
			adv := r.adviseOne(now, s, a)
			count[adv.class()]++
			g.Go(func() error {
				process.Attempt(r.log, r.health, a.Key.String(), func() {
					if r.write(ctx, now, adv) {
						r.noteAdvised(adv.to)
					}
				})
				return nil
			})
		})
	}
	_ = g.Wait() // what went wrong was logged where it happened
	r.forgetAdvised(s.Autoscalers)
	r.metrics.publishObjects(count)
}

// adviseOne returns what should stand in an autoscaler's status, and counts how it differs from what does.
func (r *recommender) adviseOne(now time.Time, s *cluster.Snapshot, a *cluster.Autoscaler) advice {
	adv, pods := r.advice(now, s, a), len(s.PodsOf(a.Target))
	if len(a.Advice) == 0 && len(adv.containers) > 0 {
		r.metrics.firstAdvice(a.Created, now)
	}
	for i := range adv.containers {
		if before := a.AdviceFor(adv.containers[i].Container); before != nil {
			r.metrics.quality.changed(a.Mode, before.Target, adv.containers[i].Target, pods)
		}
	}
	return adv
}

// advice returns what should stand in an autoscaler's status.
func (r *recommender) advice(now time.Time, s *cluster.Snapshot, a *cluster.Autoscaler) advice {
	pods := s.PodsOf(a.Target)
	profile := r.profiles.of(a)
	instead, kept := r.profiles.instead(s, a, r.elected(s, a.Target), &profile)
	a = r.own(a)
	adv := advice{to: a}
	seen := r.podsSeen.get(s, a.Target, func() podsSeen { return lookAt(pods, now) })
	waits := len(a.Advice) > 0 && r.profiles.boundless(&profile, a.Target) && seen.live == 0
	switch {
	case instead != nil: // nothing that it could go by is remembered
	case len(a.Advice) == 0 && r.backfill.of(a, now) == backfillPending: // the first recommendation knows the history
	case profile.usable && !waits:
		raw := recommend.Workload(r.profiles.paramsFor(&profile, a.Target), profile.Estimator, r.usageStore, a, a.Target, now)
		adv.containers = policy.Cap(r.rounding(a), r.hold(a, &profile, raw, now), r.config.MaxAllowed())
	default:
		adv.containers = a.Advice // until the profile can be read, or it is known what it is bound by
	}
	problem, known := r.world.TargetProblem(a)
	if len(adv.containers) == 0 && (!known || problem != "" || len(pods) == 0 || r.outage != nil) {
		adv.containers = a.Advice // nothing is known that would make the last numbers wrong
	}
	switch {
	case known && problem != "":
		adv.say(v1.ConfigUnsupported, watcher.True, "", problem)
	case known:
		adv.say(v1.ConfigUnsupported, watcher.Removed, "", "")
	}
	noPods := watcher.Condition{Status: watcher.False}
	if !seen.begun {
		noPods = watcher.Condition{Type: v1.NoPodsMatched, Status: watcher.True, Reason: reasonNoPodsMatched, Message: "No pods match this VPA object"}
		adv.conditions = append(adv.conditions, noPods)
	} else {
		adv.say(v1.NoPodsMatched, watcher.Removed, "", "")
	}
	if len(adv.containers) > 0 {
		adv.say(v1.RecommendationProvided, watcher.True, "", "")
	} else {
		adv.say(v1.RecommendationProvided, watcher.False, noPods.Reason, noPods.Message)
	}
	startupBoost := r.config.Gates.On(process.CPUStartupBoost)
	first := r.governing.get(s, a.Target, func() *cluster.Autoscaler { return cluster.Governing(s.AutoscalersOf(a.Target), startupBoost) })
	if first != nil && first.Key != a.Key && a.ChangesPods(startupBoost) && !a.Target.IsZero() {
		precedes := "is older"
		if first.Created.Equal(a.Created) {
			precedes = "is as old, and comes first by name"
		}
		adv.say(targetConflict, watcher.True, reasonOlderGoverns,
			"VerticalPodAutoscaler "+first.Name+" names the same target and "+precedes+": it governs the pods, this one does not")
	} else {
		adv.say(targetConflict, watcher.Removed, "", "")
	}
	r.sayProfile(&adv, &profile, instead, kept)
	r.sayDisruption(&adv, &profile, first != nil && first.Key == a.Key && problem == "", len(pods) > 0)
	r.sayLeaks(&adv, &profile, now, s)
	r.sayHistory(&adv, now)
	r.sayOOMLoops(&adv, first != nil && first.Key == a.Key, now, seen)
	r.sayAdmission(&adv, pods)
	return adv
}

// podsSeen is what the pods of a workload are like.
type podsSeen struct {
	live    int            // how many live
	begun   bool           // one of them is not pending
	looping []*cluster.Pod // live ones with a container in an OOM kill loop, at most maxLooping
}

// maxLooping bounds the pods in an OOM kill loop that are looked at for each of the autoscalers of a workload.
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

// rounding returns the autoscaler with its wish for whole cores, if the flag allows one.
func (r *recommender) rounding(a *cluster.Autoscaler) *cluster.Autoscaler {
	if r.config.IntegerCPU || len(a.IntegerCPU) == 0 {
		return a
	}
	b := *a
	b.IntegerCPU = nil
	return &b
}

func (a *advice) say(kind v1.VerticalPodAutoscalerConditionType, status, reason, message string) {
	a.conditions = append(a.conditions, watcher.Condition{Type: kind, Status: status, Reason: reason, Message: message})
}

// class returns the class of objects that an autoscaler is counted in.
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

// requestTimeout bounds one request of a pass: an API server that does not answer must not hold the pass for ever.
const requestTimeout = 30 * time.Second

// write writes advice, unless the API server has just that, and reports whether it has it now.
func (r *recommender) write(ctx context.Context, now time.Time, adv advice) bool {
	defer func() { r.health.Active(time.Now()) }()
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	wrote, err := r.world.WriteStatus(ctx, adv.to, adv.containers, now, adv.conditions...)
	switch {
	case errors.Is(err, kube.ErrNotFound), errors.Is(err, kube.ErrConflict):
		r.log.Debug("An autoscaler changed while its status was written; the next pass writes it", slog.String("vpa", adv.to.Key.String()), slog.Any("error", err))
	case err != nil && !errors.Is(ctx.Err(), context.Canceled):
		r.log.Warn("Cannot write a recommendation", slog.String("vpa", adv.to.Key.String()), slog.Any("error", err))
	case wrote && r.config.ReadOnly:
		r.pretend(adv)
	case wrote:
		r.log.Debug("Wrote a recommendation", slog.String("vpa", adv.to.Key.String()), slog.Int("containers", len(adv.containers)))
	}
	return err == nil
}

// pretend says what a dry run recommends for each container: the first time, and when it has moved by a tenth since.
func (r *recommender) pretend(adv advice) {
	for _, c := range adv.containers {
		ref := usage.Ref{Workload: adv.to.Target, Container: c.Container}
		r.mu.Lock()
		before, said := r.dryRunTargets[ref]
		news := !said || moved(before.CPU, c.Target.CPU) || moved(before.Memory, c.Target.Memory)
		if news {
			r.dryRunTargets[ref] = c.Target
		}
		r.mu.Unlock()
		if news {
			r.log.Info("Would recommend", slog.String("vpa", adv.to.Key.String()), slog.String("container", c.Container), slog.String("target", c.Target.String()),
				slog.String("lower", c.Lower.String()), slog.String("upper", c.Upper.String()))
		}
	}
}

func moved(from, to int64) bool { return max(from, to)-min(from, to) > from/10 }
