// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package overview

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"podfit.dev/podfit/internal/core/change"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/decision"
	"podfit.dev/podfit/internal/core/wording"
)

// An Entry is one decision about a pod, or several pods that were left for the same reason.
type Entry struct {
	At       time.Time
	Pod      cluster.Key
	Workload cluster.Workload
	VPA      string
	Act      string // verb: resize, evict, delete, surge or leave
	Reason   string // stable name of the reason
	Text     string // the reason as sentences
	Change   string // requests before and after; "" if nothing changes
	Pods     int    // number of pods; 0 means 1
	Times    int    // how often it was done to the pod, the last time At; 0 means 1
}

// journalSize is the number of decisions that a Journal keeps.
const journalSize = 10_000

// A Journal keeps the last decisions. A pod that is left is recorded again only when the reason changes. Its memory is bounded by
// journalSize and the number of pods. The zero value is empty. It is not safe for several goroutines.
type Journal struct {
	Since time.Time                      // time of the first pass; zero if there was none
	last  []Entry                        // oldest first
	left  map[string]decision.ReasonCode // reasons for which pods were left in the last pass, by UID
}

// Record adds the decisions of a pass.
func (j *Journal) Record(now time.Time, decisions []decision.Decision) {
	j.Since = cmp.Or(j.Since, now)
	left := make(map[string]decision.ReasonCode, len(j.left))
	for i := range decisions {
		d := &decisions[i]
		if d.Do == decision.Leave {
			left[d.Pod.UID] = d.Reason.Code
			if before, known := j.left[d.Pod.UID]; d.Wanted.Code == decision.Fits || known && before == d.Reason.Code {
				continue
			}
		}
		j.last = append(j.last, EntryOf(now, d))
		j.last = j.last[max(0, len(j.last)-journalSize):]
	}
	j.left = left
}

// EntryOf returns the entry of a decision.
func EntryOf(now time.Time, d *decision.Decision) Entry {
	e := Entry{At: now, Pod: d.Pod.Key, Workload: d.Pod.Workload(), Act: d.Do.String(), Reason: d.Reason.Code.String(), Text: d.Reason.String()}
	if d.Autoscaler != nil {
		e.VPA = d.Autoscaler.Name
	}
	var changes []string
	for x := range change.Pairs(d.Pod, d.With, false) {
		if x.Limit || x.Container.Name == "" { // of the pod as a whole
			continue
		}
		before, after := "none", short(x.Resource, x.To)
		if x.Had {
			before = short(x.Resource, x.From)
		}
		if before != after { // a change that rounding hides is no change to people
			changes = append(changes, x.Container.Name+" "+wording.Name(x.Resource)+" "+before+" → "+after)
		}
	}
	e.Change = strings.Join(changes, ", ")
	return e
}

// short formats an amount, and omits a fraction that is zero.
func short(res cluster.Resource, v int64) string {
	return strings.Replace(cluster.Format(res, v), ".0", "", 1)
}

// Entries returns the entries, the newest first.
func (j *Journal) Entries() []Entry {
	out := slices.Clone(j.last)
	slices.Reverse(out)
	return out
}

// Grouped merges neighbouring entries of pods that were left for the same reason at the same time.
func Grouped(entries []Entry) []Entry {
	var out []Entry
	for _, e := range entries {
		e.Pods = max(e.Pods, 1)
		if n := len(out); n > 0 && e.Act == decision.Leave.String() {
			if last := &out[n-1]; last.Act == e.Act && last.Reason == e.Reason && last.At.Equal(e.At) {
				last.Pods += e.Pods
				continue
			}
		}
		out = append(out, e)
	}
	return out
}

// Counts are the numbers of actions since a time.
type Counts struct {
	Resized  int `json:"resized"`
	Evicted  int `json:"evicted"`
	Deleted  int `json:"deleted"`
	Surged   int `json:"surged"`
	Left     int `json:"left"`
	Reverted int `json:"reverted"`
}

// CountSince counts entries since a time.
func CountSince(entries []Entry, since time.Time) (c Counts) {
	byAct := map[string]*int{
		decision.Resize.String(): &c.Resized, decision.Evict.String(): &c.Evicted, decision.Delete.String(): &c.Deleted, decision.Surge.String(): &c.Surged,
	}
	for _, e := range entries {
		if e.At.Before(since) {
			continue
		}
		n := max(e.Pods, 1) * max(e.Times, 1)
		*cmp.Or(byAct[e.Act], &c.Left) += n
		if e.Reason == decision.Reverted.String() {
			c.Reverted += n
		}
	}
	return c
}
