// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package recommender

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"podfit.dev/podfit/internal/app/process"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/recommend"
	"podfit.dev/podfit/internal/core/usage"
	"podfit.dev/podfit/internal/edge/kube/checkpoint"
)

// checkpointer returns a checkpointer with an empty usage store.
func (b *bench) checkpointer() *checkpointer {
	return newCheckpointer(b.config, usage.NewStore(usage.DefaultConfig()), b.storage(), NewMetrics(prometheus.NewRegistry()),
		process.NewHealth(time.Hour), slog.New(slog.DiscardHandler))
}

// checkpointOf returns a checkpoint of a container with n samples.
func checkpointOf(w cluster.Workload, now time.Time, n int) usage.Checkpoint {
	s := usage.NewStore(usage.DefaultConfig())
	pod := &cluster.Pod{Key: cluster.Key{Namespace: w.Namespace, Name: "p"}, UID: "1", Top: w, Phase: cluster.Running, Containers: []cluster.Container{{Name: "app"}}}
	s.Tick(now)
	s.Track(pod)
	for i := range n {
		s.Observe(usage.Sample{Pod: pod.Key, Container: "app", At: now.Add(time.Duration(i-n) * time.Minute), CPU: 1, Memory: 1e9, Has: cluster.Both})
	}
	c, _ := s.Checkpoint(w, "app", now)
	return c
}

// The checkpoints differ in their samples and times, so the test fails if the younger VPA's checkpoint is restored, merged or tried.
func TestRestore_twoVPAsOfOneWorkload_onlyTheCheckpointOfTheOlderIsUsed(t *testing.T) {
	b := newBench(t)
	now := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	w := b.deployment("web", 1, "app")
	k := b.checkpointer()
	var log bytes.Buffer
	k.log = slog.New(slog.NewTextHandler(&log, nil))
	k.usageStore.Tick(now)
	for i, name := range []string{"z-older", "a-younger"} {
		a := b.autoscale(name, w)
		a.Created = now.Add(time.Duration(i) * time.Hour)
		k.loadedCheckpoints[checkpoint.Key{Autoscaler: a.Key, Container: "app"}] = checkpointOf(w, now.Add(-time.Duration(i)*time.Minute), 10+10*i)
	}
	k.restore(now, b.autoscalers)
	if got := k.usageStore.Series(w, "app").Seen(cluster.CPU).Count; got != 10 {
		t.Errorf("%d samples are restored, want the 10 of the older VPA", got)
	}
	if got := k.savedAt[usage.Ref{Workload: w, Container: "app"}]; !got.Equal(now) {
		t.Errorf("the history counts as stored at %v, want %v, the time of the checkpoint of the older VPA", got, now)
	}
	if len(k.loadedCheckpoints) > 0 {
		t.Errorf("%d checkpoints are still loaded", len(k.loadedCheckpoints))
	}
	if log.Len() > 0 {
		t.Errorf("logged, although the second checkpoint is redundant and not an error:\n%s", log.String())
	}
}

// A VPA that is served later has a checkpoint of history that is already in the store. Its samples must not count twice.
func TestRestore_historyIsAlreadyStored_loadedCheckpointIsDropped(t *testing.T) {
	b := newBench(t)
	now := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	a := b.autoscale("web", b.deployment("web", 1, "app"))
	k := b.checkpointer()
	k.usageStore.Tick(now)
	k.savedAt[usage.Ref{Workload: a.Target, Container: "app"}] = now
	k.loadedCheckpoints[checkpoint.Key{Autoscaler: a.Key, Container: "app"}] = checkpointOf(a.Target, now, 10)
	k.restore(now, b.autoscalers)
	if k.usageStore.Series(a.Target, "app") != nil {
		t.Error("the checkpoint is restored")
	}
	if len(k.loadedCheckpoints) > 0 {
		t.Errorf("%d checkpoints are still loaded", len(k.loadedCheckpoints))
	}
}

// The histograms of such a checkpoint are restored, so it counts as stored and is not written again at once.
func TestRestore_invalidExtraData_checkpointCountsAsStored(t *testing.T) {
	b := newBench(t)
	now := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	a := b.autoscale("web", b.deployment("web", 1, "app"))
	k := b.checkpointer()
	k.usageStore.Tick(now)
	c := checkpointOf(a.Target, now, 10)
	c.Extra = []byte("invalid")
	k.loadedCheckpoints[checkpoint.Key{Autoscaler: a.Key, Container: "app"}] = c
	k.restore(now, b.autoscalers)
	if got := k.savedAt[usage.Ref{Workload: a.Target, Container: "app"}]; !got.Equal(c.Updated) {
		t.Errorf("stored at %v, want %v", got, c.Updated)
	}
}

func TestTakeModelState_extendedWorkload_isReturnedOnce(t *testing.T) {
	b := newBench(t)
	w := b.deployment("web", 1, "app")
	k := b.checkpointer()
	ref := usage.Ref{Workload: w, Container: "app"}
	k.loadedModelStates[w] = []usage.History{{Container: "other"}, {Container: "app", Data: []byte{1}}}
	if h := k.takeModelState(ref); len(h.Data) > 0 {
		t.Error("the model state is returned although the profile has none")
	}
	k.usageStore.Extend(w, recommend.Builtins()[1].Extend)
	if h := k.takeModelState(ref); len(h.Data) != 1 {
		t.Error("the model state is not returned")
	}
	if h := k.takeModelState(ref); len(h.Data) > 0 || len(k.loadedModelStates[w]) != 1 {
		t.Errorf("the model state is returned twice; %d remain, want that of the other container", len(k.loadedModelStates[w]))
	}
}

func TestNoteStoredWorkloads_checkpointsOfTwoWorkloads_newestCounts(t *testing.T) {
	b := newBench(t)
	k := b.checkpointer()
	vpa := cluster.Key{Namespace: "shop", Name: "web"}
	start := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	for container, days := range map[string]int{"a": 0, "b": 2, "c": 1} {
		k.loadedCheckpoints[checkpoint.Key{Autoscaler: vpa, Container: container}] =
			usage.Checkpoint{Workload: cluster.Workload{Name: "of-" + container}, Updated: start.AddDate(0, 0, days)}
	}
	k.loadedCheckpoints[checkpoint.Key{Autoscaler: vpa, Container: "upstream"}] = usage.Checkpoint{Updated: start.AddDate(0, 0, 9)}
	k.noteStoredWorkloads()
	if got := k.storedOf[vpa].Name; got != "of-b" {
		t.Errorf("the workload is %q, want that of the newest checkpoint with a workload, of-b", got)
	}
}

// Otherwise the loaded checkpoint would be restored if the VPA referenced its former workload again, although a newer one is stored.
func TestSave_vpaReferencesAnotherWorkload_loadedCheckpointIsDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.use["app"] = cluster.Amounts(300, 200<<20)
		a := b.autoscale("web", b.deployment("web", 1, "app"))
		former := cluster.Workload{Kind: "Deployment", Namespace: "shop", Name: "former"}
		b.stored[checkpoint.Key{Autoscaler: a.Key, Container: "app"}] = checkpointOf(former, time.Now(), 10)
		if r := b.run(5 * time.Minute); len(r.checkpointer.loadedCheckpoints) > 0 {
			t.Error("the checkpoint of the former workload is still loaded")
		}
	})
}

func TestSave_containerWithOnlyMemorySamples_isStoredAtTheUsualRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.use["app"] = cluster.Resources{}.Set(cluster.Memory, 200<<20)
		b.autoscale("web", b.deployment("web", 1, "app"))
		b.run(24 * time.Hour)
		if b.storeWrites < 100 || b.storeWrites > 300 {
			t.Errorf("%d checkpoints were written in a day, want 100 to 300", b.storeWrites)
		}
	})
}

func TestStoreModelStates_eachOutcome_isCounted(t *testing.T) {
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for outcome, tt := range map[string]struct {
		cancelled bool
		err       error
		stored    bool
	}{
		"written":   {stored: true},
		"postponed": {cancelled: true, err: errors.New("the context is cancelled")},
		"failed":    {err: errors.New("no space left")},
	} {
		ctx := t.Context()
		if tt.cancelled {
			ctx = ended
		}
		b := newBench(t)
		b.remembered.err = tt.err
		k := b.checkpointer()
		stored := k.storeModelStates(ctx, cluster.Workload{Name: "web"}, []usage.History{{Container: "app", Data: []byte{1}}})
		if n := testutil.ToFloat64(k.metrics.history.WithLabelValues(outcome)); n != 1 || stored != tt.stored {
			t.Errorf("%s: counted %v times, stored %t, want once, %t", outcome, n, stored, tt.stored)
		}
	}
}

func TestNeeded_profileWithModelStateButNoContainer_isNotNeeded(t *testing.T) {
	b := newBench(t)
	w := b.deployment("web", 1, "app")
	b.autoscale("web", w)
	k := b.checkpointer()
	k.usageStore.Extend(w, recommend.Builtins()[1].Extend)
	if k.needed(b.autoscalers, b.autoscalers).Has(w) {
		t.Error("the model state is needed although no container has history")
	}
	k.usageStore.Track(b.pods[0])
	k.usageStore.Observe(usage.Sample{Pod: b.pods[0].Key, Container: "app", At: time.Now(), CPU: 1, Has: cluster.Of(cluster.CPU)})
	if !k.needed(b.autoscalers, b.autoscalers).Has(w) {
		t.Error("the model state of a container with history is not needed")
	}
}

// rejectingStore is a checkpoint store whose writes fail after a number of them.
type rejectingStore struct {
	*bench
	accepts int
}

func (s *rejectingStore) Write(ctx context.Context, key checkpoint.Key, c usage.Checkpoint) error {
	if s.accepts == 0 {
		return errors.New("client rate limiter Wait returned an error: rate: Wait(n=1) would exceed context deadline")
	}
	s.accepts--
	return s.bench.Write(ctx, key, c)
}

// Shortly before the deadline the rate limiter rejects requests although the context has not ended.
func TestStoreCheckpoint_deadlineIsNear_resumesWithTheSameVPA(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, tt := range map[string]struct {
			remaining time.Duration
			outcome   string
			resumes   bool
		}{
			"deadline in half a second": {time.Second / 2, "postponed", true},
			"deadline in a minute":      {time.Minute, "failed", false},
		} {
			b := newBench(t)
			w := b.deployment("web", 1, "app")
			b.autoscale("a", w)
			b.autoscale("b", w)
			k := b.checkpointer()
			k.store.checkpoints = &rejectingStore{b, 1}
			ref := usage.Ref{Workload: w, Container: "app"}
			ctx, cancel := context.WithTimeout(t.Context(), tt.remaining)
			k.storeCheckpoint(ctx, ref, usage.Checkpoint{}, b.autoscalers)
			cancel()
			if n := testutil.ToFloat64(k.metrics.checkpoint.WithLabelValues(tt.outcome)); n != 1 {
				t.Errorf("%s: %v checkpoints are counted as %s, want 1", name, n, tt.outcome)
			}
			if at, resumes := k.takeResume(ref); resumes != tt.resumes || resumes && at.Name != "b" {
				t.Errorf("%s: resumes %t with VPA %q, want %t with b", name, resumes, at.Name, tt.resumes)
			}
		}
	})
}

func TestCollect_historyExpired_checkpointIsDeletedUnlessThereIsNewHistory(t *testing.T) {
	for name, newHistory := range map[string]bool{"no new history": false, "new history": true} {
		b := newBench(t)
		a := b.autoscale("web", b.deployment("web", 1, "app"))
		k := b.checkpointer()
		key := checkpoint.Key{Autoscaler: a.Key, Container: "app"}
		b.stored[key] = usage.Checkpoint{}
		k.forget([]usage.Ref{{Workload: a.Target, Container: "app"}})
		now := time.Now()
		if newHistory {
			k.usageStore.Tick(now)
			k.usageStore.Track(b.pods[0])
			k.usageStore.Observe(usage.Sample{Pod: b.pods[0].Key, Container: "app", At: now, CPU: 1, Has: cluster.Of(cluster.CPU)})
		}
		k.collect(t.Context(), now, b.autoscalers, b.autoscalers)
		if _, stored := b.stored[key]; stored != newHistory {
			t.Errorf("%s: the checkpoint is stored: %t, want %t", name, stored, newHistory)
		}
	}
}
