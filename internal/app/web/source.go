// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package web

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/decision"
	"podfit.dev/podfit/internal/core/histogram"
	"podfit.dev/podfit/internal/core/overview"
	"podfit.dev/podfit/internal/core/recommend"
	"podfit.dev/podfit/internal/core/usage"
	"podfit.dev/podfit/internal/edge/kube/checkpoint"
	"podfit.dev/podfit/internal/edge/kube/feed"
	"podfit.dev/podfit/internal/edge/kube/watcher"
	"podfit.dev/podfit/internal/edge/metrics"
	"podfit.dev/podfit/internal/edge/price"
	"podfit.dev/podfit/internal/edge/web"
)

// A Journal records the decisions of the updater of this process. It is safe for several goroutines.
type Journal struct {
	mu sync.Mutex
	j  overview.Journal
}

// Record adds the decisions of a pass.
func (j *Journal) Record(now time.Time, decisions []decision.Decision) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.j.Record(now, decisions)
}

func (j *Journal) entries() ([]overview.Entry, time.Time) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.j.Entries(), j.j.Since
}

// world is the state of the cluster that pages show.
type world interface {
	Snapshot() *cluster.Snapshot
	watcher.Nodes
	Health() []feed.State
	ProfileNames() (names []string, known bool)
}

// usageReader reads the current usage of all containers.
type usageReader interface {
	Read(ctx context.Context) (metrics.Reading, error)
}

// eventReader reads recent events.
type eventReader interface {
	RecentEvents(ctx context.Context) ([]overview.Entry, error)
}

// store reads the stored usage of single workloads.
type store interface {
	Histories(ctx context.Context, w cluster.Workload) ([]usage.History, error)
	Checkpoint(ctx context.Context, key checkpoint.Key) (usage.Checkpoint, bool, error)
}

// chartDays is how many days charts show.
const chartDays = 14

// source computes what pages show. It reads only when someone looks at a page, and at most once per interval however many look.
type source struct {
	world        world
	usage        usageReader
	events       eventReader
	store        store
	journal      *Journal // nil: the activity comes from events
	prices       string   // path of the price file; "" if there is none
	allPods      bool     // the pods of all namespaces are known, so that it is known how full nodes are
	startupBoost bool
	log          *slog.Logger

	state   reading[*web.State]
	samples reading[[]usage.Sample]
	recent  reading[[]overview.Entry]
	surplus reading[*overview.Surplus]
}

// newSource completes a source.
func newSource(s *source) *source {
	s.state.log = s.log
	s.samples.log = s.log
	s.recent.log = s.log
	s.surplus.log = s.log
	return s
}

// reading is a value that a goroutine makes, so that no page waits for it for long.
type reading[T any] struct {
	log     *slog.Logger
	mu      sync.Mutex
	value   T
	at      time.Time // end of the last attempt
	read    time.Time // of the value
	err     error     // of the last attempt
	running chan struct{}
}

// freshness is how old a value may be.
type freshness struct {
	age      time.Duration // a value older than this is made again
	stale    time.Duration // a value older than this is not shown while the next one is made
	patience time.Duration // how long a caller waits for it then
}

// How fresh the values are that pages show.
var (
	freshState = freshness{age: 5 * time.Second, stale: 30 * time.Second, patience: time.Minute}
	freshUsage = freshness{age: time.Minute, stale: 5 * time.Minute, patience: 2 * time.Second}
	// No page waits for the surplus: it takes longer than the rest.
	freshSurplus = freshness{age: time.Minute, stale: 15 * time.Minute}

	freshEvent = freshness{age: 30 * time.Second, stale: 5 * time.Minute, patience: 2 * time.Second}
)

// readTimeout bounds one read of usage or events.
const readTimeout = 10 * time.Second

// get returns the last value, and starts to make a new one if it is too old. It waits only if there is none that may be shown. ok is
// false if there is still none.
func (r *reading[T]) get(ctx context.Context, f freshness, read func(context.Context) (T, error)) (value T, ok bool, err error) {
	r.mu.Lock()
	if r.running == nil && time.Since(r.at) >= f.age {
		r.start(ctx, read)
	}
	running := r.running
	usable := !r.read.IsZero() && time.Since(r.read) < f.stale
	waited := r.at.IsZero() || time.Since(r.at) >= f.stale // the attempt before has not just failed
	r.mu.Unlock()
	if running != nil && !usable && waited {
		wait := time.NewTimer(f.patience)
		defer wait.Stop()
		select {
		case <-running:
		case <-wait.C:
		case <-ctx.Done():
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.read.IsZero() || time.Since(r.read) >= f.stale {
		return value, false, r.err
	}
	return r.value, true, r.err
}

// start makes a new value. The mutex is held.
func (r *reading[T]) start(ctx context.Context, read func(context.Context) (T, error)) {
	done := make(chan struct{})
	r.running = done
	go func() {
		var value T
		var err error
		defer func() {
			if cause := recover(); cause != nil {
				err = fmt.Errorf("panic: %v", cause)
				r.log.Error("Data for the web page could not be read", slog.Any("panic", cause), slog.String("stack", string(debug.Stack())))
			}
			r.mu.Lock()
			defer r.mu.Unlock()
			defer close(done)
			r.at = time.Now()
			r.err = err
			r.running = nil
			if err == nil {
				r.value = value
				r.read = r.at
			}
		}()
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), readTimeout)
		defer cancel()
		value, err = read(ctx)
	}()
}

// State implements web.Source. While a new state is made, pages show the one before.
func (s *source) State(ctx context.Context) *web.State {
	state, ok, _ := s.state.get(ctx, freshState, s.compute)
	if !ok {
		return &web.State{Overview: &overview.Overview{At: time.Now()}, Problems: []string{"The overview is not computed yet. Try again."}}
	}
	return state
}

// compute returns a new state.
func (s *source) compute(ctx context.Context) (*web.State, error) {
	samples, _, usageErr := s.samples.get(ctx, freshUsage, func(ctx context.Context) ([]usage.Sample, error) {
		r, err := s.usage.Read(ctx)
		return r.Samples, err
	})
	now := time.Now()
	state := &web.State{}
	s.health(state, now)
	if usageErr != nil {
		state.Problems = append(state.Problems, "Current usage is not known: the Metrics API did not answer.")
	}
	in := overview.World{Now: now, Snapshot: s.world.Snapshot(), Nodes: s.world.Nodes(), Samples: samples, StartupBoost: s.startupBoost}
	state.Overview = overview.Of(&in)
	surplus, _, priceErr := s.surplus.get(ctx, freshSurplus, func(context.Context) (*overview.Surplus, error) { return s.review(in, state.Overview) })
	state.Surplus = surplus
	if priceErr != nil {
		state.Problems = append(state.Problems, "Prices are not known: "+priceErr.Error())
	}
	state.Custom, _ = s.world.ProfileNames()
	s.addActivity(ctx, state)
	return state, nil
}

// review returns what could be given back, with prices if there are some.
func (s *source) review(in overview.World, o *overview.Overview) (*overview.Surplus, error) {
	if s.prices != "" {
		prices, err := price.ReadFile(s.prices, in.Nodes)
		if err != nil {
			return nil, err
		}
		in.Prices = prices
	}
	in.Selectors, in.Tolerations = s.world.Selectors(), s.world.Tolerations()
	in.AllPods = s.allPods
	return overview.SurplusOf(&in, o), nil
}

// health sets which watches have not delivered yet or are out of date.
func (s *source) health(state *web.State, now time.Time) {
	for _, f := range s.world.Health() {
		switch {
		case f.Forbidden:
		case !f.Synced:
			state.Loading = append(state.Loading, f.Resource)
		case state.Contact.IsZero() || f.LastResponse.Before(state.Contact):
			state.Contact = f.LastResponse
		}
		switch {
		case f.Forbidden:
			state.Problems = append(state.Problems, fmt.Sprintf("podfit may not list %s, so they are not shown.", f.Resource))
		case f.Err != nil && f.Synced:
			state.Problems = append(state.Problems, fmt.Sprintf("The watch of %s has failed since %s UTC. What is shown may be out of date.", f.Resource, f.FailedSince.UTC().Format("15:04:05")))
		case f.Synced && f.IsStale(now):
			state.Problems = append(state.Problems, fmt.Sprintf("The watch of %s is out of date.", f.Resource))
		}
	}
}

// addActivity sets what podfit did: decisions of this process, or else events.
func (s *source) addActivity(ctx context.Context, state *web.State) {
	if s.journal != nil {
		state.Activity, state.ActivitySince = s.journal.entries()
		state.ActivityFrom = "the decisions of this process since its start"
		if !state.ActivitySince.IsZero() {
			return
		}
	}
	entries, _, err := s.recent.get(ctx, freshEvent, s.events.RecentEvents)
	if err != nil {
		state.Problems = append(state.Problems, "Events could not be read, so the activity is not known.")
	}
	state.Activity = entries
	state.ActivityFrom = "the events of the updater, which the API server keeps for an hour by default"
}

// Namespaces returns the namespaces that have workloads.
func (s *source) Namespaces() []string { return s.State(context.Background()).Overview.Namespaces() }

// History implements web.Source. It reads the hourly peaks of the UsageHistory, and the histograms of the checkpoints where there are none.
func (s *source) History(ctx context.Context, row *overview.Row) (overview.History, error) {
	var out overview.History
	if row.VPA == "" {
		return out, nil
	}
	stored, err := s.store.Histories(ctx, row.Workload)
	if err != nil {
		return out, err
	}
	for i := range row.Containers {
		c := overview.ContainerHistory{Name: row.Containers[i].Name}
		for j := range stored {
			if stored[j].Container == c.Name {
				addPeaks(&c, &stored[j], s.log)
			}
		}
		if len(c.CPU) == 0 || len(c.Memory) == 0 {
			if err := s.addHistograms(ctx, row, &c); err != nil {
				return out, err
			}
		}
		out.Containers = append(out.Containers, c)
	}
	return out, nil
}

// addPeaks adds the hourly peaks of stored model state.
func addPeaks(c *overview.ContainerHistory, h *usage.History, log *slog.Logger) {
	cpu, memory, _, err := recommend.StoredPeaks(h.Form, h.Data)
	if err != nil {
		log.Debug("The hourly peaks of a container cannot be decoded", slog.String("container", c.Name), slog.Any("error", err))
		return
	}
	c.CPU, c.Memory = overview.PeaksOf(&cpu, chartDays), overview.PeaksOf(&memory, chartDays)
	c.Last = h.LastSample
}

// addHistograms adds the histograms of the checkpoint of a container.
func (s *source) addHistograms(ctx context.Context, row *overview.Row, c *overview.ContainerHistory) error {
	p, found, err := s.store.Checkpoint(ctx, checkpoint.Key{Autoscaler: cluster.Key{Namespace: row.Workload.Namespace, Name: row.VPA}, Container: c.Name})
	if err != nil || !found {
		return err
	}
	const halfLife = 24 * time.Hour // it has no effect on the shares
	if h, err := histogram.Load(histogram.CPU, halfLife, p.CPU); err == nil && len(c.CPU) == 0 {
		c.CPUBuckets = overview.BucketsOf(&h)
	}
	if h, err := histogram.Load(histogram.Memory, halfLife, p.Memory); err == nil && len(c.Memory) == 0 {
		c.MemoryBuckets = overview.BucketsOf(&h)
	}
	c.First, c.Last, c.Samples = p.FirstSample, p.LastSample, p.Samples
	return nil
}
