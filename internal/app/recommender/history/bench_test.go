// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package history

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"podfit.dev/podfit/internal/app/process"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/usage"
	"podfit.dev/podfit/internal/edge/kube/checkpoint"
)

// bench contains the pods and VPAs of namespace shop, and is a store of checkpoints.
type bench struct {
	config      CheckpointerConfig
	pods        []*cluster.Pod
	autoscalers []*cluster.Autoscaler
	modelStates *modelStates
	stored      map[checkpoint.Key]usage.Checkpoint
	loadErr     error
	mu          sync.Mutex // for concurrent writers
}

func newBench() *bench {
	return &bench{
		config:      CheckpointerConfig{Workers: 10, WriteTimeout: time.Minute, GCInterval: 10 * time.Minute},
		modelStates: &modelStates{stored: map[cluster.Workload][]usage.History{}},
		stored:      map[checkpoint.Key]usage.Checkpoint{},
	}
}

// deployment adds a Deployment with one pod.
func (b *bench) deployment(name string, containers ...string) cluster.Workload {
	top := cluster.Workload{Group: "apps", Kind: "Deployment", Namespace: "shop", Name: name}
	p := &cluster.Pod{Key: cluster.Key{Namespace: "shop", Name: name + "-0"}, UID: name, Top: top, Phase: cluster.Running}
	for _, c := range containers {
		p.Containers = append(p.Containers, cluster.Container{Name: c})
	}
	b.pods = append(b.pods, p)
	return top
}

func (b *bench) autoscale(name string, w cluster.Workload) *cluster.Autoscaler {
	a := &cluster.Autoscaler{Key: cluster.Key{Namespace: "shop", Name: name}, UID: name, Target: w, Created: time.Now()}
	b.autoscalers = append(b.autoscalers, a)
	return a
}

// checkpointer returns a checkpointer with an empty usage store.
func (b *bench) checkpointer() *Checkpointer {
	return NewCheckpointer(b.config, usage.NewStore(usage.DefaultConfig()), usage.NewStore(usage.DefaultConfig()), Storage{b, b.modelStates}, NewMetrics(prometheus.NewRegistry()),
		process.NewHealth(time.Hour), slog.New(slog.DiscardHandler))
}

func (b *bench) Load(context.Context) (map[checkpoint.Key]usage.Checkpoint, error) {
	return maps.Clone(b.stored), b.loadErr
}

func (b *bench) Write(_ context.Context, k checkpoint.Key, c usage.Checkpoint) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.stored[k] = c
	b.modelStates.mu.Lock()
	b.modelStates.writes = append(b.modelStates.writes, cluster.Workload{Name: k.Autoscaler.Name})
	b.modelStates.mu.Unlock()
	return nil
}

func (b *bench) Collect(_ context.Context, unused checkpoint.Unused) (int, error) {
	before := len(b.stored)
	maps.DeleteFunc(b.stored, func(k checkpoint.Key, _ usage.Checkpoint) bool { return unused.Has(k) })
	return before - len(b.stored), nil
}

// modelStates is a store of model state.
type modelStates struct {
	stored map[cluster.Workload][]usage.History
	err    error // of each write
	unread error // of each load, which then returns nothing
	broken error // of each load
	loads  int
	stall  bool // each write waits until its time is over
	writes []cluster.Workload
	mu     sync.Mutex // for concurrent writers
}

func (m *modelStates) Load(context.Context) (map[cluster.Workload][]usage.History, error) {
	loaded := map[cluster.Workload][]usage.History{}
	m.loads++
	if m.unread != nil || m.broken != nil {
		return loaded, m.broken
	}
	for w, states := range m.stored {
		loaded[w] = slices.Clone(states)
	}
	return loaded, nil
}

func (m *modelStates) Unread() error { return m.unread }

func (m *modelStates) Write(ctx context.Context, w cluster.Workload, states []usage.History) (bool, error) {
	m.mu.Lock()
	m.writes = append(m.writes, w)
	m.mu.Unlock()
	if m.stall {
		<-ctx.Done()
		return false, ctx.Err()
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.err != nil || m.unread != nil {
		return false, errors.Join(m.err, m.unread)
	}
	m.stored[w] = states
	return true, nil
}

func (m *modelStates) Collect(_ context.Context, needed checkpoint.Needed) (int, error) {
	before := len(m.stored)
	maps.DeleteFunc(m.stored, func(w cluster.Workload, _ []usage.History) bool { return !needed.Has(w) })
	return before - len(m.stored), nil
}

// checkpointOf returns a checkpoint of a container with n samples.
func checkpointOf(w cluster.Workload, now time.Time, n int) usage.Checkpoint {
	s := usage.NewStore(usage.DefaultConfig())
	pod := &cluster.Pod{Key: cluster.Key{Namespace: w.Namespace, Name: "p"}, UID: "1", Top: w, Phase: cluster.Running, Containers: []cluster.Container{{Name: "app"}}}
	observe(s, now, pod, n)
	c, _ := s.Checkpoint(w, "app", now)
	return c
}

// observe adds n samples of container app of a pod to a store, one per minute before now.
func observe(s *usage.Store, now time.Time, pod *cluster.Pod, n int) {
	s.Tick(now)
	s.Track(pod)
	for i := range n {
		s.Observe(usage.Sample{Pod: pod.Key, Container: "app", At: now.Add(time.Duration(i-n) * time.Minute), CPU: 1, Memory: 1e9, Has: cluster.Both})
	}
}
