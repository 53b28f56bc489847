// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package updater

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"podfit.dev/podfit/internal/app/process"
	"podfit.dev/podfit/internal/core/policy"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/pflag"

	"podfit.dev/podfit/internal/core/cluster"
)

// given parses flags into a configuration with default values.
func given(t *testing.T, args ...string) Config {
	t.Helper()
	c := Defaults()
	fs := pflag.NewFlagSet("test", pflag.ContinueOnError)
	fs.SetNormalizeFunc(process.Dashes)
	c.Flags(fs)
	if err := fs.Parse(args); err != nil {
		t.Fatal(err)
	}
	if err := c.Compatibility.Apply(fs); err != nil {
		t.Fatal(err)
	}
	if err := c.Validate(); err != nil {
		t.Fatal(err)
	}
	return c
}

// Each flag that limits actions changes the number of actions in the same cluster.
func TestUpdater_flagIsSet_limitsActions(t *testing.T) {
	alone := func(fake *fakeCluster) { fake.pods = fake.pods[:1] }
	old := func(fake *fakeCluster) { // pods inside of their bounds, and somewhat below the target
		for _, p := range fake.pods {
			p.Containers[0].Requests = cluster.Amounts(320, 230<<20)
			p.Started, p.Created = time.Now().Add(-13*time.Hour), time.Now().Add(-13*time.Hour)
		}
		fake.autoscalers[0].Created = time.Now().Add(-48 * time.Hour)
	}
	killed := func(fake *fakeCluster) {
		old(fake)
		for _, p := range fake.pods {
			p.Started = time.Now().Add(-time.Hour)
			p.Containers[0].Exit = &cluster.Exit{OOM: true, Started: time.Now().Add(-20 * time.Minute), Finished: time.Now().Add(-time.Minute)}
		}
	}
	unadmitted := func(fake *fakeCluster) { // replacements have their old requests
		fake.admits = false
		for _, p := range fake.pods {
			p.Created, p.Started = time.Now().Add(-time.Hour), time.Now().Add(-time.Hour)
		}
	}
	away := func(fake *fakeCluster) { fake.stale = true }
	small := func(fake *fakeCluster) {
		fake.nodes = []cluster.Node{{Name: "n", Allocatable: cluster.Amounts(200, 100<<20), Ready: true}}
	}
	between := func(fake *fakeCluster) { // the lower bound fits, the target does not
		fake.nodes = []cluster.Node{{Name: "n", Allocatable: cluster.Amounts(64000, 220<<20), Ready: true}}
	}
	crashing := func(fake *fakeCluster) {
		fake.pods = fake.pods[:1]
		p := fake.pods[0]
		p.Ready, p.Crash = false, &cluster.Crash{Version: "1"}
		p.Containers[0].Exit = &cluster.Exit{OOM: true, Kills: 1, Started: time.Now().Add(-time.Hour), Finished: time.Now()}
	}
	stateful := func(fake *fakeCluster) {
		for _, p := range fake.pods {
			p.Controller.Kind = "StatefulSet"
		}
	}
	for name, c := range map[string]struct {
		flag, does string
		mode       cluster.Mode
		world      func(*fakeCluster)
		at         time.Duration
		usual, now int
	}{
		"min-replicas":           {"--min-replicas=1", "evict", cluster.Recreate, alone, time.Minute, 0, 1},
		"eviction-tolerance":     {"--eviction-tolerance=1", "evict", cluster.Recreate, nil, time.Minute, 1, 2}, // the effect of more would be unknown
		"eviction-rate-limit":    {"--eviction-rate-limit=0.0001", "evict", cluster.Recreate, nil, time.Hour, 3, 1},
		"pod-update-threshold":   {"--pod-update-threshold=0.9", "evict", cluster.Recreate, old, time.Hour, 3, 0},
		"lifetime-threshold":     {"--in-recommendation-bounds-eviction-lifetime-threshold=24h", "evict", cluster.Recreate, old, time.Hour, 3, 0},
		"evict-after-oom":        {"--evict-after-oom-threshold=1h", "evict", cluster.Recreate, killed, time.Hour, 0, 3},
		"skip-disruption-budget": {"--in-place-skip-disruption-budget", "resize", cluster.InPlaceOrRecreate, nil, time.Minute, 1, 3},
		"use-status":             {"--use-admission-controller-status=false", "evict", cluster.Recreate, away, time.Hour, 0, 3},
		"interval":               {"--updater-interval=30m", "evict", cluster.Recreate, nil, 20 * time.Minute, 3, 1},
		"replacement-must-fit":   {"--replacement-must-fit=false", "evict", cluster.Recreate, small, time.Hour, 0, 3},
		"fit-nodes":              {"--fit-nodes=false", "evict", cluster.Recreate, between, time.Hour, 3, 0},
		"max-node-memory":        {"--max-node-memory=1Gi", "evict", cluster.Recreate, small, time.Hour, 0, 3},
		"max-node-cpu":           {"--max-node-cpu=1", "evict", cluster.Recreate, small, time.Hour, 0, 3},
		"max-node":               {"--max-node-cpu=250m", "evict", cluster.Recreate, small, time.Hour, 0, 0},
		"oom-rescue":             {"--oom-rescue=off", "evict", cluster.Recreate, crashing, time.Hour, 1, 0},
		"namespace-share":        {"--max-change-per-hour-namespace=0.34", "evict", cluster.Recreate, nil, 30 * time.Minute, 3, 1},
		"cluster-share":          {"--max-change-per-hour-cluster=0.34", "evict", cluster.Recreate, nil, 30 * time.Minute, 3, 1},
		"eviction-backoff":       {"--eviction-backoff=24h", "evict", cluster.Recreate, unadmitted, 2 * time.Hour, 3, 1},
		"no eviction-backoff":    {"--eviction-backoff=0", "evict", cluster.Recreate, unadmitted, 10 * time.Minute, 1, 10},
		"statefulset-pause":      {"--statefulset-pause=1h", "evict", cluster.Recreate, stateful, 10 * time.Minute, 3, 0},
		"dry-run":                {"--dry-run", "evict", cluster.Recreate, nil, time.Hour, 3, 0},
	} {
		t.Run(name, func(t *testing.T) {
			for flag, want := range map[string]int{"--v=4": c.usual, c.flag: c.now} {
				synctest.Test(t, func(t *testing.T) {
					fake := newFakeCluster(c.mode)
					fake.config = given(t, flag)
					if c.world != nil {
						c.world(fake)
					}
					fake.run(t, c.at)
					if got := fake.count(c.does + " "); got != want {
						t.Errorf("%s: %d × %s within %v, want %d: %v", flag, got, c.does, c.at, want, fake.done)
					}
				})
			}
		})
	}
}

// Each feature gate enables its action. Its effect on the webhook is tested with the webhook.
func TestUpdater_featureGates_enableTheirActions(t *testing.T) {
	const open = "=true"
	for gate, c := range map[string]struct {
		world func(*fakeCluster)
		does  string
	}{
		"InPlace": {func(*fakeCluster) {}, "resize"},
		"CPUStartupBoost": {func(fake *fakeCluster) {
			fake.autoscalers[0].Mode, fake.autoscalers[0].Boost = cluster.Off, &cluster.Boost{Factor: 2}
			for _, p := range fake.pods {
				p.Containers[0].Boosted = &cluster.Applied{Requests: cluster.Amounts(50, 50<<20)}
				p.ReadySince = time.Now().Add(-time.Minute)
			}
		}, "resize"},
		"PerVPAConfig": {func(fake *fakeCluster) {
			fake.autoscalers[0].Mode, fake.autoscalers[0].EvictAfterOOM = cluster.Recreate, time.Hour
			fake.autoscalers[0].Created = time.Now().Add(-48 * time.Hour)
			for _, p := range fake.pods {
				p.Containers[0].Requests = cluster.Amounts(320, 230<<20)
				p.Started = time.Now().Add(-time.Hour)
				p.Containers[0].Exit = &cluster.Exit{OOM: true, Started: time.Now().Add(-20 * time.Minute), Finished: time.Now().Add(-time.Minute)}
			}
		}, "evict"},
	} {
		for set, want := range map[string]bool{"": false, gate + open: true, "AllAlpha" + open: true, "AllAlpha" + open + "," + gate + "=false": false} {
			synctest.Test(t, func(t *testing.T) {
				fake := newFakeCluster(cluster.InPlace)
				fake.config = given(t, "--feature-gates="+set)
				c.world(fake)
				fake.run(t, time.Hour)
				if got := fake.count(c.does + " "); got > 0 != want || want && got < 3 {
					t.Errorf("%s with %q: %d × %s: %v", gate, set, got, c.does, fake.done)
				}
			})
		}
	}
}

func TestUpdater_rateBurst_limitsFirstEvictions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fake := newFakeCluster(cluster.Recreate)
		fake.config = given(t, "--eviction-rate-limit=0.0001", "--eviction-rate-burst=2")
		fake.run(t, time.Hour)
		if n := fake.count("evict "); n != 2 {
			t.Errorf("%d evictions, want 2", n)
		}
	})
}

// slowResizes is a fakeCluster in which a resize takes one second.
type slowResizes struct {
	*fakeCluster
	now, most atomic.Int32
}

func (s *slowResizes) Resize(ctx context.Context, p *cluster.Pod, with []policy.Fitted) error {
	n := s.now.Add(1)
	defer s.now.Add(-1)
	for most := s.most.Load(); n > most && !s.most.CompareAndSwap(most, n); most = s.most.Load() {
	}
	time.Sleep(time.Second)
	return s.fakeCluster.Resize(ctx, p, with)
}

func TestUpdater_boostSyncs_limitsConcurrentResizes(t *testing.T) {
	for _, syncs := range []int32{1, 2} {
		synctest.Test(t, func(t *testing.T) {
			fake := newFakeCluster(cluster.InPlaceOrRecreate)
			fake.config = given(t, fmt.Sprint("--concurrent-cpu-startup-boost-syncs=", syncs), "--feature-gates=CPUStartupBoost=true",
				"--eviction-tolerance=1")
			fake.autoscalers[0].Boost = &cluster.Boost{Factor: 2}
			for _, p := range fake.pods {
				p.Containers[0].Requests = cluster.Amounts(700, 250<<20)
				p.Containers[0].Boosted = &cluster.Applied{Requests: cluster.Amounts(350, 250<<20)}
				p.ReadySince = time.Now().Add(-time.Minute)
			}
			slow := &slowResizes{fakeCluster: fake}
			u := newUpdater(fake.config, fake, slow, fake, fake, NewMetrics(prometheus.NewRegistry()), process.NewHealth(time.Hour), slog.New(slog.DiscardHandler))
			u.pass(t.Context(), time.Now())
			if got := slow.most.Load(); got != syncs {
				t.Errorf("%d boosts were ended concurrently, want %d: %v", got, syncs, fake.done)
			}
		})
	}
}

// recordingLease is a stale lease that records the timeout it is asked for.
type recordingLease struct{ timeout time.Duration }

func (a *recordingLease) IsFresh(_ context.Context, timeout time.Duration, _ time.Time) (bool, error) {
	a.timeout = timeout
	return false, nil
}

func TestUpdater_leaseFlags_selectTheLease(t *testing.T) {
	fake := newFakeCluster(cluster.Recreate)
	fake.config = given(t, "--admission-controller-status-lease-timeout=33s", "--admission-controller-status-lease-name=mine",
		"--admission-controller-status-lease-namespace=infra")
	var out bytes.Buffer
	a := &recordingLease{}
	u := newUpdater(fake.config, fake, fake, fake, a, NewMetrics(prometheus.NewRegistry()), process.NewHealth(time.Hour), slog.New(slog.NewTextHandler(&out, nil)))
	u.pass(t.Context(), time.Now())
	if a.timeout != 33*time.Second || !strings.Contains(out.String(), "infra/mine") || len(fake.done) > 0 {
		t.Errorf("the timeout is %v, the log is %q", a.timeout, out.String())
	}
	t.Setenv("NAMESPACE", "there")
	if process.OwnNamespace("") != "there" || process.OwnNamespace("infra") != "infra" {
		t.Error("the namespace must come from the flag, or from the variable NAMESPACE if the flag is empty")
	}
}

func TestConfig_dryRun_disablesLeaderElection(t *testing.T) {
	updater := given(t, "--dry-run", "--leader-elect")
	if updater.settle(); !updater.ReadOnly || updater.Election.Enabled || !updater.UseStatus {
		t.Errorf("read-only: %t, leader election: %t, requires the status lease: %t; want true, false, true", updater.ReadOnly, updater.Election.Enabled, updater.UseStatus)
	}
}
