// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package updater

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"podfit.dev/podfit/internal/app/process"
	"podfit.dev/podfit/internal/app/updater/nodeusage"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/guard"
	"podfit.dev/podfit/internal/core/usage"
	"podfit.dev/podfit/internal/edge/metrics"
	"podfit.dev/podfit/test/rowtest"
)

// A guardedNode is node n, whose pods have the recommended size and use more memory than they request, and an empty node.
type guardedNode struct {
	*fakeCluster
	uses   int64 // bytes that each pod uses
	moves  bool  // replacements run on the other node
	err    error // of the Metrics API
	takes  time.Duration
	panics bool
	ends   time.Time     // when err ends; zero: it does not
	late   time.Duration // how far the clock of the nodes is behind
	waits  float64       // the memory pressure of the nodes; 0: kubelets do not report it
	reads  int           // of the Metrics API
}

func newGuardedNode(t *testing.T, args ...string) *guardedNode {
	t.Helper()
	y := &guardedNode{fakeCluster: newFakeCluster(cluster.Recreate), uses: 5 << 30, moves: true}
	y.config = given(t, args...)
	y.nodes = []cluster.Node{
		{Name: "n", Allocatable: cluster.Amounts(64000, 16<<30), Ready: true, Kubelet: "10.0.0.1:10250"}, {Name: "other", Allocatable: cluster.Amounts(64000, 64<<30), Ready: true},
	}
	size := cluster.Amounts(100, 1<<30)
	y.autoscalers[0].MemoryLimits = cluster.LimitRule{Peaks: true}
	y.autoscalers[0].Advice[0].Estimate = cluster.Estimate{Lower: size, Target: size, Upper: size}
	for _, p := range y.pods {
		p.Containers[0].Requests = size
		p.Created, p.Started, p.ReadySince = time.Now().Add(-time.Hour), time.Now().Add(-time.Hour), time.Now().Add(-time.Hour)
	}
	return y
}

func (y *guardedNode) Evict(ctx context.Context, p *cluster.Pod) error {
	err := y.fakeCluster.Evict(ctx, p)
	if err != nil || !y.moves {
		return err
	}
	for _, q := range y.pods {
		if q.Name == p.Name {
			q.Node = "other"
		}
	}
	return nil
}

// Read is the Metrics API.
func (y *guardedNode) Read(ctx context.Context) (metrics.Reading, error) {
	y.reads++
	var out metrics.Reading
	for _, p := range y.pods {
		for _, container := range []string{"app", "proxy"} {
			out.Samples = append(out.Samples, usage.Sample{Pod: p.Key, Container: container, At: time.Now().Add(-5*time.Second - y.late), Memory: float64(y.uses / 2), Has: cluster.Both})
		}
	}
	select {
	case <-ctx.Done():
		return metrics.Reading{}, ctx.Err()
	case <-time.After(y.takes):
	}
	if y.panics {
		panic("defect")
	}
	if !y.ends.IsZero() && time.Now().After(y.ends) {
		return out, nil
	}
	return out, y.err
}

// Pressures are the kubelets.
func (y *guardedNode) Pressures(_ context.Context, nodes []cluster.Node) (map[string]guard.Pressure, error) {
	known := map[string]guard.Pressure{}
	for i := range nodes {
		if y.waits > 0 {
			known[nodes[i].Name] = guard.Pressure{At: time.Now().Add(-5*time.Second - y.late), Share: y.waits}
		}
	}
	return known, nil
}

// guard runs an updater for a time, with a pass every 15 seconds.
func (y *guardedNode) guard(t *testing.T, d time.Duration, before func(*updater)) (u *updater, log string) {
	t.Helper()
	var text strings.Builder
	u = newUpdater(y.config, y, y, y, y, NewMetrics(prometheus.NewRegistry()), process.NewHealth(time.Hour), slog.New(slog.NewTextHandler(&text, nil)))
	u.nodeUsage = nodeusage.New(y, y, y.config.usageWait(), u.health, u.log)
	u.rights.checker = granted{"list pods.metrics.k8s.io": true, "get nodes/stats": true}
	before(u)
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(15 * time.Second) {
		u.pass(t.Context(), time.Now())
	}
	return u, text.String()
}

func TestNodeGuard_nodeIsNearlyOutOfMemory_podsMoveUntilItIsNot(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*guardedNode)
		before func(*updater)
		want   int     // evictions in 10 minutes
		left   int     // nodes that are still nearly out of memory
		unseen float64 // nodes that the guard cannot watch
	}{
		"one pod is enough":            {func(*guardedNode) {}, nil, 1, 0, 0},
		"usage is below the line":      {func(y *guardedNode) { y.uses = 4 << 30 }, nil, 0, 0, 0},
		"under pressure":               {func(y *guardedNode) { y.uses, y.waits = 4<<30, 0.1 }, nil, 1, 0, 0},
		"pressure is low":              {func(y *guardedNode) { y.uses, y.waits = 4<<30, 0.09 }, nil, 0, 0, 0},
		"pressure, but little usage":   {func(y *guardedNode) { y.uses, y.waits = 3<<30, 0.9 }, nil, 0, 0, 0},
		"pressure may not be read":     {func(y *guardedNode) { y.uses, y.waits = 4<<30, 0.9 }, func(u *updater) { u.rights.checker = granted{"list pods.metrics.k8s.io": true} }, 0, 0, 0},
		"pressure ends no more":        {func(y *guardedNode) { y.uses, y.waits, y.moves = 4<<30, 0.9, false }, nil, 1, 0, 0},
		"pressure and an old clock":    {func(y *guardedNode) { y.uses, y.waits, y.late = 4<<30, 0.9, 10*time.Minute }, nil, 0, 0, 1},
		"limits follow the request":    {func(y *guardedNode) { y.autoscalers[0].MemoryLimits = cluster.LimitRule{} }, nil, 0, 0, 0},
		"without the right":            {func(*guardedNode) {}, func(u *updater) { u.rights.checker = granted{"get nodes/stats": true} }, 0, 0, 1},
		"the Metrics API is away":      {func(y *guardedNode) { y.err = errors.New("503") }, nil, 0, 0, 1},
		"the Metrics API is slow":      {func(y *guardedNode) { y.takes = 30 * time.Second }, nil, 1, 0, 0},
		"samples are too old":          {func(y *guardedNode) { y.takes = 61 * time.Second }, nil, 0, 0, 1},
		"the Metrics API is too slow":  {func(y *guardedNode) { y.takes, y.err = time.Hour, context.DeadlineExceeded }, nil, 0, 0, 1},
		"reading the usage panics":     {func(y *guardedNode) { y.panics, y.err = true, errors.New("panic") }, nil, 0, 0, 1},
		"the VPA forbids it":           {func(y *guardedNode) { y.autoscalers[0].MakeRoom = "off" }, nil, 0, 1, 0},
		"an eviction has no effect":    {func(y *guardedNode) { y.moves = false }, nil, 1, 1, 0},
		"the clock of the node is off": {func(y *guardedNode) { y.late = 10 * time.Minute }, nil, 0, 0, 1},
		"only one namespace is seen":   {func(y *guardedNode) { y.config.Namespace = "shop" }, nil, 0, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				y := newGuardedNode(t)
				c.change(y)
				before := c.before
				if before == nil {
					before = func(*updater) {}
				}
				u, log := y.guard(t, 10*time.Minute, before)
				if n := y.count("evict "); n != c.want || len(y.done) != c.want {
					t.Errorf("%v, want %d evictions\n%s", y.done, c.want, log)
				}
				if failed := strings.Count(log, "Cannot read the memory usage"); (failed == 1) != (y.err != nil) || failed > 1 {
					t.Errorf("logged %d times that usage is not read\n%s", failed, log)
				}
				if n := strings.Count(log, "The memory usage of nodes is not known"); n > 1 || (n == 1) != (y.late > 0 || y.takes == 61*time.Second) {
					t.Errorf("logged %d times that usage is not known\n%s", n, log)
				}
				if n := testutil.ToFloat64(u.metrics.unguarded); n != c.unseen {
					t.Errorf("%v nodes in the metric that cannot be watched, want %v", n, c.unseen)
				}
				if n := testutil.CollectAndCount(u.metrics.reserves); n != c.left {
					t.Errorf("%d nodes in the metric at the end", n)
				}
			})
		})
	}
}

// While usage cannot be read, only that is logged. What is not known after that is logged, too.
func TestNodeGuard_usageIsReadAgain_unknownNodesAreLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := newGuardedNode(t)
		y.err, y.ends, y.late = errors.New("503"), time.Now().Add(8*time.Minute), time.Hour
		_, log := y.guard(t, 20*time.Minute, func(*updater) {})
		again := strings.Index(log, "after earlier failures")
		if at := strings.Index(log, "The memory usage of nodes is not known"); again < 0 || at < again {
			t.Errorf("unknown nodes must be logged once usage is read again:\n%s", log)
		}
	})
}

// Usage is read every 15 seconds however often there are passes, and not at all where no node is watched.
func TestNodeGuard_passesEachSecond_usageIsReadEvery15Seconds(t *testing.T) {
	for watched, want := range map[bool]int{true: 20, false: 0} {
		synctest.Test(t, func(t *testing.T) {
			y := newGuardedNode(t)
			y.uses = 1 << 20
			y.autoscalers[0].MemoryLimits.Peaks = watched
			u, _ := y.guard(t, time.Second, func(*updater) {})
			for range 299 {
				u.pass(t.Context(), time.Now())
				time.Sleep(time.Second)
			}
			if y.reads < want || y.reads > want+1 {
				t.Errorf("watched %v: %d readings in five minutes, want %d", watched, y.reads, want)
			}
			if due := u.nodeUsage.NextRead(); due.IsZero() == watched {
				t.Errorf("watched %v: the next reading is due at %v", watched, due)
			}
		})
	}
}

// A pass waits for a slow Metrics API once, and for a second, and causes no early pass.
func TestNodeGuard_metricsAPIHangs_passesAreNotDelayed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := newGuardedNode(t)
		y.takes = 50 * time.Second
		u, _ := y.guard(t, time.Second, func(*updater) {})
		for range 20 {
			began := time.Now()
			u.pass(t.Context(), began)
			if took := time.Since(began); took > 10*time.Millisecond || !u.nodeUsage.NextRead().After(time.Now()) {
				t.Errorf("the pass took %v, and the next reading is due at %v", took, u.nodeUsage.NextRead())
			}
			time.Sleep(time.Second)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if y.reads != 1 {
			t.Errorf("%d readings at the same time", y.reads)
		}
	})
}

// Without the right, pressure is not read, and usage counts all the same.
func TestNodeGuard_rightToReadPressureIsMissing_usageCounts(t *testing.T) {
	for uses, want := range map[int64]int{4 << 30: 0, 5 << 30: 1} {
		synctest.Test(t, func(t *testing.T) {
			y := newGuardedNode(t)
			y.uses, y.waits = uses, 0.9
			have := granted{"list pods.metrics.k8s.io": true}
			_, log := y.guard(t, 10*time.Minute, func(u *updater) { u.rights.checker = have })
			if n := y.count("evict "); n != want {
				t.Errorf("%d evictions with %d GiB in use, want %d", n, uses>>30, want)
			}
			if n := strings.Count(log, `about="get nodes/stats"`); n != 1 || !strings.Contains(log, "deploy/rights/node-guard/node-guard.yaml") {
				t.Errorf("the missing right is logged %d times:\n%s", n, log)
			}
		})
	}
}

// Pressure counts from the value of the flag on, and not in a dry run, in which kubelets would get the token of a person.
func TestNodeGuard_flags_decideFromWhichPressurePodsMove(t *testing.T) {
	for args, want := range map[string]int{
		"": 1, "--node-guard-pressure=50": 1, "--node-guard-pressure=50.1": 0, "--node-guard-pressure=0": 0, "--node-guard=false": 0, "--updater-rules=upstream": 0, "--compatibility=upstream": 0,
		"--dry-run": 0,
	} {
		synctest.Test(t, func(t *testing.T) {
			y := newGuardedNode(t, strings.Fields(args)...)
			y.uses, y.waits = 4<<30, 0.5
			u, _ := y.guard(t, 10*time.Minute, func(u *updater) {
				if args == "--dry-run" {
					u.rights.checker = nil // as in Work
				}
			})
			if n := y.count("evict "); n != want || args == "--dry-run" && u.ledger.Guard.PressureLine != 0 {
				t.Errorf("%q: %d evictions, want %d; pressure counts from %v on", args, n, want, u.ledger.Guard.PressureLine)
			}
		})
	}
}

// The pods of a node use more than 85 % of its memory.
func TestCompatibility_nodeIsNearlyOutOfMemory_podMovesWithTheGuard(t *testing.T) {
	want := rowtest.Outcomes{Podfit: "1 evictions", Upstream: "0 evictions"}
	rowtest.Both(t, "node guard", want, func(t *testing.T, args ...string) (got string) {
		synctest.Test(t, func(t *testing.T) {
			y := newGuardedNode(t, args...)
			y.guard(t, 5*time.Minute, func(*updater) {})
			got = fmt.Sprintf("%d evictions", y.count("evict "))
		})
		return got
	})
}

// With --early-passes=false there is a pass a minute. The Metrics API answers in two seconds, as that of a large cluster does.
func TestNodeGuard_onePassAMinute_podMoves(t *testing.T) {
	for name, c := range map[string]struct{ takes, late time.Duration }{
		"answers at once": {}, "answers in two seconds": {takes: 2 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				y := newGuardedNode(t, "--early-passes=false")
				y.takes, y.late = c.takes, c.late
				var text strings.Builder
				u := newUpdater(y.config, y, y, y, y, NewMetrics(prometheus.NewRegistry()), process.NewHealth(time.Hour), slog.New(slog.NewTextHandler(&text, nil)))
				u.nodeUsage = nodeusage.New(y, y, y.config.usageWait(), u.health, u.log)
				u.rights.checker = granted{"list pods.metrics.k8s.io": true, "get nodes/stats": true}
				for end := time.Now().Add(20 * time.Minute); time.Now().Before(end); time.Sleep(time.Minute) {
					u.pass(t.Context(), time.Now())
				}
				if len(y.done) != 1 {
					t.Errorf("%s: %d pods moved in 20 minutes, want 1; unguarded %v\n%s", name, len(y.done), testutil.ToFloat64(u.metrics.unguarded), text.String())
				}
			})
		})
	}
}
