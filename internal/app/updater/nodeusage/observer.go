// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package nodeusage reads the memory usage of pods in parallel to the passes of the updater, and shows it to the node guard. It does not judge it:
// package guard does.
package nodeusage

import (
	"context"
	"log/slog"
	"time"

	"podfit.dev/podfit/internal/app/process"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/guard"
	"podfit.dev/podfit/internal/core/plan"
	"podfit.dev/podfit/internal/edge/kube"
	"podfit.dev/podfit/internal/edge/metrics"
)

const (
	// interval is the time between two readings of usage while nodes are watched, and retry that after a failure.
	interval = 15 * time.Second
	retry    = time.Minute
	// wait is how long a pass waits for usage. Usage that takes longer is used by a later pass.
	wait = time.Second
)

// Reader reads the present usage of the containers of all pods.
type Reader interface {
	Read(ctx context.Context) (metrics.Reading, error)
}

// An Observer watches the memory that is in use on the nodes of pods whose memory limits follow the highest usage, and so are far above their requests.
// A nil Observer watches none.
type Observer struct {
	reader  Reader
	health  *process.Health
	log     *slog.Logger
	samples map[cluster.Key]guard.Sample
	next    time.Time                      // when usage is read next; zero if no node is watched
	reading *process.Task[metrics.Reading] // nil: none is in progress
	failing bool                           // the last reading failed, which was logged
	unknown []string                       // the nodes whose usage is not known, which was logged
}

// New returns an observer that has read nothing.
func New(reader Reader, h *process.Health, log *slog.Logger) *Observer {
	return &Observer{reader: reader, health: h, log: log}
}

// NextRead returns when usage is read next. The zero time means that no node is watched.
func (o *Observer) NextRead() time.Time {
	if o == nil {
		return time.Time{}
	}
	return o.next
}

// Watch shows what the pods of a pass use on the nodes that need it to the node guard. If permitted is false, or no node needs it, the guard forgets its
// alarms, and nothing is read. It returns the number of nodes that need the guard and are without it: all if it is not permitted, and else those whose usage
// has not been known for five minutes.
func (o *Observer) Watch(ctx context.Context, now time.Time, w *plan.World, book *guard.Book, permitted bool) (unguarded int) {
	if o == nil {
		return 0
	}
	watched := needing(w)
	if !permitted || len(watched) == 0 {
		book.Alarms = nil
		*o = *New(o.reader, o.health, o.log)
		return len(watched)
	}
	o.read(ctx, now)
	book.Observe(now, w.Nodes, watched, w.Pods, o.samples)
	unguarded = len(book.Unknown)
	if o.failing {
		book.Unknown = nil // the failure is logged
	}
	if len(book.Unknown) > len(o.unknown) {
		o.log.Warn("The memory usage of nodes is not known, so no pod moves from them when they are nearly out of memory", slog.Int("count", len(book.Unknown)), slog.String("node", book.Unknown[0]),
			slog.String("remedy", "check with kubectl top pods whether metrics-server measures their pods, and the clocks of these nodes: a sample counts for two minutes"))
	}
	o.unknown = book.Unknown
	return unguarded
}

// needing returns the nodes with a pod whose memory limits follow the highest usage.
func needing(w *plan.World) map[string]bool {
	watched := map[string]bool{}
	for i := range w.Governed {
		for _, p := range w.Governed[i].Pods {
			if w.Governed[i].Autoscaler.MemoryLimits.Peaks && p.Node != "" && p.Live() {
				watched[p.Node] = true
			}
		}
	}
	return watched
}

// read reads usage if it is time. A pass does not wait for an earlier request.
func (o *Observer) read(ctx context.Context, now time.Time) {
	within := time.Millisecond
	if o.reading == nil && (now.After(o.next) || now.Before(o.next.Add(-retry))) {
		within = wait
		o.reading = process.Begin(o.log, o.health, "the usage of pods", func() (metrics.Reading, error) {
			ctx, cancel := context.WithTimeout(ctx, process.UsageTimeout)
			defer cancel()
			return o.reader.Read(ctx)
		})
	}
	if o.reading != nil {
		o.next = now.Add(interval)
		if o.reading.Ends(within) {
			o.took(now)
		}
	}
}

// took takes what was read. A failure leaves the last samples, which soon are too old to count.
func (o *Observer) took(now time.Time) {
	read := o.reading
	o.reading = nil
	switch {
	case read.Err != nil:
		o.next = now.Add(retry)
		if !o.failing {
			o.log.Warn("Cannot read the memory usage of pods, so no pod moves from nodes that are nearly out of memory", slog.String("error", kube.Answer(read.Err)),
				slog.String("remedy", "check that metrics-server runs, and apply deploy/rights/node-guard; or set --node-guard=false"))
		}
	case o.failing:
		o.log.Info("Read the memory usage of pods after earlier failures")
	}
	o.failing = read.Err != nil
	if o.failing {
		return
	}
	o.samples = make(map[cluster.Key]guard.Sample, len(read.Result.Samples))
	for i := range read.Result.Samples {
		if s := &read.Result.Samples[i]; s.Has.Has(cluster.Memory) {
			of := o.samples[s.Pod]
			o.samples[s.Pod] = guard.Sample{At: cluster.Earliest(of.At, s.At), Bytes: of.Bytes + int64(s.Memory)}
		}
	}
}
