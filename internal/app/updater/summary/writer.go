// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package summary

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"sync"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/client-go/util/workqueue"

	"podfit.dev/podfit/internal/app/process"
	"podfit.dev/podfit/internal/core/attempt"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/edge/kube"
	"podfit.dev/podfit/internal/edge/kube/watcher"
)

const (
	// writePause is the minimum time between two writes of the condition Updating of one autoscaler.
	writePause = 10 * time.Second
	// refreshInterval is how often an unchanged condition is compared with the stored one, which another client may have changed.
	refreshInterval = 10 * time.Minute
	// forbiddenPause is how long no condition is written after the API server has refused a write because of a missing permission.
	forbiddenPause = 10 * time.Minute
	// writeRate and writeBurst limit the writes of all conditions, per second.
	writeRate  = 20
	writeBurst = 20
	// busyRate limits them after a pass that has changed pods of many autoscalers. Their conditions change several times until all their pods
	// are changed, and the writes take processor time from the API server that evictions and replacements need.
	busyRate = 1
	// busyAutoscalers is the number of autoscalers with changes from which that applies.
	busyAutoscalers = 20
	// writeTimeout limits one write. A write that fails is tried again after writePause, doubled by each further failure.
	writeTimeout = 5 * time.Second
	// maxWrites is the number of writes at the same time, so that one without an answer does not delay others.
	maxWrites = 4
)

// Sink writes conditions of autoscalers.
type Sink interface {
	WriteConditions(ctx context.Context, a *cluster.Autoscaler, now time.Time, say ...watcher.Condition) (bool, error)
}

// A Writer writes the condition Updating. It writes in parallel to the passes and with a rate limit of its own, so that it
// delays no change of a pod.
type Writer struct {
	to     Sink
	limit  *rate.Limiter
	health *process.Health
	log    *slog.Logger
	queue  *workqueue.Typed[cluster.Key] // of pending

	mu        sync.Mutex
	shown     map[cluster.Key]shownSummary
	pending   map[cluster.Key]pendingSummary
	writing   map[cluster.Key]bool
	forbidden time.Time // when a missing right prevented a write, zero if it did not
}

// A shownSummary is the last write of the condition of an autoscaler.
type shownSummary struct {
	Summary
	uid      string
	at       time.Time
	failures int // in a row
}

type pendingSummary struct {
	Summary
	autoscaler *cluster.Autoscaler
}

// NewWriter returns a Writer, before Run.
func NewWriter(to Sink, h *process.Health, log *slog.Logger) *Writer {
	return &Writer{
		to: to, limit: rate.NewLimiter(writeRate, writeBurst), health: h, log: log, queue: workqueue.NewTyped[cluster.Key](),
		shown: map[cluster.Key]shownSummary{}, pending: map[cluster.Key]pendingSummary{}, writing: map[cluster.Key]bool{},
	}
}

// Update queues the summaries that have changed. An autoscaler without a summary has no condition.
func (w *Writer) Update(now time.Time, all []*cluster.Autoscaler, next map[cluster.Key]Summary) {
	w.mu.Lock()
	defer w.mu.Unlock()
	exists := cluster.KeysOf(all)
	maps.DeleteFunc(w.shown, func(key cluster.Key, _ shownSummary) bool { return !exists[key] })
	if !w.forbidden.IsZero() && now.Sub(w.forbidden) < forbiddenPause {
		return
	}
	for _, a := range all {
		s := next[a.Key]
		if !w.isDue(now, a, s) {
			continue
		}
		w.pending[a.Key] = pendingSummary{s, a}
		w.queue.Add(a.Key)
	}
}

// Pace sets the rate of writes by the number of autoscalers whose pods the last pass has changed.
func (w *Writer) Pace(changed int) {
	limit := rate.Limit(writeRate)
	if changed >= busyAutoscalers {
		limit = busyRate
	}
	w.limit.SetLimit(limit)
}

// isDue reports whether the condition of an autoscaler is written now. The caller holds the mutex.
func (w *Writer) isDue(now time.Time, a *cluster.Autoscaler, s Summary) bool {
	last, known := w.shown[a.Key]
	_, queued := w.pending[a.Key]
	switch age := now.Sub(last.at); {
	case w.writing[a.Key]:
		return false // a later pass queues it
	case queued, !known, last.uid != a.UID, age < 0:
		return true // a queued summary is replaced by the newer one
	case last.failures > 0:
		return age >= attempt.Doubled(writePause, refreshInterval, last.failures)
	case !last.isSameAs(s):
		return age >= writePause
	default:
		return age >= refreshInterval
	}
}

// Run writes until ctx ends. It must be called once.
func (w *Writer) Run(ctx context.Context) {
	context.AfterFunc(ctx, w.queue.ShutDown)
	var workers sync.WaitGroup
	for range maxWrites {
		workers.Go(func() { w.work(ctx) })
	}
	workers.Wait()
}

func (w *Writer) work(ctx context.Context) {
	for {
		key, ended := w.queue.Get()
		if ended || ctx.Err() != nil {
			return
		}
		if p, ok := w.take(key); ok {
			w.write(ctx, p)
		}
		w.queue.Done(key)
	}
}

// take removes a pending summary, which is then being written.
func (w *Writer) take(key cluster.Key) (pendingSummary, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	p, ok := w.pending[key]
	delete(w.pending, key)
	if ok {
		w.writing[key] = true
	}
	return p, ok
}

func (w *Writer) write(ctx context.Context, p pendingSummary) {
	now := time.Now()
	wrote := false
	err := process.Try(w.log, w.health, p.autoscaler.Key.String(), func() (err error) {
		ctx, cancel := context.WithTimeout(ctx, writeTimeout)
		defer cancel()
		wrote, err = w.to.WriteConditions(ctx, p.autoscaler, now, p.Condition())
		return err
	})
	w.record(ctx, now, p, err)
	if wrote || err != nil {
		_ = w.limit.Wait(ctx) // fails only if ctx ends
	}
}

// record stores the outcome of a write. If the object has changed meanwhile, a later pass writes the condition.
func (w *Writer) record(ctx context.Context, now time.Time, p pendingSummary, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.writing, p.autoscaler.Key)
	shown := shownSummary{Summary: p.Summary, uid: p.autoscaler.UID, at: now}
	if last := w.shown[p.autoscaler.Key]; err != nil {
		shown.failures = 1
		if last.uid == shown.uid {
			shown.failures += last.failures
		}
	}
	w.shown[p.autoscaler.Key] = shown
	switch {
	case errors.Is(err, kube.ErrForbidden):
		clear(w.pending)
		if w.forbidden.IsZero() {
			w.log.Warn("Cannot write the condition Updating of VPAs", slog.Any("error", err),
				slog.String("remedy", "grant the updater patch on verticalpodautoscalers/status, as deploy/10-rbac.yaml does"))
		}
		w.forbidden = now
	case err == nil:
		w.forbidden = time.Time{}
	case ctx.Err() == nil:
		w.log.Debug("Failed to write a condition of a VPA", slog.String("vpa", p.autoscaler.Key.String()), slog.String("error", kube.Answer(err)))
	}
}
