// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package watcher

import (
	"math"
	"runtime"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/edge/kube/projection"
	"podfit.dev/podfit/test/kubetest"
)

// The budget of a cached pod is 600 bytes, including its share of the store and of the interner.
func TestWorld_cachedPod_takesAtMost600Bytes(t *testing.T) {
	const pods, budget = 50_000, 600
	w := NewWorld(clientsOf(kubetest.NewFakeAPI(t)), Options{Pods: AllPods})
	before := kubetest.HeapBytes()
	for i := range pods {
		raw, err := kubetest.LargePod(i).Marshal()
		if err != nil {
			t.Fatal(err)
		}
		decoded := new(corev1.Pod)
		if err := decoded.Unmarshal(raw); err != nil {
			t.Fatal(err)
		}
		p := projection.Pod(decoded, w.in)
		w.pods.Put(p.Key, p)
	}
	perPod := float64(kubetest.HeapBytes()-before) / pods
	if w.pods.size != pods {
		t.Fatalf("%d pods in the store, want %d", w.pods.size, pods)
	}
	t.Logf("%.0f bytes per pod", perPod)
	if math.Round(perPod) > budget { // the heap varies by a few hundredths of a byte per pod
		t.Errorf("%.0f bytes per pod, want at most %d", perPod, budget)
	}
	runtime.KeepAlive(w)
}

func BenchmarkSnapshot(b *testing.B) {
	const pods = 100_000
	w := largeWorld(b, pods)
	b.ResetTimer()
	for b.Loop() {
		if s := w.Snapshot(); len(s.Pods) != pods {
			b.Fatal("incomplete")
		}
	}
}

// largeWorld returns a world with many pods, of a replica set each.
func largeWorld(t testing.TB, pods int) *World {
	w := NewWorld(clientsOf(kubetest.NewFakeAPI(t)), Options{})
	w.owners.synced = func(projection.GroupKind) bool { return true }
	sets := &store[projection.ControllerState]{mu: &w.mu}
	w.owners.known = map[projection.GroupKind]*store[projection.ControllerState]{
		{Group: "apps", Kind: "ReplicaSet"}: sets,
		{Group: "apps", Kind: "Deployment"}: {mu: &w.mu},
	}
	for i := range pods {
		p := projection.Pod(kubetest.LargePod(i), w.in)
		w.pods.Put(p.Key, p)
		sets.Put(cluster.Key{Namespace: p.Controller.Namespace, Name: p.Controller.Name}, projection.ControllerState{})
	}
	return w
}
