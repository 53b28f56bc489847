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

// given parses flags into a configuration that has its defaults.
func given(t *testing.T, args ...string) Config {
	t.Helper()
	c := Defaults()
	fs := pflag.NewFlagSet("test", pflag.ContinueOnError)
	fs.SetNormalizeFunc(process.Dashes)
	c.Flags(fs)
	if err := fs.Parse(args); err != nil {
		t.Fatal(err)
	}
	if err := c.Validate(); err != nil {
		t.Fatal(err)
	}
	return c
}

// Each flag that bounds what the updater does changes what becomes of the same pods.
func TestUpdaterFlagsBoundWhatIsDone(t *testing.T) {
	alone := func(y *yard) { y.pods = y.pods[:1] }
	old := func(y *yard) { // pods inside of their bounds, and somewhat below the target
		for _, p := range y.pods {
			p.Containers[0].Requests = cluster.Amounts(320, 230<<20)
			p.Started, p.Created = time.Now().Add(-13*time.Hour), time.Now().Add(-13*time.Hour)
		}
		y.autoscalers[0].Created = time.Now().Add(-48 * time.Hour)
	}
	killed := func(y *yard) {
		old(y)
		for _, p := range y.pods {
			p.Started = time.Now().Add(-time.Hour)
			p.Containers[0].Exit = &cluster.Exit{OOM: true, Started: time.Now().Add(-20 * time.Minute), Finished: time.Now().Add(-time.Minute)}
		}
	}
	away := func(y *yard) { y.stale = true }
	small := func(y *yard) {
		y.nodes = []cluster.Node{{Name: "n", Allocatable: cluster.Amounts(200, 100<<20), Ready: true}}
	}
	for name, c := range map[string]struct {
		flag, does string
		mode       cluster.Mode
		world      func(*yard)
		at         time.Duration
		usual, now int
	}{
		"min-replicas":           {"--min-replicas=1", "evict", cluster.Recreate, alone, time.Minute, 0, 1},
		"eviction-tolerance":     {"--eviction-tolerance=1", "evict", cluster.Recreate, nil, time.Minute, 1, 3},
		"eviction-rate-limit":    {"--eviction-rate-limit=0.0001", "evict", cluster.Recreate, nil, time.Hour, 3, 1},
		"pod-update-threshold":   {"--pod-update-threshold=0.9", "evict", cluster.Recreate, old, time.Hour, 3, 0},
		"lifetime-threshold":     {"--in-recommendation-bounds-eviction-lifetime-threshold=24h", "evict", cluster.Recreate, old, time.Hour, 3, 0},
		"evict-after-oom":        {"--evict-after-oom-threshold=1h", "evict", cluster.Recreate, killed, time.Hour, 0, 3},
		"skip-disruption-budget": {"--in-place-skip-disruption-budget", "resize", cluster.InPlaceOrRecreate, nil, time.Minute, 1, 3},
		"use-status":             {"--use-admission-controller-status=false", "evict", cluster.Recreate, away, time.Hour, 0, 3},
		"interval":               {"--updater-interval=30m", "evict", cluster.Recreate, nil, 20 * time.Minute, 3, 1},
		"replacement-must-fit":   {"--replacement-must-fit=false", "evict", cluster.Recreate, small, time.Hour, 0, 3},
		"dry-run":                {"--dry-run", "evict", cluster.Recreate, nil, time.Hour, 3, 0},
	} {
		t.Run(name, func(t *testing.T) {
			for flag, want := range map[string]int{"--v=4": c.usual, c.flag: c.now} {
				synctest.Test(t, func(t *testing.T) {
					y := newYard(c.mode)
					y.config = given(t, flag)
					if c.world != nil {
						c.world(y)
					}
					y.run(t, c.at)
					if got := y.count(c.does + " "); got != want {
						t.Errorf("%s: %s %d times within %v, want %d: %v", flag, c.does, got, c.at, want, y.did)
					}
				})
			}
		})
	}
}

// Each gate makes of the same objects what it is for. What the webhook makes of it is tested there.
func TestGatesOpenWhatTheyAreFor(t *testing.T) {
	const open = "=true"
	for gate, c := range map[string]struct {
		world func(*yard)
		does  string
	}{
		"InPlace": {func(*yard) {}, "resize"},
		"CPUStartupBoost": {func(y *yard) {
			y.autoscalers[0].Mode, y.autoscalers[0].Boost = cluster.Off, &cluster.Boost{Factor: 2}
			for _, p := range y.pods {
				p.Containers[0].Boosted = &cluster.Applied{Requests: cluster.Amounts(50, 50<<20)}
				p.ReadySince = time.Now().Add(-time.Minute)
			}
		}, "resize"},
		"PerVPAConfig": {func(y *yard) {
			y.autoscalers[0].Mode, y.autoscalers[0].EvictAfterOOM = cluster.Recreate, time.Hour
			y.autoscalers[0].Created = time.Now().Add(-48 * time.Hour)
			for _, p := range y.pods {
				p.Containers[0].Requests = cluster.Amounts(320, 230<<20)
				p.Started = time.Now().Add(-time.Hour)
				p.Containers[0].Exit = &cluster.Exit{OOM: true, Started: time.Now().Add(-20 * time.Minute), Finished: time.Now().Add(-time.Minute)}
			}
		}, "evict"},
	} {
		for set, want := range map[string]bool{"": false, gate + open: true, "AllAlpha" + open: true, "AllAlpha" + open + "," + gate + "=false": false} {
			synctest.Test(t, func(t *testing.T) {
				y := newYard(cluster.InPlace)
				y.config = given(t, "--feature-gates="+set)
				c.world(y)
				y.run(t, time.Hour)
				if got := y.count(c.does + " "); got > 0 != want || want && got < 3 {
					t.Errorf("%s with %q: %s %d times: %v", gate, set, c.does, got, y.did)
				}
			})
		}
	}
}

func TestTheBurstOfEvictionsIsTheFlags(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := newYard(cluster.Recreate)
		y.config = given(t, "--eviction-rate-limit=0.0001", "--eviction-rate-burst=2")
		y.run(t, time.Hour)
		if n := y.count("evict "); n != 2 {
			t.Errorf("%d evictions", n)
		}
	})
}

// slowly is a yard in which a resize takes a while.
type slowly struct {
	*yard
	now, most atomic.Int32
}

func (s *slowly) Resize(ctx context.Context, p *cluster.Pod, with []policy.Fitted) error {
	n := s.now.Add(1)
	defer s.now.Add(-1)
	for most := s.most.Load(); n > most && !s.most.CompareAndSwap(most, n); most = s.most.Load() {
	}
	time.Sleep(time.Second)
	return s.yard.Resize(ctx, p, with)
}

func TestAsManyBoostsEndAtATimeAsTheFlagSays(t *testing.T) {
	for _, syncs := range []int32{1, 2} {
		synctest.Test(t, func(t *testing.T) {
			y := newYard(cluster.InPlaceOrRecreate)
			y.config = given(t, fmt.Sprint("--concurrent-cpu-startup-boost-syncs=", syncs), "--feature-gates=CPUStartupBoost=true",
				"--eviction-tolerance=1")
			y.autoscalers[0].Boost = &cluster.Boost{Factor: 2}
			for _, p := range y.pods {
				p.Containers[0].Requests = cluster.Amounts(700, 250<<20)
				p.Containers[0].Boosted = &cluster.Applied{Requests: cluster.Amounts(350, 250<<20)}
				p.ReadySince = time.Now().Add(-time.Minute)
			}
			s := &slowly{yard: y}
			u := newUpdater(y.config, y, s, y, y, NewMetrics(prometheus.NewRegistry()), process.NewHealth(time.Hour), slog.New(slog.DiscardHandler))
			u.pass(t.Context(), time.Now())
			if got := s.most.Load(); got != syncs {
				t.Errorf("%d boosts ended at a time, the flag says %d: %v", got, syncs, y.did)
			}
		})
	}
}

// asked is a lease that notes what it is asked.
type asked struct{ timeout time.Duration }

func (a *asked) IsFresh(_ context.Context, timeout time.Duration, _ time.Time) (bool, error) {
	a.timeout = timeout
	return false, nil
}

func TestTheUpdaterAsksForTheLeaseOfTheFlags(t *testing.T) {
	y := newYard(cluster.Recreate)
	y.config = given(t, "--admission-controller-status-lease-timeout=33s", "--admission-controller-status-lease-name=mine",
		"--admission-controller-status-lease-namespace=infra")
	var out bytes.Buffer
	a := &asked{}
	u := newUpdater(y.config, y, y, y, a, NewMetrics(prometheus.NewRegistry()), process.NewHealth(time.Hour), slog.New(slog.NewTextHandler(&out, nil)))
	u.pass(t.Context(), time.Now())
	if a.timeout != 33*time.Second || !strings.Contains(out.String(), "infra/mine") || len(y.did) > 0 {
		t.Errorf("asked for %v, and said %q", a.timeout, out.String())
	}
	t.Setenv("NAMESPACE", "there")
	if process.OwnNamespace("") != "there" || process.OwnNamespace("infra") != "infra" {
		t.Error("the variable NAMESPACE does not count, or counts too much")
	}
}

func TestADryRunOfTheUpdaterAlone(t *testing.T) {
	updater := given(t, "--dry-run", "--leader-elect")
	if updater.settle(); !updater.ReadOnly || updater.Election.Enabled || !updater.UseStatus {
		t.Errorf("the updater alone: dry run %t, elects %t, waits for the webhook %t", updater.ReadOnly, updater.Election.Enabled, updater.UseStatus)
	}
}
