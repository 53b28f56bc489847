// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package updater

import (
	"bytes"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/decision"
)

// fullNode returns a node that is full: pod web-0 needs more, and pod web-2, which belongs to another Deployment, has more than it needs.
func fullNode() *fakeCluster {
	y := newFakeCluster(cluster.InPlaceOrRecreate)
	y.nodes = []cluster.Node{{Name: "n", Allocatable: cluster.Amounts(1000, 1<<30), Ready: true}, {Name: "large", Allocatable: cluster.Amounts(64000, 256<<30), Ready: true}}
	target := cluster.Estimate{Lower: cluster.Amounts(300, 100<<20), Target: cluster.Amounts(400, 100<<20), Upper: cluster.Amounts(800, 200<<20)}
	y.autoscalers[0].Advice = []cluster.Advice{{Container: "app", Estimate: target}}
	other := *y.autoscalers[0]
	other.Name, other.Target.Name = "batch", "batch"
	y.autoscalers = append(y.autoscalers, &other)
	for i, p := range y.pods {
		p.Node = "elsewhere"
		p.Containers = []cluster.Container{{Name: "app", Requests: cluster.Amounts(200, 100<<20)}}
		if i != 1 {
			p.Node = "n"
		}
	}
	for _, p := range y.pods[2:] {
		p.Top.Name, p.Controller.Name = "batch", "batch-1"
		p.Containers[0].Requests = cluster.Amounts(800, 100<<20)
	}
	twin := *y.pods[2]
	twin.Name, twin.UID, twin.Node = "batch-1", "batch-1", "elsewhere"
	y.pods = append(y.pods, &twin)
	return y
}

func TestUpdater_fullNode_neighbourShrinksFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fake := fullNode()
		var logged, tables bytes.Buffer
		fake.log = slog.New(slog.NewTextHandler(&logged, nil))
		u := updaterOf(fake, fake)
		u.pass(t.Context(), time.Now())
		resized := slices.DeleteFunc(slices.Clone(fake.done), func(s string) bool { return !strings.HasPrefix(s, "resize") })
		slices.Sort(resized)
		if want := []string{"resize web-0", "resize web-2"}; !slices.Equal(resized, want) {
			t.Errorf("got %v, want %v", resized, want)
		}
		if n := strings.Count(logged.String(), "Node has too little room for the resizes of its pods"); n != 1 || !strings.Contains(logged.String(), `reason="makes room for shop/web-0"`) {
			t.Errorf("%d records:\n%s", n, logged.String())
		}

		fake = fullNode()
		fake.config.DryRun, fake.config.Tables = true, &tables
		u = updaterOf(fake, fake)
		u.pass(t.Context(), time.Now())
		u.pass(t.Context(), time.Now().Add(time.Minute))
		want := `Node n has free: cpu=0 memory=824Mi
  STEP  ACTION  POD         FROM                   TO                     REASON
  1     shrink  shop/web-2  cpu=800m memory=100Mi  cpu=400m memory=100Mi  makes room for shop/web-0
  2     grow    shop/web-0  cpu=200m memory=100Mi  cpu=400m memory=100Mi  gets its target
`
		if tables.String() != want || len(fake.done) > 0 {
			t.Errorf("a dry run writes:\n%s\nwant once:\n%s\nand did %v", tables.String(), want, fake.done)
		}
	})
}

// The updater makes no room if the flag is off, or if it does not know all pods of the node.
func TestUpdater_makeRoomOffOrRoomUnknown_neighbourStays(t *testing.T) {
	for name, change := range map[string]func(*fakeCluster){
		"off":                      func(y *fakeCluster) { y.config.MakeRoom = "off" },
		"off for the autoscaler":   func(y *fakeCluster) { y.autoscalers[0].MakeRoom = "off" },
		"off for the neighbour":    func(y *fakeCluster) { y.autoscalers[1].MakeRoom = "off" },
		"one namespace is watched": func(y *fakeCluster) { y.config.Namespace = "shop" },
		"a namespace is ignored":   func(y *fakeCluster) { y.config.IgnoredNamespaces = []string{"kube-system"} },
		"nodes are unknown":        func(y *fakeCluster) { y.nodes = []cluster.Node{} },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				fake := fullNode()
				change(fake)
				u := updaterOf(fake, fake)
				for _, d := range u.update(t.Context(), time.Now()) {
					if d.Reason.Code == decision.MakesRoom {
						t.Errorf("%s: %s", d.Pod.Key, d.Reason)
					}
				}
			})
		})
	}
}

func TestUpdater_invalidAnnotationMakeRoom_isLoggedOnceWithTheValues(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fake := newFakeCluster(cluster.Recreate)
		var logged bytes.Buffer
		fake.log = slog.New(slog.NewTextHandler(&logged, nil))
		fake.autoscalers[0].MakeRoom = "everything"
		u := updaterOf(fake, fake)
		u.pass(t.Context(), time.Now())
		u.pass(t.Context(), time.Now().Add(time.Minute))
		if n := strings.Count(logged.String(), "must be off, shrink, split or move"); n != 1 || !strings.Contains(logged.String(), "used=everything") {
			t.Errorf("%d warnings:\n%s", n, logged.String())
		}
	})
}

func TestUpdater_notAllNamespacesWatched_isLoggedAtTheStart(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*Config)
		want   bool
	}{
		"all namespaces":          {func(*Config) {}, false},
		"one namespace":           {func(c *Config) { c.Namespace = "shop" }, true},
		"an ignored namespace":    {func(c *Config) { c.IgnoredNamespaces = []string{"kube-system"} }, true},
		"an empty name":           {func(c *Config) { c.IgnoredNamespaces = []string{""} }, false},
		"one namespace, no moves": {func(c *Config) { c.Namespace, c.MakeRoom = "shop", "off" }, false},
	} {
		fake := newFakeCluster(cluster.Recreate)
		var logged bytes.Buffer
		fake.log = slog.New(slog.NewTextHandler(&logged, nil))
		tc.change(&fake.config)
		updaterOf(fake, fake).reportUnknownRoom()
		if got := strings.Contains(logged.String(), "--make-room has no effect"); got != tc.want {
			t.Errorf("%s: logged %t", name, got)
		}
	}
}

func TestConfig_makeRoom_acceptsOnlyItsValues(t *testing.T) {
	for value, valid := range map[string]bool{"off": true, "shrink": true, "split": true, "move": true, "": false, "evict": false} {
		c := Defaults()
		c.MakeRoom = value
		err := c.ValidateOwn()
		if (err == nil) != valid || err != nil && !strings.Contains(err.Error(), "--make-room must be off, shrink, split or move") {
			t.Errorf("%q: %v", value, err)
		}
	}
}
