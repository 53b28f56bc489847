// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"podfit.dev/podfit/test/e2e/bed"
	"podfit.dev/podfit/test/e2e/invariant"
)

const (
	// guardLine is the share of the allocatable memory of a node above which the guard moves pods (docs/nodes.md).
	guardLine = 0.85
	// guardWithin is how long the usage of a node may be above the line until a pod has left. Usage is measured and read every 15 seconds.
	guardWithin = time.Minute
)

// TestGuard_nodeFillsUp_podMovesBeforeKubeletEvicts has the same scene twice, in two clusters. With the default flags, the updater moves a pod in time. With
// --node-guard=false, the kubelet evicts one.
func TestGuard_nodeFillsUp_podMovesBeforeKubeletEvicts(t *testing.T) {
	t.Run("guard-on", func(t *testing.T) {
		t.Parallel()
		guardOn(t)
	})
	t.Run("guard-off", func(t *testing.T) {
		t.Parallel()
		guardOff(t)
	})
}

func guardOn(t *testing.T) {
	s := newFillingNode(t, newSmallWorld(t, bed.Options{Nodes: 2, Rights: []string{"node-guard"}}), "guard-on")
	s.allow(invariant.Advised, "a pod with the recommended size moves because of the memory that it uses")
	s.eventually("the updater watches the node", 90*time.Second, s.isWatched)
	s.always("no pod moves below the line", 65*time.Second, s.undisturbed(s.critical, s.movable)) // the guard only observes for a minute
	growing := s.grow()

	s.eventually("usage is below the line again", guardWithin, s.usage(func(used int64) bool { return used < s.line }))
	seconds := time.Since(s.passed).Seconds()
	t.Logf("guard on: a pod has left %.1f s after the node passed the line of %d MiB; usage was at most %d MiB, at a load average of %s",
		seconds, s.line>>20, s.most>>20, loadAverage())
	if seconds > guardWithin.Seconds() {
		t.Errorf("a pod has left after %.1f s, want at most %v", seconds, guardWithin)
	}
	if err := s.undisturbed(s.critical, growing)(t.Context()); err != nil {
		t.Fatal(err)
	}

	var moved []corev1.Pod
	s.eventually("the pod runs on the other node", time.Minute, func(ctx context.Context) (err error) {
		moved, err = s.running(ctx, "movable", 1)
		if err == nil && (moved[0].UID == s.movable.UID || moved[0].Spec.NodeName != "node-2") {
			err = fmt.Errorf("pod %s is on %s", moved[0].Name, moved[0].Spec.NodeName)
		}
		return err
	})
	s.always("no other pod moves or is evicted", 75*time.Second, all(s.undisturbed(s.critical, growing, moved[0]), func(ctx context.Context) error {
		pods, err := s.evictedByKubelet(ctx)
		if len(pods) > 0 {
			err = fmt.Errorf("the kubelet evicted pod %s", pods[0].Name)
		}
		return err
	}))
	if n := s.moves(); n != 1 {
		t.Errorf("%d pods were moved, want 1", n)
	}
}

func guardOff(t *testing.T) {
	w := newSmallWorld(t, bed.Options{Nodes: 2, Rights: []string{"node-guard"}})
	w.updater.Kill()
	var err error
	if w.updater, err = w.healthy(t.Context(), bed.Updater().With("--node-guard=false")); err != nil {
		t.Fatal(err)
	}
	s := newFillingNode(t, w, "guard-off")
	s.grow()
	var evicted []corev1.Pod
	s.eventually("the kubelet evicts a pod", 4*time.Minute, all(s.usage(func(int64) bool { return true }), func(ctx context.Context) (err error) {
		evicted, err = s.evictedByKubelet(ctx)
		if err == nil && len(evicted) == 0 {
			err = fmt.Errorf("no pod is evicted, and usage was at most %d MiB", s.most>>20)
		}
		return err
	}))
	t.Logf("guard off: the kubelet evicted pod %s %.1f s after the node passed the line of %d MiB; usage was at most %d MiB: %s",
		evicted[0].Name, time.Since(s.passed).Seconds(), s.line>>20, s.most>>20, evicted[0].Status.Message)
	if n := s.moves(); n != 0 {
		t.Errorf("%d pods were moved, want none", n)
	}
}

// A fillingNode is a node of 8 GiB with three pods that request 100Mi each:
//   - critical has a higher priority. Without that it would move first: it uses most memory, and its move costs least, because it starts at once.
//   - movable has the priority of growing, uses a constant amount, and is ready 30 s after its start.
//   - growing starts last, and can run on no other node.
//
// At the end they use 8140 MiB. The kubelet evicts a pod above 8092 MiB. Without movable they use 5040 MiB, 63 % of the allocatable memory. Below 70 %, the
// guard does not look ahead.
type fillingNode struct {
	*place
	critical, movable corev1.Pod

	line   int64     // of the guard, in bytes
	passed time.Time // when usage passed the line
	most   int64     // that was in use, in bytes
}

// newFillingNode starts pods critical and movable. All VPAs have memory limits that follow the highest usage, so the node is watched.
func newFillingNode(t *testing.T, w *world, name string) *fillingNode {
	t.Helper()
	s := &fillingNode{place: newPlaceIn(t, w, name)}
	allocatable := s.node(0).Status.Allocatable.Memory().Value()
	s.line = int64(guardLine * float64(allocatable))
	s.schedulable("node-2", false)
	critical := strings.Replace(unsized("critical", "3200Mi"), "  containers:\n", "  priorityClassName: critical\n      containers:\n", 1)
	movable := strings.Replace(unsized("movable", "3100Mi"), "image: test/app,", "image: test/app, readinessProbe: {exec: {command: [ready]}, periodSeconds: 1},", 1)
	movable = strings.Replace(movable, "annotations:", "annotations:\n        sim.podfit.dev/app.ready: after=30s", 1)
	s.apply("{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: critical}, value: 10}", critical, movable)
	s.critical, s.movable = s.start("critical", 1)[0], s.start("movable", 1)[0]
	s.schedulable("node-2", true)
	s.manage("critical")
	s.manage("movable")
	return s
}

// unsized returns a Deployment with one pod that requests little.
func unsized(name, memory string) string {
	return spec{Name: name, Replicas: 1, Requests: "{cpu: 100m, memory: 100Mi}", CPU: "100m", Memory: memory}.manifest()
}

// manage creates a VPA that recommends what the pod requests.
func (p *place) manage(name string) {
	p.Helper()
	p.apply(singleAutoscaler(name, "{podfit.dev/memory-limits: peaks}"))
	p.recommend(name, "100m", "100m", "3600m")
}

// grow starts pod growing, whose usage rises by half a GiB a minute, and returns it when usage passes the line.
func (s *fillingNode) grow() corev1.Pod {
	s.Helper()
	s.apply(onNode("node-1", unsized("growing", "ramp(100Mi,1840Mi,210s)")))
	growing := s.start("growing", 1)[0]
	s.manage("growing")
	s.eventually("usage passes the line", 90*time.Second, s.usage(func(used int64) bool { return used > s.line }))
	s.passed = time.Now()
	return growing
}

// usage returns a check of the memory that the containers of the node use, by the simulation.
func (s *fillingNode) usage(is func(used int64) bool) func(context.Context) error {
	return func(ctx context.Context) error {
		containers, err := s.Usage(ctx)
		if err != nil {
			return err
		}
		var used int64
		for i := range containers {
			if containers[i].Node == "node-1" {
				used += containers[i].Memory
			}
		}
		s.most = max(s.most, used)
		if !is(used) {
			return fmt.Errorf("node-1 uses %d MiB, the line is %d MiB", used>>20, s.line>>20)
		}
		return nil
	}
}

// isWatched returns an error until the updater has read the usage of pods, which it does only while nodes are watched.
func (p *place) isWatched(context.Context) error {
	rights, err := p.Rights(filepath.Join(p.root, "deploy"))
	if err == nil && !rights.Used["vpa-updater: list pods.metrics.k8s.io"] {
		err = errors.New("the updater has not read the usage of pods")
	}
	return err
}

// evictedByKubelet returns the pods of the node that its kubelet evicted. They stay, and have failed.
func (s *fillingNode) evictedByKubelet(ctx context.Context) ([]corev1.Pod, error) {
	pods, err := s.pods(ctx, "")
	return slices.DeleteFunc(pods, func(pod corev1.Pod) bool {
		return pod.Status.Phase != corev1.PodFailed || pod.Status.Reason != "Evicted" || pod.Spec.NodeName != "node-1"
	}), err
}
