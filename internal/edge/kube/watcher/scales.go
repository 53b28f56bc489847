// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package watcher

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/edge/kube"
	"podfit.dev/podfit/internal/edge/kube/projection"
)

const (
	scaleFresh  = time.Minute            // how old an answer may become, while there are few
	scaleSpread = 200 * time.Millisecond // the mean pause between two readings, while there are many
	scaleExpiry = time.Hour              // how long an entry lives that nobody asks for
	scaleRetry  = 5 * time.Second        // the first pause after a failure; it doubles up to scaleFresh
	scaleGet    = 10 * time.Second       // how long one reading may take
	scaleAtOnce = 4                      // how many readings run at a time
)

// scales holds the scale subresources of controllers that podfit does not watch. Readers get what is known and never
// wait; a loop reads the API server behind them, so that many such controllers cost a steady trickle of requests and
// never one within an admission. A failed reading changes nothing that is known.
type scales struct {
	mu      *sync.Mutex // the world's
	entries map[cluster.Workload]*scaleEntry
	wake    chan struct{} // has room for one
	log     *slog.Logger
}

// A scaleEntry is what is known of one controller.
type scaleEntry struct {
	asked  time.Time // when somebody last wanted to know
	due    time.Time // when to read it next
	busy   bool      // it is being read
	fails  int       // in a row
	read   bool      // it has been read at least once
	gone   bool      // the last answer was that it does not exist
	err    error     // why the last reading failed, nil when it did not
	scale  cluster.Scale
	parent cluster.Workload
}

// answered reports whether the API server has said something about the controller, if only that it will not tell.
func (e *scaleEntry) answered() bool { return e.read || e.err != nil }

func newScales(mu *sync.Mutex, log *slog.Logger) *scales {
	return &scales{mu: mu, entries: make(map[cluster.Workload]*scaleEntry), wake: make(chan struct{}, 1), log: log}
}

// want returns what is known of a controller, and has it read and kept fresh from now on.
func (s *scales) want(w cluster.Workload) *scaleEntry {
	e := s.entries[w]
	if e == nil {
		e = &scaleEntry{}
		s.entries[w] = e
		select {
		case s.wake <- struct{}{}:
		default:
		}
	}
	e.asked = time.Now()
	return e
}

// parent returns the owner of a controller, as far as its scale has been read for another reason. Hardly any scale names
// an owner, so nothing is read for this.
func (s *scales) parent(w cluster.Workload) cluster.Workload {
	if e := s.entries[w]; e != nil {
		return e.parent
	}
	return cluster.Workload{}
}

// A scaleReader reads one scale subresource; kinds says under which path it is served.
type scaleReader func(ctx context.Context, k kind, w cluster.Workload) (*autoscalingv1.Scale, error)

// run keeps the entries fresh until ctx ends; changed is called, with the mutex held, when an owner becomes known.
func (s *scales) run(ctx context.Context, find func(projection.GroupKind) (kind, error), read scaleReader, changed func()) {
	slots := make(chan struct{}, scaleAtOnce)
	var readers sync.WaitGroup
	defer readers.Wait()
	for {
		due, next := s.due(time.Now())
		for _, w := range due {
			select {
			case slots <- struct{}{}:
			case <-ctx.Done():
				return
			}
			readers.Go(func() {
				defer func() { <-slots }()
				s.refresh(ctx, w, find, read, changed)
			})
		}
		t := time.NewTimer(next)
		select {
		case <-ctx.Done():
			t.Stop()
			return
		case <-s.wake:
			t.Stop()
		case <-t.C:
		}
	}
}

// due marks and returns the controllers whose time has come, those that waited longest first, forgets those that nobody
// asks for, and says when to come back.
func (s *scales) due(now time.Time) ([]cluster.Workload, time.Duration) {
	ready, next := s.collect(now)
	slices.SortFunc(ready, func(a, b dueScale) int {
		return cmp.Or(a.since.Compare(b.since), a.Workload.Compare(b.Workload))
	})
	out := make([]cluster.Workload, len(ready))
	for i := range ready {
		out[i] = ready[i].Workload
	}
	return out, max(next, 10*time.Millisecond)
}

// A dueScale is a controller whose scale is to be read.
type dueScale struct {
	cluster.Workload
	since time.Time
}

// collect is due without the order, so that the mutex is not held while they are sorted.
func (s *scales) collect(now time.Time) (ready []dueScale, next time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	next = scaleFresh
	if len(s.entries) > 0 {
		next = scaleRetry // those that are being read now may be due again by then
	}
	for w, e := range s.entries {
		switch {
		case e.busy:
		case now.Sub(e.asked) > scaleExpiry:
			delete(s.entries, w)
		case !e.due.After(now):
			e.busy = true
			ready = append(ready, dueScale{w, e.due})
		default:
			next = min(next, e.due.Sub(now))
		}
	}
	return ready, next
}

func (s *scales) refresh(ctx context.Context, w cluster.Workload, find func(projection.GroupKind) (kind, error), read scaleReader, changed func()) {
	s.mu.Lock()
	k, err := find(projection.KindOf(w))
	s.mu.Unlock()

	var got *autoscalingv1.Scale
	switch {
	case err != nil:
	case !k.scalable():
		err = fmt.Errorf("no matches for kind %q in group %q", w.Kind, w.Group)
	default:
		ctx, cancel := context.WithTimeout(ctx, scaleGet)
		got, err = read(ctx, k, w)
		cancel()
	}

	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.entries[w]
	if e == nil {
		return
	}
	e.busy = false
	if ctx.Err() != nil {
		return
	}
	fresh := !e.answered()
	if err == nil {
		e.learn(got, w)
	} else {
		if e.err == nil {
			s.log.Warn("scale cannot be read, keeping what is known", slog.String("workload", w.String()), slog.Any("error", err))
		}
		e.err, e.gone = err, apierrors.IsNotFound(err)
		e.fails++
	}
	e.due = time.Now().Add(s.pause(e))
	if fresh {
		changed()
	}
}

func (e *scaleEntry) learn(got *autoscalingv1.Scale, w cluster.Workload) {
	e.read, e.gone, e.err, e.fails = true, false, nil, 0
	e.scale = cluster.Scale{Known: true, Replicas: got.Spec.Replicas}
	e.parent = projection.ControllerOf(got.OwnerReferences, w.Namespace, nil)
}

// pause is how long to wait before an entry is read again: a minute, more when there are many entries, less after a
// failure, and never the same for all.
func (s *scales) pause(e *scaleEntry) time.Duration {
	d := max(scaleFresh, time.Duration(len(s.entries))*scaleSpread)
	if e.fails > 0 && e.fails < 10 {
		d = min(d, scaleRetry<<(e.fails-1))
	}
	return d + rand.N(d/4)
}

// scaleReaderFor reads scale subresources through a client, in the one version that says what podfit wants to know.
func scaleReaderFor(c rest.Interface) scaleReader {
	return func(ctx context.Context, k kind, w cluster.Workload) (*autoscalingv1.Scale, error) {
		path := []string{"/apis", w.Group, k.version}
		if w.Group == "" {
			path = []string{"/api", k.version}
		}
		raw, err := kube.Body(c.Get().AbsPath(path...).Namespace(w.Namespace).Resource(k.resource).Name(w.Name).
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
