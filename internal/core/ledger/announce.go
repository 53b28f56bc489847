// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"maps"
	"slices"
	"time"

	"podfit.dev/podfit/internal/core/attempt"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/decision"
)

// announcementRecords are the workloads on which an updater acts.
type announcementRecords struct {
	acting   map[cluster.Workload]announcement // workloads that are announced in the state of their namespace, see Announce
	inherits map[cluster.Workload]announcement // likewise by the updater before this one
}

// An ActingGroup lists workloads on whose pods the updater acts, or has acted a short time ago. If the updater is killed, the next one
// changes none of their pods for WatchDelay after Since, as with State.ActingSince.
type ActingGroup struct {
	Since     time.Time        `stored:"since,required"`
	Workloads []ActingWorkload `stored:"workloads,max=3000,required"` // of the namespace of the state
}

// An ActingWorkload is a workload on whose pods the updater acts.
type ActingWorkload struct {
	cluster.Workload

	// Newest is when the newest pod of the workload was created before the actions, by the API server's clock. Pods that were created later
	// may be replacements. If it is zero, the next updater waits, but assumes no eviction.
	Newest time.Time `stored:"newestPod,seconds"`
}

// An announcement records that an updater acts on pods of a workload, or has acted.
type announcement struct {
	since  time.Time
	newest time.Time // see ActingWorkload.Newest
}

const (
	// actingPrecision is the precision of ActingGroup.Since. It bounds the number of groups, and is small compared with WatchDelay.
	actingPrecision = 10 * time.Second
	// oldPrecision is the precision of ActingGroup.Since from WatchDelay on.
	oldPrecision = 5 * time.Minute
	// announcementTTL is how long an announcement is kept whose outcomes are not known or cannot be stored.
	announcementTTL = time.Hour
	// maxActingSize bounds the announced workloads of a namespace, in bytes of the stored object. It is enough for 1,000 workloads with
	// names of 40 bytes.
	maxActingSize = 144 << 10
	// actingOverhead is the size of a stored workload without its names.
	actingOverhead = 80
	// goneTime is how long after its eviction a pod that is gone is part of the stored state.
	goneTime = 30 * time.Second
	// SettleTime is how long a state with nothing but evictions is not stored if its workload is announced. It is goneTime and the usual time
	// between two passes, so that most states are empty by then.
	SettleTime = goneTime + 70*time.Second
)

// NamespaceState returns the key of the state of a namespace.
func NamespaceState(namespace string) cluster.Workload {
	return cluster.Workload{Kind: "Namespace", Namespace: namespace, Name: namespace}
}

// IsOfNamespace reports whether this is the state of a namespace, which has only announcements.
func (s *State) IsOfNamespace() bool { return s.Workload == NamespaceState(s.Workload.Namespace) }

// Announce records that a pass acts on pods of workloads, and returns the states of namespaces with all their announcements. Workloads for
// which the state of their namespace has no room are not announced.
func (l *Ledger) Announce(now time.Time, workloads []ActingWorkload) map[string]State {
	known := l.openAnnouncements()
	size := map[string]int{}
	for w := range known {
		size[w.Namespace] += actingSize(w)
	}
	for _, a := range workloads {
		if _, ok := known[a.Workload]; !ok {
			if size[a.Namespace]+actingSize(a.Workload) > maxActingSize {
				continue
			}
			size[a.Namespace] += actingSize(a.Workload)
		}
		l.acting[a.Workload] = announcement{now.Truncate(actingPrecision), l.NewestToAnnounce(now, a)}
	}
	return l.announcements()
}

// NewestToAnnounce returns the creation time after which a pod of a workload may be the replacement of an eviction with an unknown effect: of
// one that follows, or of an earlier one.
func (l *evictionRecords) NewestToAnnounce(now time.Time, a ActingWorkload) time.Time {
	newest := a.Newest
	if newest.IsZero() {
		newest = now.Truncate(time.Second).Add(-time.Second)
	}
	e, open := l.evictions[a.Workload]
	if open && !e.Judged && !e.Newest.IsZero() && e.Newest.Before(newest) {
		return e.Newest
	}
	return newest
}

func actingSize(w cluster.Workload) int {
	return len(w.Group) + len(w.Kind) + len(w.Name) + actingOverhead
}

// Announced returns when a pass was announced that acts on pods of a workload, in the state of its namespace. It is zero if none is.
func (l *announcementRecords) Announced(w cluster.Workload) time.Time { return l.acting[w].since }

// Announcements returns the workloads that are announced in the states of their namespaces, sorted, without those whose actions are still
// unknown because the updater before this one was killed.
func (l *Ledger) Announcements(now time.Time) []cluster.Workload {
	known := maps.Clone(l.acting)
	for w, a := range l.inherits {
		if isOver(now, a) && !l.isAssumed(w) {
			known[w] = a
		}
	}
	return slices.SortedFunc(maps.Keys(known), cluster.Workload.Compare)
}

// EndAnnouncement records that the outcomes of the actions on a workload are stored, or that there are none.
func (l *announcementRecords) EndAnnouncement(now time.Time, w cluster.Workload) {
	delete(l.acting, w)
	if isOver(now, l.inherits[w]) {
		delete(l.inherits, w)
	}
}

// isOver reports whether the next updater acts again on pods of the workload of an announcement.
func isOver(now time.Time, a announcement) bool {
	return now.Sub(a.since) > attempt.WatchDelay+actingPrecision
}

// IsSettling reports whether a state consists of evictions only, none of which is known to have failed. The announcement of its workload is
// enough for some time, because most evictions have their replacement by then, and leave no record.
func (s *State) IsSettling() bool {
	switch {
	case s.Canary != nil, s.Deletion != nil, s.Rounds != nil, s.Capacity != nil, len(s.Shortages) > 0, len(s.Changes) > 0, s.Omitted > 0, !s.ActingSince.IsZero():
		return false
	case s.Eviction != nil && (s.Eviction.Ineffective > 0 || s.Eviction.Uncertain != "" || s.Eviction.Before != nil):
		return false
	}
	return !slices.ContainsFunc(s.Pods, func(p PodState) bool { return p.Failed != nil || p.Do != decision.Evict })
}

// inherit restores the announcements of the updater before this one.
func (l *announcementRecords) inherit(now time.Time, s *State) {
	for _, g := range s.Acting {
		at := attempt.Past(now, g.Since)
		for _, w := range g.Workloads {
			if w.Namespace == s.Workload.Namespace && !at.IsZero() && at.After(l.inherits[w.Workload].since) {
				l.inherits[w.Workload] = announcement{at, w.Newest}
			}
		}
	}
}

// announcements returns the states of namespaces: the announcements of this updater, and those of the one before it that still count.
func (l *announcementRecords) announcements() map[string]State {
	groups := map[string]map[time.Time][]ActingWorkload{}
	for w, a := range l.openAnnouncements() {
		if groups[w.Namespace] == nil {
			groups[w.Namespace] = map[time.Time][]ActingWorkload{}
		}
		groups[w.Namespace][a.since] = append(groups[w.Namespace][a.since], ActingWorkload{w, a.newest})
	}
	out := make(map[string]State, len(groups))
	for namespace, byTime := range groups {
		s := State{Workload: NamespaceState(namespace)}
		for _, at := range slices.SortedFunc(maps.Keys(byTime), time.Time.Compare) {
			slices.SortFunc(byTime[at], func(a, b ActingWorkload) int { return a.Compare(b.Workload) })
			s.Acting = append(s.Acting, ActingGroup{Since: at, Workloads: byTime[at]})
		}
		out[namespace] = s
	}
	return out
}

// openAnnouncements returns the announcements of this updater, and those of the one before it.
func (l *announcementRecords) openAnnouncements() map[cluster.Workload]announcement {
	out := maps.Clone(l.inherits)
	maps.Copy(out, l.acting)
	return out
}

// forgetAnnouncements forgets those that do not count any more. An announcement counts until the effect of its evictions is known and stored.
func (l *Ledger) forgetAnnouncements(now time.Time) {
	maps.DeleteFunc(l.interrupted, func(w cluster.Workload, a announcement) bool {
		return now.Sub(a.since) > attempt.WatchDelay && !l.isAssumed(w)
	})
	maps.DeleteFunc(l.inherits, func(w cluster.Workload, a announcement) bool {
		_, open := l.evictions[w]
		return isOver(now, a) && !open
	})
	for _, all := range []map[cluster.Workload]announcement{l.acting, l.inherits} {
		maps.DeleteFunc(all, func(_ cluster.Workload, a announcement) bool { return now.Sub(a.since) > announcementTTL })
		for w, a := range all {
			if isOver(now, a) { // the exact time does not matter any more, and the number of groups is bounded
				a.since = a.since.Truncate(oldPrecision)
				all[w] = a
			}
		}
	}
}

// noteReplaced records which evicted pods are gone and were evicted some time ago. The ledger keeps them for WatchDelay, but a restart needs
// no record of them.
func (l *Ledger) noteReplaced(now time.Time, ds []decision.Decision) {
	l.replaced = map[string]bool{}
	if len(l.evicted) == 0 {
		return
	}
	seen := make(map[string]bool, len(ds))
	for i := range ds {
		seen[ds[i].Pod.UID] = true
	}
	for uid, at := range l.evicted {
		if !seen[uid] && now.Sub(at) >= goneTime {
			l.replaced[uid] = true
		}
	}
}
