// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"fmt"
	"math"
	"slices"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
)

// The CPU throttling of a canary is the share of CPU periods in which the kernel stopped a container at its CPU limit. It is compared with
// the larger of two shares: of the same pod before the change, and of the pods that are not changed yet, in the same time. So more load on
// all pods is no evidence against the size.

const (
	// MaxThrottlingRise is the difference of the shares above which the size is reverted.
	MaxThrottlingRise = 0.1
	// minPeriods is the number of CPU periods that a share needs. A period in which a container has nothing to do does not count. With the
	// default period of 100 ms, they take at least 30 seconds.
	minPeriods = 300
	// minThrottlingTime is the minimum time that is compared.
	minThrottlingTime = 2 * time.Minute
	// minBefore and maxBefore bound the time before the change that is compared. Within them, it is as long as the canary is watched.
	minBefore, maxBefore = 10 * time.Minute, time.Hour
	// throttlingTTL is how long an answer counts.
	throttlingTTL = 5 * time.Minute
	// MaxComparedPods is the number of canaries, and of other pods, whose throttling is read.
	MaxComparedPods = 20
)

// Comparison is whether the CPU throttling of a canary was compared.
type Comparison uint8

// The results of a comparison.
const (
	NotYetCompared Comparison = iota
	Compared
	NoCPULimit   // no container of the canary can be throttled
	NoPrometheus // the updater has no address of Prometheus
	NoAnswer     // Prometheus did not answer, or with an error
	NoData       // Prometheus has too few data of the pods
)

// Text returns why throttling is not compared, as a full sentence, or "" if it is compared or need not be.
func (c Comparison) Text() string { return comparisonTexts[c] }

var comparisonTexts = map[Comparison]string{
	NoPrometheus: "CPU throttling is not compared, because the updater has no address of Prometheus.",
	NoAnswer:     "CPU throttling is not compared, because Prometheus does not answer.",
	NoData:       "CPU throttling is not compared, because Prometheus has too few data of the pods.",
}

// A ThrottlingQuery selects the data for the comparison of a workload, and has its objective.
type ThrottlingQuery struct {
	Namespace string
	Objective cluster.Objective // none if its value does not count yet
	Canaries  []string          // names of pods with the new size, sorted; at most MaxComparedPods; none if there is nothing to compare
	Others    []string          // likewise of pods that are not changed yet
	Changed   string            // name of the pod that was changed; "" if its time before the change is no evidence
	Since     time.Time
	Change    time.Time     // end of the time before the change
	Before    time.Duration // length of the time before the change
}

// Periods are CPU periods of a container, summed up over pods.
type Periods struct{ Throttled, All float64 }

// share returns the share of throttled periods, and false if there are too few or they are invalid.
func (p Periods) share() (float64, bool) {
	share := p.Throttled / p.All
	return math.Min(share, 1), p.All >= minPeriods && share >= 0 && !math.IsInf(p.All, 0)
}

// ContainerThrottling are the CPU periods of a container.
type ContainerThrottling struct {
	Container                string
	Canaries, Before, Others Periods
}

// Throttling is the answer to a query.
type Throttling struct {
	Query      ThrottlingQuery
	At         time.Time // of the query
	Result     Comparison
	Containers []ContainerThrottling // empty unless Result is Compared
	Objective  Reading
}

// A Reading is the answer to the query of an objective.
type Reading struct {
	Failed   bool   // Prometheus did not answer, or answered with an error or with a part only
	Refused  string // the error with which Prometheus did not execute the query, "" if there is none
	Values   int    // number of values; only one is usable
	Value    float64
	Recorded bool // the updater has found that the objective does not hold; the rest is not known here
}

// text returns what the answer was as a full sentence, "" if there is nothing to add.
func (r Reading) text() string {
	switch {
	case r.Refused != "":
		return "Prometheus answers: " + r.Refused + "."
	case r.Values == 1:
		return fmt.Sprintf("Its last value was %g.", r.Value)
	}
	return ""
}

// Query returns what to ask Prometheus about the canary, and false if there is nothing now. The value of an objective counts when all that it reads
// is later than the change, and than the time when the canary became ready: before, it is about the other pods.
func (s State) Query(now time.Time, c cluster.Canary, pods []*cluster.Pod) (ThrottlingQuery, bool) {
	if s.Phase != Watching {
		return ThrottlingQuery{}, false
	}
	q, compares := s.throttlingQuery(now, c.Watch, pods)
	canaries, since := s.ready(pods)
	if c.Objective.Operator != "" && now.Sub(since) >= c.Objective.Span && len(canaries) > 0 {
		q.Namespace, q.Change, q.Objective = canaries[0].Namespace, s.Since, c.Objective
	}
	return q, compares || q.Objective.Query != ""
}

// ready returns the canaries that are ready, and since when one of them is, at the earliest since the change.
func (s State) ready(pods []*cluster.Pod) ([]*cluster.Pod, time.Time) {
	canaries := slices.DeleteFunc(s.canaries(pods), func(p *cluster.Pod) bool { return !p.Ready })
	slices.SortFunc(canaries, func(a, b *cluster.Pod) int { return a.ReadySince.Compare(b.ReadySince) })
	if len(canaries) == 0 {
		return nil, s.Since
	}
	return canaries, cluster.Latest(s.Since, canaries[0].ReadySince)
}

// throttlingQuery returns the query for the throttling of a canary that is watched, and false if there is nothing to compare now.
func (s State) throttlingQuery(now time.Time, watch time.Duration, pods []*cluster.Pod) (ThrottlingQuery, bool) {
	canaries, since := s.ready(pods)
	if len(canaries) == 0 || !s.hasCPULimit(canaries) {
		return ThrottlingQuery{}, false
	}
	// The start of a container often needs more CPU than its limit, so only pods that are ready for the whole time are compared.
	since = cluster.Latest(since, now.Add(-max(watch, maxBefore))) // an objective may hold the canary for weeks
	if now.Sub(since) < minThrottlingTime {
		return ThrottlingQuery{}, false
	}
	q := ThrottlingQuery{
		Namespace: canaries[0].Namespace, Canaries: readySince(canaries, since), Since: since, Change: s.Since, Before: min(max(watch, minBefore), maxBefore),
	}
	q.Others = readySince(slices.DeleteFunc(slices.Clone(pods), func(p *cluster.Pod) bool {
		return !p.Live() || !p.Ready || p.Controller != s.Controller || HasSize(p, s.After)
	}), since)
	if s.Restarts != wasDown {
		q.Changed = s.Pod
	}
	if len(q.Canaries) == 0 || q.Changed == "" && len(q.Others) == 0 {
		return ThrottlingQuery{}, false
	}
	return q, true
}

// readySince returns the names of the pods that have been ready since a time.
func readySince(pods []*cluster.Pod, since time.Time) []string {
	var names []string
	for _, p := range pods {
		if !p.ReadySince.After(since) {
			names = append(names, p.Name)
		}
	}
	slices.Sort(names)
	return names[:min(len(names), MaxComparedPods)]
}

// hasCPULimit reports whether a container with a new size has a CPU limit.
func (s State) hasCPULimit(canaries []*cluster.Pod) bool {
	for _, p := range canaries {
		for _, a := range s.After {
			if c := p.Container(a.Container); c != nil {
				if _, limits := c.Running(); limits.CPU > 0 {
					return true
				}
			}
		}
	}
	return false
}

// ObserveAll is Observe, and considers what Prometheus has answered. The size is reverted if the canary is throttled much more than before and than
// the other pods; without a usable answer, it is judged by the rest. The canary is accepted only while its objective holds; nothing is reverted because
// of it.
func (s State) ObserveAll(now time.Time, c cluster.Canary, pods []*cluster.Pod, answer Throttling) State {
	next := s.observeThrottling(now, c.Watch, pods, &answer)
	next.Missed = ""
	next.Detail = ""
	if s.Phase != Watching || next.Phase != Accepted || c.Objective.Query == "" {
		return next
	}
	_, ready := s.ready(pods)
	if next.Missed = s.missed(now, ready, c.Objective, &answer); next.Missed != "" {
		next.Phase = Watching
		next.Reverts = s.Reverts
		if s.isOwn(now, &answer) && answer.Query.Objective == c.Objective {
			next.Detail = answer.Objective.text()
		}
	}
	return next
}

// NotKnownYet is what State.Missed is without a recent answer about the time after the change: also after a restart, and in a preview.
const NotKnownYet = "no recent value after the change is known"

// missed returns why an objective does not hold, as the end of a sentence; "" if it holds. ready is since when a canary is ready.
func (s State) missed(now, ready time.Time, o cluster.Objective, answer *Throttling) string {
	reading := answer.Objective
	isOwn := s.isOwn(now, answer) && answer.Query.Objective == o && answer.At.Sub(ready) >= o.Span
	switch {
	case o.Operator == "":
		return "the annotation is invalid"
	case answer.Result == NoPrometheus:
		return "the updater has no address of Prometheus"
	case reading.Recorded:
		return "the updater has recorded that; see the condition Updating and the events of the VPA"
	case !isOwn:
		return NotKnownYet
	case reading.Refused != "":
		return "Prometheus does not execute it"
	case reading.Failed:
		return "Prometheus gives no usable answer to it"
	case reading.Values == 0:
		return "it has no value"
	case reading.Values > 1:
		return "it has more than one value"
	case math.IsNaN(reading.Value) || math.IsInf(reading.Value, 0):
		return "its value is not a number"
	case !o.Holds(reading.Value):
		return fmt.Sprintf("its value is not %s %g", o.Operator, o.Limit)
	}
	return ""
}

// isOwn reports whether an answer is one about this canary, and not too old.
func (s State) isOwn(now time.Time, answer *Throttling) bool {
	age := now.Sub(answer.At)
	return !answer.At.IsZero() && answer.Query.Change.Equal(s.Since) && age < throttlingTTL && age > -throttlingTTL
}

func (s State) observeThrottling(now time.Time, watch time.Duration, pods []*cluster.Pod, answer *Throttling) State {
	next := s.Observe(now, watch, pods)
	if s.Phase != Watching || next.Phase != Watching && next.Phase != Accepted {
		return next
	}
	canaries := s.canaries(pods)
	if len(canaries) > 0 && !s.hasCPULimit(canaries) {
		next.Comparison = NoCPULimit
		return next
	}
	result, before, after := s.compare(now, answer)
	switch {
	case result != NotYetCompared:
		next.Comparison = result
	case next.Phase == Accepted && next.Comparison == NotYetCompared:
		next.Comparison = NoData // the time was too short
	}
	if after-before <= MaxThrottlingRise {
		return next
	}
	s.Comparison = Compared
	s.ThrottledBefore, s.Throttled = toPercent(before), toPercent(after)
	return s.revert(now, Throttled)
}

// compare returns the two shares of the container whose throttling rose most.
func (s State) compare(now time.Time, answer *Throttling) (result Comparison, before, after float64) {
	switch {
	case answer.Result == NoPrometheus:
		return NoPrometheus, 0, 0
	case !s.isOwn(now, answer):
		return NotYetCompared, 0, 0
	case answer.Result != Compared:
		return answer.Result, 0, 0
	}
	result = NoData
	for i := range answer.Containers {
		c := &answer.Containers[i]
		isSized := slices.ContainsFunc(s.After, func(a Size) bool { return a.Container == c.Container })
		share, known := c.Canaries.share()
		was, knownBefore := c.Before.share()
		others, knownOthers := c.Others.share()
		if !isSized || !known || !knownBefore && !knownOthers {
			continue
		}
		if !knownBefore || knownOthers && others > was {
			was = others
		}
		if result == NoData || share-was > after-before {
			before, after = was, share
		}
		result = Compared
	}
	return result, before, after
}
