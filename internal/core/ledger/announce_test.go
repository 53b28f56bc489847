// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"podfit.dev/podfit/internal/core/attempt"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/decision"
	"podfit.dev/podfit/internal/core/headroom"
)

func announced(n int, prefix string) []ActingWorkload {
	var out []ActingWorkload
	for i := range n {
		out = append(out, ActingWorkload{Workload: cluster.Workload{Group: "apps", Kind: "Deployment", Namespace: "shop", Name: fmt.Sprintf("%s-%04d", prefix, i)}})
	}
	return out
}

func TestAnnounce_updaterIsKilled_nextOneWaitsForTheWatch(t *testing.T) {
	all := announced(7, "web")
	first := New()
	stored := first.Announce(noon, all)["shop"]
	if _, interrupted := first.Interrupted(noon, all[0].Workload); interrupted {
		t.Error("the updater that announces is interrupted")
	}
	next := New()
	next.Restore(noon.Add(time.Second), []State{stored})
	for after, want := range map[time.Duration]bool{time.Minute: true, attempt.WatchDelay - time.Minute: true, attempt.WatchDelay + time.Minute: false} {
		if _, got := next.Interrupted(noon.Add(after), all[3].Workload); got != want {
			t.Errorf("interrupted %v after %v, want %v", got, after, want)
		}
	}
	if _, other := next.Interrupted(noon, cluster.Workload{Group: "apps", Kind: "Deployment", Namespace: "shop", Name: "other"}); other {
		t.Error("a workload that was not announced is interrupted")
	}
	if got := next.Export(attempt.Delays{}); len(got) != 1 || !got[0].IsOfNamespace() || len(got[0].Acting) != 1 {
		t.Errorf("exported is %+v, want the announcement, and no state for each workload", got)
	}
	next.Learn(noon.Add(attempt.WatchDelay+time.Minute), View{}, nil)
	if got := next.Export(attempt.Delays{}); len(got) != 1 || len(got[0].Acting) != 1 || len(got[0].Acting[0].Workloads) != len(all) {
		t.Errorf("exported is %+v after the wait, want the announcement, because the outcomes are not known", got)
	}
	next.Learn(noon.Add(announcementTTL+time.Minute), View{}, nil)
	if got := next.Export(attempt.Delays{}); len(got) != 0 {
		t.Errorf("exported is %+v in the end, want nothing", got)
	}
}

// A user can change the object of a namespace, but not stop actions in another one, or for longer than WatchDelay.
func TestRestore_announcementOfAnotherNamespaceOrTheFuture_hasBoundedEffect(t *testing.T) {
	web := announced(1, "web")[0].Workload
	other := web
	other.Namespace = "other"
	l := New()
	l.Restore(noon, []State{{Workload: NamespaceState("shop"), Acting: []ActingGroup{{Since: noon.Add(24 * time.Hour), Workloads: []ActingWorkload{{Workload: web}, {Workload: other}, {}}}}}})
	if _, interrupted := l.Interrupted(noon, other); interrupted {
		t.Error("a workload of another namespace is interrupted")
	}
	if until, interrupted := l.Interrupted(noon, web); !interrupted || until.After(noon.Add(attempt.WatchDelay)) {
		t.Errorf("interrupted %v until %v, want at most %v", interrupted, until, attempt.WatchDelay)
	}
}

func TestAnnounce_tooManyWorkloads_othersAreNotAnnounced(t *testing.T) {
	l := New()
	all := announced(3000, strings.Repeat("w", 60))
	s := l.Announce(noon, all)["shop"]
	n := len(s.Acting[0].Workloads)
	if n == len(all) || n < 500 {
		t.Errorf("%d of %d workloads are announced, want as many as an object has room for", n, len(all))
	}
	if got := len(l.Announcements(noon)); got != n {
		t.Errorf("%d workloads are recorded, want %d", got, n)
	}
	l.EndAnnouncement(noon, s.Acting[0].Workloads[0].Workload)
	if s = l.Announce(noon, all[len(all)-1:])["shop"]; len(s.Acting[0].Workloads) != n {
		t.Errorf("%d workloads are announced, want the last one instead of the first", len(s.Acting[0].Workloads))
	}
}

// Passes each second for an hour.
func TestAnnounce_manyPasses_groupsAreBounded(t *testing.T) {
	l := New()
	all := announced(1200, "web")
	for i := range all {
		at := noon.Add(time.Duration(i) * time.Second)
		l.Learn(at, View{}, nil)
		if s := l.Announce(at, all[i:i+1])["shop"]; len(s.Acting) > 45 { // of 10 s, and of 5 minutes after the wait
			t.Fatalf("%d groups after %d passes", len(s.Acting), i)
		}
	}
}

func TestIsSettling_states_onlyEvictionsWithoutFailure(t *testing.T) {
	evicted := PodState{UID: "u", Do: decision.Evict, At: noon}
	for name, c := range map[string]struct {
		s    State
		want bool
	}{
		"evicted pods":           {State{Pods: []PodState{evicted}, Eviction: &EvictionState{At: noon}, Replacements: []PendingState{{}}}, true},
		"a refused eviction":     {State{Pods: []PodState{evicted, {Do: decision.Evict, Failed: &FailedState{}}}}, false},
		"a resize":               {State{Pods: []PodState{{Do: decision.Resize}}}, false},
		"an ineffective one":     {State{Eviction: &EvictionState{At: noon, Ineffective: 1}}, false},
		"one without an answer":  {State{Eviction: &EvictionState{At: noon, Uncertain: "u"}}, false},
		"evictions in rounds":    {State{Rounds: &RoundsState{Count: 2}}, false},
		"an OOM rescue":          {State{Deletion: &DeletionState{}}, false},
		"a request for capacity": {State{Capacity: &headroom.State{}}, false},
		"an interrupted pass":    {State{ActingSince: noon}, false},
		"records are omitted":    {State{Omitted: 1}, false},
	} {
		if got := c.s.IsSettling(); got != c.want {
			t.Errorf("%s: got %v, want %v", name, got, c.want)
		}
	}
}

// The announcement of a namespace does not depend on those of the others. Otherwise, the cost of a pass is quadratic.
func TestAnnounce_manyNamespaces_costOfOneDoesNotGrow(t *testing.T) {
	cost := func(namespaces int) float64 {
		l := New()
		var workloads []ActingWorkload
		for i := range namespaces {
			w := db
			w.Namespace = fmt.Sprint("n", i)
			workloads = append(workloads, ActingWorkload{Workload: w, Newest: noon})
		}
		return testing.AllocsPerRun(3, func() { l.Announce(noon, workloads) }) / float64(namespaces)
	}
	if few, many := cost(20), cost(2000); many > 2*few {
		t.Errorf("%v allocations for each of 20 namespaces, %v for each of 2000", few, many)
	}
}
