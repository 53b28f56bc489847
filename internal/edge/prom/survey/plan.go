// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package survey

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

const (
	hoursPerDay = 24
	day         = hoursPerDay * time.Hour

	defaultMaxSamples = 50_000_000
	usableShare       = 5                // of the maximum of samples, one query may need a fifth
	maxNames          = 2000             // bytes of namespaces in a query, because URLs longer than about 8 KiB are often rejected
	maxQuery          = 5000             // bytes of all namespaces in a query
	maxSeries         = 20_000           // present containers in a query, which bounds memory
	maxPerHour        = 40_000_000       // samples of a namespace that are counted, so that those of a day fit in 32 bits
	minSeries         = 10               // assumed for a namespace without pods at present
	defaultInterval   = 15 * time.Second // scrape interval, if it is not known; a low value is safe
)

// A Plan is what a survey is going to read.
type Plan struct {
	From, To    time.Time      // whole hours; From is the start of a day in UTC
	Interval    time.Duration  // scrape interval
	MaxSamples  int            // that Prometheus permits per query
	Series      map[string]int // containers that are measured at present, by namespace
	ByPod       []string       // namespaces of which Prometheus does not store all owners of pods, sorted
	NotRecorded []Measure      // measures that Prometheus does not have
	Queries     int            // without the cache
	Notes       []string       // texts for the user

	groups []group
}

// A group is a set of namespaces that are read together.
type group struct {
	namespaces []string // sorted
	joined     bool     // Prometheus replaces pods by their owners
}

// A query is one query that may be sent: a measure of some namespaces in some hours of a day.
type query struct {
	measure Measure
	group
	day      time.Time
	from, to int // hours of the day; to is exclusive
	perHour  int // samples that Prometheus reads per hour
}

// samples returns how many samples Prometheus reads.
func (q *query) samples() int { return q.perHour * (q.to - q.from) }

// repeated is how often the expression of a measure contains the names of the namespaces.
var repeated = [measureCount]int{CPU: 1, Memory: 1, Kills: 3, Throttled: 2, KilledRequest: 4}

// length returns the length of the namespaces in the expression, in bytes of a URL.
func (q *query) length() (n int) {
	for _, name := range q.namespaces {
		n += len(name) + len("%7C")
	}
	n *= repeated[q.measure]
	if q.joined {
		n += n / repeated[q.measure]
	}
	return n
}

func (q *query) span() (from, to time.Time) {
	return q.day.Add(time.Duration(q.from) * time.Hour), q.day.Add(time.Duration(q.to) * time.Hour)
}

// layout computes the groups of a plan: as many namespaces as one query can read for a day.
func (p *Plan) layout(namespaces []string) {
	budget := p.budget()
	for _, joined := range []bool{true, false} {
		var now group
		samples, length, count := 0, 0, 0
		for _, name := range namespaces {
			if _, byPod := slices.BinarySearch(p.ByPod, name); byPod == joined {
				continue
			}
			needs := p.perHour(name) * hoursPerDay
			if len(now.namespaces) > 0 && (samples+needs > budget || length+len(name) > maxNames || p.Series[name] > maxSeries-count) {
				p.groups = append(p.groups, now)
				now, samples, length, count = group{}, 0, 0, 0
			}
			now.joined = joined
			now.namespaces = append(now.namespaces, name)
			samples += needs
			length += len(name) + 1
			count += p.Series[name]
		}
		if len(now.namespaces) > 0 {
			p.groups = append(p.groups, now)
		}
	}
	for _, g := range p.groups {
		for d := range p.days() {
			p.Queries += len(p.queries(g, d, budget))
		}
	}
}

// budget returns how many samples one query may need.
func (p *Plan) budget() int { return max(p.MaxSamples/usableShare, 1) }

func (p *Plan) perHour(namespace string) int {
	all := int64(max(p.Series[namespace], minSeries)) * max(int64(time.Hour/p.Interval), 1)
	return int(min(all, maxPerHour))
}

// days yields the starts of the days, the oldest first.
func (p *Plan) days() func(yield func(time.Time) bool) {
	return func(yield func(time.Time) bool) {
		for d := p.From; d.Before(p.To) && yield(d); d = d.Add(day) {
		}
	}
}

// queries returns the queries for a day of some namespaces, each within a budget.
func (p *Plan) queries(g group, start time.Time, budget int) (out []query) {
	for m := range measureCount {
		out = append(out, p.queriesOf(m, g, start, budget)...)
	}
	return out
}

// queriesOf returns the queries for one measure of a day of some namespaces, each within a budget.
func (p *Plan) queriesOf(m Measure, g group, start time.Time, budget int) []query {
	if len(g.namespaces) == 0 || slices.Contains(p.NotRecorded, m) {
		return nil
	}
	q := query{measure: m, group: g, day: start, to: min(int(p.To.Sub(start)/time.Hour), hoursPerDay)}
	for _, name := range g.namespaces {
		q.perHour += p.perHour(name)
	}
	return p.within(q, budget)
}

// within halves a query until each part is within a budget, or the smallest possible.
func (p *Plan) within(q query, budget int) []query {
	if q.samples() <= budget && q.length() <= maxQuery {
		return []query{q}
	}
	halves := p.halves(q)
	if halves == nil {
		return []query{q}
	}
	return append(p.within(halves[0], budget), p.within(halves[1], budget)...)
}

// halves returns the two halves of a query: of the series of its namespaces, or else of its hours. The smallest query reads one hour of one
// namespace; it has no halves.
func (p *Plan) halves(q query) []query {
	a, b := q, q
	switch n, hours := len(q.namespaces), q.to-q.from; {
	case n > 1:
		a.perHour = p.perHour(q.namespaces[0])
		first := 1
		for first < n-1 && a.perHour < q.perHour/2 {
			a.perHour += p.perHour(q.namespaces[first])
			first++
		}
		a.namespaces, b.namespaces = q.namespaces[:first], q.namespaces[first:]
		b.perHour = q.perHour - a.perHour
	case hours > 1:
		a.to = q.from + hours/2
		b.from = a.to
	default:
		return nil
	}
	return []query{a, b}
}

// windowOf returns the time over which CPU usage is averaged: four scrapes, so that one may be missing, and at least five minutes.
func windowOf(interval time.Duration) time.Duration {
	return max(5*time.Minute, (4 * interval).Round(time.Minute))
}

// notes adds what the user should know.
func (p *Plan) notes() {
	if n := len(p.ByPod); n > 0 {
		p.Notes = append(p.Notes, fmt.Sprintf("Prometheus does not store all owners of pods (%s) of %d namespaces; pods are read one by one there.", ownerMetric, n))
	}
	for _, m := range p.NotRecorded {
		if m == KilledRequest && slices.Contains(p.NotRecorded, Kills) {
			continue
		}
		p.Notes = append(p.Notes, fmt.Sprintf("Prometheus has no %s: it stores no %s.", m, strings.Join(m.metrics(), " and no ")))
	}
}

// A Gap is usage that could not be read.
type Gap struct {
	Namespace string
	From, To  time.Time
	Measure   Measure
	Err       error // *Error, or that of the context
}

// Merge joins gaps that follow each other. It sorts them by namespace, measure and time.
func Merge(gaps []Gap) []Gap {
	slices.SortStableFunc(gaps, func(a, b Gap) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Measure, b.Measure), a.From.Compare(b.From))
	})
	var out []Gap
	for _, g := range gaps {
		if n := len(out) - 1; n >= 0 && out[n].Namespace == g.Namespace && out[n].Measure == g.Measure && !out[n].To.Before(g.From) {
			if g.To.After(out[n].To) {
				out[n].To = g.To
			}
			continue
		}
		out = append(out, g)
	}
	return out
}
