// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package recommend

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"podfit.dev/podfit/internal/app/process"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/recommend"
	"podfit.dev/podfit/internal/core/replay"
	"podfit.dev/podfit/internal/core/review"
	"podfit.dev/podfit/internal/core/sizing"
	"podfit.dev/podfit/internal/core/usage"
	"podfit.dev/podfit/internal/core/wording"
	"podfit.dev/podfit/internal/edge/kube"
	"podfit.dev/podfit/internal/edge/metrics"
	"podfit.dev/podfit/internal/edge/trace"
)

// subjects returns the subjects according to samples that were added to the books.
func (j *job) subjects(c *collector) []review.Subject {
	c.finish()
	return j.allSubjects(c.scene, c.books, (*book).advise, func(w *workload, container string) review.Evidence {
		if e := c.evidence[usage.Ref{Workload: w.key, Container: container}]; e != nil {
			found := e.result()
			found.AddRuns(c.books[0].store.Series(w.key, container), c.scene.Now)
			return found
		}
		return review.Evidence{}
	})
}

// A sampler reads the present usage of all containers.
type sampler interface {
	Read(context.Context) (metrics.Reading, error)
}

// readMetrics reads usage from the Metrics API for some time. It returns what was read until ctx ends. A failed reading is an error only if
// there is none before it: the API may be unavailable for a moment. On a terminal, each reading refines the table of the report.
func (j *job) readMetrics(ctx context.Context, from sampler, s *scene) ([]review.Subject, error) {
	c := newCollector(s, j.books(s))
	live := j.newPreview()
	defer live.clear()
	bar := j.newProgress(live == nil)
	defer bar.clear()
	start := time.Now()
	readings := 0
	var failures []error
	complete := false
	for end := start.Add(j.For); !complete && ctx.Err() == nil; {
		reading, err := from.Read(ctx)
		switch {
		case err != nil && ctx.Err() != nil:
			continue
		case err != nil && readings == 0:
			return nil, fmt.Errorf("read usage: %w; install metrics-server, or choose another source with --source", err)
		case err != nil:
			failures = append(failures, err)
		default:
			readings++
		}
		s.Now = time.Now()
		for _, b := range c.books {
			b.store.Tick(s.Now)
		}
		if err == nil {
			for i := range reading.Samples {
				c.observe(reading.Samples[i], cluster.Workload{})
			}
		}
		live.draw(j, c, end.Sub(s.Now))
		bar.show(float64(s.Now.Sub(start))/float64(j.For), wording.Count(readings, "reading")+" of the Metrics API")
		complete = readings+len(failures) > 1 && !s.Now.Add(j.interval).Before(end.Add(j.interval/2))
		if !complete {
			kube.Sleep(ctx, j.interval)
		}
	}
	if !complete {
		s.Missing = append(s.Missing, "interrupted after "+wording.Count(readings, "reading")+" of the Metrics API")
	}
	if n := len(failures); n > 0 {
		s.Missing = append(s.Missing, fmt.Sprintf("%d of %d readings of the Metrics API, the last: %v", n, n+readings, failures[n-1]))
	}
	return j.provisionalSubjects(c), nil
}

// provisionalSubjects returns the subjects according to the samples of minutes. Their requests are not lowered, and those with a young
// recommendation stay. More samples may be added after it.
func (j *job) provisionalSubjects(c *collector) []review.Subject {
	subjects := j.subjects(c)
	for i := range subjects {
		s := &subjects[i]
		s.Evidence.Provisional = true
		young := s.Evidence.Young() && !j.IncludeYoung
		for k, res := range cluster.All {
			to, ok := s.Targets[0].Amount.Get(res)
			if from, has := s.Requests.Get(res); ok && (young || has && to < from) && !s.Kept[k].IsKept() {
				s.Kept[k] = review.Kept{Reason: review.Provisional}
			}
		}
	}
	return subjects
}

// readTrace returns the subjects of a trace. A trace has no requests, so only the recommendations are known.
func (j *job) readTrace() (*scene, []review.Subject, error) {
	all, err := trace.Read(j.Trace)
	if err != nil {
		return nil, nil, err
	}
	all = slices.DeleteFunc(all, func(w replay.Workload) bool { return len(w.Samples) == 0 || !j.includes(w.Key) })
	if len(all) == 0 {
		return nil, nil, fmt.Errorf("%s: no samples of the workloads that the flags select", j.Trace)
	}
	last := int64(0)
	for i := range all {
		last = max(last, all[i].Samples[len(all[i].Samples)-1].At)
	}
	s := &scene{
		Config:   review.Config{Cluster: j.Trace, Source: "trace", Now: time.Unix(last, 0).UTC()},
		snapshot: cluster.NewSnapshot(nil, nil), byKey: map[cluster.Workload]*workload{}, catalog: sizing.NewCatalog(recommend.DefaultParams(), false),
	}
	replicas := map[cluster.Workload]int{}
	for i := range all {
		w := s.add(all[i].Key)
		w.containers = slices.Sorted(slices.Values(all[i].Containers))
		replicas[w.key] = recentPods(&all[i])
	}
	s.sort()
	if err := j.check(s); err != nil {
		return nil, nil, err
	}
	c := newCollector(s, j.books(s))
	for i := range all {
		for sample := range all[i].Usage() {
			c.observe(sample, all[i].Key)
		}
		all[i].Samples = nil // not needed any more
	}
	subjects := j.subjects(c)
	for i := range subjects {
		subjects[i].Replicas = replicas[subjects[i].Workload]
	}
	return s, subjects, nil
}

// recentPods returns the number of pods of a workload that have samples in the last hour of its usage.
func recentPods(w *replay.Workload) int {
	last := w.Samples[len(w.Samples)-1].At
	seen := map[int32]bool{}
	for i := len(w.Samples) - 1; i >= 0 && last-w.Samples[i].At < 3600; i-- {
		seen[w.Samples[i].Pod] = true
	}
	return len(seen)
}

// interrupted returns the error of a run that ended before anything was read.
func interrupted(ctx context.Context, err error) error {
	if ctx.Err() == nil || !errors.Is(err, context.Canceled) {
		return err
	}
	return process.ExitError{Code: exitPartial, Err: errors.New("interrupted before anything was read")}
}
