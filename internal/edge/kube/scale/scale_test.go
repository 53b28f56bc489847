// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package scale

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/edge/kube/projection"
)

// fakeDiscovery is a discovery client that returns the given groups, lists and error.
type fakeDiscovery struct {
	hangs  bool // each request ends only when it is cancelled
	mu     sync.Mutex
	groups []*metav1.APIGroup
	lists  []*metav1.APIResourceList
	err    error
	asked  int
}

func (d *fakeDiscovery) ServerGroupsAndResourcesWithContext(ctx context.Context) ([]*metav1.APIGroup, []*metav1.APIResourceList, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.asked++
	if d.hangs {
		<-ctx.Done()
		return nil, nil, ctx.Err()
	}
	return d.groups, d.lists, d.err
}

func (d *fakeDiscovery) set(err error, lists ...*metav1.APIResourceList) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lists = lists
	d.err = err
}

func (d *fakeDiscovery) count() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.asked
}

func resources(groupVersion string, names ...string) *metav1.APIResourceList {
	list := &metav1.APIResourceList{GroupVersion: groupVersion}
	for i := 0; i+1 < len(names); i += 2 {
		list.APIResources = append(list.APIResources, metav1.APIResource{Name: names[i], Kind: names[i+1], Namespaced: true})
	}
	return list
}

func startKinds(t *testing.T, d *fakeDiscovery) (*Cache, *sync.Mutex) {
	t.Helper()
	k := NewCache(nil, slog.New(slog.DiscardHandler))
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		k.discoverKinds(ctx, d)
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
	synctest.Wait()
	return k, &k.mu
}

var (
	rolloutKind = projection.GroupKind{Group: "argoproj.io", Kind: "Rollout"}
	robot       = projection.GroupKind{Group: "example.com", Kind: "Robot"}
)

func TestKinds_discoveryFails_knownKindsAreKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := new(fakeDiscovery)
		d.set(nil, resources("argoproj.io/v1alpha1", "rollouts", "Rollout", "rollouts/scale", "Scale"))
		k, mu := startKinds(t, d)
		scalable := func(gk projection.GroupKind) bool {
			mu.Lock()
			defer mu.Unlock()
			info, err := k.find(gk)
			return err == nil && info.Scalable()
		}
		if !scalable(rolloutKind) || scalable(robot) {
			t.Fatal("the kinds differ from the result of discovery")
		}

		d.set(errors.New("unavailable"))
		time.Sleep(2 * kindsRefresh)
		if !scalable(rolloutKind) {
			t.Error("a kind is lost after discovery failed")
		}
		d.set(&discovery.ErrGroupDiscoveryFailed{Groups: map[schema.GroupVersion]error{{Group: "argoproj.io", Version: "v1alpha1"}: errors.New("unavailable")}},
			resources("example.com/v1", "robots", "Robot", "robots/scale", "Scale"))
		time.Sleep(2 * kindsRefresh)
		if !scalable(rolloutKind) || !scalable(robot) {
			t.Error("a kind is lost after discovery of one group failed")
		}

		d.set(nil, resources("example.com/v1", "robots", "Robot"))
		time.Sleep(2 * kindsRefresh)
		if scalable(rolloutKind) || scalable(robot) {
			t.Error("kinds that discovery no longer returns are still known (S-15)")
		}
	})
}

func TestKinds_discoveryHangs_requestEndsInTimeAndWithTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &fakeDiscovery{hangs: true}
		k := NewCache(nil, slog.New(slog.DiscardHandler))
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
		defer cancel()
		began := time.Now()
		k.discoverKinds(ctx, d)
		synctest.Wait() // no request may remain, because the test ends only after all goroutines
		if took := time.Since(began); took != 10*time.Minute || d.asked < 10 || d.asked > 20 {
			t.Errorf("%d requests in %s, want 10 to 20", d.asked, took)
		}
	})
}

func TestKinds_unknownKinds_discoveryIsRateLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := new(fakeDiscovery)
		k, mu := startKinds(t, d)
		find := func(gk projection.GroupKind) (Kind, error) {
			mu.Lock()
			defer mu.Unlock()
			return k.find(gk)
		}
		time.Sleep(kindsPause + time.Second) // until no other request is due
		before := d.count()
		d.set(nil, resources("example.com/v1", "robots", "Robot", "robots/scale", "Scale"))
		if _, err := find(robot); !errors.Is(err, ErrPending) {
			t.Fatalf("error %v before discovery was requested", err)
		}
		synctest.Wait()
		if info, err := find(robot); err != nil || !info.Scalable() {
			t.Errorf("after discovery: %+v, error %v", info, err)
		}
		for i := range 1000 {
			_, _ = find(projection.GroupKind{Group: "example.com", Kind: string(rune('A' + i%26))})
			time.Sleep(100 * time.Millisecond)
		}
		if n := d.count() - before; n > 12 {
			t.Errorf("discovery was requested %d times in 100 s, want at most 12", n)
		}
	})
}

// The API server serves a new kind before it lists it. Without the repetition, pods of the kind would get no sizes for 5 minutes.
func TestKinds_discoveryListsAKindLate_isFoundSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := new(fakeDiscovery)
		k, mu := startKinds(t, d)
		find := func() Kind {
			mu.Lock()
			defer mu.Unlock()
			info, _ := k.find(robot)
			return info
		}
		find()
		time.Sleep(kindsPause + time.Second) // discovery has not listed it
		d.set(nil, resources("example.com/v1", "robots", "Robot", "robots/scale", "Scale"))
		time.Sleep(kindsPause + time.Second)
		if info := find(); !info.Scalable() {
			t.Errorf("%v after it was listed: %+v, want the kind", kindsPause, info)
		}
		d.set(nil)
		before := d.count()
		find()
		time.Sleep(time.Hour)
		if n := d.count() - before; n > 60/5+2 {
			t.Errorf("%d requests in an hour for a kind that is not served, want those of each %v", n, kindsRefresh)
		}
	})
}

func TestKindsIn_severalVersions_scaleThenPreferredVersionWins(t *testing.T) {
	got := kindsIn(
		[]*metav1.APIGroup{{Name: "g", PreferredVersion: metav1.GroupVersionForDiscovery{Version: "v2"}}},
		[]*metav1.APIResourceList{
			resources("g/v1", "as", "A", "as/scale", "Scale", "bs", "B"),
			resources("g/v2", "as", "A", "bs", "B"),
			resources("g/v3", "as", "A", "as/scale", "Scale", "bs", "B"),
			{GroupVersion: "a/b/c"},
			{GroupVersion: "g/v2", APIResources: []metav1.APIResource{{Name: "cs", Kind: "C"}}},
		})
	if len(got) != 2 || got[projection.GroupKind{Group: "g", Kind: "A"}].Version != "v1" || got[projection.GroupKind{Group: "g", Kind: "B"}].Version != "v2" {
		t.Errorf("got %+v", got)
	}
}

// fakeScales returns scale subresources and counts the requests.
type fakeScales struct {
	mu      sync.Mutex
	answer  error
	n       int32
	reads   int
	running int
	most    int
	slow    time.Duration
}

func (f *fakeScales) read(ctx context.Context, _ Kind, _ cluster.Workload) (*autoscalingv1.Scale, error) {
	f.mu.Lock()
	f.reads++
	f.running++
	f.most = max(f.most, f.running)
	slow := f.slow
	f.mu.Unlock()
	select {
	case <-ctx.Done():
	case <-time.After(slow):
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.running--
	if f.answer != nil {
		return nil, f.answer
	}
	return &autoscalingv1.Scale{Spec: autoscalingv1.ScaleSpec{Replicas: f.n}}, ctx.Err()
}

func (f *fakeScales) set(answer error, n int32) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.answer = answer
	f.n = n
}

func startScales(t *testing.T, f *fakeScales) (*Cache, *sync.Mutex) {
	t.Helper()
	s := NewCache(nil, slog.New(slog.DiscardHandler))
	served := Kind{Version: "v1", Resource: "rollouts", Scale: true}
	s.served = map[projection.GroupKind]Kind{rolloutKind: served, {Kind: rolloutKind.Kind}: served}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.readScales(ctx, f.read)
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
	return s, &s.mu
}

func TestScales_readFails_knownScaleIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeScales{n: 3}
		s, mu := startScales(t, f)
		w := cluster.Workload{Group: "argoproj.io", Kind: "Rollout", Namespace: "shop", Name: "web"}
		want := func() entry {
			mu.Lock()
			defer mu.Unlock()
			return *s.want(w)
		}
		if e := want(); e.answered() {
			t.Fatal("the scale is known before it was read")
		}
		synctest.Wait()
		if e := want(); !e.read || e.scale.Replicas != 3 {
			t.Fatalf("got %+v", e)
		}
		f.set(nil, 5)
		time.Sleep(2 * freshFor)
		if e := want(); e.scale.Replicas != 5 {
			t.Errorf("the new scale is not read: %+v (S-15)", e)
		}
		f.set(errors.New("unavailable"), 0)
		time.Sleep(10 * freshFor)
		if e := want(); !e.read || e.scale.Replicas != 5 || e.err == nil {
			t.Errorf("the scale is lost after a request failed: %+v (W-03)", e)
		}
		f.set(apierrors.NewNotFound(schema.GroupResource{Resource: "rollouts"}, "web"), 0)
		time.Sleep(10 * freshFor)
		if e := want(); !e.gone {
			t.Errorf("got %+v", e)
		}
		f.set(nil, 7)
		time.Sleep(2 * freshFor)
		if e := want(); e.gone || e.err != nil || e.scale.Replicas != 7 {
			t.Errorf("the scale is not read after the error: %+v", e)
		}
		time.Sleep(expiry + 2*freshFor)
		mu.Lock()
		defer mu.Unlock()
		if len(s.entries) != 0 {
			t.Error("an entry that is no longer used is not removed")
		}
	})
}

func TestScales_manyControllers_requestsAreDistributed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const workloads = 600
		f := &fakeScales{n: 1, slow: 50 * time.Millisecond}
		s, mu := startScales(t, f)
		wantAll := func() {
			mu.Lock()
			defer mu.Unlock()
			for i := range workloads {
				s.want(cluster.Workload{Kind: "Rollout", Name: string(rune(i))})
			}
		}
		wantAll()
		time.Sleep(time.Minute) // all are read once
		f.mu.Lock()
		first := f.reads
		f.mu.Unlock()
		for range 20 {
			wantAll()
			time.Sleep(time.Minute)
		}
		f.mu.Lock()
		defer f.mu.Unlock()
		perSecond := float64(f.reads-first) / 1200
		if first != workloads || f.most > atOnce || perSecond < 3 || perSecond > 5.5 {
			t.Errorf("%d requests at first, %.1f per second later, %d at the same time", first, perSecond, f.most)
		}
	})
}

func TestKinds_manyUnknownKinds_memoryIsBounded(t *testing.T) {
	k := NewCache(nil, slog.New(slog.DiscardHandler))
	k.loaded = time.Now()
	for i := range 2 * maxAsked {
		_, _ = k.find(projection.GroupKind{Group: "g.example", Kind: fmt.Sprint("Kind", i)})
	}
	if n := len(k.asked); n > maxAsked {
		t.Errorf("%d kinds are stored, want at most %d", n, maxAsked)
	}
}

func TestCache_knownKindOfUnknownKind_leavesNoState(t *testing.T) {
	c := NewCache(nil, slog.New(slog.DiscardHandler))
	c.loaded = time.Now()
	w := cluster.Workload{Group: robot.Group, Kind: robot.Kind, Namespace: "shop", Name: "r"}
	if kind, err := c.KnownKind(robot); err != nil || kind.Scalable() || !c.Parent(w).IsZero() {
		t.Errorf("kind %+v, error %v, want one that is not served", kind, err)
	}
	if n := len(c.asked) + len(c.wakeKinds) + len(c.entries); n > 0 {
		t.Errorf("%d entries remain, want none", n)
	}
}

// A review that waits for an owner must not miss the change that it waits for.
func TestCache_changed_isClosedOnceByEachChange(t *testing.T) {
	c := NewCache(nil, slog.New(slog.DiscardHandler))
	isClosed := func(changed <-chan struct{}) bool {
		select {
		case <-changed:
			return true
		default:
			return false
		}
	}
	notify := func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.notify()
	}
	notify() // while no one waits
	first := c.Changed()
	if isClosed(first) || c.Changed() != first {
		t.Error("the channel is closed without a change, or is not shared")
	}
	notify()
	if !isClosed(first) || isClosed(c.Changed()) {
		t.Error("a change must close the channel, and the next one is open")
	}
}
