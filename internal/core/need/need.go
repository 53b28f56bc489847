// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package need tells whether a pod should change: its requests are outside of the bounds of the recommendation, differ enough from the targets, or
// a container was OOM-killed. Whether it may change now is decided elsewhere.
package need

import (
	"fmt"
	"math"
	"time"

	"podfit.dev/podfit/internal/core/change"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/decision"
	"podfit.dev/podfit/internal/core/integer"
	"podfit.dev/podfit/internal/core/policy"
	"podfit.dev/podfit/internal/core/rollout"
)

// Rules are the conditions for a change. Those that are set by a flag of upstream's updater name the flag.
type Rules struct {
	Threshold float64       // --pod-update-threshold: minimum relative difference for a pod within its bounds
	Lifetime  time.Duration // --in-recommendation-bounds-eviction-lifetime-threshold: minimum age of a pod within its bounds
	QuickOOM  time.Duration // --evict-after-oom-threshold: maximum time from the start of a container to its OOM kill for an immediate update

	PerVPAConfig bool // feature gate PerVPAConfig: EvictAfterOOM of the autoscaler overrides QuickOOM

	// UpstreamRules (--updater-rules=upstream): podfit's own rules that no other field turns off do not apply.
	UpstreamRules bool
}

// A Verdict is whether a pod should change because of its requests, its age or an OOM kill.
type Verdict struct {
	Wanted   decision.Reason // Fits when the pod should not change
	Instead  decision.Reason // why the pod should not change, if Wanted is Fits
	Largest  decision.Reason // the largest relative change of a request
	Priority decision.Priority
}

// Of applies the rules for a change. The first rule that holds decides. Containers that the webhook did not observe do not
// count, because another component may size them.
//
//	a container was OOM-killed soon after its start, and its request would change
//	a request is outside its bounds or missing
//	the pod is old enough, and its requests differ enough from the targets
//
// The last rule relies on the target and not on the bounds, which are wide while there are few samples. So the autoscaler must have
// the minimum age too: on its first day, its target rests on a few minutes of usage (W-02 in docs/migrate.md).
func Of(now time.Time, b *Rules, a *cluster.Autoscaler, p *cluster.Pod, fits []policy.Fitted) Verdict {
	t := Compare(p, fits)
	v := Verdict{Priority: t.Priority()}
	name := NameUnlessSole(p)
	t.worst.Container = name(t.worst.Container)
	t.Largest.Container = name(t.Largest.Container)
	v.Largest = t.Largest

	quick, dead := quickOOM(now, b, a, p)
	outside := t.worst.Code != decision.Fits
	note := LimitNote(p.Container(dead.container), fits)
	switch same := change.SameSize(p, fits) && !b.UpstreamRules; {
	case quick && (v.Priority.Diff == 0 && (note == "" || b.UpstreamRules) || same), outside && same:
		v.Instead = decision.Reason{Code: decision.SameSize}
	case quick:
		v.Wanted = t.Largest
		if t.memory.Resource != 0 {
			v.Wanted = t.memory
		}
		v.Wanted.Code = decision.OutOfMemory
		v.Wanted.For = dead.lived
		v.Wanted.Note = note
		v.Wanted.Container = name(dead.container)
	case outside:
		v.Wanted = t.worst
	case same, v.Priority.Diff == 0 && policy.HasLimitByPeaks(fits) && !b.UpstreamRules:
		v.Instead = decision.Reason{Code: decision.Fits}
	case p.Started.IsZero():
		v.Instead = decision.Reason{Code: decision.PodTooYoung}
	case now.Before(p.Started.Add(b.Lifetime)):
		v.Instead = decision.Reason{Code: decision.PodTooYoung, Until: p.Started.Add(b.Lifetime)}
	case now.Before(a.Created.Add(b.Lifetime)) && !b.UpstreamRules:
		v.Instead = decision.Reason{Code: decision.AutoscalerTooYoung, Until: a.Created.Add(b.Lifetime)}
	case v.Priority.Diff < a.Rules.MinChange.Or(b.Threshold):
		v.Instead = decision.Reason{Code: decision.SmallChange, Have: percent(v.Priority.Diff), Want: percent(a.Rules.MinChange.Or(b.Threshold))}
		if a.Rules.MinChange.Set {
			v.Instead.Text = rollout.AnnotationMinChange
		}
	default:
		v.Wanted = t.Largest
		v.Wanted.Code, v.Wanted.For, v.Wanted.Have = decision.Drifted, now.Sub(p.Started), percent(v.Priority.Diff)
	}
	return v
}

func percent(f float64) int { return int(min(math.Round(f*100), math.MaxInt32)) }

// NameUnlessSole returns a function that returns "" for the name of a pod's only container beside init containers, which reasons do not mention.
func NameUnlessSole(p *cluster.Pod) func(string) string {
	regular := 0
	for i := range p.Containers {
		if p.Containers[i].IsSized() {
			regular++
		}
	}
	return func(name string) string {
		if c := p.Container(name); regular == 1 && (c == nil || c.IsSized()) {
			return ""
		}
		return name
	}
}

// limitTolerance is how far a memory limit may be below that of the recommendation.
const limitTolerance = 0.1

// LimitNote returns a sentence about the memory limit of a container that is noticeably too low for the highest usage; "" if it is not.
func LimitNote(c *cluster.Container, fits []policy.Fitted) string {
	if c == nil {
		return ""
	}
	fit := cluster.Find(fits, func(f *policy.Fitted) bool { return f.Container == c.Name })
	_, limits := c.Running()
	if fit == nil || !fit.LimitByPeaks || float64(limits.Memory) >= (1-limitTolerance)*float64(fit.Limits.Memory) {
		return ""
	}
	return fmt.Sprintf("Its memory limit of %s becomes %s.", cluster.Format(cluster.Memory, limits.Memory), cluster.Format(cluster.Memory, fit.Limits.Memory))
}

// A Comparison is the result of comparing a pod's requests with its recommendation.
type Comparison struct {
	requested, target [len(cluster.All)]float64 // sums over the containers with a recommendation, in thousandths
	known             [len(cluster.All)]bool
	up                bool
	worst             decision.Reason // the worst request that is missing or outside its range
	Largest           decision.Reason // the largest relative change of all
	memory            decision.Reason // the largest relative change of memory
}

// ranks order the causes; a reason names the one with the highest rank.
var ranks = map[decision.ReasonCode]int{decision.AboveRange: 1, decision.MissingRequest: 2, decision.BelowRange: 3}

// Compare compares the requests of the observed containers of a pod with its recommendation.
func Compare(p *cluster.Pod, fits []policy.Fitted) Comparison {
	var t Comparison
	for i := range fits {
		f := &fits[i]
		if !policy.Observed(p.ObservedContainers(), f.Container) {
			continue
		}
		requests, _ := p.Container(f.Container).Running()
		for n, res := range cluster.All {
			to, ok := f.Estimate.Target.Get(res)
			if !ok {
				continue
			}
			from, requested := requests.Get(res)
			t.known[n] = true
			t.target[n] += thousandths(res, to)
			t.requested[n] += thousandths(res, from)
			t.up = t.up || !requested || to > from

			code := causeOf(f.Estimate, requests, res)
			r := decision.Reason{Code: code, Container: f.Container, Resource: res, From: from, To: to}
			change := relative(r)
			if code != decision.Fits && (ranks[code] > ranks[t.worst.Code] || ranks[code] == ranks[t.worst.Code] && change > relative(t.worst)) {
				t.worst = r
			}
			if t.Largest.Resource == 0 || change > relative(t.Largest) {
				t.Largest = r
			}
			if res == cluster.Memory && (t.memory.Resource == 0 || change > relative(t.memory)) {
				t.memory = r
			}
		}
	}
	t.comparePodLevel(p, fits)
	return t
}

// comparePodLevel compares a pod-level request that fits changes, which counts instead of those of the containers. It is outside its range if
// it is above the target by more than the upper bounds of the containers allow: a container below its range is worse.
func (t *Comparison) comparePodLevel(p *cluster.Pod, fits []policy.Fitted) {
	if p.PodLevel == nil || len(fits) == 0 || fits[0].PodLevel == nil {
		return
	}
	for n, res := range cluster.All {
		from, had := p.PodLevel.Requests.Get(res)
		to, changes := fits[0].PodLevel.Requests.Get(res)
		if !had || !changes || !t.known[n] {
			continue
		}
		t.requested[n], t.target[n] = thousandths(res, from), thousandths(res, to)
		most := to
		for i := range fits {
			if upper, ok := fits[i].Estimate.Upper.Get(res); ok {
				most = integer.Sum(most, upper-fits[i].Estimate.Target.Amount(res))
			}
		}
		r := decision.Reason{Resource: res, From: from, To: to} // without container: it is about the pod
		if relative(r) > relative(t.Largest) {
			t.Largest = r
		}
		r.Code = decision.AboveRange
		if from > most && ranks[t.worst.Code] <= ranks[r.Code] {
			t.worst = r
		}
	}
}

// relative returns the change of a request as a fraction of it.
func relative(r decision.Reason) float64 {
	return math.Abs(float64(r.To)-float64(r.From)) / math.Max(float64(r.From), 1)
}

// causeOf returns why a request should change because of its bounds; Fits if it is within them.
func causeOf(e cluster.Estimate, requests cluster.Resources, res cluster.Resource) decision.ReasonCode {
	request, requested := requests.Get(res)
	lower, hasLower := e.Lower.Get(res)
	upper, hasUpper := e.Upper.Get(res)
	switch {
	case !requested:
		return decision.MissingRequest
	case hasLower && request < lower:
		return decision.BelowRange
	case hasUpper && request > upper:
		return decision.AboveRange
	}
	return decision.Fits
}

// Priority sums the relative difference of each resource over the whole pod. Opposite changes of one resource cancel out, because
// the sum for the node stays the same.
func (t Comparison) Priority() decision.Priority {
	p := decision.Priority{Up: t.up}
	for n := range cluster.All {
		if t.known[n] {
			requested := math.Max(t.requested[n], 1)
			p.Diff += math.Abs(requested-t.target[n]) / requested
		}
	}
	return p
}

// thousandths converts an amount so that CPU and memory have comparable units: millicores and thousandths of a byte.
func thousandths(res cluster.Resource, amount int64) float64 {
	return float64(amount) * cluster.Pick(res, 1.0, 1000)
}

// QuickOOMOf returns the maximum time from the start of a container to its OOM kill for an immediate update.
func (b *Rules) QuickOOMOf(a *cluster.Autoscaler) time.Duration {
	if b.PerVPAConfig && a.EvictAfterOOM > 0 {
		return a.EvictAfterOOM
	}
	return b.QuickOOM
}

// An oomKill is the OOM kill of a container soon after its start.
type oomKill struct {
	container string
	lived     time.Duration
}

// quickOOM reports whether an observed container with a policy other than Off was OOM-killed soon after its start and recently.
// An old OOM kill may have happened with other requests.
func quickOOM(now time.Time, b *Rules, a *cluster.Autoscaler, p *cluster.Pod) (bool, oomKill) {
	soon := b.QuickOOMOf(a)
	for i := range p.Containers {
		c := &p.Containers[i]
		if !c.IsSized() || c.Exit == nil || !c.Exit.OOM || !policy.Observed(p.ObservedContainers(), c.Name) {
			continue
		}
		if cp := a.Policy(c.Name); cp != nil && cp.Off {
			continue
		}
		lived := c.Exit.Finished.Sub(c.Exit.Started)
		if lived < soon && (c.Exit.Now || now.Sub(c.Exit.Finished) < soon) {
			return true, oomKill{container: c.Name, lived: lived}
		}
	}
	return false, oomKill{}
}

// LeftToHPA returns LeftToHPA or HPANotWritten if a pod would change without the HPAs of its workload. Otherwise it returns the given
// reason.
func LeftToHPA(now time.Time, b *Rules, a *cluster.Autoscaler, l policy.Limits, p *cluster.Pod, otherwise decision.Reason) decision.Reason {
	if len(a.Horizontal) == 0 {
		return otherwise
	}
	without := *a
	without.Horizontal = nil
	without.MemoryLimits = cluster.LimitRule{}
	fits := policy.Fit(&without, l, p)
	v := Of(now, b, &without, p, fits)
	if v.Wanted.Code == decision.Fits {
		return otherwise
	}
	for i := range fits {
		state, h := policy.HorizontalOf(a, fits[i].Container, v.Wanted.Resource)
		if state == policy.TargetNotWritten {
			return decision.Reason{Code: decision.HPANotWritten}
		}
		if state.IsLeft() {
			r := v.Wanted
			r.Code = decision.LeftToHPA
			r.Text = h.HPA.Name
			return r
		}
	}
	return otherwise
}

// RequirementsMet reports whether the eviction requirements of the autoscaler allow an eviction: for at least one container, each
// requirement holds for at least one resource. A missing request meets every requirement that names its resource; by upstream's rules, it meets all
// (W-27 in docs/migrate.md).
func (b *Rules) RequirementsMet(a *cluster.Autoscaler, p *cluster.Pod, fits []policy.Fitted) bool {
	if len(a.Requirements) == 0 {
		return true
	}
	for i := range fits {
		requests, _ := p.Container(fits[i].Container).Running()
		met := true
		for _, requirement := range a.Requirements {
			met = met && requirementMet(requirement, requests, fits[i].Estimate.Target)
		}
		met = met || b.UpstreamRules && requests.Has != cluster.Both
		if met {
			return true
		}
	}
	return false
}

func requirementMet(r cluster.EvictionRequirement, requests, target cluster.Resources) bool {
	for _, res := range cluster.All {
		to, ok := target.Get(res)
		if !ok || !r.Resources.Has(res) {
			continue
		}
		from, requested := requests.Get(res)
		if !requested || r.Higher && to > from || !r.Higher && to < from {
			return true
		}
	}
	return false
}
