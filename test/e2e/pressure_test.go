// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"podfit.dev/podfit/test/e2e/bed"
	"podfit.dev/podfit/test/e2e/invariant"
)

// readsPressure is the request of the updater for the memory pressure of the node, which its kubelet lets the API server check.
const readsPressure = "vpa-updater: get nodes/stats named node-1"

// TestGuard_nodeUnderPressure_podMovesOnlyWithRightAndFlag has its own cluster, whose kubelets report a memory pressure of 30 %. The updater runs with
// --node-guard-pressure=0, with its default flags and the rights of deploy/, and without the right nodes/stats.
func TestGuard_nodeUnderPressure_podMovesOnlyWithRightAndFlag(t *testing.T) {
	w := newSmallWorld(t, bed.Options{Nodes: 3, Rights: []string{"node-guard"}})
	w.updater.Kill()
	s := newPressedNode(t, w, "memory-pressure")

	s.restart("without-pressure", "--node-guard-pressure=0")
	s.eventually("the updater watches the node, whose usage is known", 90*time.Second, all(s.isWatched, s.isMeasured))
	s.always("no kubelet is asked, and no pod moves", 45*time.Second, all(s.undisturbed(s.pods...), s.asks()))

	s.restart("default")
	began := time.Now()
	moved := s.movesOne(2*time.Minute, `The pods of node node-1 wait for memory (2\d|30) % of the time \(pressure\) and use 75 % of its memory`)
	s.runsElsewhere(moved)
	t.Logf("pod %s has moved because of pressure %.1f s after the start of the updater, at a load average of %s", moved.Name, time.Since(began).Seconds(), loadAverage())
	s.asked(readsPressure)

	s.takeRightAway()
	s.logs("Cannot read the memory pressure of nodes", "403 Forbidden", "After 403, apply deploy/rights/node-guard")
	s.restart("without-right")
	s.logs("A feature is off", "get nodes/stats", "memory pressure does not count", "kubectl apply -f deploy/rights/node-guard/node-guard.yaml")
	asked := s.asked(readsPressure, "refused, "+readsPressure)
	s.always("no kubelet is asked, and no pod moves", 80*time.Second, all(s.undisturbed(s.pods...), s.asks(asked...))) // the guard only observes for a minute
	s.use("6600Mi")
	s.movesOne(guardWithin, `The pods of node node-1 use 8\d % of its memory`)
	if n := s.moves(); n != 2 {
		t.Errorf("%d pods were moved, want 2", n)
	}
	if err := s.asks(asked...)(t.Context()); err != nil {
		t.Error(err)
	}
}

// A pressedNode is a node of 8 GiB that is under memory pressure, with three pods that request 100Mi each and use 75 % of its allocatable memory:
//   - heavy causes the pressure, and can run on no other node.
//   - first and second use so little that the node still uses more than 70 % without one of them.
//
// A pod of no VPA uses as much on node-3, which is not watched because of that, and causes more pressure there. Only node-2 takes new pods.
type pressedNode struct {
	*place
	pods []corev1.Pod // those that still run on the node
}

func newPressedNode(t *testing.T, w *world, name string) *pressedNode {
	t.Helper()
	s := &pressedNode{place: newPlaceIn(t, w, name)}
	s.allow(invariant.Advised, "pods with the recommended size move because of the memory pressure of their node and the memory that they use")
	s.schedulable("node-2", false)
	s.apply(onNode("node-3", pressing("other", "6000Mi", "0.9")))
	s.start("other", 1)
	s.schedulable("node-3", false)
	s.apply(onNode("node-1", pressing("heavy", "5300Mi", "0.3")), unsized("first", "350Mi"), unsized("second", "350Mi"))
	for _, name := range []string{"heavy", "first", "second"} {
		s.pods = append(s.pods, s.start(name, 1)...)
		s.manage(name)
	}
	s.schedulable("node-2", true)
	return s
}

// pressing returns a Deployment like unsized, because of which all tasks of its node wait for memory for a share of the time.
func pressing(name, memory, share string) string {
	return strings.Replace(unsized(name, memory), "annotations:", "annotations:\n        sim.podfit.dev/app.pressure: \""+share+"\"", 1)
}

// restart replaces the updater by one with other flags, and a log of its own.
func (s *pressedNode) restart(name string, flags ...string) {
	s.Helper()
	s.updater.Kill()
	var err error
	if s.updater, err = s.healthy(s.Context(), bed.Updater().Named("updater-"+name).With(flags...)); err != nil {
		s.Fatal(err)
	}
}

// movesOne waits until the updater has evicted one of the pods, with the reason NodeNearlyFull and a text. It returns that pod.
func (s *pressedNode) movesOne(within time.Duration, text string) (moved corev1.Pod) {
	s.Helper()
	s.eventually("the updater evicts a pod because its node is nearly full", within, func(ctx context.Context) error {
		n, err := count(ctx, s.updater, `podfit_updater_decisions{act="evict",reason="NodeNearlyFull"}`)
		if err == nil && n != 1 {
			err = fmt.Errorf("%d such decisions", n)
		}
		return err
	})
	evicted := regexp.MustCompile(`Evicted a pod.* pod="?` + s.ns + `/([^ "]+).*` + text)
	s.eventually("the log says why", 10*time.Second, func(context.Context) error {
		found := evicted.FindStringSubmatch(s.updater.Tail(1000))
		if found == nil {
			return fmt.Errorf("no line of the log matches %s", evicted)
		}
		at := slices.IndexFunc(s.pods, func(pod corev1.Pod) bool { return pod.Name == found[1] })
		if at < 0 {
			s.Fatalf("pod %s moved", found[1])
		}
		moved = s.pods[at]
		s.pods = slices.Delete(s.pods, at, at+1)
		return nil
	})
	return moved
}

// runsElsewhere waits until the replacement of a pod runs on node-2, of which less is requested.
func (s *pressedNode) runsElsewhere(moved corev1.Pod) {
	s.Helper()
	app := moved.Labels["app"]
	s.eventually("the pod runs on the other node", time.Minute, func(ctx context.Context) error {
		pods, err := s.running(ctx, app, 1)
		if err == nil && pods[0].Spec.NodeName != "node-2" {
			err = fmt.Errorf("pod %s is on %s", pods[0].Name, pods[0].Spec.NodeName)
		}
		return err
	})
}

// isMeasured returns an error unless the Metrics API has samples of all pods. After that the updater asks kubelets, if it does, when it reads usage twice.
func (s *pressedNode) isMeasured(ctx context.Context) error {
	text, err := s.CoreV1().RESTClient().Get().AbsPath("/apis/metrics.k8s.io/v1beta1/namespaces/" + s.ns + "/pods").DoRaw(ctx)
	if err != nil {
		return err
	}
	for _, pod := range s.pods {
		if !strings.Contains(string(text), pod.Name) {
			return fmt.Errorf("pod %s is not measured", pod.Name)
		}
	}
	return nil
}

// asks returns a check that podfit has sent these requests to kubelets, and no others.
func (s *pressedNode) asks(want ...string) func(context.Context) error {
	return func(context.Context) error {
		got, err := s.KubeletRequests()
		if err == nil && !slices.Equal(got, want) {
			err = fmt.Errorf("kubelets were asked %q, want %q", got, want)
		}
		return err
	}
}

// asked returns the requests that podfit has sent to kubelets, which must be these, each at least once.
func (s *pressedNode) asked(want ...string) []string {
	s.Helper()
	got, err := s.KubeletRequests()
	if err != nil {
		s.Fatal(err)
	}
	if kinds := slices.Compact(slices.Sorted(slices.Values(got))); !slices.Equal(kinds, slices.Sorted(slices.Values(want))) {
		s.Errorf("kubelets were asked %q, want %q", kinds, want)
	}
	return got
}

// takeRightAway removes the rule of nodes/stats from the role of deploy/rights/node-guard.
func (s *pressedNode) takeRightAway() {
	s.Helper()
	role, err := s.RbacV1().ClusterRoles().Get(s.Context(), "podfit:node-guard", metav1.GetOptions{})
	if err != nil {
		s.Fatal(err)
	}
	for i, rule := range role.Rules {
		if slices.Equal(rule.Resources, []string{"nodes/stats"}) {
			role.Rules = slices.Delete(role.Rules, i, i+1)
			_, err = s.RbacV1().ClusterRoles().Update(s.Context(), role, metav1.UpdateOptions{})
			break
		}
	}
	if err != nil || len(role.Rules) != 1 {
		s.Fatalf("rules %+v, error %v", role.Rules, err)
	}
}

// logs waits until the updater has logged a line with these parts.
func (s *pressedNode) logs(parts ...string) {
	s.Helper()
	s.eventually("the log has the line", time.Minute, func(context.Context) error {
		for line := range strings.Lines(s.updater.Tail(1000)) {
			if !slices.ContainsFunc(parts, func(part string) bool { return !strings.Contains(line, part) }) {
				return nil
			}
		}
		return errors.New("no line of the log has " + strings.Join(parts, ", "))
	})
}

// use changes the memory that pod heavy uses.
func (s *pressedNode) use(memory string) {
	s.Helper()
	patch := fmt.Sprintf(`{"metadata": {"annotations": {"sim.podfit.dev/app.memory": %q}}}`, memory)
	if _, err := s.CoreV1().Pods(s.ns).Patch(s.Context(), s.pods[0].Name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
		s.Fatal(err)
	}
}
