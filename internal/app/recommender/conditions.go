// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package recommender

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"podfit.dev/podfit/api/podfit/v1alpha1"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/recommend"
	"podfit.dev/podfit/internal/core/usage"
	"podfit.dev/podfit/internal/edge/kube/watcher"
)

// sayProfile says whether the profile that an autoscaler names can be used. It cannot be where another autoscaler of the same
// target, and the profile of that, say what is remembered instead.
func (r *recommender) sayProfile(adv *advice, c *choice, instead *cluster.Autoscaler, kept string) {
	a := adv.to
	reason, message := r.profiles.complaint(a, c.usable)
	switch {
	case reason != "":
		adv.say(v1alpha1.ConditionSizingProfileUsable, watcher.False, reason, message)
	case instead != nil:
		adv.say(v1alpha1.ConditionSizingProfileUsable, watcher.False, v1alpha1.ReasonOtherProfile, fmt.Sprintf(
			"What is remembered of %s %s is for profile %s of VerticalPodAutoscaler %s, and is of no use to profile %s: nothing is recommended here. "+
				"Name a profile of the same algorithm, or compare the two on recorded usage: podfit backtest --recommenders %[3]s,%[5]s",
			a.Target.Kind, a.Target.Name, kept, instead.Name, c.Profile.Name))
	case c.usable:
		adv.say(v1alpha1.ConditionSizingProfileUsable, watcher.Removed, "", "")
	}
}

// sayDisruption says whether a profile that is meant for resizes in place is applied by evictions. While there are no pods it
// stays said, and is not said anew: a workload may come and go with each run.
func (r *recommender) sayDisruption(adv *advice, c *choice, governing, pods bool) {
	mode := adv.to.Mode
	switch {
	case !c.usable:
	case !governing || c.Mode != cluster.InPlaceOrRecreate || !mode.Evicts() || mode.Resizes():
		adv.say(v1alpha1.ConditionDisruptiveProfile, watcher.Removed, "", "")
	case pods:
		adv.say(v1alpha1.ConditionDisruptiveProfile, watcher.True, v1alpha1.ReasonModeEvicts, fmt.Sprintf(
			"Profile %s changes requests often, which is meant for resizes in place; with updateMode %s each change evicts a pod. "+
				"Set updateMode InPlaceOrRecreate (Kubernetes 1.33 and later) or Initial, or name the profile default", c.Profile.Name, mode))
	}
}

// complaint says why the profile that an autoscaler names cannot be used as it stands; "" when it can, or that is not known.
func (p *profiles) complaint(a *cluster.Autoscaler, usable bool) (reason, message string) {
	name := a.Recommender
	if _, builtin := p.builtin[name]; builtin || p.given {
		return "", ""
	}
	then := "the last recommendation stays as it is"
	switch {
	case usable:
		then = "containers are sized by what it last said"
	case len(a.Advice) == 0:
		then = "nothing is recommended"
	}
	switch d := p.own[name]; {
	case d == nil && !(p.listed && p.missed(a)), d != nil && !d.gone && d.problem == "":
		return "", ""
	case d == nil || d.gone:
		return v1alpha1.ReasonDeleted, fmt.Sprintf("SizingProfile %s does not exist any more; %s. Create it again, or name another profile in spec.recommenders[0].name",
			name, then)
	default:
		return v1alpha1.ReasonInvalid, fmt.Sprintf("SizingProfile %[1]s is invalid: %[2]s; %[3]s. Correct it: kubectl edit sizingprofile %[1]s", name, d.problem, then)
	}
}

// hold keeps what is recommended from shrinking, or getting lost, for a day after the history of a workload was of no use
// to another profile, and while its history is missing. What the user allows is applied afterwards.
func (r *recommender) hold(a *cluster.Autoscaler, c *choice, raw []cluster.Advice, now time.Time) []cluster.Advice {
	if !(c.remember && now.Before(r.profiles.held[a.Target])) && !r.backfill.holds(a, now) {
		return raw
	}
	for _, name := range r.usageStore.Containers(a.Target) {
		old, policy := a.AdviceFor(name), a.Policy(name)
		if old == nil || policy.Controls().Empty() {
			continue
		}
		before := cluster.Estimate{
			Lower: old.Lower.Only(policy.Controls()), Target: old.Uncapped.Or(old.Target).Only(policy.Controls()), Upper: old.Upper.Only(policy.Controls()),
		}
		if before.Target.Has.Empty() {
			continue
		}
		i, known := slices.BinarySearchFunc(raw, name, func(x cluster.Advice, name string) int { return strings.Compare(x.Container, name) })
		if !known {
			raw = slices.Insert(raw, i, cluster.Advice{Container: name})
		}
		raw[i].Target = most(raw[i].Target, before.Target)
		raw[i].Upper = most(most(raw[i].Upper, before.Upper), raw[i].Target)
		raw[i].Lower = most(raw[i].Lower, before.Lower)
		raw[i].Uncapped = raw[i].Target
	}
	return raw
}

// most returns the greater of two amounts of each resource.
func most(a, b cluster.Resources) cluster.Resources {
	for _, r := range cluster.All {
		if v, ok := b.Get(r); ok && v > a.Amount(r) {
			a = a.Set(r, v)
		}
	}
	return a
}

// sayLeaks says which containers' memory grows as if it leaked, where an autoscaler's own profile watches that.
func (r *recommender) sayLeaks(adv *advice, profile *choice, now time.Time, snapshot *cluster.Snapshot) {
	if profile.usable && !profile.remember {
		adv.say(v1alpha1.ConditionMemoryLeakSuspected, watcher.Removed, "", "")
		return
	}
	var found []string
	for _, s := range r.usageStore.All(adv.to.Target) {
		policy := adv.to.Policy(s.Container())
		if s.Extension() == nil || s.Stale() || !policy.Controls().Has(cluster.Memory) {
			continue
		}
		what, bound := "limit", r.limits.get(snapshot, usage.Ref{Workload: adv.to.Target, Container: s.Container()}, func() int64 {
			return memoryLimit(snapshot.PodsOf(adv.to.Target), s.Container())
		})
		if bound == 0 && policy != nil {
			what, bound = "maxAllowed", policy.MaxAllowed.Memory
		}
		if leak, ok := recommend.LeakOf(s, float64(bound), now); ok {
			found = append(found, leakMessage(s.Container(), &leak, what, bound, now))
		}
	}
	if len(found) == 0 {
		adv.say(v1alpha1.ConditionMemoryLeakSuspected, watcher.Removed, "", "")
		return
	}
	adv.say(v1alpha1.ConditionMemoryLeakSuspected, watcher.True, v1alpha1.ReasonGrowth, strings.Join(found, " "))
}

// memoryLimit returns the lowest limit of memory that a container has in any of the pods, in bytes; 0 when it has none.
func memoryLimit(pods []*cluster.Pod, container string) int64 {
	least := int64(0)
	for _, p := range pods {
		if c := p.Container(container); c != nil && p.Live() {
			_, limits := c.Running()
			if m := limits.Memory; m > 0 && (least == 0 || m < least) {
				least = m
			}
		}
	}
	return least
}

// leakMessage says what is suspected of a container: rounded, so that it does not change with each pass.
func leakMessage(container string, leak *recommend.Suspicion, what string, bound int64, now time.Time) string {
	var b strings.Builder
	perDay := cluster.Format(cluster.Memory, rounded(leak.PerDay))
	if growing := now.Sub(leak.Last) < 48*time.Hour; growing {
		fmt.Fprintf(&b, "Memory of container %s has grown by about %s a day since %s", container, perDay, leak.Since.Format(time.DateOnly))
		if !leak.Full.IsZero() {
			fmt.Fprintf(&b, ", and at this rate reaches its %s of %s about %s", what, cluster.Format(cluster.Memory, bound), leak.Full.Format(time.DateOnly))
		}
	} else {
		fmt.Fprintf(&b, "Memory of container %s grew by about %s a day from %s to %s", container, perDay, leak.Since.Format(time.DateOnly), leak.Last.Format(time.DateOnly))
	}
	if leak.Most > 0 {
		fmt.Fprintf(&b, "; leakBound of its profile bounds its recommendation at %s until two weeks after the growth has stopped. If it is meant to grow, raise leakBound or set minAllowed",
			cluster.Format(cluster.Memory, rounded(leak.Most)))
	}
	return b.String() + "."
}

// rounded returns bytes with two digits, in whole MiB where there is more than one.
func rounded(bytes float64) int64 {
	const mib = 1 << 20
	v, unit := bytes, 1.0
	if bytes >= mib {
		v, unit = bytes/mib, mib
	}
	step := math.Pow(10, max(math.Floor(math.Log10(max(v, 1)))-1, 0))
	return int64(math.Round(v/step) * step * unit)
}
