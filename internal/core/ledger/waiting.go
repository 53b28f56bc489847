// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/decision"
)

// A WaitingState are pods of a workload that should change and wait for the same reason.
type WaitingState struct {
	Reason    string    `stored:"reason,required"` // the name of its code
	Pods      int       `stored:"pods,required"`
	First     string    `stored:"firstPod"`          // name of the first pod
	NotBefore time.Time `stored:"notBefore,seconds"` // when the first of them may change; zero if that is not known
}

// maxWaiting is the number of reasons of a workload that are kept.
const maxWaiting = 10

// PassEnded records which pods should change and were left unchanged, so that others can read it. It has no effect on decisions.
func (l *Ledger) PassEnded(ds []decision.Decision) {
	l.waiting = map[cluster.Workload][]WaitingState{}
	for i := range ds {
		d := &ds[i]
		if d.Do != decision.Leave || d.Wanted.Code == decision.Fits {
			continue
		}
		w := d.Pod.Workload()
		l.waiting[w] = noteWaiting(l.waiting[w], d)
	}
	for w, list := range l.waiting {
		slices.SortFunc(list, func(a, b WaitingState) int { return cmp.Or(b.Pods-a.Pods, strings.Compare(a.Reason, b.Reason)) })
		l.waiting[w] = list[:min(len(list), maxWaiting)]
	}
}

func noteWaiting(list []WaitingState, d *decision.Decision) []WaitingState {
	reason := d.Reason.Code.String()
	until := d.Reason.Until.Truncate(time.Second)
	i := slices.IndexFunc(list, func(s WaitingState) bool { return s.Reason == reason })
	if i < 0 {
		return append(list, WaitingState{Reason: reason, Pods: 1, First: d.Pod.Name, NotBefore: until})
	}
	s := &list[i]
	s.Pods++
	s.First = min(s.First, d.Pod.Name)
	if s.NotBefore.IsZero() || until.IsZero() {
		s.NotBefore = time.Time{}
	} else if until.Before(s.NotBefore) {
		s.NotBefore = until
	}
	return list
}
