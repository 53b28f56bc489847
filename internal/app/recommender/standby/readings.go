// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package standby keeps the usage of the last minutes in a recommender that does not lead. The leader stores each usage history every ten minutes, so when it
// is lost, the next leader adds this usage to the stored history.
package standby

import (
	"context"
	"iter"
	"log/slog"
	"slices"
	"sync"
	"time"
	"unique"

	"podfit.dev/podfit/internal/app/process"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/usage"
	"podfit.dev/podfit/internal/edge/kube"
	"podfit.dev/podfit/internal/edge/metrics"
)

const (
	// keep is longer than the time between two writes of a usage history, which are spread.
	keep = 15 * time.Minute
	// least is the least time between two readings, so that their number is bounded.
	least = 15 * time.Second
)

// Readings are the readings of usage, the oldest first. Nil keeps none.
type Readings struct {
	read func(context.Context) ([]usage.Sample, error)
	log  *slog.Logger

	mu      sync.Mutex
	kept    []reading
	failing bool // the last reading failed, which was logged
}

type reading struct {
	at      time.Time
	samples []sample
}

// A sample is a usage.Sample in a third of its memory: each name exists once.
type sample struct {
	of          unique.Handle[usage.PodContainer]
	at          int64 // Unix nanoseconds
	cpu, memory float64
	has         cluster.Set
}

// New returns readings of the Metrics API.
func New(clients *kube.Clients, namespace string, log *slog.Logger) (*Readings, error) {
	client, err := metrics.New(clients.Config, clients.HTTP, namespace)
	if err != nil {
		return nil, err
	}
	return Of(func(ctx context.Context) ([]usage.Sample, error) {
		r, err := client.Read(ctx)
		return r.Samples, err
	}, log), nil
}

// Of returns readings of a source of usage.
func Of(read func(context.Context) ([]usage.Sample, error), log *slog.Logger) *Readings {
	return &Readings{read: read, log: log}
}

// Run reads usage once per interval while the process does not lead, until ctx ends.
func (r *Readings) Run(ctx context.Context, p *process.Process, interval time.Duration) error {
	if r == nil {
		<-ctx.Done()
		return nil
	}
	process.Every(ctx, max(interval, least), p.Recovering("standby", func(ctx context.Context, now time.Time) {
		if !p.IsLeading() {
			r.Add(ctx, now)
		}
	}))
	return nil
}

// Add reads usage, and removes old readings.
func (r *Readings) Add(ctx context.Context, now time.Time) {
	limited, cancel := context.WithTimeout(ctx, process.UsageTimeout)
	defer cancel()
	samples, err := r.read(limited)
	if ctx.Err() == nil && err != nil && !r.failing {
		r.log.Warn("Cannot read usage while another replica leads. If the leader stops now, the usage that it has not stored is lost", slog.String("error", kube.Answer(err)),
			slog.String("remedy", "check the Metrics API with kubectl top pods"))
	}
	r.failing = err != nil
	r.mu.Lock()
	defer r.mu.Unlock()
	if err == nil {
		r.kept = append(r.kept, reading{now, cluster.Each(samples, func(s *usage.Sample) sample {
			return sample{unique.Make(s.Of()), s.At.UnixNano(), s.CPU, s.Memory, s.Has}
		})})
		r.kept = slices.DeleteFunc(r.kept, func(old reading) bool { return now.Sub(old.at).Abs() > keep }) // not in an outage, in which no leader stores either
	}
}

// Take returns the readings since the process led last, or of the last minutes, and forgets them. Each is valid until the next one.
func (r *Readings) Take() iter.Seq[[]usage.Sample] {
	var kept []reading
	if r != nil {
		r.mu.Lock()
		kept, r.kept = r.kept, nil
		r.mu.Unlock()
	}
	return func(yield func([]usage.Sample) bool) {
		var out []usage.Sample
		for _, old := range kept {
			out = out[:0]
			for _, s := range old.samples {
				of := s.of.Value()
				out = append(out, usage.Sample{Pod: of.Pod, Container: of.Container, At: time.Unix(0, s.at).UTC(), CPU: s.cpu, Memory: s.memory, Has: s.has, Earlier: true})
			}
			if !yield(out) {
				return
			}
		}
	}
}
