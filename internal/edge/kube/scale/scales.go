// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package scale caches the scale subresources of controllers that podfit does not watch, such as those of CRDs, and discovers which kinds the
// API server serves and which of them have a scale subresource.
//
// Look-ups are frequent, on the admission path too, so they never block and send no request: they read memory that two loops refresh at a
// bounded rate. Errors of the API server never remove what is known. The package makes no decisions.
package scale

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/edge/kube"
	"podfit.dev/podfit/internal/edge/kube/projection"
)

const (
	freshFor    = time.Minute            // refresh interval with few entries
	spread      = 200 * time.Millisecond // mean interval between reads with many entries
	expiry      = time.Hour              // time after the last look-up when an entry is removed
	firstRetry  = 5 * time.Second        // first back-off after a failure; it doubles up to freshFor
	readTimeout = 10 * time.Second       // timeout of one read
	atOnce      = 4                      // number of concurrent reads
)

// An entry is the cached scale of one controller.
type entry struct {
	asked  time.Time // time of the last look-up
	due    time.Time // time of the next read
	busy   bool      // a read is running
	fails  int       // consecutive failed reads
	read   bool      // at least one read has succeeded
	gone   bool      // the last read reported that it does not exist
	err    error     // of the last read
	scale  cluster.Scale
	parent cluster.Workload
}

// answered reports whether a read of the controller has succeeded or failed at least once.
func (e *entry) answered() bool { return e.read || e.err != nil }

// want returns the entry of a controller, and schedules reads of it from now on.
func (c *Cache) want(w cluster.Workload) *entry {
	e := c.entries[w]
	if e == nil {
		e = &entry{}
		c.entries[w] = e
		kube.Signal(c.wakeScales)
	}
	e.asked = time.Now()
	return e
}

// A reader reads one scale subresource. k has its version and resource name.
type reader func(ctx context.Context, k Kind, w cluster.Workload) (*autoscalingv1.Scale, error)

// readScales refreshes the entries at a bounded rate until ctx ends.
func (c *Cache) readScales(ctx context.Context, read reader) {
	var readers errgroup.Group
	readers.SetLimit(atOnce)
	defer func() { _ = readers.Wait() }() // failures are in the entries
	for {
		due, next := c.due(time.Now())
		for _, w := range due {
			readers.Go(func() error {
				c.refreshScale(ctx, w, read)
				return nil
			})
		}
		select {
		case <-ctx.Done():
			return
		case <-c.wakeScales:
		case <-time.After(next):
		}
	}
}

// due returns the controllers to read now, the longest overdue first, and the time until the next one is due. It marks them as
// busy and removes expired entries.
func (c *Cache) due(now time.Time) ([]cluster.Workload, time.Duration) {
	ready := map[cluster.Workload]time.Time{} // since when
	next := freshFor
	c.mu.Lock()
	if len(c.entries) > 0 {
		next = firstRetry // busy entries may be due again by then
	}
	for w, e := range c.entries {
		switch {
		case e.busy:
		case now.Sub(e.asked) > expiry:
			delete(c.entries, w)
		case !e.due.After(now):
			e.busy = true
			ready[w] = e.due
		default:
			next = min(next, e.due.Sub(now))
		}
	}
	c.mu.Unlock() // not held during sorting
	out := slices.SortedFunc(maps.Keys(ready), func(a, b cluster.Workload) int { return cmp.Or(ready[a].Compare(ready[b]), a.Compare(b)) })
	return out, max(next, 10*time.Millisecond)
}

func (c *Cache) refreshScale(ctx context.Context, w cluster.Workload, read reader) {
	c.mu.Lock()
	k, err := c.find(projection.KindOf(w))
	c.mu.Unlock()

	var got *autoscalingv1.Scale
	switch {
	case err != nil:
	case !k.Scalable():
		err = fmt.Errorf("no matches for kind %q in group %q", w.Kind, w.Group)
	default:
		ctx, cancel := context.WithTimeout(ctx, readTimeout)
		got, err = read(ctx, k, w)
		cancel()
	}

	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.entries[w]
	if e == nil {
		return
	}
	e.busy = false
	if ctx.Err() != nil {
		return
	}
	fresh := !e.answered()
	if err == nil {
		*e = entry{
			asked: e.asked, read: true, scale: cluster.Scale{Known: true, Replicas: got.Spec.Replicas},
			parent: projection.ControllerOf(got.OwnerReferences, w.Namespace, nil),
		}
	} else {
		if e.err == nil {
			c.log.Warn("Reading the scale subresource failed; the last known scale is kept", slog.String("workload", w.String()), slog.Any("error", err))
		}
		e.err = err
		e.gone = apierrors.IsNotFound(err)
		e.fails++
	}
	e.due = time.Now().Add(c.pause(e))
	if fresh {
		c.notify() // an owner may be known now
	}
}

// pause returns the time until an entry is read again: a minute, more with many entries, less after a failure, with jitter.
func (c *Cache) pause(e *entry) time.Duration {
	d := max(freshFor, time.Duration(len(c.entries))*spread)
	if e.fails > 0 && e.fails < 10 {
		d = min(d, firstRetry<<(e.fails-1))
	}
	return d + rand.N(d/4)
}

// readerOf returns a reader of scale subresources in autoscaling/v1.
func readerOf(c rest.Interface) reader {
	return func(ctx context.Context, k Kind, w cluster.Workload) (*autoscalingv1.Scale, error) {
		path := []string{"/apis", w.Group, k.Version}
		if w.Group == "" {
			path = []string{"/api", k.Version}
		}
		raw, err := kube.Body(c.Get().AbsPath(path...).Namespace(w.Namespace).Resource(k.Resource).Name(w.Name).
			SubResource("scale").SetHeader("Accept", "application/json").Do(ctx))
		if err != nil {
			return nil, err
		}
		out := new(autoscalingv1.Scale)
		if err := json.Unmarshal(raw, out); err != nil {
			return nil, fmt.Errorf("decode scale of %s: %w", w, err)
		}
		return out, nil
	}
}
