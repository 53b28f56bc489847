// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package recommender

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"podfit.dev/podfit/internal/app/process"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/recommend"
	"podfit.dev/podfit/internal/core/usage"
	"podfit.dev/podfit/internal/edge/kube/checkpoint"
)

// slowStore is a checkpoint store with slow writes. It rejects the checkpoints of one VPA.
type slowStore struct {
	*bench
	takes   time.Duration          // of each write
	rejects string                 // name of a VPA
	count   map[checkpoint.Key]int // writes
}

func (s *slowStore) Write(ctx context.Context, k checkpoint.Key, c usage.Checkpoint) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(s.takes):
	}
	if k.Autoscaler.Name == s.rejects {
		return errors.New("an admission webhook denied the request")
	}
	s.mu.Lock()
	s.count[k]++
	s.mu.Unlock()
	return s.bench.Write(ctx, k, c)
}

// runWithStore runs a recommender with a checkpoint store for a time.
func (b *bench) runWithStore(s *slowStore, d time.Duration) {
	s.bench, s.count = b, map[checkpoint.Key]int{}
	needs := b.dependencies()
	needs.storage.Checkpoints = s
	r := newRecommender(b.config, needs)
	ctx, cancel := context.WithTimeout(b.t.Context(), d)
	defer cancel()
	process.Every(ctx, b.config.Interval, r.pass)
}

func TestSave_workloadWithManyVPAs_eachGetsCheckpointsAtTheUsualRate(t *testing.T) {
	if testing.Short() {
		t.Skip("takes long")
	}
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.use["app"] = cluster.Amounts(300, 200<<20)
		web := b.deployment("web", 1, "app")
		for i := range 1000 {
			b.autoscale(fmt.Sprintf("vpa-%03d", i), web)
		}
		s := &slowStore{takes: time.Second / 10} // 600 writes per pass
		b.runWithStore(s, 8*time.Hour)
		if len(s.count) != 1000 {
			t.Errorf("%d of 1000 VPAs have a checkpoint", len(s.count))
		}
		total := 0
		for _, n := range s.count {
			total += n
		}
		if most := 1000 * (6*8 + 30); total > most { // in the first 200 minutes, one when the history grew by a twentieth
			t.Errorf("%d checkpoints were written, want at most %d", total, most)
		}
	})
}

func TestSave_checkpointOfOneVPAIsRejected_othersAreStoredAtTheUsualRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.use["app"] = cluster.Amounts(300, 200<<20)
		web := b.deployment("web", 1, "app")
		for _, name := range []string{"a", "b", "c"} {
			b.autoscale(name, web)
		}
		s := &slowStore{rejects: "b"}
		b.runWithStore(s, 24*time.Hour)
		for _, name := range []string{"a", "c"} {
			if n := s.count[checkpoint.Key{Autoscaler: cluster.Key{Namespace: "shop", Name: name}, Container: "app"}]; n < 100 || n > 300 {
				t.Errorf("%d checkpoints of VPA %s were written in a day, want 100 to 300", n, name)
			}
		}
	})
}

// brokenExtension is model state whose encoding panics.
type brokenExtension struct{ usage.Extension }

func (brokenExtension) AppendBinary([]byte) ([]byte, error) { panic("a defect") }

func TestSave_oneWorkloadPanics_othersAreStored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.use["app"] = cluster.Amounts(300, 200<<20)
		bad := b.deployment("bad", 1, "app")
		b.autoscale("bad", bad)
		b.autoscale("web", b.deployment("web", 1, "app"))
		r := newRecommender(b.config, b.dependencies())
		create := recommend.Builtins()[1].Extend
		for _, p := range recommend.Builtins() {
			if p.Extend != nil {
				create = p.Extend
			}
		}
		r.usageStore.Extend(bad, func() usage.Extension { return brokenExtension{create()} })
		p := process.New(r.log, prometheus.NewRegistry())
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		process.Every(ctx, b.config.Interval, p.Recovering("recommender", r.pass))
		if _, ok := b.stored[checkpoint.Key{Autoscaler: cluster.Key{Namespace: "shop", Name: "web"}, Container: "app"}]; !ok {
			t.Error("the history of the other workload was not stored")
		}
	})
}
