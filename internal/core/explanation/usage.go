// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package explanation

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/recommend"
	"podfit.dev/podfit/internal/core/review"
	"podfit.dev/podfit/internal/core/runs"
	"podfit.dev/podfit/internal/core/usage"
	"podfit.dev/podfit/internal/core/wording"
)

// measured returns the containers with usage, sorted.
func (in *Input) measured() []string {
	names := cluster.Each(in.Usage, func(s *usage.Sample) string { return s.Container })
	names = slices.DeleteFunc(names, func(name string) bool { return !in.shows(name) })
	slices.Sort(names)
	return slices.Compact(names)
}

// extremes returns the samples of a container with the lowest and the highest usage, of those of the same usage the first ones.
func (in *Input) extremes(container string, res cluster.Resource) (low, high usage.Sample) {
	of := slices.DeleteFunc(slices.Clone(in.Usage), func(s usage.Sample) bool { return s.Container != container || !s.Has.Has(res) })
	if len(of) == 0 {
		return low, high
	}
	ascending := func(a, b usage.Sample) int { return cmp.Compare(value(a, res), value(b, res)) }
	return slices.MinFunc(of, ascending), slices.MaxFunc(of, ascending)
}

func value(s usage.Sample, res cluster.Resource) float64 { return cluster.Pick(res, s.CPU, s.Memory) }

// history returns how much usage of each container is stored, of the length that the recommender keeps; nothing if that is not known.
func history(in *Input) []string {
	var out []string
	for _, h := range in.histories() {
		e := review.StoredEvidence(in.Autoscaler, h.Container(), h, in.Now)
		if e.Samples == 0 {
			continue
		}
		kept := h.Length()
		if peaks := recommend.PeaksOf(h, cluster.Memory); peaks != nil {
			kept = max(kept, time.Duration(peaks.Room())*time.Hour)
		}
		out = append(out, fmt.Sprintf("%s %s of %s", h.Container(), wording.Elapsed(min(e.Age(), kept).Round(time.Second), "d"), wording.Elapsed(kept, "d"))+runsOf(h))
	}
	return out
}

// runsOf returns how many runs of a container are stored, how long they took, and how many of them were not measured; "" if there are none.
func runsOf(h *usage.ContainerHistory) string {
	all := h.Runs().All()
	if len(all) == 0 {
		return ""
	}
	shortest, longest, unmeasured := all[0].Length(), all[0].Length(), 0
	for i := range all {
		shortest, longest = min(shortest, all[i].Length()), max(longest, all[i].Length())
		if all[i].Ended && all[i].Memory == 0 {
			unmeasured++
		}
	}
	text := fmt.Sprintf(" (%s of %s", wording.Count(len(all), "run"), wording.Elapsed(shortest, "d"))
	if longest != shortest {
		text += " to " + wording.Elapsed(longest, "d")
	}
	if unmeasured > 0 {
		text += fmt.Sprintf(", %d not measured", unmeasured)
	}
	return text + ")"
}

// storedRuns returns the runs that are stored, at most runs.Most of each container.
func storedRuns(in *Input) []Run {
	var out []Run
	for _, h := range in.histories() {
		newest := slices.SortedFunc(slices.Values(h.Runs().All()), func(a, b runs.Run) int { return cmp.Compare(b.Started, a.Started) })
		out = append(out, cluster.Each(newest, func(r *runs.Run) Run { return Run{*r, h.Container()} })...)
	}
	return out
}

// changes returns the last changes of the recommendation, the newest first.
func changes(in *Input) []Change {
	var out []Change
	for _, h := range in.histories() {
		if log := h.Changes(); log != nil {
			for i, c := range log.Changes {
				out = append(out, Change{c, h.Container(), log.Before(i)})
			}
		}
	}
	slices.SortStableFunc(out, func(a, b Change) int { return cmp.Compare(b.At, a.At) })
	return out
}
