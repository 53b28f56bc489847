// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package web

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/overview"
	"podfit.dev/podfit/internal/edge/prom/survey"
)

// Bounds of what viewers cost Prometheus and podfit.
const (
	maxRecordings   = 128     // workloads whose peaks are kept: about 60 KB for each container
	maxHours        = 250_000 // hours of containers that are kept: about 50 MB
	maxQueries      = 2       // at a time, for all viewers
	maxWaiting      = 32      // workloads that are read or wait for their turn
	maxWaitingEach  = 8       // of them in one namespace, so that its viewers do not keep those of others out
	maxRecordedSize = 4 << 20 // bytes of an answer
)

// freshRecording is how fresh the peaks of a workload are. A page waits for them for three seconds. They may wait for their turn for as long as
// the queries may take.
var freshRecording = freshness{age: 5 * time.Minute, stale: time.Hour, patience: 3 * time.Second, limit: 2 * queryTimeout}

const queryTimeout = 10 * time.Second

// failureAge is how long a failure is shown before Prometheus is asked again.
const failureAge = 30 * time.Second

var (
	errBusy = errors.New("too many pages are waiting for Prometheus")
	errSlow = errors.New("no answer from Prometheus yet")

	errPartial = errors.New("the answer of Prometheus may lack series") // the others are shown
)

// recordings has the hourly peaks that a Prometheus stores, of the workloads whose pages were opened last.
type recordings struct {
	from  *survey.Survey
	log   *slog.Logger
	turns *semaphore.Weighted // one for each workload that is read now

	mu       sync.Mutex
	waiting  map[string]int // workloads that are read or wait for their turn, by namespace; "" is all
	all      []*recording   // the one whose page was opened last is the last
	failure  error          // that concerns all workloads; nil after a success
	failedAt time.Time
}

// A recording has the peaks of one workload.
type recording struct {
	attempts
	of    cluster.Workload
	hours []survey.Hour

	partial bool // the answer may lack series

	asked bool // the attempt that runs has had its turn; the mutex of attempts guards it
	size  int  // of hours; the mutex of recordings guards it
}

// newRecordings returns a reader of a Prometheus. It sends no request.
func newRecordings(c survey.Config, log *slog.Logger) (*recordings, error) {
	c.Timeout = queryTimeout
	c.MaxReply = maxRecordedSize
	from, err := survey.New(c)
	if err != nil {
		return nil, err
	}
	return &recordings{from: from, log: log, turns: semaphore.NewWeighted(maxQueries), waiting: map[string]int{}}, nil
}

// refine adds the peaks of Prometheus in the hours of which none are stored, or why they are not known.
func (r *recordings) refine(ctx context.Context, row *overview.Row, pods []*cluster.Pod, out *overview.History) {
	hours, err := r.hours(ctx, row.Workload, pods)
	switch {
	case err != nil:
		out.Unrecorded = sentences(err)
	case len(hours) == 0 && cluster.PodNames(row.Workload, pods) == "":
		out.Unrecorded = "The names of its pods are not known, so Prometheus was not asked."
	case len(hours) == 0:
		out.Unrecorded = "Prometheus has no usage of this workload. Check that it scrapes cAdvisor of the kubelets."
	}
	if len(hours) == 0 {
		return
	}
	newest := time.Now()
	oldest := newest.Truncate(time.Hour).Add(-chartDays * 24 * time.Hour)
	for _, of := range row.Containers {
		c := cluster.FindOrAdd(&out.Containers, func(c *overview.ContainerHistory) bool { return c.Name == of.Container }, overview.ContainerHistory{Name: of.Container})
		c.CPU, c.CPURecorded = filled(oldest, newest, c.CPU, peaksOf(hours, c.Name, cluster.CPU))
		c.Memory, c.MemoryRecorded = filled(oldest, newest, c.Memory, peaksOf(hours, c.Name, cluster.Memory))
	}
}

// filled returns the stored peaks, and the recorded ones of hours without stored ones. Then it returns those between two times only, and how
// many of them are recorded.
func filled(oldest, newest time.Time, stored, recorded []overview.Peak) ([]overview.Peak, int) {
	all, n := overview.Fill(between(oldest, newest, stored), between(oldest, newest, recorded))
	if n == 0 {
		return stored, 0
	}
	return all, n
}

// peaksOf returns the peaks of a container. Stored peaks have no hours without any usage, so these have none either.
func peaksOf(hours []survey.Hour, container string, res cluster.Resource) (out []overview.Peak) {
	for _, h := range hours {
		if value := cluster.Pick(res, h.CPU, h.Memory); h.Container == container && value > 0 {
			out = append(out, overview.Peak{At: h.End.Add(-time.Hour), Value: value})
		}
	}
	return out
}

// between returns the peaks of some time. The usage of a VPA that was removed long ago, or that was stored while the clock was ahead, would
// make the chart too long.
func between(oldest, newest time.Time, peaks []overview.Peak) []overview.Peak {
	return slices.DeleteFunc(slices.Clone(peaks), func(p overview.Peak) bool { return p.At.Before(oldest) || p.At.After(newest) })
}

// hours returns the peaks of a workload, those of the last minutes if they are known. With an error, they may be out of date.
func (r *recordings) hours(ctx context.Context, w cluster.Workload, pods []*cluster.Pod) ([]survey.Hour, error) {
	one, failure := r.of(w)
	if failure == nil || errors.Is(failure, errSlow) {
		one.refresh(ctx, one.freshness(failure), func(ctx context.Context) (func(), error) { return r.read(ctx, w, pods, one) })
	}
	one.mu.Lock()
	defer one.mu.Unlock()
	known := one.usable(freshRecording)
	err := one.err
	if err == nil && !errors.Is(failure, errSlow) || failure != nil && errors.Is(err, errBusy) { // many wait because of the failure
		err = failure
	}
	switch {
	case err == nil && known && one.partial:
		err = errPartial
	case err != nil || known:
	case !one.asked && failure == nil:
		err = errBusy // Prometheus may be fast: others were before
	default:
		err = errSlow
		if ctx.Err() == nil && failure == nil {
			r.failed(err)
		}
	}
	if !known {
		return nil, err
	}
	return one.hours, err
}

// freshness returns how fresh the peaks must be, after a recent failure that concerns all workloads or nil.
func (o *recording) freshness(failure error) freshness {
	o.mu.Lock()
	defer o.mu.Unlock()
	f := freshRecording
	if o.err != nil || o.partial {
		f.age = failureAge
	}
	if o.read.IsZero() {
		f.stale = failureAge // the page waits for the next attempt, too
	}
	if failure != nil {
		f.patience = 0
	}
	return f
}

// of returns the recording of a workload, and a recent failure that concerns all workloads. It removes another recording if there are too many.
func (r *recordings) of(w cluster.Workload) (*recording, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	at := slices.IndexFunc(r.all, func(other *recording) bool { return other.of == w })
	one := &recording{attempts: attempts{log: r.log}, of: w}
	if at >= 0 {
		one = r.all[at]
	}
	if at < 0 && len(r.all) >= maxRecordings {
		at = r.least(func(*recording) int { return 1 })
	}
	if at >= 0 {
		r.all = slices.Delete(r.all, at, at+1)
	}
	r.all = append(r.all, one)
	if r.failure != nil && time.Since(r.failedAt) < failureAge {
		return one, r.failure
	}
	return one, nil
}

// least returns the index of the recording to remove: the one that was not used for longest in the namespace that needs most. So the viewers of
// one namespace do not displace what those of others see. The mutex is held.
func (r *recordings) least(needs func(*recording) int) int {
	total := make(map[string]int)
	for _, one := range r.all {
		total[one.of.Namespace] += needs(one)
	}
	most := slices.Max(slices.Collect(maps.Values(total)))
	return slices.IndexFunc(r.all, func(one *recording) bool { return needs(one) > 0 && total[one.of.Namespace] == most })
}

// keep notes how many hours a recording has, and removes others if all have too many together.
func (r *recordings) keep(one *recording, size int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	one.size = size
	total := 0
	for _, other := range r.all {
		total += other.size
	}
	for total > maxHours && len(r.all) > 1 {
		at := r.least(func(other *recording) int { return other.size })
		total -= r.all[at].size
		r.all = slices.Delete(r.all, at, at+1)
	}
}

// failed records a failure that concerns all workloads, or the end of one with nil.
func (r *recordings) failed(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failure, r.failedAt = err, time.Now()
}

// enter reports whether another workload of a namespace may wait for its turn. Then leave must follow.
func (r *recordings) enter(namespace string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.waiting[""] >= maxWaiting || r.waiting[namespace] >= maxWaitingEach {
		return false
	}
	r.waiting[""]++
	r.waiting[namespace]++
	return true
}

func (r *recordings) leave(namespace string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.waiting[""]--
	r.waiting[namespace]--
	if r.waiting[namespace] == 0 {
		delete(r.waiting, namespace)
	}
}

// read reads the peaks of a workload. It returns what stores them.
func (r *recordings) read(ctx context.Context, w cluster.Workload, pods []*cluster.Pod, to *recording) (func(), error) {
	if !r.enter(w.Namespace) {
		return nil, errBusy
	}
	defer r.leave(w.Namespace)
	if err := r.turns.Acquire(ctx, 1); err != nil {
		return nil, errBusy
	}
	defer r.turns.Release(1)
	to.set(true)
	defer to.set(false)
	ctx, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	now := time.Now()
	hours, partial, err := r.from.Peaks(ctx, survey.Pods{Namespace: w.Namespace, Names: cluster.PodNames(w, pods)}, now.Add(-chartDays*24*time.Hour), now)
	var failure *survey.Error
	switch {
	case err == nil:
		r.failed(nil)
		r.keep(to, len(hours))
		if len(partial) > 0 {
			r.log.Warn("Prometheus may have omitted series of the usage for the web page", slog.String("workload", w.String()), slog.String("reason", strings.Join(partial, "; ")))
		}
		return func() {
			to.hours = hours
			to.partial = len(partial) > 0
		}, nil
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &failure) && failure.Cause == survey.TimedOut:
		r.failed(errSlow) // perhaps only this workload has too many pods, so others are still read, but no page waits for them
	case !errors.As(err, &failure) || failure.Cause != survey.TooLarge && failure.Cause != survey.Rejected:
		r.failed(err)
	}
	r.log.Warn("Failed to read usage from Prometheus for the web page", slog.String("workload", w.String()), slog.Any("error", err))
	return nil, err
}

// set records whether the attempt that runs has had its turn.
func (o *recording) set(asked bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.asked = asked
}

// sentences returns why Prometheus could not be read, and what to do. The address and texts of the server are only in the log, because not every
// viewer may see them.
func sentences(err error) string {
	var failure *survey.Error
	switch {
	case errors.Is(err, errSlow), errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return "Prometheus has not answered yet. Reload the page in a minute."
	case errors.Is(err, errPartial):
		return "Prometheus answered with only a part of the series, so peaks may be missing. Reload the page in a minute; if it says so again, the log of podfit has the cause."
	case errors.Is(err, errBusy):
		return "Too many pages are waiting for Prometheus. Reload the page in a minute."
	case !errors.As(err, &failure):
		return "Prometheus could not be read. The log of podfit has the cause."
	}
	text := "Prometheus could not be read: " + failure.Cause.String() + ". "
	switch failure.Cause {
	case survey.Unauthorized:
		return text + "Check the token and the headers in the flags of podfit."
	case survey.SeveralClusters:
		return text + "Select one with --cluster-label of podfit web."
	case survey.Overloaded, survey.TimedOut, survey.TooLarge:
		return text + "Reload the page in some minutes; if it fails again, the log of podfit has the cause."
	default:
		return text + "Check the address in the flags of podfit; its log has the cause."
	}
}
