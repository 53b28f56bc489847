// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package guard watches the memory that is in use on nodes, and says which nodes need room before their kubelet evicts pods.
//
// Profiles for full nodes let the memory limits of containers be far above their requests, and leave a part of each node free for peaks. When the pods
// of a node use that part, or soon will, an alarm names the node and which of its pods may make room: by moving, because lower requests free no memory
// that is in use. Package plan chooses the pod.
//
// A node has at most one move a minute, and a node and a workload three in an hour. If a node is full again after these, or if a pod of a workload that
// moved came back, it rests: moving more pods does not help. Moves are not stored, so a new updater only observes for a minute.
//
// Memory pressure is a second sign, below the line. A container that reclaims memory at its own limit causes it, too, and moving pods does not help that.
// So because of pressure alone, a node and a workload have three moves in a day, beside those because of usage.
package guard

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/wording"
)

const (
	// Line is the share of the allocatable memory of a node above which its pods use the part that is for peaks.
	Line = 0.85
	// ahead is how long before the line is passed an alarm begins, if usage rises steadily, and least the share of the memory from which that counts.
	ahead = 10 * time.Minute
	least = 0.7
	// relief is the share of the memory that a node needs because of pressure alone, and pressureRest how long moves because of it count.
	relief       = 0.05
	pressureRest = 24 * time.Hour
	// effect is how long after a move pressure is measured that shows its effect.
	effect = 3 * time.Minute
	// maxAge is the maximum age of a sample, and maxPressureAge that of pressure: kubelets are read in turn. For settling, a pod that moves counts on
	// its new node before it is measured there, a node is only observed at first, and a new pod may have no sample.
	maxAge         = time.Minute
	maxPressureAge = 2 * time.Minute
	settling       = 2 * time.Minute
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

// A Pressure is the memory pressure of a node.
type Pressure struct {
	At    time.Time // when it was measured
	Share float64   // of the last minute in which all tasks that could run waited for memory: full avg60 of PSI
}

// An Alarm is a node that needs room.
type Alarm struct {
	Node        string
	Used        int64 // memory of its pods, in bytes; less than they use if some are not measured
	Allocatable int64
	Excess      int64                 // above the line, now or at the end of the time that is looked ahead
	Coming      bool                  // the line is not passed yet
	Pressure    float64               // if only that is the sign: its share; else 0
	Rests       bool                  // no pod moves: three moves did not help, or a moved pod came back
	Waits       bool                  // no pod moves: the last move is less than a minute ago
	Usage       map[cluster.Key]int64 // by pod, also by samples that are too old to count in Used
	Unmeasured  map[cluster.Key]bool  // running pods whose usage is not known, although they are not new
}

// Share returns which share of the part of the node that is for peaks is in use.
func (a *Alarm) Share() float64 {
	return max(0, float64(a.Used)/float64(a.Allocatable)-Line) / (1 - Line)
}

// Text returns what the pods of the node do, to follow "the pods of node".
func (a *Alarm) Text() string {
	do := "use"
	switch {
	case a.Pressure > 0:
		do = "wait for memory " + wording.Percent(a.Pressure) + " of the time (pressure) and use"
	case a.Coming:
		do = "will soon use more than " + wording.Percent(Line) + " of its memory and now use"
	}
	return fmt.Sprintf("%s %s %s of its memory", a.Node, do, wording.Percent(float64(a.Used)/float64(a.Allocatable)))
}

// A Book remembers the usage of nodes and the moves from them. The zero value is empty.
type Book struct {
	Alarms  []Alarm         // of the last observation, by node
	Filling map[string]bool // the watched nodes below the line whose pods use so much that pressure counts
	Unknown []string        // the watched nodes whose usage has not been known for five minutes
	Turn    int             // the number of observations, by which nodes take turns if there are too many alarms for a pass

	Pressure     map[string]Pressure // by node, as it was measured last
	PressureLine float64             // the share from which pressure is a sign; 0: it is none

	nodes map[string]*node
	moves map[string][]move // of the last hour, oldest first, by the node that the pods left

	// What follows from the moves, so that the work for a pod or a node does not grow with their number.
	moved    map[cluster.Workload]int // moves of the pods of a workload
	arriving map[string]int64         // memory of the pods that have moved to a node and may not be measured there yet

	pressed map[cluster.Workload][]time.Time // when pods moved because of pressure, in the last day, by workload and by node
}

type node struct {
	first    time.Time // when it was observed first
	known    time.Time // when its usage was known last, or first
	tried    time.Time // when a move from it was tried last
	readings []reading // the last ones, oldest first
	left     int64     // memory below the line that is not in use, as far as it is known
}

// A move is a pod that moves, or may do so.
type move struct {
	Move
	at time.Time
}

type reading struct {
	at    time.Time
	bytes int64
}

// Observe sets the alarms of the watched nodes from samples of the pods of all nodes. What is above the size of a node is not possible, so such a node is
// not judged.
func (b *Book) Observe(now time.Time, nodes []cluster.Node, watched map[string]bool, pods []*cluster.Pod, samples map[cluster.Key]Sample) {
	b.Alarms = nil
	b.Filling = map[string]bool{}
	b.Unknown = nil
	b.Turn++
	b.forget(now)
	on := map[string][]*cluster.Pod{}
	for _, p := range pods {
		if p.Node != "" && p.Live() {
			on[p.Node] = append(on[p.Node], p)
		}
	}
	maps.DeleteFunc(b.nodes, func(name string, _ *node) bool { return on[name] == nil })
	for i := range nodes {
		if pods := on[nodes[i].Name]; len(pods) > 0 {
			b.judge(now, &nodes[i], watched[nodes[i].Name], pods, samples)
		}
	}
	slices.SortFunc(b.Alarms, func(x, y Alarm) int { return strings.Compare(x.Node, y.Node) })
}

// A total is what the pods of a node use by samples that count.
type total struct {
	newest   time.Time
	aging    int64 // usage by samples that are too old to count; the next ones are due
	partial  bool  // the usage of pods is not known, or grows because they are new
	returned bool  // a pod that moved came back
}

// add adds up what the pods of a node use.
func (b *Book) add(now time.Time, pods []*cluster.Pod, samples map[cluster.Key]Sample, to *Alarm) (sum total) {
	for _, p := range pods {
		s, measured := samples[p.Key]
		age := now.Sub(s.At).Abs()
		sum.returned = sum.returned || measured && slices.ContainsFunc(b.moves[to.Node], func(m move) bool { // later pods are of a rollout, or of more replicas
			return m.Of == p.Workload() && !p.Created.Before(m.at.Truncate(time.Second)) && p.Created.Sub(m.at) < kept
		})
		switch {
		case !measured || age > 2*maxAge || s.At.Before(p.Started) || s.Bytes < 0:
			if p.Phase == cluster.Running && p.IsAnyRunning() && now.Sub(p.Started) > settling {
				sum.partial = true
				cluster.Put(&to.Unmeasured, p.Key, true)
			}
			continue
		case age > maxAge:
			sum.aging += s.Bytes
			to.Usage[p.Key] = s.Bytes // it may be the pod with the lowest priority, which moves first
			continue
		}
		to.Usage[p.Key] = s.Bytes
		to.Used += s.Bytes
		sum.newest = cluster.Latest(sum.newest, s.At)
		sum.partial = sum.partial || now.Sub(p.Started) < kept
	}
	return sum
}

// judge raises the alarm of a node with pods. With partial usage, which is too low, only usage above the line counts.
func (b *Book) judge(now time.Time, of *cluster.Node, watched bool, pods []*cluster.Pod, samples map[cluster.Key]Sample) {
	alarm := Alarm{Node: of.Name, Allocatable: of.Allocatable.Memory, Usage: make(map[cluster.Key]int64, len(pods))}
	sum := b.add(now, pods, samples, &alarm)
	n := b.nodes[of.Name]
	if n == nil {
		n = &node{first: now, known: now}
		cluster.Put(&b.nodes, of.Name, n)
	}
	if sum.newest.IsZero() || alarm.Allocatable <= 0 || alarm.Used > max(of.Capacity.Memory, alarm.Allocatable) {
		n.left = 0 // it is not known
		if watched && now.Sub(n.known) > kept && (sum.partial || len(alarm.Usage) > 0) {
			b.Unknown = append(b.Unknown, of.Name)
		}
		return
	}
	n.known = now
	n.read(now, reading{sum.newest, alarm.Used}, sum.partial, sum.aging > 0)
	line := int64(Line * float64(alarm.Allocatable))
	n.left = line - alarm.Used - sum.aging - b.arriving[of.Name]
	alarm.Excess = alarm.Used - line
	if alarm.Excess <= 0 && float64(alarm.Used) >= least*float64(alarm.Allocatable) {
		alarm.Coming = true
		alarm.Excess = n.expected() - line
	}
	alarm.Rests = sum.returned || MostMoves <= len(slices.DeleteFunc(slices.Clone(b.moves[of.Name]), func(m move) bool { return m.Pressed }))
	if alarm.Coming && watched {
		b.Filling[of.Name] = true
		b.press(now, n, &alarm)
	}
	alarm.Waits = now.Sub(n.tried) < pause || now.Sub(n.first) < pause
	if watched && alarm.Excess > 0 {
		b.Alarms = append(b.Alarms, alarm)
	}
}

// press raises the alarm of a node below the line if usage alone raises none, and the node is under pressure. Pressure is the mean of a minute, so what was
// measured soon after a move says nothing about its effect.
func (b *Book) press(now time.Time, n *node, alarm *Alarm) {
	p := b.Pressure[alarm.Node]
	if alarm.Excess <= 0 && b.PressureLine > 0 && p.Share >= b.PressureLine && now.Sub(p.At).Abs() <= maxPressureAge && p.At.Sub(n.tried) >= effect {
		alarm.Pressure = p.Share
		alarm.Excess = int64(relief * float64(alarm.Allocatable))
		alarm.Rests = alarm.Rests || len(b.pressed[cluster.Workload{Kind: "Node", Name: alarm.Node}]) >= MostMoves
	}
}

// forget forgets the moves before the last hour, or the last day because of pressure, and counts the others.
func (b *Book) forget(now time.Time) {
	for of, moves := range b.pressed {
		b.pressed[of] = slices.DeleteFunc(moves, func(at time.Time) bool { return now.Sub(at) >= pressureRest })
	}
	maps.DeleteFunc(b.pressed, func(_ cluster.Workload, moves []time.Time) bool { return len(moves) == 0 })
	b.moved = map[cluster.Workload]int{}
	b.arriving = map[string]int64{}
	for from, moves := range b.moves {
		moves = slices.DeleteFunc(moves, func(m move) bool { return now.Sub(m.at) >= Rest })
		b.moves[from] = moves
		for i := range moves {
			if !moves[i].Pressed {
				b.moved[moves[i].Of]++
			}
			if now.Sub(moves[i].at) < settling {
				b.arriving[moves[i].To] += moves[i].Bytes
			}
		}
	}
	maps.DeleteFunc(b.moves, func(_ string, moves []move) bool { return len(moves) == 0 })
}

// read adds a reading, if it is newer than the last one. What was read before a partial reading cannot be compared with what follows. While some samples
// do not count because the next ones are due, it waits for these.
func (n *node) read(now time.Time, r reading, partial, aging bool) {
	switch last := len(n.readings) - 1; {
	case partial, aging && last >= 0 && now.Sub(n.readings[last].at) > 2*maxAge:
		n.readings = nil
	case aging:
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

// A Move is a pod of a workload that uses an amount of memory, in bytes, and moves to a node.
type Move struct {
	Of      cluster.Workload
	Bytes   int64
	To      string // the scheduler may choose another one
	Pressed bool   // because of pressure alone
}

// MayMove reports whether a pod may move beside others: not if three pods of its workload have moved in the last hour, or in the last day because of
// pressure, or if its new node would be nearly out of memory, too.
func (b *Book) MayMove(next Move, beside []Move) bool {
	moves, bytes := b.moved[next.Of], next.Bytes
	if next.Pressed {
		moves = max(moves, len(b.pressed[next.Of]))
	}
	for _, m := range beside {
		if m.Of == next.Of {
			moves++
		}
		if m.To == next.To {
			bytes += m.Bytes
		}
	}
	n := b.nodes[next.To]
	return moves < MostMoves && (n == nil || bytes <= n.left)
}

// Tried records that a move of a pod from a node was tried, and was made, or may have been.
func (b *Book) Tried(now time.Time, from string, m Move, made bool) {
	if n := b.nodes[from]; n != nil {
		n.tried = now
		if made {
			n.readings = nil // those of the others are lower
		}
	}
	if !made {
		return
	}
	cluster.Put(&b.moves, from, append(b.moves[from], move{m, now}))
	if !m.Pressed {
		cluster.Put(&b.moved, m.Of, b.moved[m.Of]+1)
	} else {
		for _, of := range [...]cluster.Workload{{Kind: "Node", Name: from}, m.Of} {
			cluster.Put(&b.pressed, of, append(b.pressed[of], now))
		}
	}
	if n := b.nodes[m.To]; n != nil {
		n.left -= m.Bytes
	}
}
