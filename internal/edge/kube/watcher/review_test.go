// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package watcher

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/rest"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/edge/kube"
	"podfit.dev/podfit/internal/edge/kube/projection"
	"podfit.dev/podfit/test/kubetest"
)

// unusedClients returns clients that must not send requests.
func unusedClients(t testing.TB) *kube.Clients {
	c, err := kube.ClientsFor(&rest.Config{Host: "http://127.0.0.1:1"})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// loadedWorld returns a world that has loaded the kinds and the controllers of an empty cluster.
func loadedWorld(t testing.TB) *World {
	w := NewWorld(unusedClients(t), Options{})
	w.owners.synced = func(projection.GroupKind) bool { return true }
	w.owners.other = new(fakeControllers)
	return w
}

// addAutoscaler adds an autoscaler that references the target.
func addAutoscaler(w *World, name string, target cluster.Workload) {
	w.autoscalers.Put(cluster.Key{Namespace: target.Namespace, Name: name},
		&autoscalerEntry{Autoscaler: &cluster.Autoscaler{Key: cluster.Key{Namespace: target.Namespace, Name: name}, Target: target}})
}

func TestTopSoon_unknownKindsOfReviews_leaveNoState(t *testing.T) {
	w := loadedWorld(t)
	addAutoscaler(w, "web", cluster.Workload{Group: "apps", Kind: "Deployment", Namespace: "shop", Name: "web"})
	for i := range 10_000 {
		kind := fmt.Sprint("Kind", i)
		if top, err := w.TopSoon(t.Context(), cluster.Workload{Group: "g.example", Kind: kind, Namespace: "shop", Name: "x"}); err != nil || !top.IsZero() {
			t.Fatalf("topmost controller %v, error %v, want none for a kind that the API server does not serve", top, err)
		}
	}
	if n := w.owners.other.(*fakeControllers).stored() + len(w.waiting); n > 0 {
		t.Errorf("%d entries remain after reviews of pods that were never stored, want none", n)
	}
}

func TestTopSoon_unknownKindOfAutoscalerTarget_requestsDiscovery(t *testing.T) {
	w := loadedWorld(t)
	target := cluster.Workload{Group: "g.example", Kind: "Set", Namespace: "shop", Name: "x"}
	addAutoscaler(w, "x", target)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := w.TopSoon(ended, target); !errors.Is(err, ErrOwnerUnknown) || w.owners.other.(*fakeControllers).stored() != 1 {
		t.Errorf("error %v; looked up %+v", err, w.owners.other)
	}
	w.autoscalers.Remove(cluster.Key{Namespace: "shop", Name: "x"})
	if len(w.targetKinds) > 0 {
		t.Errorf("kinds of deleted targets remain: %v", w.targetKinds)
	}
}

func TestTopSoon_kindIsDiscoveredMeanwhile_reviewGetsItsOwner(t *testing.T) {
	f := kubetest.NewFakeAPI(t)
	f.Reply("GET /api", 200, `{"kind":"APIVersions","versions":["v1"]}`)
	f.Reply("GET /api/v1", 200, `{"kind":"APIResourceList","groupVersion":"v1","resources":[]}`)
	f.Reply("GET /apis", 200, `{"kind":"APIGroupList","apiVersion":"v1","groups":[{"name":"g.example","versions":[{"groupVersion":"g.example/v1","version":"v1"}],
		"preferredVersion":{"groupVersion":"g.example/v1","version":"v1"}}]}`)
	f.Reply("GET /apis/g.example/v1", 200, `{"kind":"APIResourceList","groupVersion":"g.example/v1","resources":[
		{"name":"sets","kind":"Set","namespaced":true,"verbs":["get"]},{"name":"sets/scale","kind":"Scale","namespaced":true,"verbs":["get"]}]}`)
	w := NewWorld(clientsOf(f), Options{})
	set := cluster.Workload{Group: "g.example", Kind: "Set", Namespace: "shop", Name: "x"}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	var running sync.WaitGroup
	running.Go(func() {
		defer cancel()
		if top, err := w.TopSoon(ctx, set); top != set || err != nil {
			t.Errorf("topmost controller %v, error %v", top, err)
		}
	})
	kubetest.Eventually(t, "the review waits", func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		return len(w.waiting) == 1
	})
	w.scales.Run(ctx)
	running.Wait()
}

func TestTopSoon_ownersNeverArrive_waitingReviewsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := NewWorld(unusedClients(t), Options{})
		for ns := range 20 {
			for i := range 100 {
				go func() {
					ctx, cancel := context.WithTimeout(t.Context(), time.Second)
					defer cancel()
					_, _ = w.TopSoon(ctx, cluster.Workload{Group: "apps", Kind: "ReplicaSet", Namespace: fmt.Sprint("ns", ns), Name: fmt.Sprint(i)})
				}()
			}
		}
		synctest.Wait()
		w.mu.Lock()
		if len(w.waiting) != maxWaiting {
			t.Errorf("%d reviews wait, want %d", len(w.waiting), maxWaiting)
		}
		for ns := range 20 {
			if n := w.waiting.byNamespace()[fmt.Sprint("ns", ns)]; n < maxWaiting/20 || n > maxWaiting/20+1 {
				t.Errorf("%d reviews of ns%d wait, want a twentieth of %d", n, ns, maxWaiting)
			}
		}
		w.mu.Unlock()
		time.Sleep(2 * time.Second)
		synctest.Wait()
		w.mu.Lock()
		defer w.mu.Unlock()
		if len(w.waiting) != 0 {
			t.Errorf("reviews still wait: %v", w.waiting.byNamespace())
		}
	})
}

// reviewsOf starts n reviews of pods in a namespace. The controllers of the pods do not exist.
func reviewsOf(t *testing.T, w *World, namespace string, n int) {
	for i := range n {
		go func() {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			_, _ = w.TopSoon(ctx, cluster.Workload{Group: "apps", Kind: "ReplicaSet", Namespace: namespace, Name: fmt.Sprint("none", i)})
		}()
	}
	synctest.Wait()
}

func TestTopSoon_otherNamespacesHoldAllSlots_newNamespaceStillFindsItsOwner(t *testing.T) {
	for _, namespaces := range []int{8, 15, 512} {
		synctest.Test(t, func(t *testing.T) {
			w := NewWorld(unusedClients(t), Options{})
			for ns := range namespaces {
				reviewsOf(t, w, fmt.Sprint("hostile", ns), maxWaitingInNamespace)
			}
			set := cluster.Workload{Group: "apps", Kind: "ReplicaSet", Namespace: "shop", Name: "web-1"}
			found := make(chan error)
			go func() {
				top, err := w.TopSoon(t.Context(), set)
				if err == nil && top != set {
					err = fmt.Errorf("found %s", top)
				}
				found <- err
			}()
			synctest.Wait()
			reviewsOf(t, w, "hostile0", 1000) // these must not take the slot back
			w.owners.known[projection.KindOf(set)].Put(cluster.Key{Namespace: "shop", Name: "web-1"}, projection.ControllerState{})
			if err := <-found; err != nil {
				t.Errorf("%d other namespaces: %v", namespaces, err)
			}
		})
	}
}

func TestTopSoon_allSlotsOfTheNamespaceHeld_returnsTooManyWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := NewWorld(unusedClients(t), Options{})
		reviewsOf(t, w, "shop", maxWaitingInNamespace)
		set := cluster.Workload{Group: "apps", Kind: "ReplicaSet", Namespace: "shop", Name: "web-1"}
		if _, err := w.TopSoon(t.Context(), set); !errors.Is(err, ErrTooManyWaiting) {
			t.Errorf("error %v, want %v", err, ErrTooManyWaiting)
		}
	})
}

// Namespaces with about the same number of waiting reviews must not take slots from each other again and again. Otherwise all reviews
// would end before the controllers of their pods arrive.
func TestWaitSlots_evenlyDistributed_areNotTakenAway(t *testing.T) {
	const namespaces = 9
	var s waitSlots
	for i := range maxWaitingInNamespace * namespaces {
		s.acquire(fmt.Sprint("ns", i%namespaces))
	}
	for ns, n := range s.byNamespace() {
		if n < maxWaiting/namespaces || n > maxWaiting/namespaces+1 {
			t.Errorf("%s holds %d slots, want a ninth of %d", ns, n, maxWaiting)
		}
	}
	held := slices.Clone(s)
	for i := range 5000 {
		s.acquire(fmt.Sprint("ns", i%namespaces))
	}
	lost := 0
	for _, slot := range held {
		select {
		case <-slot.lost:
			lost++
		default:
		}
	}
	if lost > 0 {
		t.Errorf("%d of %d reviews lost their slot", lost, len(held))
	}
}

func TestPlacesInUse_podsInTheStore_onlyTheirSelectorsAreInUse(t *testing.T) {
	w := NewWorld(unusedClients(t), Options{Pods: AllPods})
	kept := projection.Pod(kubetest.HostilePod(0), w.in)
	deleted := projection.Pod(kubetest.HostilePod(1), w.in)
	for _, p := range []*cluster.Pod{kept, deleted} {
		w.pods.Put(p.Key, p)
	}
	w.pods.Remove(deleted.Key)
	if got := w.placesInUse(); len(got) != 1 || !got[kept.Place] {
		t.Errorf("places in use %v, want only %d", got, kept.Place)
	}
}
