// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package scale

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"k8s.io/client-go/util/workqueue"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/edge/kube"
	"podfit.dev/podfit/internal/edge/kube/projection"
)

// ErrPending is returned while the answer depends on an object or kind that is still unknown. It may arrive with the next event.
var ErrPending = errors.New("not known yet")

// A Cache has the kinds that the API server serves, and the scales of controllers. All methods can be called concurrently.
type Cache struct {
	clients    *kube.Clients
	log        *slog.Logger
	wakeKinds  chan struct{} // buffer of one: triggers discovery after kindsPause
	wakeScales chan struct{} // buffer of one: an entry is due

	mu      sync.Mutex    // of all fields below
	changed chan struct{} // nil unless Changed was called: closed at the next change

	// The kinds that the API server serves. If discovery fails for an API group, the known kinds of the group are kept.
	served map[projection.GroupKind]Kind
	loaded time.Time                          // start of the last successful discovery; zero: never
	tried  bool                               // discovery has succeeded or failed at least once
	asked  map[projection.GroupKind]time.Time // kinds that were looked up and are not served, by time of the first look-up

	// The scales of controllers that podfit does not watch. If a read fails, the known scale is kept.
	entries map[cluster.Workload]*entry
}

// NewCache returns an empty Cache. It sends no request before Run or Discover.
func NewCache(c *kube.Clients, log *slog.Logger) *Cache {
	return &Cache{
		clients: c, log: log, wakeKinds: make(chan struct{}, 1), wakeScales: make(chan struct{}, 1),
		asked: make(map[projection.GroupKind]time.Time), entries: make(map[cluster.Workload]*entry),
	}
}

// Run refreshes the kinds and the scales until ctx ends.
func (c *Cache) Run(ctx context.Context) {
	var running sync.WaitGroup
	running.Go(func() { c.readScales(ctx, c.reader()) })
	running.Go(func() { c.discoverKinds(ctx, c.discoverer()) })
	running.Wait()
}

// Discover discovers the kinds once if an unknown one was looked up, and reports whether it did. Run must not be called on the same Cache.
func (c *Cache) Discover(ctx context.Context) (bool, error) {
	c.mu.Lock()
	needed := len(c.asked) > 0
	c.mu.Unlock()
	if !needed {
		return false, nil
	}
	return true, c.refreshKinds(ctx, c.discoverer())
}

// Read reads the scales that were looked up, once. Run must not be called on the same Cache.
func (c *Cache) Read(ctx context.Context) {
	due, _ := c.due(time.Now())
	read := c.reader()
	all := context.WithoutCancel(ctx)                                                                    // none stays busy
	workqueue.ParallelizeUntil(all, atOnce, len(due), func(i int) { c.refreshScale(ctx, due[i], read) }) // failures are in the entries
}

// discoverer returns the client of discovery. The assertion is true for every client of client-go; with it, modules with an older client-go
// compile too.
func (c *Cache) discoverer() discoverer { return c.clients.Core.Discovery().(discoverer) }

func (c *Cache) reader() reader { return readerOf(c.clients.Core.CoreV1().RESTClient()) }

// Discovered reports whether Run has attempted discovery once, with or without success.
func (c *Cache) Discovered() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.tried
}

// Changed returns a channel that is closed when another kind or the owner of another controller may be known.
func (c *Cache) Changed() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.changed == nil {
		c.changed = make(chan struct{})
	}
	return c.changed
}

// notify closes the channel of Changed. The mutex is held.
func (c *Cache) notify() {
	if c.changed != nil {
		close(c.changed)
		c.changed = nil
	}
}

// Kind returns how a kind is served. For a kind that was not looked up before, the error is ErrPending until the next discovery.
func (c *Cache) Kind(gk projection.GroupKind) (Kind, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.find(gk)
}

// KnownKind is Kind for kinds of objects that may not exist: it stores nothing and triggers no discovery.
func (c *Cache) KnownKind(gk projection.GroupKind) (Kind, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if info, ok := c.served[gk]; ok || !c.loaded.IsZero() {
		return info, nil
	}
	return Kind{}, ErrPending
}

// A Reading is the result of the last reads of a scale subresource.
type Reading struct {
	Scale    cluster.Scale // of the last read that succeeded
	Answered bool          // a read has succeeded or failed at least once
	Missing  bool          // no read has succeeded, or the last one reported that the controller does not exist
	Err      error         // of the last read
}

// Scale returns what is known about the scale of a controller, and schedules reads of it from now on.
func (c *Cache) Scale(w cluster.Workload) Reading {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.want(w)
	return Reading{Scale: e.scale, Answered: e.answered(), Missing: e.gone || !e.read, Err: e.err}
}

// Parent returns the owner of a controller if its scale has been read for another purpose. Few scales have owners, so no read is
// scheduled.
func (c *Cache) Parent(w cluster.Workload) cluster.Workload {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e := c.entries[w]; e != nil {
		return e.parent
	}
	return cluster.Workload{}
}
