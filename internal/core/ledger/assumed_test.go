// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"testing"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/decision"
	"podfit.dev/podfit/internal/core/policy"
)

// announcedDB returns the states that an updater leaves that is killed after it announced an action on the workload db.
func announcedDB(l *Ledger, newest time.Time) []State {
	s := State{Workload: db}
	for _, before := range l.Export(delays) {
		s = before
	}
	s.ActingSince, s.ActingNewest = noon, l.NewestToAnnounce(noon, db, newest)
	return []State{s}
}

func TestRestore_announcementWithoutOutcome_replacementShowsWhetherAnEvictionHadAnEffect(t *testing.T) {
	pod := podsOf(1)[0]
	for name, c := range map[string]struct {
		pod     *cluster.Pod
		with    []policy.Fitted
		want    int
		assumed bool // in the end
	}{
		"the pod is still there":      {pod, fits(100), 0, true},
		"it has the old requests":     {withCPU(pod, "new", noon.Add(time.Minute), 1000), fits(100), 1, false},
		"it has the requests":         {withCPU(pod, "new", noon.Add(time.Minute), 100), nil, 0, false},
		"it is too big for any node":  {func() *cluster.Pod { q := withCPU(pod, "new", noon.Add(time.Minute), 1000); q.Node = ""; return q }(), fits(100), 1, false},
		"nothing is recommended":      {withCPU(pod, "new", noon.Add(time.Minute), 1000), nil, 0, true},
		"a small difference is known": {func() *cluster.Pod { q := withCPU(pod, "new", noon.Add(time.Minute), 105); q.Node = ""; return q }(), fits(100), 0, true},
	} {
		next := New()
		next.Restore(noon.Add(time.Minute), announcedDB(New(), pod.Created))
		ds := wants(c.with, c.pod)
		if name == "it has the requests" {
			ds[0].With, ds[0].Wanted = fits(100), decision.Reason{Code: decision.Fits}
		}
		for _, after := range []time.Duration{2 * time.Minute, 10 * time.Minute} {
			now := noon.Add(after)
			n, at := next.IneffectiveEvictions(db, next.Effective(ds))
			if n != c.want || n > 0 && !at.Equal(noon) {
				t.Errorf("%s, after %v: %d evictions without effect at %v, want %d", name, after, n, at, c.want)
			}
			next.Learn(now, viewOf(1, c.pod), ds)
			next = restored(now, next)
		}
		if got := next.isAssumed(db); got != c.assumed {
			t.Errorf("%s: assumed %v in the end, want %v", name, got, c.assumed)
		}
	}
}

// The updater was killed before it sent the eviction. The back-off after the evictions before is over and does not begin again.
func TestRestore_announcedEvictionWasNotSent_earlierBackoffStays(t *testing.T) {
	pod := podsOf(1)[0]
	l := New()
	l.evictions[db] = eviction{EvictionState: EvictionState{At: noon.Add(-3 * time.Hour), Newest: pod.Created.Add(-time.Hour), With: fits(100), Ineffective: 3, Judged: true}}
	next := New()
	next.Restore(noon.Add(time.Minute), announcedDB(l, pod.Created))
	n, at := next.IneffectiveEvictions(db, next.Effective(wants(fits(100), pod)))
	if n != 3 || !at.Equal(noon.Add(-3*time.Hour)) {
		t.Errorf("%d evictions without effect, the last at %v; want those before", n, at)
	}
	other := withCPU(pod, "new", noon.Add(time.Minute), 1000)
	n, at = next.IneffectiveEvictions(db, next.Effective(wants(fits(100), other)))
	if n != 4 || !at.Equal(noon) {
		t.Errorf("%d evictions without effect with a replacement, the last at %v; want one more", n, at)
	}
	later := noon.Add(announcementTTL + time.Minute)
	next.Learn(later, viewOf(1, pod), wants(fits(100), pod))
	if e := next.evictions[db]; e.assumed || e.Ineffective != 3 {
		t.Errorf("got %+v after the end of the announcement, want the eviction before", e)
	}
}

// The effect of an eviction is not known when the next one is announced. A replacement of either shows it.
func TestNewestToAnnounce_earlierEvictionIsOpen_itsReplacementCountsToo(t *testing.T) {
	pods := podsOf(2)
	l := New()
	l.Done(noon.Add(-time.Minute), Attempt{Pod: pods[0], Do: decision.Evict, With: fits(100), Newest: pods[0].Created})
	if got := l.NewestToAnnounce(noon, db, noon.Add(-30*time.Second)); !got.Equal(pods[0].Created) {
		t.Errorf("announced is %v, want the time before the first eviction, %v", got, pods[0].Created)
	}
}

// The next updater evicts again after the wait, before a replacement shows the effect of the assumed eviction.
func TestExpect_afterAnAssumedEviction_itsReplacementCountsToo(t *testing.T) {
	pods := podsOf(2)
	next := New()
	next.Restore(noon.Add(time.Minute), announcedDB(New(), pods[0].Created))
	for _, refused := range []bool{false, true} {
		attempt := Attempt{Pod: pods[1], Do: decision.Evict, With: fits(100), Newest: noon.Add(3 * time.Minute)}
		if refused {
			next.Refused(noon.Add(6*time.Minute), attempt, decision.Refusal{Kind: decision.OutcomeIsUnknown}, 1)
		} else {
			next.Done(noon.Add(6*time.Minute), attempt)
		}
		e := next.evictions[db]
		if e.assumed || !refused && !e.Newest.Equal(pods[0].Created) {
			t.Errorf("without an answer %v: got %+v, want the creation time before the assumed eviction", refused, e)
		}
	}
}
