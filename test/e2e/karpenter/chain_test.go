// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package karpenter

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"podfit.dev/podfit/test/e2e/bed"
	"podfit.dev/podfit/test/e2e/invariant"
)

const (
	provided = 90 * time.Second // within which a pod gets its size, with a recommendation, a new node and an eviction
	quiet    = 25 * time.Second // for which nothing happens: five passes, and several times what Karpenter waits before it removes a node

	// atOnce is the longest time for which a replacement may be Pending.
	atOnce = 20 * time.Second
)

// TestKarpenter_noRoom_nodeIsAddedBeforeEviction shows podfit beside Karpenter as one story: nodes are added for placeholder pods before pods are evicted, no more
// nodes than the NodePool may have, and no request follows when Karpenter removes nodes.
//
// Real: the API server, the scheduler, the kubelets' code, metrics-server, Karpenter with its KWOK provider, and podfit. Simulated: the containers, and the machines of a
// cloud: the test starts a kubelet for each Node object that Karpenter creates.
func TestKarpenter_noRoom_nodeIsAddedBeforeEviction(t *testing.T) {
	w := newWorld(t, 8)
	for _, part := range []struct {
		name string
		play func()
	}{
		{"no room: request, node, eviction, replacement with its size", w.chain},
		{"podfit capacity counts the nodes", func() { w.addable(2, 0) }},
		{"a pod that fits only on a new node waits without a request while the NodePool is at its limit", w.unplaceable},
		{"a pod without free room waits with one request while the NodePool is at its limit", w.waits},
		{"room that becomes free is used, and the other node is removed", w.usesFreeRoom},
		{"Karpenter removes an underused node, and podfit does not ask again", w.consolidated},
	} {
		began := time.Now()
		part.play()
		if t.Failed() {
			t.Fatalf("failed: %s", part.name)
		}
		t.Logf("%s (%.0f s)", part.name, time.Since(began).Seconds())
	}
}

// chain has two pods on the node of the cluster whose recommendation has no room there.
func (w *world) chain() {
	w.apply(deployment("other", 1, "2"), deployment("grow", 2, "500m"))
	w.eventually("the pods run", time.Minute, func(ctx context.Context) error {
		return errors.Join(w.sized(ctx, "other", 1, "2"), w.sized(ctx, "grow", 2, "500m"))
	})
	if added, _ := w.fleet.counts(); added != 0 {
		w.Fatalf("Karpenter has added %d nodes for pods that have room", added)
	}
	w.apply(autoscaler("grow", 2, "3"))
	w.eventually("the pods have the new size, and no request is left", 2*provided, func(ctx context.Context) error {
		return errors.Join(w.sized(ctx, "grow", 2, "3"), w.requested(ctx, 0))
	})
	pods, err := w.pods(w.Context(), "grow")
	w.must(err)
	for i := range pods {
		w.placedAtOnce(&pods[i])
	}
	w.expect(2, 2, 2)
}

// unplaceable has a pod that needs more than any present node has, while Karpenter may add none.
func (w *world) unplaceable() {
	w.restartPodfit() // it knows the limits of the NodePool as they were at its start
	w.apply(deployment("huge", 1, "500m"))
	w.eventually("the pod runs", time.Minute, func(ctx context.Context) error { return w.sized(ctx, "huge", 1, "500m") })
	w.apply(autoscaler("huge", 1, "6"))
	w.eventually("the reason says that groups of nodes are at their maximum", time.Minute, func(ctx context.Context) error {
		return w.explains(ctx, "huge", "Unplaceable", "at their maximum")
	})
	w.always("the pod waits without a request", quiet, func(ctx context.Context) error {
		return errors.Join(w.sized(ctx, "huge", 1, "500m"), w.requested(ctx, 0))
	})
	w.remove("huge")
	w.expect(2, 2, 2)
}

// waits has a pod that would fit on a node of the present size, while all are full and Karpenter may add none.
func (w *world) waits() {
	w.apply(deployment("late", 1, "500m"))
	w.eventually("the pod runs", time.Minute, func(ctx context.Context) error { return w.sized(ctx, "late", 1, "500m") })
	w.apply(autoscaler("late", 1, "3"))
	w.eventually("podfit asks for capacity", time.Minute, func(ctx context.Context) error { return w.requested(ctx, 1) })
	w.always("the pod waits with one request", quiet, func(ctx context.Context) error {
		return errors.Join(w.sized(ctx, "late", 1, "500m"), w.requested(ctx, 1))
	})
	w.must(w.explains(w.Context(), "late", "AwaitingCapacity", "at their maximum"))
	w.expect(3, 2, 2)
}

// usesFreeRoom frees both nodes. The placeholder pod gets one of them, and Karpenter removes the other.
func (w *world) usesFreeRoom() {
	w.scale("grow", 0)
	w.eventually("the pod has its size, and one node is left", provided, func(ctx context.Context) error {
		return errors.Join(w.sized(ctx, "late", 1, "3"), w.requested(ctx, 0), w.present(1))
	})
	w.always("nothing else happens", quiet, func(ctx context.Context) error {
		return errors.Join(w.sized(ctx, "late", 1, "3"), w.requested(ctx, 0), w.present(1))
	})
	w.expect(3, 3, 2)
	w.addable(1, 1)
}

// consolidated lets the pod become so small that it fits on the node of the cluster, so that Karpenter moves it there and removes its node.
func (w *world) consolidated() {
	w.apply(autoscaler("late", 1, "500m"))
	w.eventually("the pod is small, and no node of Karpenter is left", provided, func(ctx context.Context) error {
		return errors.Join(w.sized(ctx, "late", 1, "500m"), w.present(0))
	})
	w.always("nothing else happens", quiet, func(ctx context.Context) error {
		return errors.Join(w.sized(ctx, "late", 1, "500m"), w.requested(ctx, 0), w.present(0))
	})
	w.expect(3, 4, 2)
}

// requested returns an error unless there is this number of placeholder pods.
func (w *world) requested(ctx context.Context, want int) error {
	held, err := w.placeholders(ctx)
	if err == nil && len(held) != want {
		err = fmt.Errorf("%d placeholder pods, want %d", len(held), want)
	}
	return err
}

// present returns an error unless this number of nodes of Karpenter exists.
func (w *world) present(want int) error {
	if _, got := w.fleet.counts(); got != want {
		return fmt.Errorf("%d nodes of Karpenter, want %d", got, want)
	}
	return nil
}

// expect checks how many requests, evictions and nodes there were since the start.
func (w *world) expect(requests, evictions, nodes int) {
	w.Helper()
	log, err := w.witness.Log(w.Context())
	w.must(err)
	added, _ := w.fleet.counts()
	got := [3]int{len(written(log, isRequest)), len(written(log, isEviction)), added}
	if want := [3]int{requests, evictions, nodes}; got != want {
		w.Errorf("%d requests for capacity, %d evictions, %d nodes added; want %v", got[0], got[1], got[2], want)
	}
}

// written returns the successful writes of podfit of a kind.
func written(log invariant.Log, is func(*invariant.Write) bool) (out []*invariant.Write) {
	for i := range log.Writes {
		if x := &log.Writes[i]; x.User == account && x.OK() && is(x) {
			out = append(out, x)
		}
	}
	return out
}

func isRequest(x *invariant.Write) bool {
	return x.Verb == "create" && x.Resource == "pods" && x.Subresource == "" && strings.Contains(x.Body, "podfit.dev/placeholder")
}

func isEviction(x *invariant.Write) bool { return x.Resource == "pods" && x.Subresource == "eviction" }

// placedAtOnce checks that a pod was not Pending for long, and is on a node of Karpenter.
func (w *world) placedAtOnce(p *corev1.Pod) {
	w.Helper()
	for _, c := range p.Status.Conditions {
		if c.Type != corev1.PodScheduled {
			continue
		}
		if waited := c.LastTransitionTime.Sub(p.CreationTimestamp.Time); waited > atOnce || !strings.HasPrefix(p.Spec.NodeName, "kwok-") {
			w.Errorf("replacement %s was Pending for %v, and is on node %s; want at most %v, and a node of Karpenter", p.Name, waited, p.Spec.NodeName, atOnce)
		}
	}
}

// explains returns an error unless podfit explain says something about why a pod of a Deployment is as it is.
func (w *world) explains(ctx context.Context, app string, want ...string) error {
	text, err := w.ran(ctx, "explain", "deploy/"+app, "-n", namespace, "-o", "json", "--updater-interval=5s")
	for _, part := range want {
		if err == nil && !strings.Contains(text, part) {
			err = fmt.Errorf("podfit explain does not contain %q:\n%s", part, text)
		}
	}
	return err
}

// addable checks the nodes of the NodePool that podfit capacity reports, and how many can be added.
func (w *world) addable(nodes, more int) {
	w.Helper()
	w.eventually(fmt.Sprintf("podfit capacity reports %d nodes and %d more", nodes, more), time.Minute, func(ctx context.Context) error {
		text, err := w.ran(ctx, "capacity", "-o", "json")
		if err != nil {
			return err
		}
		var report struct {
			Pools []struct {
				Name         string
				Nodes        int
				AddableNodes *int
			}
		}
		if err := json.Unmarshal([]byte(text), &report); err != nil {
			return err
		}
		for _, p := range report.Pools {
			if p.Name == "apps" && p.Nodes == nodes && p.AddableNodes != nil && *p.AddableNodes == more {
				return nil
			}
		}
		return fmt.Errorf("report %s", text)
	})
}

// remove deletes a Deployment with its VPA, and waits until its pods are gone.
func (w *world) remove(app string) {
	w.Helper()
	w.must(w.AppsV1().Deployments(namespace).Delete(w.Context(), app, metav1.DeleteOptions{}))
	objects, err := bed.Parse([]byte(autoscaler(app, 1, "1")))
	w.must(err)
	vpas := w.Dynamic.Resource(objects[0].GroupVersionKind().GroupVersion().WithResource("verticalpodautoscalers")).Namespace(namespace)
	if err := vpas.Delete(w.Context(), app, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
		w.Fatal(err)
	}
	w.eventually("the pods of "+app+" are gone", time.Minute, func(ctx context.Context) error {
		l, err := w.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: "app=" + app})
		if err == nil && len(l.Items) > 0 {
			err = fmt.Errorf("%d pods exist", len(l.Items))
		}
		return err
	})
}
