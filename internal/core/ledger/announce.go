// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"maps"
	"slices"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/decision"
)

// An ActingGroup lists workloads on whose pods the updater acts, or has acted a short time ago. If the updater is killed, the next one
// changes none of their pods for WatchDelay after Since, as with State.ActingSince.
type ActingGroup struct {
	Since     time.Time
	Workloads []cluster.Workload // of the namespace of the state
}

const (
	// actingPrecision is the precision of ActingGroup.Since. It bounds the number of groups, and is small compared with WatchDelay.
	actingPrecision = 10 * time.Second
	// maxActingSize bounds the announced workloads of a namespace, in bytes of the stored object. It is enough for 1,000 workloads with
	// names of 40 bytes.
	maxActingSize = 96 << 10
	// actingOverhead is the size of a stored workload without its names.
	actingOverhead = 40
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

// Announce records that a pass acts on pods of workloads of a namespace, and returns the state of the namespace with all its announcements.
// Workloads for which the state has no room are not announced.
func (l *Ledger) Announce(now time.Time, namespace string, workloads []cluster.Workload) State {
	size := l.announcedSize(namespace)
	for _, w := range workloads {
		_, known := l.acting[w]
		_, inherited := l.inherits[w]
		if !known && !inherited {
			if w.Namespace != namespace || size+actingSize(w) > maxActingSize {
				continue
			}
			size += actingSize(w)
		}
		l.acting[w] = now.Truncate(actingPrecision)
	}
	return l.announcements()[namespace]
}

// announcedSize returns the size of all announcements of a namespace, with those of the updater before this one.
func (l *Ledger) announcedSize(namespace string) int {
	size := 0
	for w := range l.acting {
		if w.Namespace == namespace {
			size += actingSize(w)
		}
	}
	for w := range l.inherits {
		if _, known := l.acting[w]; !known && w.Namespace == namespace {
			size += actingSize(w)
		}
	}
	return size
}

func actingSize(w cluster.Workload) int {
	return len(w.Group) + len(w.Kind) + len(w.Name) + actingOverhead
}

// Announced returns when a pass was announced that acts on pods of a workload, in the state of its namespace. It is zero if none is.
func (l *Ledger) Announced(w cluster.Workload) time.Time { return l.acting[w] }

// Announcements returns the workloads that are announced in the states of their namespaces, sorted.
func (l *Ledger) Announcements() []cluster.Workload {
	return slices.SortedFunc(maps.Keys(l.acting), cluster.Workload.Compare)
}

// EndAnnouncement records that the outcomes of the actions on a workload are stored, or that there are none.
func (l *Ledger) EndAnnouncement(w cluster.Workload) { delete(l.acting, w) }

// IsSettling reports whether a state consists of evictions only, none of which is known to have failed. The announcement of its workload is
// enough for some time, because most evictions have their replacement by then, and leave no record.
func (s *State) IsSettling() bool {
	switch {
	case s.Canary != nil, s.Deletion != nil, s.Rounds != nil, s.Capacity != nil, len(s.Shortages) > 0, len(s.Changes) > 0, s.Omitted > 0, !s.ActingSince.IsZero():
		return false
	case s.Eviction != nil && (s.Eviction.Ineffective > 0 || s.Eviction.Uncertain != "" || s.Eviction.Before != nil):
		return false
	}
	return !slices.ContainsFunc(s.Pods, func(p PodState) bool { return !p.Done || p.Do != decision.Evict })
}

// inherit restores the announcements of the updater before this one.
func (l *Ledger) inherit(now time.Time, s *State) {
	for _, g := range s.Acting {
		at := past(now, g.Since)
		for _, w := range g.Workloads {
			if w.Namespace == s.Workload.Namespace && !at.IsZero() && at.After(l.inherits[w]) {
				l.inherits[w] = at
			}
		}
	}
}

// exportAnnouncements adds the states of namespaces.
func (l *Ledger) exportAnnouncements(state func(cluster.Workload) *State) {
	for _, s := range l.announcements() {
		state(s.Workload).Acting = s.Acting
	}
}

// announcements returns the states of namespaces: the announcements of this updater, and those of the one before it that still count.
func (l *Ledger) announcements() map[string]State {
	since := maps.Clone(l.inherits)
	maps.Copy(since, l.acting)
	groups := map[string]map[time.Time][]cluster.Workload{}
	for w, at := range since {
		if groups[w.Namespace] == nil {
			groups[w.Namespace] = map[time.Time][]cluster.Workload{}
		}
		groups[w.Namespace][at] = append(groups[w.Namespace][at], w)
	}
	out := make(map[string]State, len(groups))
	for namespace, byTime := range groups {
		s := State{Workload: NamespaceState(namespace)}
		for _, at := range slices.SortedFunc(maps.Keys(byTime), time.Time.Compare) {
			slices.SortFunc(byTime[at], cluster.Workload.Compare)
			s.Acting = append(s.Acting, ActingGroup{Since: at, Workloads: byTime[at]})
		}
		out[namespace] = s
	}
	return out
}

// forgetAnnouncements forgets those that do not count any more.
func (l *Ledger) forgetAnnouncements(now time.Time) {
	isOld := func(_ cluster.Workload, at time.Time) bool { return now.Sub(at) > WatchDelay+actingPrecision }
	maps.DeleteFunc(l.acting, isOld)
	maps.DeleteFunc(l.inherits, isOld)
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
