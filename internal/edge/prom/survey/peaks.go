// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package survey

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"
)

// Pods are the pods of one workload.
type Pods struct {
	Namespace string
	Names     string // regular expression in RE2 syntax that matches whole names, such as cluster.PodNames returns
}

const maxContainers = 200

// Peaks returns the hourly peaks of each container of one workload as Read does, the oldest of a container first: the highest value of any
// pod. CPU is an average of some minutes. The time is changed to whole hours of the past. Peaks sends three queries, one after the other. If the server
// rejects one as too large, it reads the later half of the time. Hours without samples are absent; the result is empty if the server has
// none. partial has the warnings of the server that a result may lack series. The error is an *Error, or that of the context. Several
// goroutines may call Peaks.
func (s *Survey) Peaks(ctx context.Context, of Pods, from, to time.Time) (hours []Hour, partial []string, err error) {
	if of.Namespace == "" || of.Names == "" {
		return nil, nil, nil
	}
	in := selector{namespaces: []string{of.Namespace}, labels: s.config.Labels, pods: of.Names}
	interval, err := s.interval(ctx, in, to)
	if err != nil {
		return nil, nil, err
	}
	from, to = from.UTC().Truncate(time.Hour), to.UTC().Truncate(time.Hour)
	hours, partial, err = s.peaks(ctx, in, windowOf(interval), from, to)
	if failed, ok := errors.AsType[*Error](err); ok && failed.Cause == TooLarge {
		return s.peaks(ctx, in, windowOf(interval), from.Add((to.Sub(from) / 2).Truncate(time.Hour)), to)
	}
	return hours, partial, err
}

func (s *Survey) peaks(ctx context.Context, in selector, window time.Duration, from, to time.Time) (out []Hour, partial []string, err error) {
	f := found{from: from, to: to, hours: map[string][]cell{}}
	clusters := map[string]bool{}
	for _, m := range [...]Measure{CPU, Memory} {
		query := m.expression(in, false, window)
		warnings, err := s.span(ctx, query, from.Add(time.Hour), to, func(one *series) error {
			clusters[one.Metric[clusterLabel]] = true
			return f.add(m, one)
		})
		if err != nil {
			return nil, nil, err
		}
		if len(clusters) > 1 && len(in.labels) == 0 {
			return nil, nil, s.failure(SeveralClusters, 0, "")
		}
		for _, w := range warnings {
			if w.Partial && !slices.Contains(partial, w.Text) {
				partial = append(partial, w.Text)
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(f.hours)) {
		id := identity{namespace: in.namespaces[0], container: name}
		for i, c := range f.hours[name] {
			if c != (cell{}) {
				out = append(out, c.hour(&id, from.Add(time.Duration(i+1)*time.Hour)))
			}
		}
	}
	return out, partial, nil
}

// found is what the queries of Peaks have returned.
type found struct {
	from, to time.Time
	hours    map[string][]cell // by container, one for each hour
}

// add adds a series. It ignores values outside of the time, and those that usage.Store would reject.
func (f *found) add(m Measure, one *series) error {
	name := one.Metric["container"]
	if name == "" || len(name) > maxLabel {
		return nil
	}
	hours := f.hours[name]
	if hours == nil {
		if len(f.hours) >= maxContainers {
			return errTooMany
		}
		hours = make([]cell, f.to.Sub(f.from)/time.Hour)
		f.hours[name] = hours
	}
	for _, p := range one.Values {
		if p.At > float64(f.from.Unix()) && p.At <= float64(f.to.Unix()) && p.Value >= 0 {
			hours[(int64(p.At)-f.from.Unix()-1)/3600].set(m, p.Value)
		}
	}
	return nil
}
