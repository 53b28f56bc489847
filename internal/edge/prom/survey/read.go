// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package survey

import (
	"cmp"
	"context"
	"iter"
	"slices"
	"strings"
	"sync"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
)

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
			Survey: s, plan: p, gate: &gate{slots: make(chan struct{}, s.config.Parallel)}, now: time.Now(), budget: p.budget(),
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
			err := cmp.Or(ctx.Err(), r.gate.err())
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
	r.update(func(v *Progress) {
		v.Namespaces = j.namespaces
		v.Day = j.day
	})
	part := Part{table: newTable(j.day)}
	missing := j.group
	cached := r.cachedDay(j)
	if cached != nil {
		missing.namespaces, part.Notes = cached.load(part.table, j.namespaces)
		part.Notes = r.unwarned(part.Notes)
	}
	var all outcome
	killed := missing // those with OOM kills
	for m := range measureCount {
		of := missing
		if m == Kills {
			killed = r.withKills(ctx, missing, j.day)
		}
		if m == Kills || m == KilledRequest {
			of = killed
		}
		queries := r.plan.queriesOf(m, of, j.day, r.sampleBudget())
		r.update(func(v *Progress) {
			v.Planned += len(queries) - len(r.plan.queriesOf(m, j.group, j.day, r.plan.budget()))
		})
		for _, q := range queries {
			all.add(r.run(ctx, q, part.table))
		}
	}
	part.Gaps = Merge(all.gaps)
	for _, w := range all.warnings {
		if text := r.unwarned([]string{w.Text}); w.Partial {
			part.Partial = append(part.Partial, text...)
		} else {
			part.Notes = append(part.Notes, text...)
		}
	}
	if cached != nil && len(all.warnings) == 0 && ctx.Err() == nil {
		part.Notes = append(part.Notes, r.unwarned(cached.store(part.table, complete(missing.namespaces, part.Gaps)))...)
	}
	return part
}

// withKills returns those namespaces of a group in which a container was OOM-killed on a day. Few series have this reason, so that the
// restarts of most namespaces need not be read. If the query fails or its result is partial, the result is the whole group.
func (r *reading) withKills(ctx context.Context, g group, start time.Time) group {
	if len(g.namespaces) == 0 || slices.Contains(r.plan.NotRecorded, Kills) || r.enter(ctx) != nil {
		return g
	}
	r.update(func(v *Progress) { v.Planned++ })
	killed := map[string]bool{}
	s := selector{namespaces: g.namespaces, labels: r.config.Labels}
	end := cluster.Earliest(start.Add(day), r.plan.To)
	warnings, err := r.instant(ctx, anyKills(s), end, func(labels map[string]string, _ float64) { killed[labels["namespace"]] = true })
	r.left(err)
	if err != nil || len(warnings) > 0 {
		return g
	}
	g.namespaces = slices.DeleteFunc(slices.Clone(g.namespaces), func(name string) bool { return !killed[name] })
	return g
}

// enter waits until a query may start. left must follow, unless there is an error.
func (r *reading) enter(ctx context.Context) error {
	return r.gate.enter(ctx, func(until time.Time) { r.update(func(v *Progress) { v.WaitsUntil = until }) })
}

// left records the result of a query.
func (r *reading) left(err error) {
	r.gate.leave(err)
	r.update(func(v *Progress) {
		v.Done++
		if err != nil {
			v.Failed++
		}
	})
}

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
			texts = append(texts, m.expression(selector{namespaces: []string{""}, labels: r.config.Labels}, j.joined, windowOf(r.plan.Interval)))
		}
	}
	return r.config.Cache.day(strings.Join([]string{r.base.String(), r.config.Params.Encode(), r.config.Tenant}, "\n"), texts, j.day)
}

// An outcome is what became of a query.
type outcome struct {
	gaps     []Gap // what could not be read in the smallest size
	warnings []Warning
	largest  int // samples of the largest query that succeeded
}

func (o *outcome) add(other outcome) {
	o.gaps = append(o.gaps, other.gaps...)
	o.warnings = append(o.warnings, other.warnings...)
	o.largest = max(o.largest, other.largest)
}

// run sends a query, or its parts if it fails.
func (r *reading) run(ctx context.Context, q query, to *table) outcome {
	out := outcome{gaps: r.omitAbandoned(&q)}
	if len(q.namespaces) == 0 {
		r.update(func(v *Progress) { v.Done++ })
		return out
	}
	if err := r.enter(ctx); err != nil {
		out.gaps = append(out.gaps, r.gaps(q, err)...)
		return out
	}
	from, end := q.span()
	text := q.measure.expression(selector{namespaces: q.namespaces, labels: r.config.Labels}, q.joined, windowOf(r.plan.Interval))
	warnings, err := r.span(ctx, text, from.Add(time.Hour), end, func(s *series) error { return to.add(&q, s) })
	r.left(err)
	halves := r.plan.halves(q)
	switch {
	case err == nil:
		out.add(outcome{warnings: warnings, largest: q.samples()})
	case ctx.Err() != nil || !causeOf(err).smallerHelps() || r.gate.err() != nil:
		out.gaps = append(out.gaps, r.gaps(q, err)...)
	case halves == nil:
		r.mu.Lock()
		r.abandoned[abandonedKey{q.namespaces[0], q.measure}] = err
		r.mu.Unlock()
		out.gaps = append(out.gaps, r.gaps(q, err)...)
	default:
		out.add(r.runHalves(ctx, halves, to))
	}
	return out
}

// runHalves sends the halves of a query that failed. The second half is divided into queries of the size that succeeded in the first,
// and so are all later queries. So a limit of the server costs one failure for each halving.
func (r *reading) runHalves(ctx context.Context, halves []query, to *table) (out outcome) {
	r.update(func(v *Progress) { v.Planned += 2 })
	out.add(r.run(ctx, halves[0], to))
	rest := halves[1:]
	if out.largest > 0 {
		rest = r.plan.within(halves[1], out.largest)
		r.update(func(v *Progress) { v.Planned += len(rest) - 1 })
	}
	for _, q := range rest {
		out.add(r.run(ctx, q, to))
	}
	if out.largest > 0 {
		r.mu.Lock()
		r.budget = min(r.budget, out.largest)
		r.mu.Unlock()
	}
	return out
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

func (r *reading) gaps(q query, err error) []Gap {
	from, to := q.span()
	return cluster.Each(q.namespaces, func(name *string) Gap { return Gap{Namespace: *name, From: from, To: to, Measure: q.measure, Err: err} })
}

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
