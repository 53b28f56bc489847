// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package history

import (
	"context"
	"errors"
	"iter"
	"log/slog"
	"slices"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/usage"
	"podfit.dev/podfit/internal/edge/prom"
)

type source interface {
	// Length is the length of the history that is read.
	Length() time.Duration
	// PodLabels returns the labels of all pods of that time.
	PodLabels(ctx context.Context, now time.Time) (map[cluster.Key]prom.Labels, error)
	// HistorySince yields the samples of a namespace, the oldest first. It ends with the first error.
	HistorySince(ctx context.Context, namespace string, from, now time.Time) iter.Seq2[usage.Sample, error]
	// PeaksSince yields the highest memory of the pods of CronJobs of a namespace. It ends with the first error.
	PeaksSince(ctx context.Context, namespace string, from, now time.Time) iter.Seq2[usage.Sample, error]
}

// read reads the missing history of a namespace into the job's store. Afterwards job.missing is the history that could not be
// read.
func (f *Backfill) read(ctx context.Context, owners *ownerResolver, job *backfillJob) error {
	for _, pod := range owners.pods {
		if pod.Namespace == job.namespace {
			job.store.Track(pod)
		}
	}
	r := historyReader{owners: owners, job: job, trackedAs: map[usage.PodContainer]cluster.Key{}}
	spans := slices.Clone(job.missing)
	var err error
	for attempt := range backfillAttempts {
		err = r.read(ctx, f.source)
		if err == nil || ctx.Err() != nil || prom.IsTimeout(err) {
			break
		}
		f.log.Warn("Cannot read the usage history of a namespace", slog.String("namespace", job.namespace), slog.Int("attempt", attempt+1), slog.Any("error", err))
		f.logQuery(err)
		if prom.IsTooLarge(err) {
			break // shorter queries have failed, too
		}
	}
	if err == nil && f.Peaks {
		f.readPeaks(ctx, &r, spans)
	}
	r.end()
	f.log.Info("Read the usage history of a namespace", slog.String("namespace", job.namespace), slog.Int("samples", r.samples),
		slog.Int("used", r.accepted), slog.Bool("complete", err == nil))
	return err
}

// readPeaks reads the peak memory of CronJobs, whose runs may be too short for samples. Without it the history is complete, too.
func (f *Backfill) readPeaks(ctx context.Context, r *historyReader, spans []span) {
	for w := range r.job.requested {
		if w.Kind != "CronJob" || w.Namespace != r.job.namespace {
			continue
		}
		for _, s := range spans {
			for sample, err := range f.source.PeaksSince(ctx, r.job.namespace, s.from, s.to) {
				if err != nil {
					f.log.Warn("Cannot read the peak memory of CronJobs; runs that are too short for samples count as not measured",
						slog.String("namespace", r.job.namespace), slog.Any("error", err))
					f.logQuery(err)
					return
				}
				r.observe(sample)
			}
		}
		return
	}
}

// logQuery logs the query that failed, for which errors have no room.
func (f *Backfill) logQuery(err error) {
	if query, ok := errors.AsType[*prom.QueryError](err); ok {
		f.log.Debug("Query to Prometheus failed", slog.String("query", query.Query))
	}
}

// A historyReader adds the past samples of a namespace to the job's store. For a deleted pod it tracks one substitute pod per
// container, because the other containers of the pod are not known.
type historyReader struct {
	owners    *ownerResolver
	job       *backfillJob
	trackedAs map[usage.PodContainer]cluster.Key // the pod in the store that gets the samples; zero: the samples are not needed
	from      time.Time                          // start of the period that is read now
	samples   int                                // read
	accepted  int                                // accepted by the store
}

func (r *historyReader) read(ctx context.Context, from source) error {
	job := r.job
	for len(job.missing) > 0 {
		s := &job.missing[0]
		last := s.from
		r.from = s.from
		for sample, err := range from.HistorySince(ctx, job.namespace, s.from, s.to) {
			if err != nil {
				if last.After(s.from) {
					s.from = last.Add(1)
				}
				return err
			}
			if !sample.At.Before(s.from) && !sample.At.After(s.to) {
				last = sample.At
				r.observe(sample)
			}
		}
		job.missing = job.missing[1:]
	}
	return nil
}

func (r *historyReader) observe(s usage.Sample) {
	r.samples++
	of := s.Of()
	key := cluster.Memo(&r.trackedAs, of, func() cluster.Key { return r.track(of, s.At) })
	if key == (cluster.Key{}) {
		return
	}
	s.Pod = key
	if !r.job.store.Observe(s).Empty() {
		r.accepted++
	}
}

// track returns the pod in the store that gets the samples of a container: the pod itself if it is tracked, or else a
// substitute pod of the same workload, which it adds. It returns zero if the samples are not needed. first is the time of the first
// sample.
func (r *historyReader) track(of usage.PodContainer, first time.Time) cluster.Key {
	store := r.job.store
	if store.Tracked(of.Pod) {
		return of.Pod
	}
	w := r.owners.workload(of.Pod)
	if w.IsZero() || !r.job.requested[w] {
		return cluster.Key{}
	}
	substitute := r.substitute(w, of, first)
	store.Track(substitute)
	return substitute.Key
}

// substitute returns the pod that gets the samples of a container of a deleted pod. The container started at its first sample, unless that
// is near the start of the period that is read. Later restarts are not known.
func (r *historyReader) substitute(w cluster.Workload, of usage.PodContainer, first time.Time) *cluster.Pod {
	out := of.Substitute(w)
	if first.Sub(r.from) > usage.KnownStart {
		out.Started = first
		out.Containers[0].Delay = out.DelayOf(first.Unix())
	}
	return out
}

// end removes the substitute pods from the store.
func (r *historyReader) end() {
	for container, key := range r.trackedAs {
		if key != container.Pod && key != (cluster.Key{}) {
			r.job.store.Forget(key)
		}
	}
}
