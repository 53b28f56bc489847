// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package updater

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/policy"
)

// crowdedNode has a full node with one pod of each of four Deployments: "important" needs more and may move others, "other" needs more and may
// grow by a part, "large" has more than it needs, and "small" fits on another node. asked is whether the kubelet has deferred the resize of
// "important".
func crowdedNode(asked bool) *fakeCluster {
	y := newFakeCluster(cluster.InPlaceOrRecreate)
	y.config.MakeRoom = "move"
	y.nodes = []cluster.Node{
		{Name: "n", Allocatable: cluster.Amounts(4300, 8<<30), Ready: true}, {Name: "elsewhere", Allocatable: cluster.Amounts(64000, 256<<30), Ready: true},
		{Name: "free", Allocatable: cluster.Amounts(1000, 1<<30), Ready: true},
	}
	pod, autoscaler := *y.pods[0], *y.autoscalers[0]
	y.pods, y.autoscalers = nil, nil
	for _, d := range []struct {
		name                 string
		request, target, low int64
		room                 string
	}{{"important", 1000, 2000, 1500, ""}, {"large", 1500, 1000, 800, ""}, {"small", 500, 500, 400, ""}, {"other", 1000, 2000, 1500, "split"}} {
		a := autoscaler
		a.Name, a.Target.Name, a.MakeRoom = d.name, d.name, d.room
		a.Advice = []cluster.Advice{{Container: "app", Estimate: cluster.Estimate{
			Lower: cluster.Amounts(d.low, 100<<20), Target: cluster.Amounts(d.target, 100<<20), Upper: cluster.Amounts(3000, 200<<20)}}}
		y.autoscalers = append(y.autoscalers, &a)
		for i, node := range []string{"n", "elsewhere"} {
			p := pod
			p.Name, p.Node = fmt.Sprint(d.name, "-", i), node
			p.UID, p.Top.Name, p.Controller.Name = p.Name, d.name, d.name+"-1"
			p.Containers = []cluster.Container{{Name: "app", Requests: cluster.Amounts(d.request, 100<<20)}}
			if node != "n" {
				p.Containers[0].Requests = cluster.Amounts(d.target, 100<<20)
			}
			y.pods = append(y.pods, &p)
		}
	}
	important := y.pods[0]
	important.Priority = 10
	if asked {
		important.Containers[0].Applied = &cluster.Applied{Requests: important.Containers[0].Requests}
		important.Containers[0].Requests = cluster.Amounts(2000, 100<<20)
		important.Resize = &cluster.Resize{State: cluster.ResizeDeferred, Since: time.Now()}
	}
	return y
}

// A timeline holds log records and writes in the order in which they occur.
type timeline struct {
	mu    sync.Mutex
	lines []string
	*fakeCluster
}

func (l *timeline) add(s string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, s)
}

// Write implements io.Writer for a log.
func (l *timeline) Write(b []byte) (int, error) {
	if s := string(b); strings.Contains(s, "level=INFO") && (strings.Contains(s, "room for the resizes") || strings.Contains(s, "Planned step")) {
		_, text, _ := strings.Cut(strings.TrimSpace(s), "msg=")
		l.add(text)
	}
	return len(b), nil
}

func (l *timeline) Resize(ctx context.Context, p *cluster.Pod, with []policy.Fitted) error {
	l.add(fmt.Sprintf("resize %s to %s", p.Key, with[0].Requests))
	return l.fakeCluster.Resize(ctx, p, with)
}

func (l *timeline) Evict(ctx context.Context, p *cluster.Pod) error {
	l.add(fmt.Sprintf("evict %s", p.Key))
	return l.fakeCluster.Evict(ctx, p)
}

// The log has each step of the plan for a node, in its order, before the first of them is carried out. Then what was logged is done.
func TestUpdater_planWithShrinkMoveAndPart_isLoggedBeforeItsFirstStep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fake := crowdedNode(true)
		l := &timeline{fakeCluster: fake}
		fake.log = slog.New(slog.NewTextHandler(l, nil))
		u := updaterOf(fake, l)
		u.pass(t.Context(), time.Now())
		want := []string{
			`"Node has too little room for the resizes of its pods" node=n free="cpu=300m memory=7.6Gi" count=4`,
			`"Planned step for a node with too little room" node=n step=1 action=shrink pod=shop/large-0 from="cpu=1500m memory=100Mi" to="cpu=1 memory=100Mi" reason="makes room for shop/important-0"`,
			`"Planned step for a node with too little room" node=n step=2 action=move pod=shop/small-0 from="cpu=500m memory=100Mi" to="cpu=500m memory=100Mi" reason="makes room for shop/important-0; the replacement fits on node free"`,
			`"Planned step for a node with too little room" node=n step=3 action=grow pod=shop/important-0 from="cpu=1 memory=100Mi" to="cpu=2 memory=100Mi" reason="gets its target"`,
			`"Planned step for a node with too little room" node=n step=4 action="grow in part" pod=shop/other-0 from="cpu=1 memory=100Mi" to="cpu=1300m memory=100Mi" reason="gets what is free; the node lacks cpu=700m"`,
		}
		if len(l.lines) < len(want) || !slices.Equal(l.lines[:len(want)], want) {
			t.Fatalf("got:\n%s\nwant first:\n%s", strings.Join(l.lines, "\n"), strings.Join(want, "\n"))
		}
		writes := l.lines[len(want):]
		slices.Sort(writes) // they are sent at the same time
		if want := []string{"evict shop/small-0", "resize shop/large-0 to cpu=1 memory=100Mi", "resize shop/other-0 to cpu=1300m memory=100Mi"}; !slices.Equal(writes, want) {
			t.Errorf("writes after the plan:\n%s\nwant:\n%s", strings.Join(writes, "\n"), strings.Join(want, "\n"))
		}
	})
}

// A dry run writes the whole plan as a table, once. It has the moves, too, although the kubelet is not asked for the resize.
func TestUpdater_dryRun_writesTheWholePlanAsATable(t *testing.T) {
	for name, tc := range map[string]struct {
		asked bool
		want  string
	}{
		"the resize is deferred": {true, `Node n has free: cpu=300m memory=7.6Gi
  STEP  ACTION        POD               FROM                    TO                      REASON
  1     shrink        shop/large-0      cpu=1500m memory=100Mi  cpu=1 memory=100Mi      makes room for shop/important-0
  2     move          shop/small-0      cpu=500m memory=100Mi   cpu=500m memory=100Mi   makes room for shop/important-0; the replacement fits on node free
  3     grow          shop/important-0  cpu=1 memory=100Mi      cpu=2 memory=100Mi      gets its target
  4     grow in part  shop/other-0      cpu=1 memory=100Mi      cpu=1300m memory=100Mi  gets what is free; the node lacks cpu=700m
`},
		"no resize is requested": {false, `Node n has free: cpu=300m memory=7.6Gi
  STEP  ACTION  POD               FROM                    TO                     REASON
  1     shrink  shop/large-0      cpu=1500m memory=100Mi  cpu=1 memory=100Mi     makes room for shop/important-0
  2     wait    shop/important-0  cpu=1 memory=100Mi      cpu=2 memory=100Mi     the node lacks cpu=200m
  3     wait    shop/other-0      cpu=1 memory=100Mi      cpu=2 memory=100Mi     the node lacks cpu=1
  4     move    shop/small-0      cpu=500m memory=100Mi   cpu=500m memory=100Mi  makes room for shop/important-0; the replacement fits on node free; follows when the kubelet has deferred the resize
  5     grow    shop/important-0  cpu=1 memory=100Mi      cpu=2 memory=100Mi     gets its target
`},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				fake := crowdedNode(tc.asked)
				var tables bytes.Buffer
				fake.config.DryRun, fake.config.Tables = true, &tables
				u := updaterOf(fake, fake)
				u.pass(t.Context(), time.Now())
				u.pass(t.Context(), time.Now().Add(time.Minute))
				if tables.String() != tc.want || len(fake.done) > 0 {
					t.Errorf("a dry run writes:\n%s\nwant once:\n%s\nand did %v", tables.String(), tc.want, fake.done)
				}
			})
		})
	}
}

// slowShrinks has an API server that answers the resizes of the pod "large" after a while.
type slowShrinks struct {
	*timeline
	takes time.Duration
}

func (s slowShrinks) Resize(ctx context.Context, p *cluster.Pod, with []policy.Fitted) error {
	if p.Name == "large-0" {
		time.Sleep(s.takes)
		s.add("large-0 is answered")
	}
	return s.timeline.Resize(ctx, p, with)
}

// A pod grows after the API server has answered the resizes that lower requests on its node, but it does not wait for long.
func TestUpdater_shrinkHasNoAnswerYet_growthOnItsNodeWaitsForAWhile(t *testing.T) {
	for takes, want := range map[time.Duration][]string{
		time.Second:      {"large-0 is answered", "resize shop/large-0 to cpu=1 memory=100Mi", "resize shop/other-0 to cpu=1300m memory=100Mi"},
		30 * time.Second: {"resize shop/other-0 to cpu=1300m memory=100Mi", "large-0 is answered", "resize shop/large-0 to cpu=1 memory=100Mi"},
	} {
		synctest.Test(t, func(t *testing.T) {
			fake := crowdedNode(true)
			l := slowShrinks{&timeline{fakeCluster: fake}, takes}
			began := time.Now()
			updaterOf(fake, l).pass(t.Context(), began)
			got := slices.DeleteFunc(l.lines, func(s string) bool { return strings.HasPrefix(s, "evict") })
			if !slices.Equal(got, want) {
				t.Errorf("answered after %v: got %q, want %q", takes, got, want)
			}
		})
	}
}
