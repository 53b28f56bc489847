// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package recommender

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/rest"

	"podfit.dev/podfit/internal/app/process"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/usage"
	"podfit.dev/podfit/internal/edge/kube"
	"podfit.dev/podfit/internal/edge/kube/checkpoint"
	"podfit.dev/podfit/internal/edge/kube/watcher"
)

// manyOrphans is a checkpoint store with unused checkpoints. It deletes 50 per second.
type manyOrphans struct {
	*bench
	left int // unused checkpoints
}

func (m *manyOrphans) Collect(ctx context.Context, _ checkpoint.Unused) (n int, err error) {
	for ; m.left > 0; m.left-- {
		select {
		case <-ctx.Done():
			return n, ctx.Err()
		case <-time.After(time.Second / 50):
			n++
		}
	}
	return n, nil
}

func TestCollect_manyOrphans_passesContinueAndAllAreDeleted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.use["app"] = cluster.Amounts(300, 200<<20)
		b.autoscale("web", b.deployment("web", 1, "app"))
		h := process.NewHealth(5 * time.Minute)
		m := &manyOrphans{bench: b, left: 15_000}
		d := b.dependencies()
		d.storage.checkpoints = m
		d.health = h
		r := newRecommender(b.config, d)
		ctx, cancel := context.WithTimeout(t.Context(), 12*time.Minute)
		defer cancel()
		var last time.Time
		process.Every(ctx, b.config.Interval, func(ctx context.Context, now time.Time) {
			if !last.IsZero() && now.Sub(last) > 3*time.Minute {
				t.Errorf("%v between two passes", now.Sub(last))
			}
			last = now
			r.pass(ctx, now)
		})
		if m.left > 0 {
			t.Errorf("%d unused checkpoints remain", m.left)
		}
	})
}

// A VPA that was created during an outage of the watch is not in the cache. Its checkpoints are not unused.
func TestCollect_staleWatchOfAutoscalers_deletesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.use["app"] = cluster.Amounts(300, 200<<20)
		b.autoscale("web", b.deployment("web", 1, "app"))
		unseen := checkpoint.Key{Autoscaler: cluster.Key{Namespace: "shop", Name: "new"}, Container: "app"}
		b.stored[unseen] = usage.Checkpoint{Version: "v3"}
		b.stale = []string{watcher.AutoscalersFeed}
		b.run(30 * time.Minute)
		if _, ok := b.stored[unseen]; !ok {
			t.Error("the checkpoint of a VPA that is not in the cache yet is deleted")
		}
		b.stale = nil
		b.run(30 * time.Minute)
		if _, ok := b.stored[unseen]; ok {
			t.Error("the unused checkpoint is not deleted")
		}
	})
}

// forbiddenDeletes is a checkpoint store that may not delete.
type forbiddenDeletes struct{ *bench }

func (forbiddenDeletes) Collect(context.Context, checkpoint.Unused) (int, error) {
	return 0, fmt.Errorf("delete: %w", kube.ErrForbidden)
}

func TestCollect_workloadsComeAndGoAndDeletesFail_memoryIsBounded(t *testing.T) {
	for _, dryRun := range []bool{false, true} {
		b := newBench(t)
		b.config.ReadOnly = dryRun
		k := newCheckpointer(b.config, usage.NewStore(usage.DefaultConfig()), storage{forbiddenDeletes{b}, b.remembered}, NewMetrics(prometheus.NewRegistry()), process.NewHealth(time.Hour), slog.New(slog.DiscardHandler))
		now := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
		for i := range 1000 {
			k.forget([]usage.Ref{{Workload: cluster.Workload{Kind: "Job", Namespace: "shop", Name: fmt.Sprint(i)}, Container: "app"}})
			now = now.Add(time.Hour)
			k.collect(t.Context(), now, nil, nil)
		}
		if len(k.expired) > 0 {
			t.Errorf("dry run %t: %d expired containers are kept in memory, want none", dryRun, len(k.expired))
		}
	}
}

// silentServer is an API server that accepts requests and does not answer.
type silentServer struct{ requests int }

func (s *silentServer) RoundTrip(q *http.Request) (*http.Response, error) {
	s.requests++
	<-q.Context().Done()
	return nil, q.Context().Err()
}

func TestLoad_apiServerDoesNotAnswer_retries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		api := new(silentServer)
		clients, err := kube.ClientsFor(&rest.Config{Host: "http://127.0.0.1:1", Transport: api, QPS: -1})
		if err != nil {
			t.Fatal(err)
		}
		histories, err := checkpoint.NewHistories(clients, checkpoint.StorageOptions{})
		if err != nil {
			t.Fatal(err)
		}
		k := newCheckpointer(b.config, usage.NewStore(usage.DefaultConfig()), storage{checkpoint.NewCheckpoints(clients, checkpoint.StorageOptions{}), histories},
			NewMetrics(prometheus.NewRegistry()), process.NewHealth(time.Hour), slog.New(slog.DiscardHandler))
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
		defer cancel()
		if err := k.load(ctx); err == nil {
			t.Fatal("load returned no error")
		}
		if api.requests < 4 {
			t.Errorf("%d requests in ten minutes, want at least 4", api.requests)
		}
	})
}
