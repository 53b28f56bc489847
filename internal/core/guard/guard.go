// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package guard watches the memory that is in use on nodes, and says which nodes need room before their kubelet evicts pods.
//
// Profiles for full nodes let the memory limits of containers be far above their requests, and leave a part of each node free for peaks. When the pods
// of a node use that part, or soon will, an alarm names the node and which of its pods may make room: by moving, because lower requests free no memory
// that is in use. Package plan chooses the pod.
//
// A node has at most one move a minute, and a node and a workload three in an hour. If a node is full again after these, it rests: moving more pods
// does not help.
package guard

import (
	"maps"
	"slices"
	"strings"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
)

const (
	// Line is the share of the allocatable memory of a node above which its pods use the part that is for peaks.
	Line = 0.85
	// ahead is how long before the line is passed an alarm begins, if usage rises steadily.
	ahead = 10 * time.Minute
	// maxAge is the maximum age of a sample, and newPod how long a pod may have none.
	maxAge = time.Minute
	newPod = 2 * time.Minute
	// steady is how long usage must rise steadily, and kept how long readings are kept.
	steady = 3 * time.Minute
	kept   = 5 * time.Minute
	// pause is the least time between two moves from a node.
	pause = time.Minute
	// MostMoves is the number of moves in Rest after which a node rests.
	MostMoves = 3
	// Rest is how long a node rests.
	Rest = time.Hour
)

// A Sample is the memory usage of a pod.
type Sample struct {
	At    time.Time // when it was measured
	Bytes int64
}

// An Alarm is a node that needs room.
type Alarm struct {
	Node        string
	Used        int64 // memory of its pods, in bytes; less than they use if some are not measured
	Allocatable int64
	Excess      int64                 // above the line, now or at the end of the time that is looked ahead
	Coming      bool                  // the line is not passed yet
	Rests       bool                  // no pod moves: three moves did not help
	Waits       bool                  // no pod moves: the last move is less than a minute ago
	Usage       map[cluster.Key]int64 // by pod
}

// Share returns which share of the part of the node that is for peaks is in use.
func (a *Alarm) Share() float64 {
	return max(0, float64(a.Used)/float64(a.Allocatable)-Line) / (1 - Line)
}

// A Book remembers the usage of nodes and the moves from them. The zero value is empty.
type Book struct {
	Alarms []Alarm // of the last observation, by node

	nodes     map[string]*node
	workloads map[cluster.Workload]moves
	last      time.Time
}

type node struct {
	readings []reading // the last ones, oldest first
	left     int64     // memory below the line that is not in use, as far as it is known
	moves    moves
}

// moves are the times of moves in the last hour.
type moves []time.Time

func (m moves) recent(now time.Time) moves {
	return slices.DeleteFunc(m, func(at time.Time) bool { return now.Sub(at) >= Rest })
}

type reading struct {
	at    time.Time
	bytes int64
}

// Observe sets the alarms of the watched nodes from samples of their pods. A node is only judged by samples that are not older than a
// minute. What is above the size of a node is not possible, so such a node is not judged.
func (b *Book) Observe(now time.Time, watched map[string]*cluster.Node, pods []*cluster.Pod, samples map[cluster.Key]Sample) {
	if now.Before(b.last) { // the clock was set back
		*b = Book{}
	}
	b.last = now
	maps.DeleteFunc(b.nodes, func(name string, n *node) bool {
		n.moves = n.moves.recent(now)
		return watched[name] == nil && len(n.moves) == 0
	})
	for w, all := range b.workloads {
		if b.workloads[w] = all.recent(now); len(b.workloads[w]) == 0 {
			delete(b.workloads, w)
		}
	}
	usage := map[string]map[cluster.Key]int64{}
	newest := map[string]time.Time{}
	partial := map[string]bool{}
	for _, p := range pods {
		if watched[p.Node] == nil || !p.Live() {
			continue
		}
		s, measured := samples[p.Key]
		if !measured || now.Sub(s.At) > maxAge || s.At.Sub(now) > maxAge || s.Bytes < 0 {
			partial[p.Node] = partial[p.Node] || now.Sub(p.Started) > newPod
			continue
		}
		if usage[p.Node] == nil {
			usage[p.Node] = map[cluster.Key]int64{}
		}
		usage[p.Node][p.Key] = s.Bytes
		newest[p.Node] = cluster.Latest(newest[p.Node], s.At)
	}
	b.Alarms = nil
	for name, of := range usage {
		if alarm, raised := b.judge(now, watched[name], of, newest[name], partial[name]); raised {
			b.Alarms = append(b.Alarms, alarm)
		}
	}
	slices.SortFunc(b.Alarms, func(x, y Alarm) int { return strings.Compare(x.Node, y.Node) })
}

// judge returns the alarm of a node whose newest sample is of a time. With partial usage, which is too low, only usage above the line counts.
func (b *Book) judge(now time.Time, of *cluster.Node, usage map[cluster.Key]int64, at time.Time, partial bool) (Alarm, bool) {
	alarm := Alarm{Node: of.Name, Allocatable: of.Allocatable.Memory, Usage: usage}
	for _, bytes := range usage {
		alarm.Used += bytes
	}
	if alarm.Allocatable <= 0 || alarm.Used > max(of.Capacity.Memory, alarm.Allocatable) {
		return alarm, false
	}
	n := b.nodes[of.Name]
	if n == nil {
		n = new(node)
		cluster.Put(&b.nodes, of.Name, n)
	}
	n.read(reading{at, alarm.Used}, partial)
	line := int64(Line * float64(alarm.Allocatable))
	n.left = line - alarm.Used
	alarm.Excess = -n.left
	if alarm.Excess <= 0 {
		alarm.Coming = true
		alarm.Excess = n.expected() - line
	}
	alarm.Rests = len(n.moves) >= MostMoves
	alarm.Waits = len(n.moves) > 0 && now.Sub(n.moves[len(n.moves)-1]) < pause
	return alarm, alarm.Excess > 0
}

// read adds a reading, if it is newer than the last one. What was read before a partial reading cannot be compared with what follows.
func (n *node) read(r reading, partial bool) {
	switch last := len(n.readings) - 1; {
	case partial:
		n.readings = nil
	case last < 0 || r.at.After(n.readings[last].at):
		n.readings = append(n.readings, r)
		n.readings = slices.DeleteFunc(n.readings, func(old reading) bool { return r.at.Sub(old.at) > kept })
	}
}

// expected returns the usage at the end of the time that is looked ahead, at the slower of the rates of the first and the second half of the readings;
// 0 if usage has not risen for long enough, or not in both.
func (n *node) expected() int64 {
	count := len(n.readings)
	if count < 3 || n.readings[count-1].at.Sub(n.readings[0].at) < steady {
		return 0
	}
	first, middle, last := n.readings[0], n.readings[count/2], n.readings[count-1]
	perSecond := min(rate(first, middle), rate(middle, last))
	return last.bytes + int64(max(perSecond, 0)*ahead.Seconds())
}

func rate(from, to reading) float64 {
	return float64(to.bytes-from.bytes) / to.at.Sub(from.at).Seconds()
}

// MayMove reports whether a pod of a workload that uses an amount of memory may move to a node: not if three pods of the workload have moved in the last
// hour, or if the node is watched and would have an alarm, too.
func (b *Book) MayMove(w cluster.Workload, bytes int64, to string) bool {
	n := b.nodes[to]
	return len(b.workloads[w]) < MostMoves && (n == nil || len(n.readings) == 0 || bytes <= n.left)
}

// Moved records that a pod of a workload moves from a node, or may do so.
func (b *Book) Moved(now time.Time, w cluster.Workload, from string) {
	cluster.Put(&b.workloads, w, append(b.workloads[w], now))
	if n := b.nodes[from]; n != nil {
		n.moves = append(n.moves, now)
	}
}
