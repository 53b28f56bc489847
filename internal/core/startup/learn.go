// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package startup

import (
	"cmp"
	"math"
	"slices"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
)

const (
	// Needed is the number of starts from which a boost is learnt.
	Needed = 3
	// kept is the number of starts that are kept of a container, the newest.
	kept = 10
	// together is how many starts are kept of pods that became Ready within the same rolloutTime, so that one rollout of a large
	// workload does not replace all others.
	together    = 4
	rolloutTime = 10 * time.Minute
	// maxAge is how long a start is kept.
	maxAge = 30 * 24 * time.Hour
	// quiet is how many minutes in a row usage must be at or below the recommendation until a start is over.
	quiet = 3
	// least is the factor below which a start needs no boost.
	least = 1.2
	// headroom is the factor for a start whose usage reached the CPU limit: it shows at least how much was needed. If the boost raises
	// the limit, the next starts show more.
	headroom = 1.5
	// step is the precision of a learnt factor, in percent. Factors are rounded up.
	step = 10
)

// Starts are the last starts of a container of a workload. The zero value has none.
type Starts struct {
	list []Start // the oldest first
}

// Add adds a start, and removes the oldest if there are too many, and those that are too old. It reports whether the start was kept.
func (s *Starts) Add(start *Start, now time.Time) bool {
	s.list = slices.DeleteFunc(s.list, func(x Start) bool { return !x.counts(now) })
	same := 0
	for i := range s.list {
		if distance := start.ready - s.list[i].ready; max(distance, -distance) < int64(rolloutTime/time.Second) {
			same++
		}
	}
	if same >= together || !start.counts(now) {
		return false
	}
	at, _ := slices.BinarySearchFunc(s.list, start.ready+1, func(x Start, ready int64) int { return cmp.Compare(x.ready, ready) })
	s.list = slices.Insert(s.list, at, *start)
	if len(s.list) > kept {
		s.list = slices.Delete(s.list, 0, len(s.list)-kept)
	}
	return true
}

// Merge adds starts that were stored, or those of another container. It returns the result, which is nil if there is none.
func (s *Starts) Merge(stored *Starts, now time.Time) *Starts {
	switch {
	case stored.Len() == 0:
		return s
	case s.Len() == 0:
		return &Starts{slices.Clone(stored.list)} // the owner of the others goes on adding to them
	}
	for i := range stored.list {
		s.Add(&stored.list[i], now)
	}
	return s
}

// counts reports whether a start is not too old, and not more than a day in the future, which only a wrong clock can be.
func (x *Start) counts(now time.Time) bool {
	age := now.Sub(time.Unix(x.ready, 0))
	return age <= maxAge && age > -24*time.Hour
}

// Len returns the number of starts.
func (s *Starts) Len() int {
	if s == nil {
		return 0
	}
	return len(s.list)
}

// A need is how much more a start needed than the recommendation.
type need struct {
	factor float64 // 1 if it needed no more
	after  int     // minutes from Ready until usage was at or below the recommendation, at least 1: usage is measured once a minute
}

// Learn returns the boost that most starts needed, by the recommended CPU in millicores and within the bounds of the settings. It has no
// Percent if starts need no more, or if there are fewer than Needed starts.
//
// With five starts or more, the highest is left out: one start on a slow node must not set the boost.
func (s *Starts) Learn(target int64, bounds cluster.BoostLearning, now time.Time) cluster.LearntBoost {
	if s == nil || target <= 0 {
		return cluster.LearntBoost{}
	}
	factors := make([]float64, 0, kept)
	durations := make([]int, 0, kept)
	for i := range s.list {
		if !s.list[i].counts(now) {
			continue
		}
		n := s.list[i].need(target)
		factors = append(factors, n.factor)
		durations = append(durations, n.after)
	}
	out := cluster.LearntBoost{Starts: int32(len(factors))}
	if len(factors) < Needed {
		return out
	}
	slices.Sort(factors)
	slices.Sort(durations)
	if factors[(len(factors)-1)/2] < least { // the median, the lower one of two
		return out
	}
	pick := len(factors) - 1
	if len(factors) >= 5 {
		pick--
	}
	percent := int32(math.Ceil(min(factors[pick], cluster.MaxBoostPercent/100)*100/step-1e-9)) * step
	out.Percent = min(percent, bounds.MaxPercent)
	out.Duration = min(time.Duration(durations[pick])*time.Minute, bounds.MaxDuration)
	return out
}

// need compares a start with a recommendation in millicores.
func (x *Start) need(target int64) need {
	end := x.end(target)
	if end == Minutes {
		return need{factor: 1} // usage stays high, so it is not caused by the start
	}
	factor := x.times(beforeReady, x.before, target)
	for i := range end {
		factor = max(factor, x.times(i, x.minutes[i], target))
	}
	if factor < least {
		return need{factor: 1}
	}
	return need{factor: factor, after: end + 1} // the last high sample may be a minute older than the end of the need
}

// times returns usage divided by the recommendation, with headroom if the usage reached the CPU limit.
func (x *Start) times(minute int, used uint32, target int64) float64 {
	factor := float64(used) / float64(target)
	if x.limited&(1<<minute) != 0 {
		factor *= headroom
	}
	return factor
}

// end returns the first minute from which on usage is at or below the recommendation for quiet minutes, Minutes if there is none.
func (x *Start) end(target int64) int {
	low := 0
	for i, used := range x.minutes {
		if int64(used) > target || x.limited&(1<<i) != 0 {
			low = 0
			continue
		}
		if low++; low == quiet {
			return i - quiet + 1
		}
	}
	return Minutes
}
