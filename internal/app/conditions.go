// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"podfit.dev/podfit/api/podfit/v1alpha1"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/recommend"
	"podfit.dev/podfit/internal/edge/kube"
)

// sayProfile says whether the profile that an autoscaler names can be used, and whether it suits the update mode.
func (r *recommender) sayProfile(adv *advice, c *choice) {
	a := adv.to
	switch reason, message := r.profiles.complaint(a, c.usable); {
	case reason != "":
		adv.say(v1alpha1.ConditionSizingProfileUsable, kube.False, reason, message)
	case c.usable:
		adv.say(v1alpha1.ConditionSizingProfileUsable, kube.Removed, "", "")
	}
	switch {
	case c.usable && c.Mode == cluster.InPlaceOrRecreate && a.Mode.Evicts() && !a.Mode.Resizes():
		adv.say(v1alpha1.ConditionDisruptiveProfile, kube.True, v1alpha1.ReasonModeEvicts, fmt.Sprintf(
			"Profile %s changes requests often, which is meant for resizes in place; with updateMode %s each change evicts a pod. "+
				"Set updateMode InPlaceOrRecreate (Kubernetes 1.33 and later) or Initial, or name the profile default", c.Profile.Name, a.Mode))
	case c.usable:
		adv.say(v1alpha1.ConditionDisruptiveProfile, kube.Removed, "", "")
	}
}

// complaint says why the profile that an autoscaler names cannot be used as it stands; "" when it can, or that is not known.
func (p *profiles) complaint(a *cluster.Autoscaler, usable bool) (reason, message string) {
	name := a.Recommender
	if _, builtin := p.builtin[name]; builtin || p.given {
		return "", ""
	}
	then := "the last recommendation stays as it is"
	if usable {
		then = "containers are sized by what it last said"
	}
	switch d := p.own[name]; {
	case d == nil && !(p.listed && p.missed(a)), d != nil && !d.gone && d.problem == "":
		return "", ""
	case d == nil || d.gone:
		return v1alpha1.ReasonDeleted, fmt.Sprintf("%s does not exist any more; %s. Create it again, or name another profile in spec.recommenders[0].name",
			profileNamed(name), then)
	default:
		return v1alpha1.ReasonInvalid, fmt.Sprintf("%s is invalid: %s; %s. Correct it: kubectl edit sizingprofile %s", profileNamed(name), d.problem, then, name)
	}
}

// hold keeps what is recommended from shrinking, or getting lost, for a day after the history of a workload was of no use
// to another profile. What the user allows is applied afterwards.
func (r *recommender) hold(a *cluster.Autoscaler, c *choice, raw []cluster.Advice, now time.Time) []cluster.Advice {
	if !c.remember || !now.Before(r.profiles.held[a.Target]) {
		return raw
	}
	for _, name := range r.book.Containers(a.Target) {
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

// sayLeaks says which containers' memory grows as if it leaked.
func (r *recommender) sayLeaks(adv *advice, now time.Time, pods []*cluster.Pod) {
	var found []string
	for _, s := range r.book.All(adv.to.Target) {
		policy := adv.to.Policy(s.Container())
		if s.Extension() == nil || s.Stale() || !policy.Controls().Has(cluster.Memory) {
			continue
		}
		what, bound := "limit", memoryLimit(pods, s.Container())
		if bound == 0 && policy != nil {
			what, bound = "maxAllowed", policy.MaxAllowed.Memory
		}
		if leak, ok := recommend.LeakOf(s, float64(bound), now); ok {
			found = append(found, leakMessage(s.Container(), &leak, what, bound, now))
		}
	}
	if len(found) == 0 {
		adv.say(v1alpha1.ConditionMemoryLeakSuspected, kube.Removed, "", "")
		return
	}
	adv.say(v1alpha1.ConditionMemoryLeakSuspected, kube.True, v1alpha1.ReasonGrowth, strings.Join(found, " "))
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
		fmt.Fprintf(&b, "Memory of container %s grows by about %s a day since %s", container, perDay, leak.Since.Format(time.DateOnly))
		if !leak.Full.IsZero() {
			fmt.Fprintf(&b, ", and reaches its %s of %s about %s", what, cluster.Format(cluster.Memory, bound), leak.Full.Format(time.DateOnly))
		}
	} else {
		fmt.Fprintf(&b, "Memory of container %s grew by about %s a day from %s to %s", container, perDay, leak.Since.Format(time.DateOnly), leak.Last.Format(time.DateOnly))
	}
	if leak.Most > 0 {
		fmt.Fprintf(&b, "; at most %s are recommended for it until that has been over for two weeks. If it is meant to grow, say how far with minAllowed",
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
