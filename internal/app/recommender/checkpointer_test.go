// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package recommender

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spf13/pflag"

	"podfit.dev/podfit/internal/app/recommender/history"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/usage"
	"podfit.dev/podfit/internal/edge/kube"
	"podfit.dev/podfit/internal/edge/kube/checkpoint"
)

// benchHistories is the store of the model state of a bench.
type benchHistories struct {
	mu     sync.Mutex
	stored map[cluster.Workload][]usage.History
	writes int
	err    error // of each write
}

func newBenchHistories() *benchHistories {
	return &benchHistories{stored: map[cluster.Workload][]usage.History{}}
}

func (b *bench) storage() history.Storage {
	return history.Storage{Checkpoints: b, ModelStates: b.remembered}
}

func (h *benchHistories) Load(context.Context) (map[cluster.Workload][]usage.History, error) {
	all := make(map[cluster.Workload][]usage.History, len(h.stored))
	for w, hs := range h.stored {
		all[w] = slices.Clone(hs)
	}
	return all, nil
}

func (h *benchHistories) Unread() error { return nil }

func (h *benchHistories) Write(_ context.Context, w cluster.Workload, hs []usage.History) (bool, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	same := func(x, y usage.History) bool { return x.Container == y.Container && bytes.Equal(x.Data, y.Data) }
	switch {
	case h.err != nil:
		return false, fmt.Errorf("write: %w", h.err)
	case slices.EqualFunc(h.stored[w], hs, same):
		return false, nil
	}
	h.stored[w] = hs
	h.writes++
	return true, nil
}

func (h *benchHistories) Collect(_ context.Context, needed checkpoint.Needed) (int, error) {
	n := 0
	for w := range h.stored {
		if !needed.Has(w) {
			delete(h.stored, w)
			n++
		}
	}
	return n, nil
}

func TestSave_manyVPAsOfOneWorkload_modelStateIsStoredOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		for _, c := range []string{"app", "proxy"} {
			b.use[c] = cluster.Amounts(300, 200<<20)
		}
		web := b.deployment("web", 2, "app", "proxy")
		b.autoscale("web", web).Recommender = "balanced"
		b.autoscale("web2", web).Recommender = "balanced" // the same workload
		b.autoscale("plain", b.deployment("plain", 2, "app"))
		b.run(5 * time.Hour)
		hs := b.remembered.stored[web]
		if len(b.remembered.stored) != 1 || len(hs) != 2 || hs[0].Container != "app" || hs[1].Container != "proxy" {
			t.Fatalf("stored model state: %v", b.remembered.stored)
		}
		if hs[0].Form != "adaptive/1" || len(hs[0].Data) < 50 || time.Since(hs[0].Updated) > 71*time.Minute {
			t.Errorf("the model state was updated at %v, has form %s and %d bytes", hs[0].Updated, hs[0].Form, len(hs[0].Data))
		}
		for key, c := range b.stored {
			if len(c.Extra) > 100 {
				t.Errorf("the checkpoint %v has %d bytes of extra data, want at most 100", key, len(c.Extra))
			}
		}
	})
}

func TestSave_modelStateChangesWithEachSample_isWrittenEveryTenMinutes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.use["app"] = cluster.Amounts(300, 200<<20)
		b.autoscale("web", b.deployment("web", 3, "app")).Recommender = "autopilot" // each sample changes its model state
		b.run(5 * time.Hour)
		young := b.remembered.writes
		b.run(24 * time.Hour)
		if n := b.remembered.writes - young; n < 140 || n > 24*6+2 {
			t.Errorf("%d writes in a day with samples, want 140 to 146", n)
		}
		steady := b.remembered.writes
		b.usageErr = errors.New("away")
		b.run(24 * time.Hour)
		if n := b.remembered.writes - steady; n > 1 {
			t.Errorf("%d writes in a day without samples, want at most 1", n)
		}
	})
}

// A container whose policy is Off has no checkpoint. It must not make the other containers due in each pass.
func TestSave_containerWithModeOff_causesNoWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		for _, c := range []string{"app", "proxy"} {
			b.use[c] = cluster.Amounts(300, 200<<20)
		}
		a := b.autoscale("web", b.deployment("web", 2, "app", "proxy"))
		a.Recommender, a.Policies = "autopilot", []cluster.ContainerPolicy{{Container: "proxy", Off: true}}
		b.run(5 * time.Hour)
		young := b.remembered.writes
		b.run(24 * time.Hour)
		if n := b.remembered.writes - young; n < 140 || n > 24*6+2 {
			t.Errorf("%d writes in a day with samples, want 140 to 146", n)
		}
	})
}

// At the end of a process everything is stored. Ten minutes later not everything may be due in one pass.
func TestSave_manyWorkloads_writesAreDistributed(t *testing.T) {
	if testing.Short() {
		t.Skip("takes long")
	}
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.use["app"] = cluster.Amounts(300, 200<<20)
		const workloads = 100
		for i := range workloads {
			name := fmt.Sprint("web-", i)
			b.autoscale(name, b.deployment(name, 1, "app")).Recommender = "autopilot"
		}
		b.run(210 * time.Minute)
		most := 0
		for range 20 {
			before := b.remembered.writes
			b.run(time.Minute)
			most = max(most, b.remembered.writes-before)
		}
		if most > workloads/5 {
			t.Errorf("%d of %d workloads were written in one pass, want at most a fifth", most, workloads)
		}
	})
}

func TestSave_oomKill_isStoredInTheSamePassInBothObjects(t *testing.T) { // W-08
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.use["app"] = cluster.Amounts(300, 200<<20)
		web := b.deployment("web", 1, "app")
		b.autoscale("web", web).Recommender = "balanced"
		b.run(6 * time.Hour)
		had := b.advice("web", "app").Target.Memory
		for range 3 { // at different times of the ten-minute interval of the workload
			b.run(3 * time.Minute)
			checkpoints, histories := b.storeWrites, b.remembered.writes
			c := &b.pods[0].Containers[0]
			c.Requests = cluster.Amounts(300, b.advice("web", "app").Target.Memory)
			c.Exit = &cluster.Exit{OOM: true, Started: time.Now().Add(-time.Minute), Finished: time.Now()}
			b.run(2 * time.Second) // the process is killed after the pass that observed the OOM kill
			if b.storeWrites == checkpoints || b.remembered.writes == histories {
				t.Fatalf("%d checkpoints and %d UsageHistories were written, want one of each", b.storeWrites-checkpoints, b.remembered.writes-histories)
			}
		}
		raised := b.advice("web", "app").Target.Memory
		b.run(2 * time.Second)
		if after := b.advice("web", "app").Target.Memory; raised < had*3/2 || after != raised {
			t.Errorf("the target was %d, then %d, and after a restart %d", had, raised, after)
		}
	})
}

// At first only upstream's CRDs are installed, later also podfit's.
func TestSave_usageHistoriesCannotBeWritten_checkpointsContainTheModelState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.use["app"] = cluster.Amounts(300, 200<<20)
		web := b.deployment("web", 2, "app")
		b.autoscale("web", web).Recommender = "balanced"
		extra := func() int {
			return len(b.stored[checkpoint.Key{Autoscaler: b.autoscalers[0].Key, Container: "app"}].Extra)
		}
		b.remembered.err = kube.ErrUnsupported
		b.run(5 * time.Hour)
		b.use["app"] = cluster.Amounts(700, 500<<20)
		b.run(11 * time.Minute)
		high := b.advice("web", "app").Target
		b.use["app"] = cluster.Amounts(300, 200<<20)
		b.run(time.Hour)
		if got := b.advice("web", "app").Target; got.Memory < high.Memory*9/10 || extra() < 150 {
			t.Errorf("the peak is lost: target %v, then %v; the checkpoint has %d bytes of extra data", high, got, extra())
		}
		b.remembered.err = nil
		b.run(time.Hour)
		if got := b.advice("web", "app").Target; got.Memory < high.Memory*9/10 || extra() > 120 || len(b.remembered.stored[web]) != 1 {
			t.Errorf("the peak is lost, or the checkpoint still contains it: target %v, then %v; the checkpoint has %d bytes of extra data", high, got, extra())
		}
		b.remembered.err = errors.New("etcd is full")
		b.run(time.Hour)
		if extra() < 150 {
			t.Error("the checkpoint does not contain the model state although its write failed")
		}
		b.run(time.Minute)
		if got := b.advice("web", "app").Target; got.Memory < high.Memory*9/10 {
			t.Errorf("the peak is lost: target %v, then %v", high, got)
		}
	})
}

// The process is killed between the write of the checkpoint and the write of the model state, in either order.
func TestRestore_killBetweenTheTwoWrites_losesNothing(t *testing.T) {
	for _, name := range []string{"balanced", "busy-hours", "autopilot"} {
		for what, cut := range map[string]func(b, early *bench){
			"checkpoint missing": func(b, early *bench) { b.stored = early.stored },
			"history missing":    func(b, early *bench) { b.remembered.stored = early.remembered.stored },
		} {
			t.Run(name+", "+what, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					b := newBench(t)
					b.use["app"] = cluster.Amounts(300, 200<<20)
					web := b.deployment("web", 2, "app")
					b.autoscale("web", web).Recommender = name
					b.run(26*time.Hour + 7*time.Minute)
					early := &bench{stored: maps.Clone(b.stored), remembered: &benchHistories{stored: maps.Clone(b.remembered.stored)}}
					had := b.run(21*time.Minute).usageStore.Series(web, "app").Seen(cluster.CPU).Count
					before := *b.advice("web", "app")
					cut(b, early)
					r := b.run(2 * time.Second)
					if has := r.usageStore.Series(web, "app").Seen(cluster.CPU).Count; has < had-2*40 || has > had+2 {
						t.Errorf("%d samples before the kill, %d after it", had, has)
					}
					if after := *b.advice("web", "app"); after.Target != before.Target {
						t.Errorf("target %v before the kill, %v after it", before.Target, after.Target)
					}
				})
			})
		}
	}
}

func TestCollect_modelStateThatNoVPANeeds_isDeleted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.use["app"] = cluster.Amounts(300, 200<<20)
		targets := map[string]cluster.Workload{}
		for _, name := range []string{"stays", "deleted", "back to default", "other recommender"} {
			targets[name] = b.deployment(name, 1, "app")
			b.autoscale(name, targets[name]).Recommender = "balanced"
		}
		b.run(20 * time.Minute)
		if len(b.remembered.stored) != 4 {
			t.Fatalf("%d UsageHistories are stored, want 4", len(b.remembered.stored))
		}
		b.autoscalers = slices.DeleteFunc(b.autoscalers, func(a *cluster.Autoscaler) bool { return a.Name == "deleted" })
		for i, a := range b.autoscalers {
			change := *a
			switch a.Name {
			case "back to default":
				change.Recommender = ""
			case "other recommender":
				change.Recommender = "theirs"
			}
			b.autoscalers[i] = &change
		}
		b.pods = slices.DeleteFunc(b.pods, func(p *cluster.Pod) bool { return p.Top == targets["stays"] }) // scaled to zero
		b.run(12 * time.Minute)
		for name, w := range targets {
			if got, want := b.remembered.stored[w] != nil, name == "stays" || name == "other recommender"; got != want {
				t.Errorf("%s: stored: %t", name, got)
			}
		}
	})
}

// A recommender with --recommender-name must not delete what the one without it stored, even if it runs only once.
func TestCollect_recommenderWithAName_deletesNothing(t *testing.T) {
	for _, name := range []string{"x", "default", "balanced"} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t)
				b.use["app"] = cluster.Amounts(300, 200<<20)
				shared, own := b.deployment("shared", 1, "app"), b.deployment("own", 1, "app")
				b.autoscale("tried", shared).Recommender = "balanced"
				b.autoscale("shared", shared)
				b.autoscale("own", own).Recommender = "balanced"
				b.run(20 * time.Minute)
				if len(b.remembered.stored) != 2 || len(b.stored) != 3 {
					t.Fatalf("%d UsageHistories and %d checkpoints are stored, want 2 and 3", len(b.remembered.stored), len(b.stored))
				}
				b.config = recommenderNamed(t, name)
				b.run(20 * time.Minute)
				if len(b.remembered.stored) != 2 || len(b.stored) != 3 {
					t.Errorf("%d UsageHistories and %d checkpoints remain, want 2 and 3", len(b.remembered.stored), len(b.stored))
				}
			})
		})
	}
}

func TestCollect_historyExpires_checkpointsOfAnotherRecommenderStay(t *testing.T) {
	if testing.Short() {
		t.Skip("takes long")
	}
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.use["app"] = cluster.Amounts(300, 200<<20)
		b.autoscale("ours", b.deployment("ours", 1, "app"))
		b.autoscale("theirs", b.deployment("theirs", 1, "app"))
		b.run(10 * time.Minute)
		change := *b.autoscalers[1]
		change.Recommender = "theirs"
		b.autoscalers[1] = &change
		b.during(9*24*time.Hour, func(after time.Duration) {
			if after == 20*time.Minute {
				b.pods = nil
			}
		})
		for key := range b.stored {
			if key.Autoscaler.Name == "theirs" {
				return
			}
		}
		t.Error("the checkpoint of the VPA of the other recommender is deleted")
	})
}

// A VPA that cannot be read has no target. The model state of its former target must be kept.
func TestCollect_vpaCannotBeRead_modelStateStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.use["app"] = cluster.Amounts(300, 200<<20)
		b.autoscale("web", b.deployment("web", 1, "app")).Recommender = "balanced"
		b.run(20 * time.Minute)
		broken := *b.autoscalers[0]
		broken.Target, broken.Mode = cluster.Workload{}, cluster.Off
		b.autoscalers[0], b.problem = &broken, "Cannot read targetRef."
		b.run(time.Hour)
		if len(b.remembered.stored) != 1 {
			t.Error("the model state is deleted")
		}
	})
}

// Stored objects may contain anything. No pass fails; the last recommendation stays, or the new one is plausible.
func TestRestore_invalidStoredHistory_recommendationStaysPlausible(t *testing.T) {
	if testing.Short() {
		t.Skip("takes long")
	}
	good := func(b *bench) (usage.Checkpoint, []usage.History) {
		key := checkpoint.Key{Autoscaler: b.autoscalers[0].Key, Container: "app"}
		return b.stored[key], slices.Clone(b.remembered.stored[b.autoscalers[0].Target])
	}
	future := time.Date(2190, 1, 1, 0, 0, 0, 0, time.UTC)
	for name, change := range map[string]func(*usage.Checkpoint, []usage.History){
		"checkpoint of another version":    func(c *usage.Checkpoint, _ []usage.History) { c.Version = "v9" },
		"checkpoint from the future":       func(c *usage.Checkpoint, _ []usage.History) { c.Updated, c.LastSample = future, future },
		"negative total":                   func(c *usage.Checkpoint, _ []usage.History) { c.CPU.Total = -1 },
		"model state of another form":      func(_ *usage.Checkpoint, hs []usage.History) { hs[0].Form = "nonsense" },
		"truncated model state":            func(_ *usage.Checkpoint, hs []usage.History) { hs[0].Data = hs[0].Data[:len(hs[0].Data)/2] },
		"model state without a time":       func(_ *usage.Checkpoint, hs []usage.History) { hs[0].Updated = time.Time{} },
		"model state from the future":      func(_ *usage.Checkpoint, hs []usage.History) { hs[0].Updated = future },
		"sample from the future":           func(_ *usage.Checkpoint, hs []usage.History) { hs[0].LastSample = future },
		"huge model state":                 func(_ *usage.Checkpoint, hs []usage.History) { hs[0].Data = make([]byte, 1<<20) },
		"model state of another container": func(_ *usage.Checkpoint, hs []usage.History) { hs[0].Container = "other" },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t)
				b.use["app"] = cluster.Amounts(300, 200<<20)
				web := b.deployment("web", 2, "app")
				b.autoscale("web", web).Recommender = "balanced"
				b.run(30 * time.Hour)
				before := *b.advice("web", "app")
				c, hs := good(b)
				change(&c, hs)
				b.stored[checkpoint.Key{Autoscaler: b.autoscalers[0].Key, Container: "app"}] = c
				b.remembered.stored[web] = hs
				b.usageErr = errors.New("metrics-server is away")
				b.run(5 * time.Minute)
				if after := *b.advice("web", "app"); after.Target != before.Target || len(b.autoscalers[0].Advice) != 1 {
					t.Errorf("without samples the target changed from %v to %v", before.Target, b.autoscalers[0].Advice)
				}
				b.usageErr = nil
				b.run(30 * time.Minute)
				if got := *b.advice("web", "app"); got.Target.Memory < 200<<20 || got.Target.Memory > 400<<20 || got.Target.CPU < 280 || got.Target.CPU > 600 {
					t.Errorf("with samples the target is %v, before %v", got.Target, before.Target)
				}
				if hs := b.remembered.stored[web]; len(hs) == 0 || hs[0].Form != "adaptive/1" {
					t.Errorf("no new model state replaced it: %v", hs)
				}
			})
		})
	}
}

// Model state is usable without its checkpoint, and also while the workload has no pods.
func TestRestore_checkpointMissingOrBroken_modelStateIsKept(t *testing.T) {
	for name, change := range map[string]func(b *bench, key checkpoint.Key){
		"broken":  func(b *bench, key checkpoint.Key) { b.stored[key] = usage.Checkpoint{Version: "v9"} },
		"missing": func(b *bench, key checkpoint.Key) { delete(b.stored, key) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t)
				b.use["app"] = cluster.Amounts(700, 500<<20)
				web := b.deployment("web", 2, "app")
				b.autoscale("web", web).Recommender = "busy-hours"
				b.run(3 * time.Hour)
				change(b, checkpoint.Key{Autoscaler: b.autoscalers[0].Key, Container: "app"})
				pods := b.pods
				b.pods = nil // scaled to zero for the night
				b.run(9 * time.Hour)
				if len(b.remembered.stored[web]) != 1 {
					t.Fatal("the model state is deleted")
				}
				b.pods, b.use["app"] = pods, cluster.Amounts(300, 200<<20)
				b.run(30 * time.Hour)
				if got := b.advice("web", "app").Target; got.CPU < 700 {
					t.Errorf("the peak is lost: target %v", got)
				}
			})
		})
	}
}

func recommenderNamed(t *testing.T, name string) Config {
	t.Helper()
	c := Defaults()
	fs := pflag.NewFlagSet("recommender", pflag.ContinueOnError)
	c.Flags(fs)
	if err := fs.Parse([]string{"--recommender-name=" + name}); err != nil {
		t.Fatal(err)
	}
	return c
}

// The clock was ahead when the previous process stored the history.
func TestRestore_storedWhileTheClockWasAhead_historyIsUsedAndStoredAgain(t *testing.T) {
	if testing.Short() {
		t.Skip("takes long")
	}
	for _, lead := range []time.Duration{time.Hour, 24 * time.Hour, 10 * 365 * 24 * time.Hour} {
		t.Run(lead.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t)
				b.use["app"] = cluster.Amounts(300, 500<<20)
				web := b.deployment("web", 2, "app")
				b.autoscale("web", web).Recommender = "busy-hours"
				had := b.run(30*time.Hour).usageStore.Series(web, "app").Seen(cluster.CPU).Count
				before := b.advice("web", "app").Target
				key := checkpoint.Key{Autoscaler: b.autoscalers[0].Key, Container: "app"}
				c := b.stored[key]
				c.Updated, c.LastSample = c.Updated.Add(lead), c.LastSample.Add(lead)
				b.stored[key] = c
				for i := range b.remembered.stored[web] {
					h := &b.remembered.stored[web][i]
					h.Updated, h.LastSample = h.Updated.Add(lead), h.LastSample.Add(lead)
				}
				writes := b.storeWrites
				b.use["app"] = cluster.Amounts(300, 200<<20)
				r := b.run(30 * time.Minute)
				if has := r.usageStore.Series(web, "app").Seen(cluster.CPU).Count; has < had {
					t.Errorf("%d samples, before the restart %d", has, had)
				}
				if after := b.advice("web", "app").Target; after != before {
					t.Errorf("the peak is lost: target %v, before %v", after, before)
				}
				if n := b.storeWrites - writes; n < 2 || b.stored[key].Updated.After(time.Now()) {
					t.Errorf("%d checkpoints were written in half an hour, want at least 2; the last has the time %v", n, b.stored[key].Updated)
				}
			})
		})
	}
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
