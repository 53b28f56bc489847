// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package watcher

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	v1 "podfit.dev/podfit/api/v1"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/edge/kube"
)

// nowhere returns clients of a cluster that is never asked.
func nowhere(t testing.TB) *kube.Clients {
	c, err := kube.ClientsFor(&rest.Config{Host: "http://127.0.0.1:1"})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// loadedWorld is a world that knows the kinds and the controllers of an empty cluster.
func loadedWorld(t testing.TB) *World {
	w := NewWorld(nowhere(t), Options{})
	w.owners.synced = func(groupKind) bool { return true }
	w.owners.kinds.loaded = time.Now()
	return w
}

func aim(w *World, name string, target cluster.Workload) {
	w.autoscalers.put(cluster.Key{Namespace: target.Namespace, Name: name},
		&autoscalerEntry{Autoscaler: &cluster.Autoscaler{Key: cluster.Key{Namespace: target.Namespace, Name: name}, Target: target}})
}

func TestTopSoon_unknownKindsOfReviews_areNotRemembered(t *testing.T) {
	w := loadedWorld(t)
	aim(w, "web", cluster.Workload{Group: "apps", Kind: "Deployment", Namespace: "shop", Name: "web"})
	for i := range 10_000 {
		kind := fmt.Sprint("Kind", i)
		if top, err := w.TopSoon(t.Context(), cluster.Workload{Group: "g.example", Kind: kind, Namespace: "shop", Name: "x"}); err != nil || !top.IsZero() {
			t.Fatalf("the topmost controller is %v, error %v; a kind that is not served is none", top, err)
		}
	}
	if n := len(w.owners.kinds.asked) + len(w.owners.kinds.wake) + len(w.owners.scale.entries) + len(w.waiting.byNamespace); n > 0 {
		t.Errorf("%d entries are left of reviews of pods that were never stored", n)
	}
}

func TestTopSoon_unknownKindThatAnAutoscalerTargets_asksDiscovery(t *testing.T) {
	w := loadedWorld(t)
	target := cluster.Workload{Group: "g.example", Kind: "Set", Namespace: "shop", Name: "x"}
	aim(w, "x", target)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := w.TopSoon(ended, target); !errors.Is(err, ErrOwnerUnknown) || len(w.owners.kinds.asked) != 1 || len(w.owners.kinds.wake) != 1 {
		t.Errorf("error %v; asked for %v", err, w.owners.kinds.asked)
	}
	w.autoscalers.remove(cluster.Key{Namespace: "shop", Name: "x"})
	if len(w.targetKinds) > 0 {
		t.Errorf("kinds of targets are kept: %v", w.targetKinds)
	}
}

func TestTopSoon_ownersThatNeverCome_waitInBounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := NewWorld(nowhere(t), Options{})
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
		if w.waiting.held != maxWaiting {
			t.Errorf("%d reviews wait, want %d", w.waiting.held, maxWaiting)
		}
		for ns := range 20 {
			if n := len(w.waiting.byNamespace[fmt.Sprint("ns", ns)]); n < maxWaiting/20 || n > maxWaiting/20+1 {
				t.Errorf("%d reviews of ns%d wait, want a twentieth of %d", n, ns, maxWaiting)
			}
		}
		w.mu.Unlock()
		time.Sleep(2 * time.Second)
		synctest.Wait()
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.waiting.held != 0 || len(w.waiting.byNamespace) != 0 {
			t.Errorf("%d reviews still wait, by namespace %v", w.waiting.held, w.waiting.byNamespace)
		}
	})
}

// reviewsOf starts reviews of pods of a namespace with controllers that do not exist.
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
			w := NewWorld(nowhere(t), Options{})
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
			reviewsOf(t, w, "hostile0", 1000) // which may not take it back
			w.owners.known[kindOf(set)].put(cluster.Key{Namespace: "shop", Name: "web-1"}, controller{})
			if err := <-found; err != nil {
				t.Errorf("%d other namespaces: %v", namespaces, err)
			}
		})
	}
}

func TestTopSoon_allSlotsOfTheNamespaceHeld_saysThatTooManyWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := NewWorld(nowhere(t), Options{})
		reviewsOf(t, w, "shop", maxWaitingInNamespace)
		set := cluster.Workload{Group: "apps", Kind: "ReplicaSet", Namespace: "shop", Name: "web-1"}
		if _, err := w.TopSoon(t.Context(), set); !errors.Is(err, ErrTooManyWaiting) {
			t.Errorf("error %v, want %v", err, ErrTooManyWaiting)
		}
	})
}

func TestKinds_veryManyUnknownKinds_areNotAllRemembered(t *testing.T) {
	w := loadedWorld(t)
	for i := range 2 * maxAsked {
		_, _ = w.owners.kinds.find(groupKind{"g.example", fmt.Sprint("Kind", i)})
	}
	if n := len(w.owners.kinds.asked); n > maxAsked {
		t.Errorf("%d kinds are remembered", n)
	}
}

// hostilePod is a pod as large and as unlike others as a tenant can make it.
func hostilePod(i int) *corev1.Pod {
	id := fmt.Sprintf("%08d", i)
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "ns", Name: "p" + id,
			Annotations: map[string]string{v1.AnnotationObservedContainers: id + strings.Repeat("x", 20_000)},
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: "g" + id + "/v1", Kind: "K" + id + strings.Repeat("k", 300), Name: "n" + id, Controller: new(true),
			}},
		},
		Spec: corev1.PodSpec{
			NodeSelector: map[string]string{"key" + id: "value" + id, "other": strings.Repeat("v", 63)},
			Containers:   []corev1.Container{{Name: "c" + id}},
		},
	}
}

func TestInterner_podsThatComeAndGo_keepTheHeapFlat(t *testing.T) {
	const mib = 1 << 20
	in := new(Interner)
	before := heapBytes()
	for i := range 100_000 {
		ProjectPod(hostilePod(i), in)
	}
	if grown := heapBytes() - before; grown > 24*mib {
		t.Errorf("100,000 pods that have gone left %d MiB", grown/mib)
	}
	if n := len(in.selectors); n > maxSelectors {
		t.Errorf("%d node selectors are kept", n)
	}
	runtime.KeepAlive(in)
}

func TestInterner_selectorsOfPodsThatHaveGone_makeRoom(t *testing.T) {
	w := NewWorld(nowhere(t), Options{Pods: AllPods})
	kept := ProjectPod(hostilePod(0), w.in)
	w.pods.put(kept.Key, kept)
	for i := range maxSelectors + 10 {
		ProjectPod(hostilePod(i), w.in)
	}
	if p := ProjectPod(hostilePod(maxSelectors+20), w.in); p.Place != cluster.Somewhere {
		t.Fatalf("the place of a pod is %d although all selectors are taken", p.Place)
	}
	if !w.in.crowded() {
		t.Error("nobody would look for selectors to forget")
	}
	for range 2 { // seen since the call before; not used at one call
		w.in.forget(w.placesInUse())
		if n := len(w.in.free); n > 0 {
			t.Fatalf("%d selectors are free too early: a pod on its way to the store may have one", n)
		}
	}
	w.in.forget(w.placesInUse())
	p := ProjectPod(hostilePod(maxSelectors+20), w.in)
	if p.Place < cluster.Selected || p.Place == kept.Place {
		t.Errorf("the place of a new pod is %d, that of one still there %d", p.Place, kept.Place)
	}
	if got := ProjectPod(hostilePod(0), w.in).Place; got != kept.Place {
		t.Errorf("the selector in use has the place %d now, it was %d", got, kept.Place)
	}
	if s := w.Selectors(); s[p.Place-cluster.Selected][0] != fmt.Sprintf("key%08d=value%08d", maxSelectors+20, maxSelectors+20) {
		t.Errorf("the selector of the new pod is %q", s[p.Place-cluster.Selected])
	}
}

func TestProjectPod_hugeObservedAnnotation_countsAsAbsent(t *testing.T) {
	p := hostilePod(1)
	if got := ProjectPod(p, nil).Observed; got != "" {
		t.Errorf("%d bytes of an annotation are kept of a pod with one container", len(got))
	}
	for range 250 {
		p.Spec.Containers = append(p.Spec.Containers, corev1.Container{})
	}
	p.Annotations[v1.AnnotationObservedContainers] = strings.Repeat(strings.Repeat("x", 63)+", ", 250)
	if got := ProjectPod(p, nil).Observed; len(got) != 250*65 {
		t.Errorf("of 250 names of the greatest length %d bytes are kept", len(got))
	}
}

func TestAutoscaler_quantityThatCannotBeParsedInTime_makesTheObjectUnreadable(t *testing.T) {
	for name, text := range map[string]string{
		"spec":   `{"metadata":{"name":"a"},"spec":{"resourcePolicy":{"containerPolicies":[{"containerName":"*","minAllowed":{"cpu":"1e-999999999"}}]}}}`,
		"status": `{"metadata":{"name":"a"},"status":{"recommendation":{"containerRecommendations":[{"target":{"cpu":"1e-999999999"}}]}}}`,
	} {
		var o kube.AutoscalerObject
		if err := json.Unmarshal([]byte(text), &o); err != nil || o.Name != "a" || !strings.Contains(o.Problem, "out of bounds") {
			t.Errorf("%s: %v, problem %q", name, err, o.Problem)
		}
	}
}

func TestAutoscaler_veryManyPolicies_takeBoundedMemory(t *testing.T) {
	const n = 70_000 // as many as fit into an object of 1.5 MB
	text := `{"metadata":{"name":"a"},"spec":{"resourcePolicy":{"containerPolicies":[` +
		strings.Repeat(`{"containerName":"a"},`, n) + `{}]}},"status":{"recommendation":{"containerRecommendations":[` +
		strings.Repeat(`{"containerName":"a"},`, n) + `{}]}}}`
	var o kube.AutoscalerObject
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		t.Fatal(err)
	}
	if a := ParseAutoscaler(&o.VerticalPodAutoscaler); len(a.Policies) != maxPerAutoscaler || len(a.Advice) != maxPerAutoscaler {
		t.Errorf("%d policies and %d recommendations are kept", len(a.Policies), len(a.Advice))
	}
}
