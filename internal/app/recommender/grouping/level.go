// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package grouping

import (
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/usage"
)

// How pods are divided into busy and quiet ones by the logarithms of their mean CPU of a day (UTC).
const (
	clearDays   = 3              // days in sequence with the same division until pods have roles, and without a division until they have none
	leastDay    = 12 * time.Hour // how long a pod must be measured of a day
	leastCores  = 0.02           // differences below are not looked at
	enterFactor = 2.0            // quiet pods use at most this part of what busy ones do
	stayFactor  = 1.5            // the same while they have roles
	nearLimit   = 0.97           // a pod that uses this share of its CPU limit may need more
)

// levels divides the pods of a workload into busy and quiet ones.
type levels struct {
	pods    map[string]*level // by UID
	day     int64             // the days that are complete, since 1970
	clear   int               // days in sequence with the same division
	blurred int               // days in sequence without a division
}

// A level is the CPU of a pod. It takes at most 64 bytes.
type level struct {
	sum    float64 // cores of the samples of the day, of all containers
	last   int64   // Unix seconds of the last sample
	count  int32   // measurements of the day
	rising int64   // Unix seconds when a sample was last near the size of busy pods
	moved  bool    // it has become busy on this day
	role   string  // cluster.Busy or Quiet, "" before its first day
}

// watched is what a sample of a pod is compared with.
type watched struct {
	*level
	autoscaler *cluster.Autoscaler
	pod        *cluster.Pod
}

// watch updates the pods whose role is how much they use, and divides them after the end of a day.
func (b *Book) watch(all []Workload) {
	next := map[cluster.Workload]*levels{}
	b.watched = map[cluster.Key]watched{}
	today := b.now.Unix() / int64(24*time.Hour/time.Second)
	for _, w := range all {
		a := w.Autoscaler
		if b.history == 0 || !a.SizesByUsage() {
			continue
		}
		l := b.levels[a.Target]
		if l == nil {
			l = &levels{day: today}
		}
		before := l.pods
		l.pods = map[string]*level{}
		for _, p := range w.Pods {
			at := before[p.UID]
			if at == nil {
				at = &level{}
				if before == nil { // the status has what the process before has found
					at.role = a.RoleOf(p)
				}
			}
			if at.role != "" && before == nil {
				l.clear = clearDays
			}
			if p.UID != "" && p.Live() {
				l.pods[p.UID] = at
				b.watched[p.Key] = watched{at, a, p}
			}
		}
		if l.day != today {
			l.closeDay(b.interval)
			l.day = today
		}
		next[a.Target] = l
	}
	b.levels = next
}

// roleOf returns the role of a pod. The status has that of busy and quiet pods only when their sizes are known.
func (b *Book) roleOf(a *cluster.Autoscaler, p *cluster.Pod) string {
	l := b.levels[a.Target]
	switch {
	case !a.SizesByUsage():
		return a.RoleOf(p)
	case l == nil || l.clear < clearDays || l.pods[p.UID] == nil:
		return ""
	}
	return l.pods[p.UID].role
}

// observeLevel adds a sample to the day of its pod. A quiet pod becomes busy if in two measurements it uses more than half way to the size of busy
// pods, or nearly its CPU limit: it may have become the leader, and with the limit of a follower, its usage cannot show more.
func (b *Book) observeLevel(s *usage.Sample) {
	w, has := b.watched[s.Pod]
	if !has || !s.Has.Has(cluster.CPU) {
		return
	}
	w.sum += s.CPU
	if at := s.At.Unix(); at != w.last {
		w.last = at
		w.count++
	}
	status := w.autoscaler.AdviceFor(s.Container)
	c := w.pod.Container(s.Container)
	if status == nil || c == nil || status.SizeOf(cluster.Quiet) == nil || w.role != cluster.Quiet {
		return
	}
	own, set := status.SizeOf(cluster.Quiet).Target.Get(cluster.CPU)
	if !set {
		return
	}
	bar := math.Sqrt(float64(own) * float64(status.Target.CPU))
	if limit, limited := c.Limits.Get(cluster.CPU); limited {
		bar = min(bar, nearLimit*float64(limit))
	}
	at := s.At.Unix()
	switch {
	case 1000*s.CPU < bar || at == w.rising:
	case at-w.rising < 2*int64(b.interval/time.Second):
		w.role, w.moved = cluster.Busy, true
	default:
		w.rising = at
	}
}

// closeDay divides the pods by their means of the day, and starts the next one.
func (l *levels) closeDay(interval time.Duration) {
	means := map[string]float64{}
	for uid, p := range l.pods {
		if time.Duration(p.count)*interval >= leastDay {
			means[uid] = math.Log(max(leastCores, p.sum/float64(p.count)))
		}
	}
	factor := enterFactor
	if l.clear >= clearDays {
		factor = stayFactor
	}
	bar, divided := divide(slices.Sorted(maps.Values(means)), math.Log(factor))
	switch {
	case len(means) < 2: // nothing is known of this day
	case divided:
		l.blurred = 0
		if l.assign(means, bar) && l.clear < clearDays {
			l.clear = 0 // the days begin anew
		}
		l.clear = min(clearDays, l.clear+1)
	default:
		l.blurred++
		if l.clear < clearDays || l.blurred >= clearDays {
			l.clear = 0
		}
	}
	for _, p := range l.pods {
		if l.clear == 0 {
			p.role = ""
		}
		p.sum, p.count, p.moved = 0, 0, false
	}
}

// assign gives pods the roles that they have by their means, and reports whether one has changed.
func (l *levels) assign(means map[string]float64, bar float64) (changed bool) {
	for uid, mean := range means {
		role := cluster.Quiet
		if p := l.pods[uid]; mean > bar || p.moved {
			role = cluster.Busy
		}
		changed = changed || l.pods[uid].role != "" && l.pods[uid].role != role
		l.pods[uid].role = role
	}
	return changed
}

// divide returns the middle of the largest gap between sorted values, and whether it divides them: it is as large as some least value, and as the spread
// of the values on both sides.
func divide(sorted []float64, least float64) (bar float64, divided bool) {
	if len(sorted) < 2 {
		return 0, false
	}
	at := 1
	for i := range sorted {
		if i > 0 && sorted[i]-sorted[i-1] > sorted[at]-sorted[at-1] {
			at = i
		}
	}
	low, high := sorted[at-1], sorted[at]
	gap := high - low
	return (low + high) / 2, gap >= least && gap >= low-sorted[0] && gap >= sorted[len(sorted)-1]-high
}

// listed returns the UIDs of the quiet pods, as in cluster.GroupSize.
func (l *levels) listed() string {
	if l == nil || l.clear < clearDays {
		return ""
	}
	var pods []string
	for uid, p := range l.pods {
		if p.role == cluster.Quiet {
			pods = append(pods, uid)
		}
	}
	slices.Sort(pods)
	return strings.Join(pods[:min(len(pods), cluster.MaxListed)], ",")
}
