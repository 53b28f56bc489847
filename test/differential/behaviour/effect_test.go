// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package behaviour

import (
	"slices"
	"testing"
	"time"
)

// Limits of evictions and deletions without effect: those whose replacement does not have the recommended size.
const (
	mostWithoutEffect   = 2
	withoutEffectWithin = 30 * time.Minute
)

// effects are the evictions and deletions of pods of a workload, and whether they had an effect.
type effects struct {
	evicted map[int]time.Time // when the pod of a replica was evicted or deleted that is not replaced yet
	without []time.Time       // when pods were evicted or deleted whose replacements do not have the recommended size, in the order of the replacements
}

// replaced records that a replica has a new pod, and whether it has the recommended size.
func (e *effects) replaced(number int, sized bool) {
	at, evicted := e.evicted[number]
	delete(e.evicted, number)
	if evicted && !sized {
		e.without = append(e.without, at)
	}
}

// crowded returns the first time span with more evictions without effect than most; false if there is none.
func (e *effects) crowded(most int) (from, to time.Time, found bool) {
	all := slices.SortedFunc(slices.Values(e.without), time.Time.Compare)
	for i := most; i < len(all); i++ {
		if first := all[i-most]; all[i].Sub(first) < withoutEffectWithin-time.Minute { // the back-off counts from the beginning of a pass, and slow evictions end later
			return first, all[i], true
		}
	}
	return from, to, false
}

// leavesUnsized reports whether new pods do not get the recommended size: the webhook is not called for them, or another one resets it.
func (w *simulated) leavesUnsized(minute int) bool {
	return w.Unsized.open(minute) || w.Reset.open(minute) || w.everywhere.open(minute)
}

// withoutEffect checks that evictions and deletions without effect are rare, with all flags at their defaults. Those of a workload are not more
// than with upstream, or than two and one after each back-off, which doubles, for each time in which new pods do not get the recommended size.
// docs/decisions/0010 says why they may be more than upstream's at all; checkTotal compares the sums of all worlds.
func (c *checker) withoutEffect(minute int) {
	if !c.sim.world.Defaults {
		return
	}
	for i, w := range c.sim.workloads {
		if from, to, crowded := w.effects.crowded(mostWithoutEffect); crowded {
			c.fail(minute, "evictions without effect are rare", "more than %d of %s between %s and %s", mostWithoutEffect, w.namespace, from.Sub(c.sim.started), to.Sub(c.sim.started))
		}
		ours, theirs := len(w.effects.without), len(c.reference.effects[i].without)
		most := max(1, w.faults()) * (mostWithoutEffect + backOffsIn(minute))
		if minute == c.sim.world.Minutes-1 && ours > max(theirs, most) {
			c.fail(minute, "evictions without effect are not more than with upstream", "%d of %s, with upstream %d", ours, w.namespace, theirs)
		}
	}
}

// shareOfUpstream is the largest part of upstream's evictions without effect that podfit may have in all worlds together.
const shareOfUpstream = 0.1

// checkTotal checks the evictions without effect of all worlds.
func checkTotal(t *testing.T, worlds, ours, theirs int) {
	t.Helper()
	if theirs == 0 {
		return // not counted in these worlds
	}
	t.Logf("evictions without effect: %d with podfit, %d with upstream", ours, theirs)
	if tooMany(worlds, ours, theirs) {
		t.Errorf("%d evictions without effect, with upstream %d; want at most a tenth", ours, theirs)
	}
}

// tooMany reports whether podfit has too many evictions without effect in all worlds together. Few worlds say nothing.
func tooMany(worlds, ours, theirs int) bool {
	return worlds > 50 && float64(ours) > shareOfUpstream*float64(theirs)
}

func TestTooMany_moreThanATenthOfUpstreams_isDetected(t *testing.T) {
	for name, tt := range map[string]struct {
		worlds, ours, theirs int
		want                 bool
	}{
		"a tenth":                       {100, 50, 500, false},
		"more than a tenth":             {100, 51, 500, true},
		"as many as upstream":           {100, 500, 500, true},
		"more than a tenth, few worlds": {50, 51, 500, false},
	} {
		if got := tooMany(tt.worlds, tt.ours, tt.theirs); got != tt.want {
			t.Errorf("%s: got %v, want %v", name, got, tt.want)
		}
	}
}

// faults returns the number of times in which new pods do not get the recommended size.
func (w *simulated) faults() (n int) {
	for _, f := range []*window{w.Unsized, w.Reset, w.everywhere} {
		if f != nil {
			n++
		}
	}
	return n
}

// backOffsIn returns how many back-offs of 30, 60, 120 minutes and so on are over within some minutes.
func backOffsIn(minutes int) (n int) {
	for wait := int(withoutEffectWithin / time.Minute); minutes >= wait; wait *= 2 {
		minutes -= wait
		n++
	}
	return n
}

// statefulSetPause is how long a pod of a StatefulSet must be ready before it counts as available, less the fraction of a second that the API
// leaves out of the time since which a pod is ready.
const statefulSetPause = 10*time.Second - time.Second

// pausing checks that the eviction of a pod waits: in a StatefulSet until the replacement of the last one is available, and after an OOM kill
// within evictAfterOOMSeconds.
func (c *checker) pausing(w *simulated, p *replica) {
	minute := c.sim.minute()
	young := c.sim.createdAt(p) >= 0 // others are evicted because of their age
	if w.AfterOOM > 0 && w.OOM.Seconds >= int(w.AfterOOM) && young && w.satisfied(p) {
		c.fail(minute, "evictAfterOOMSeconds is respected", "%s is evicted, whose container lived %d s", p.pod.Name, w.OOM.Seconds)
	}
	if !c.sim.world.Defaults || !w.StatefulSet || c.sim.world.Lag > 0 {
		return // a stale watch shows containers as ready that have crashed
	}
	if !isReady(p.pod) || p.unserved >= c.oldest() { // it was down when the pass began, so that its eviction takes nothing out of service
		return
	}
	available := 0
	for _, o := range w.pods {
		since := time.Since(o.readyFrom)
		if o.pod.DeletionTimestamp == nil && isReady(o.pod) && (o == p || since >= statefulSetPause) {
			available++
		}
	}
	if tolerance := c.tolerance(w); available-1 < w.Replicas-tolerance {
		c.fail(minute, "there is a pause between pods of a StatefulSet", "%s is evicted, which has been ready for %v; that leaves %d of %d pods available, and %d may be missing",
			p.pod.Name, time.Since(p.readyFrom), available-1, w.Replicas, tolerance)
	}
}
