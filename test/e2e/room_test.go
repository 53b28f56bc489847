// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"podfit.dev/podfit/test/e2e/bed"
	"podfit.dev/podfit/test/e2e/invariant"
)

// roomWithin is how long a pod on a full node waits at most for its size on an idle machine. The interval of the updater is a minute, so only an
// early pass is fast enough.
const roomWithin = 30 * time.Second

// TestRoom_resizeExceedsFreeCapacity_podGetsItsSize has its own cluster, with two nodes that have 3900m of allocatable CPU each. The
// kubelet's code defers each resize that exceeds the free capacity of the node. The updater has its default flags.
func TestRoom_resizeExceedsFreeCapacity_podGetsItsSize(t *testing.T) {
	w := newSmallWorld(t, bed.Options{Nodes: 2, Rights: []string{"node-guard", "surges"}})
	t.Run("full-node", func(t *testing.T) { fullNode(t, w) })
	t.Run("two-nodes-fragmented", func(t *testing.T) { fragmentedNodes(t, w) })
	t.Run("planned-steps", func(t *testing.T) { plannedSteps(t, w) })
	t.Run("nearly-out-of-memory", func(t *testing.T) { nearlyOutOfMemory(t, w) })
}

// newSmallWorld starts a cluster with small nodes, and the updater and the admission controller with additional flags. The tests write the
// recommendations.
func newSmallWorld(t *testing.T, o bed.Options, flags ...string) *world {
	t.Helper()
	w := &world{root: shared.root, binary: shared.binary}
	o.Root, o.NodeCPU, o.NodeMemory, o.Audit, o.Progress = w.root, 4, "8Gi", true, os.Stderr
	o.Metrics = 15 * time.Second
	var err error
	w.Cluster, err = bed.Up(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(w.checkRights(), w.Down()); err != nil {
			t.Error(err)
		}
	})
	if err := w.install(t.Context()); err != nil {
		t.Fatal(err)
	}
	witness, err := w.Witness(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	w.checker = &checker{witness: witness, limits: invariant.DefaultLimits()}
	component, err := admission()
	if err != nil {
		t.Fatal(err)
	}
	if w.admission, err = w.healthy(t.Context(), component.With(flags...)); err != nil {
		t.Fatal(err)
	}
	component = bed.Updater().With(flags...)
	if o.Prometheus {
		component = component.With("--prometheus-address=" + w.Prometheus)
	}
	if w.updater, err = w.healthy(t.Context(), component); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := bed.WithPatience(t.Context(), time.Minute)
	defer cancel()
	if err := bed.Until(ctx, 100*time.Millisecond, w.Registered); err != nil {
		t.Fatal(err)
	}
	return w
}

// fullNode has a node with two pods. One requests more than it needs, but is within its bounds. The other one needs 50 % more CPU than it
// requests, and the node lacks 400m for that. The first pod is shrunk in place and then the second one grows; no pod is restarted.
func fullNode(t *testing.T, w *world) {
	p := newPlaceIn(t, w, "full-node")
	p.allow(invariant.Advised, "a pod within its bounds is shrunk to its target to make room")
	large, needing := onNode("node-1", oneReplica("large", "2500m")), onNode("node-1", oneReplica("needing", "1200m"))
	p.apply(large, needing)
	before := append(p.start("large", 1), p.start("needing", 1)...)
	p.apply(singleAutoscaler("large", "{}"), singleAutoscaler("needing", "{}"))
	p.recommend("large", "900m", "1000m", "3000m")
	p.recommend("needing", "1700m", "1800m", "3600m")
	seconds := p.timed("the pod has 1800m", func(ctx context.Context) error { return p.hasCPU(ctx, "needing", "1800m") })
	t.Logf("full node: the pod has its size %.1f s after its recommendation, at a load average of %s", seconds, loadAverage())
	p.always("no pod is restarted or replaced", 5*time.Second, p.undisturbed(before...))
	if err := p.hasCPU(t.Context(), "large", "1000m"); err != nil {
		t.Error(err)
	}
	if n := p.moves(); n != 0 {
		t.Errorf("%d pods were moved, want none", n)
	}
}

// fragmentedNodes has two nodes whose free capacity suffices in sum for a pod that needs 50 % more CPU, but on neither node. No pod
// requests more than it needs. One of the pods of the node has to move, which fits on the other node. A surge replaces it.
func fragmentedNodes(t *testing.T, w *world) {
	p := newPlaceIn(t, w, "two-nodes-fragmented")
	sizes := map[string]string{"needing": "1200m", "small": "1000m", "medium": "1500m", "other": "2500m"}
	p.schedulable("node-2", false)
	p.apply(oneReplica("needing", sizes["needing"]), oneReplica("small", sizes["small"]), oneReplica("medium", sizes["medium"]))
	needing, medium, small := p.start("needing", 1), p.start("medium", 1), p.start("small", 1)
	p.schedulable("node-2", true)
	p.apply(onNode("node-2", oneReplica("other", sizes["other"])))
	other := p.start("other", 1)
	for name, cpu := range sizes {
		p.apply(singleAutoscaler(name, "{podfit.dev/make-room: move}"))
		if name != "needing" {
			p.recommend(name, cpu, cpu, "3600m")
		}
	}
	least := p.leastReady("small")
	p.recommend("needing", "1700m", "1800m", "3600m")
	seconds := p.timed("the pod has 1800m", func(ctx context.Context) error { return p.hasCPU(ctx, "needing", "1800m") })
	t.Logf("two nodes, fragmented: the pod has its size %.1f s after its recommendation, at a load average of %s", seconds, loadAverage())
	p.always("the other pods are neither restarted nor replaced", 5*time.Second, p.undisturbed(needing[0], medium[0], other[0]))

	moved := p.start("small", 1)
	if moved[0].UID == small[0].UID || moved[0].Spec.NodeName != "node-2" {
		t.Errorf("the pod that moves is on %s, want a replacement on node-2", moved[0].Spec.NodeName)
	}
	if n := least(); n < 1 {
		t.Errorf("%d pods of the moved Deployment were ready, want 1", n)
	}
	if n := p.moves(); n != 1 {
		t.Errorf("%d pods were moved, want 1", n)
	}
}

// nearlyOutOfMemory has a node of 8 GiB whose pods have the recommended size and use 7.4 GiB. The memory limits of one of those that use more than they
// request follow the highest usage, so the node is watched. The one that frees enough moves after the minute in which the updater only observes, and only that.
func nearlyOutOfMemory(t *testing.T, w *world) {
	p := newPlaceIn(t, w, "nearly-out-of-memory")
	p.allow(invariant.Advised, "a pod with the recommended size moves because of the memory that it uses")
	p.schedulable("node-2", false)
	for name, memory := range map[string]string{"large": "4500Mi", "small": "3Gi", "modest": "50Mi"} {
		p.apply(spec{Name: name, Replicas: 1, Requests: "{cpu: 100m, memory: 100Mi}", CPU: "100m", Memory: memory}.manifest())
	}
	large, small, modest := p.start("large", 1), p.start("small", 1), p.start("modest", 1)
	p.schedulable("node-2", true)
	for name, annotations := range map[string]string{"large": "{}", "small": "{podfit.dev/memory-limits: peaks}", "modest": "{}"} {
		p.apply(singleAutoscaler(name, annotations))
		p.recommend(name, "100m", "100m", "3600m")
	}
	began, before := time.Now(), p.moves()
	p.eventually("a pod runs on the other node", 2*time.Minute, func(ctx context.Context) error {
		pods, err := p.running(ctx, "large", 1)
		if err == nil && (pods[0].UID == large[0].UID || pods[0].Spec.NodeName != "node-2") {
			err = fmt.Errorf("pod %s is on %s", pods[0].Name, pods[0].Spec.NodeName)
		}
		return err
	})
	t.Logf("nearly out of memory: a pod has moved %.1f s after the node is watched", time.Since(began).Seconds())
	p.always("no other pod is restarted or replaced", 75*time.Second, p.undisturbed(small[0], modest[0]))
	if n := p.moves() - before; n != 1 {
		t.Errorf("%d pods were moved, want 1", n)
	}
}

// oneReplica returns a Deployment with one replica.
func oneReplica(name, cpu string) string {
	return spec{Name: name, Replicas: 1, Requests: "{cpu: " + cpu + ", memory: 100Mi}", CPU: "100m", Memory: "50Mi"}.manifest()
}

// singleAutoscaler returns the VPA of a Deployment with one replica, which upstream and podfit update only with minReplicas 1.
func singleAutoscaler(name, annotations string) string {
	return fmt.Sprintf(`apiVersion: autoscaling.k8s.io/v1
kind: VerticalPodAutoscaler
metadata: {name: %[1]s, annotations: %[2]s}
spec:
  targetRef: {apiVersion: apps/v1, kind: Deployment, name: %[1]s}
  updatePolicy: {updateMode: InPlaceOrRecreate, minReplicas: 1}
`, name, annotations)
}

// onNode adds the selector of a node to a manifest.
func onNode(node, manifest string) string {
	return strings.Replace(manifest, "  containers:\n", "  nodeSelector: {kubernetes.io/hostname: "+node+"}\n      containers:\n", 1)
}

// schedulable allows or forbids new pods on a node.
func (p *place) schedulable(node string, allowed bool) {
	p.Helper()
	patch := fmt.Sprintf(`{"spec": {"unschedulable": %v}}`, !allowed)
	if _, err := p.CoreV1().Nodes().Patch(p.Context(), node, types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
		p.Fatal(err)
	}
}

// recommend writes the recommendation of a VPA for the CPU of container app, as a recommender. The recommended memory is what the pods
// request.
func (p *place) recommend(name, lower, target, upper string) {
	p.Helper()
	size := func(cpu string) map[string]string { return map[string]string{"cpu": cpu, "memory": "100Mi"} }
	p.adviseContainers(name, map[string]any{"containerName": "app", "lowerBound": size(lower), "target": size(target), "upperBound": size(upper)})
}

// hasCPU returns an error unless the container of the only pod of a workload runs with this CPU request.
func (p *place) hasCPU(ctx context.Context, app, cpu string) error {
	pods, err := p.running(ctx, app, 1)
	if err != nil {
		return err
	}
	status := pods[0].Status.ContainerStatuses[0]
	if status.Resources == nil || status.Resources.Requests.Cpu().Cmp(resource.MustParse(cpu)) != 0 {
		return fmt.Errorf("pod %s runs with %q, want %s; its conditions are %+v", pods[0].Name, requests(pods[0]), cpu, pods[0].Status.Conditions)
	}
	return nil
}

// undisturbed returns a check that pods exist, are ready and were not restarted.
func (p *place) undisturbed(want ...corev1.Pod) func(context.Context) error {
	return func(ctx context.Context) error {
		for _, old := range want {
			pod, err := p.CoreV1().Pods(p.ns).Get(ctx, old.Name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			if n := pod.Status.ContainerStatuses[0].RestartCount; pod.UID != old.UID || n != 0 || !ready(pod) || pod.DeletionTimestamp != nil {
				return fmt.Errorf("pod %s was replaced, restarted %d times, or is not ready", old.Name, n)
			}
		}
		return nil
	}
}

// timed waits until check returns nil, and returns how many seconds that took.
func (p *place) timed(what string, check func(context.Context) error) float64 {
	p.Helper()
	start := time.Now()
	p.eventually(what, roomWithin, check)
	return time.Since(start).Seconds()
}

// moves returns the number of pods that podfit has evicted or deleted in the namespace, and of surges that its updater has begun.
func (p *place) moves() int {
	p.Helper()
	n, err := count(p.Context(), p.updater, `podfit_updater_surges_total{result="begun"}`)
	if err != nil {
		p.Fatal(err)
	}
	log, err := p.witness.Log(p.Context())
	if err != nil {
		p.Fatal(err)
	}
	for _, write := range log.Writes {
		if write.Namespace == p.ns && write.User == "vpa-updater" && write.OK() && write.Resource == "pods" && (write.Subresource == "eviction" || write.Verb == "delete") {
			n++
		}
	}
	return n
}

// loadAverage returns the load of this machine in the last minute, or "?".
func loadAverage() string {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "?"
	}
	first, _, _ := strings.Cut(string(text), " ")
	return first
}
