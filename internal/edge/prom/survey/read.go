// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package survey

import (
	"context"
	"iter"
	"slices"
	"sync"
	"time"
)

// A reading is one run of Read.
type reading struct {
	*Survey
	plan *Plan
	gate *gate
	now  time.Time

	mu        sync.Mutex // guards the fields below
	budget    int        // samples of one query; it is reduced when a query is too large
	abandoned map[abandonedKey]error
	warned    map[string]bool
}

// An abandonedKey is a measure of a namespace whose smallest query failed.
type abandonedKey struct {
	namespace string
	measure   Measure
}

// A job is a day of a group.
type job struct {
	group
	day time.Time
}

// Read yields what a plan contains: for each group of namespaces one day after the other, the oldest first. It reads ahead by one
// part if two queries may run at a time. A query that fails is halved; a gap of a part is what failed in the smallest size. Read
// ends with an error, and with the gaps of everything that was not read, if ctx ends, if the credentials or the address are
// wrong, or after too many failures in a row. All parts are valid.
func (s *Survey) Read(ctx context.Context, p *Plan) iter.Seq2[Part, error] {
	return func(yield func(Part, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		var running sync.WaitGroup
		defer running.Wait()
		defer cancel()
		r := &reading{
			Survey: s, plan: p, gate: newGate(s.config.Parallel), now: time.Now(), budget: p.budget(),
			abandoned: map[abandonedKey]error{}, warned: map[string]bool{},
		}
		s.update(func(v *Progress) { *v = Progress{Planned: p.Queries} })
		var jobs []job
		for _, g := range p.groups {
			for d := range p.days() {
				jobs = append(jobs, job{g, d})
			}
		}
		var parts []chan Part
		start := func() {
			c := make(chan Part, 1)
			parts = append(parts, c)
			next := jobs[0]
			jobs = jobs[1:]
			running.Go(func() { c <- r.part(ctx, next) })
		}
		for len(parts) < s.config.Parallel && len(jobs) > 0 {
			start()
		}
		for len(parts) > 0 {
			part := <-parts[0]
			parts = parts[1:]
			err := ctx.Err()
			if err == nil {
				err = r.gate.err()
			}
			if err == nil && len(jobs) > 0 {
				start()
			}
			if err != nil && len(parts) == 0 {
				part.Gaps = append(part.Gaps, r.unread(jobs, err)...)
				yield(part, err)
				return
			}
			if !yield(part, nil) {
				return
			}
		}
	}
}

// part reads a day of a group, from the cache or from Prometheus.
func (r *reading) part(ctx context.Context, j job) Part {
	r.update(func(v *Progress) { v.Namespaces, v.Day = j.namespaces, j.day })
	part := Part{Day: j.day, Namespaces: j.namespaces, table: newTable(j.day)}
	planned := len(r.plan.queries(j.group, j.day, r.plan.budget()))
	missing := j.group
	cached := r.cachedDay(j)
	if cached != nil {
		missing.namespaces, part.Notes = cached.load(part.table, j.namespaces)
		part.Notes = r.unwarned(part.Notes)
	}
	var queries []query
	if len(missing.namespaces) > 0 {
		queries = r.plan.queries(missing, j.day, r.sampleBudget())
	}
	r.update(func(v *Progress) { v.Planned += len(queries) - planned })
	partial := false
	for _, q := range queries {
		gaps, warnings := r.run(ctx, q, part.table)
		part.Gaps = append(part.Gaps, gaps...)
		part.Notes = append(part.Notes, r.unwarned(warnings)...)
		partial = partial || len(warnings) > 0
	}
	if cached != nil && !partial && ctx.Err() == nil {
		part.Notes = append(part.Notes, r.unwarned(cached.store(part.table, complete(missing.namespaces, part.Gaps)))...)
	}
	part.Gaps = Merge(part.Gaps)
	return part
}

// complete returns the namespaces without a gap.
func complete(namespaces []string, gaps []Gap) []string {
	return slices.DeleteFunc(slices.Clone(namespaces), func(name string) bool {
		return slices.ContainsFunc(gaps, func(g Gap) bool { return g.Namespace == name })
	})
}

// cachedDay returns the cache of a past day, or nil.
func (r *reading) cachedDay(j job) *cachedDay {
	if r.config.Cache == nil || r.plan.To.Before(j.day.Add(day)) || r.now.Before(j.day.Add(day+settled)) {
		return nil
	}
	var texts []string
	for m := range measureCount {
		if !slices.Contains(r.plan.NotRecorded, m) {
			texts = append(texts, m.expression(selector{namespaces: []string{""}, labels: r.config.Labels}, j.joined, r.plan.window()))
		}
	}
	return r.config.Cache.day(r.base.String(), texts, j.day)
}

// run sends a query, or its parts if it fails. It returns what could not be read in the smallest size.
func (r *reading) run(ctx context.Context, q query, to *table) (gaps []Gap, warnings []string) {
	gaps = r.omitAbandoned(&q)
	if len(q.namespaces) == 0 {
		r.update(func(v *Progress) { v.Done++ })
		return gaps, nil
	}
	if err := r.gate.enter(ctx, func(until time.Time) { r.update(func(v *Progress) { v.WaitsUntil = until }) }); err != nil {
		return append(gaps, r.gaps(q, err)...), nil
	}
	from, end := q.span()
	text := q.measure.expression(selector{namespaces: q.namespaces, labels: r.config.Labels}, q.joined, r.plan.window())
	warnings, err := r.span(ctx, text, from.Add(time.Hour), end, func(s *series) error { return to.add(&q, s) })
	r.gate.leave(err)
	r.update(func(v *Progress) {
		v.Done++
		if err != nil {
			v.Failed++
		}
	})
	if err == nil {
		return gaps, warnings
	}
	if ctx.Err() != nil || !causeOf(err).smallerHelps() || r.gate.err() != nil {
		return append(gaps, r.gaps(q, err)...), nil
	}
	halves := r.plan.halves(q)
	if halves == nil {
		r.mu.Lock()
		r.abandoned[abandonedKey{q.namespaces[0], q.measure}] = err
		r.mu.Unlock()
		return append(gaps, r.gaps(q, err)...), nil
	}
	r.mu.Lock()
	r.budget = min(r.budget, max(q.samples()/2, r.plan.budget()/64, 1))
	r.mu.Unlock()
	r.update(func(v *Progress) { v.Planned += 2 })
	for _, half := range halves {
		g, w := r.run(ctx, half, to)
		gaps, warnings = append(gaps, g...), append(warnings, w...)
	}
	return gaps, warnings
}

func (r *reading) sampleBudget() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.budget
}

// omitAbandoned removes the namespaces from a query whose smallest query has failed before. It returns their gaps.
func (r *reading) omitAbandoned(q *query) (gaps []Gap) {
	r.mu.Lock()
	defer r.mu.Unlock()
	kept := q.namespaces[:0:0]
	for _, name := range q.namespaces {
		err := r.abandoned[abandonedKey{name, q.measure}]
		if err == nil {
			kept = append(kept, name)
			continue
		}
		one := *q
		one.namespaces = []string{name}
		gaps = append(gaps, r.gaps(one, err)...)
		q.perHour -= r.plan.perHour(name)
	}
	q.namespaces = kept
	return gaps
}

// gaps returns the gaps that a query leaves.
func (r *reading) gaps(q query, err error) []Gap {
	from, to := q.span()
	out := make([]Gap, len(q.namespaces))
	for i, name := range q.namespaces {
		out[i] = Gap{Namespace: name, From: from, To: to, Measure: q.measure, Err: err}
	}
	return out
}

// unread returns the gaps of jobs that did not start.
func (r *reading) unread(jobs []job, err error) (out []Gap) {
	for _, j := range jobs {
		for _, q := range r.plan.queries(j.group, j.day, r.plan.MaxSamples) {
			out = append(out, r.gaps(q, err)...)
		}
	}
	return Merge(out)
}

// unwarned returns the texts that were not returned before.
func (r *reading) unwarned(texts []string) (out []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, text := range texts {
		if !r.warned[text] && len(r.warned) < 100 {
			r.warned[text] = true
			out = append(out, text)
		}
	}
	return out
}
