// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"podfit.dev/podfit/test/e2e/bed"
)

// The longest time for which a replacement may be Pending.
const atOnce = 20 * time.Second

// TestUpdater_nodeIsFull_evictsWhenPlaceholderHasNode has pods that may run on one node, which is full. When a second node is added,
// placeholder pods get that node, the pods are evicted one after the other, and no replacement is Pending for long.
func TestUpdater_nodeIsFull_evictsWhenPlaceholderHasNode(t *testing.T) {
	p, old, addNode := withFullNode(t, withPlaceholders, 2)
	p.eventually("a placeholder pod waits for a node", measured, func(ctx context.Context) error {
		held, err := p.placeholders(ctx)
		if err == nil && (len(held) != 1 || held[0].Spec.NodeName != "") {
			err = fmt.Errorf("%d placeholder pods, want one without a node", len(held))
		}
		return err
	})
	if err := p.same("steady", old)(t.Context()); err != nil {
		t.Errorf("before there is room: %v", err)
	}
	added := addNode()
	p.eventually("the pods have the new size, and no placeholder pod is left", 2*resized, func(ctx context.Context) error {
		if err := p.sized("steady", 2, "app cpu=3 memory=262144k")(ctx); err != nil {
			return err
		}
		held, err := p.placeholders(ctx)
		if err == nil && len(held) > 0 {
			err = fmt.Errorf("%d placeholder pods are left", len(held))
		}
		return err
	})
	p.scheduledAtOnce("steady", added)
}

// TestUpdater_nodeIsFull_evictsWhenRequestIsProvisioned is the same with ProvisioningRequests. The test has the role of the cluster
// autoscaler.
func TestUpdater_nodeIsFull_evictsWhenRequestIsProvisioned(t *testing.T) {
	crd, err := os.ReadFile(filepath.Join(shared.root, "internal", "edge", "kube", "capacity", "testdata", "provisioningrequests-crd.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if err := shared.ApplyYAML(t.Context(), "", string(crd)); err != nil {
		t.Fatal(err)
	}
	requests := shared.Dynamic.Resource(schema.GroupVersionResource{Group: "autoscaling.x-k8s.io", Version: "v1", Resource: "provisioningrequests"})
	t.Cleanup(func() {
		crds := shared.Dynamic.Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"})
		if err := crds.Delete(context.Background(), "provisioningrequests.autoscaling.x-k8s.io", metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
	if err := bed.Until(t.Context(), 100*time.Millisecond, func(ctx context.Context) error {
		_, err := requests.List(ctx, metav1.ListOptions{})
		return err
	}); err != nil {
		t.Fatal(err)
	}
	p, old, addNode := withFullNode(t, withRequests, 2)
	provisioned := map[string]bool{}
	var added string
	p.eventually("the pods have the new size, and no request is left", measured+2*resized, func(ctx context.Context) error {
		l, err := requests.Namespace(p.ns).List(ctx, metav1.ListOptions{LabelSelector: "podfit.dev/placeholder=true"})
		if err != nil {
			return err
		}
		for i := range l.Items {
			r := &l.Items[i]
			if provisioned[r.GetName()] {
				continue
			}
			if _, err := p.CoreV1().PodTemplates(p.ns).Get(ctx, r.GetName(), metav1.GetOptions{}); err != nil {
				return fmt.Errorf("the PodTemplate of %s: %w", r.GetName(), err)
			}
			if added == "" {
				if err := p.same("steady", old)(ctx); err != nil {
					p.Errorf("before there is room: %v", err)
				}
				added = addNode()
			}
			if _, err := requests.Namespace(p.ns).Patch(ctx, r.GetName(), types.MergePatchType, []byte(`{"status": {"conditions": [
				{"type": "Provisioned", "status": "True", "reason": "Provisioned", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}]}}`),
				metav1.PatchOptions{}, "status"); err != nil {
				return err
			}
			provisioned[r.GetName()] = true
		}
		if err := p.sized("steady", 2, "app cpu=3 memory=262144k")(ctx); err != nil {
			return err
		}
		templates, err := p.CoreV1().PodTemplates(p.ns).List(ctx, metav1.ListOptions{})
		if err == nil && len(l.Items)+len(templates.Items) > 0 {
			err = fmt.Errorf("%d requests and %d PodTemplates are left", len(l.Items), len(templates.Items))
		}
		return err
	})
	if len(provisioned) == 0 {
		t.Error("no ProvisioningRequest was created")
	}
	p.scheduledAtOnce("steady", added)
}

// capacityUpdater is the updater of withFullNode.
func capacityUpdater() bed.Component {
	return bed.Updater().Named("updater-with-capacity").With("--updater-interval=5s")
}

// withFullNode starts an updater and the pods of the workload steady, which may run on nodes with a label. The only such node has no room for
// their new size. The result gives the label to a second node and returns its name.
func withFullNode(t *testing.T, namespace string, replicas int) (p *place, old []corev1.Pod, addNode func() string) {
	p = newPlace(t, namespace) // the shared updater ignores this namespace
	u, err := p.healthy(t.Context(), capacityUpdater())
	if err != nil {
		t.Fatal(err)
	}
	p.endsWithTest(u)
	p.own = u
	nodes, err := p.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	if err != nil || len(nodes.Items) < 2 {
		t.Fatalf("%d nodes, error %v", len(nodes.Items), err)
	}
	full, added := nodes.Items[0].Name, nodes.Items[1].Name
	p.setCapacityLabel(full, `"yes"`)
	t.Cleanup(func() {
		p.setCapacityLabel(full, "null")
		p.setCapacityLabel(added, "null")
	})
	w := steady("steady")
	w.Replicas = replicas
	other := spec{Name: "other", Replicas: 1, Requests: `{cpu: "14", memory: 50Mi}`}
	for _, s := range []spec{w, other} {
		p.apply(strings.Replace(s.manifest(), "    spec:\n", "    spec:\n      nodeSelector: {test.podfit.dev/capacity: \"yes\"}\n", 1))
	}
	p.start("other", 1)
	old = p.start("steady", replicas)
	a := autoscaler("steady", "", "steady", "Recreate", `  resourcePolicy: {containerPolicies: [{containerName: app, minAllowed: {cpu: "3"}}]}`)
	p.apply(strings.Replace(a, `{updateMode: "Recreate"}`, fmt.Sprintf(`{updateMode: "Recreate", minReplicas: %d}`, replicas), 1))
	return p, old, func() string {
		p.setCapacityLabel(added, `"yes"`)
		return added
	}
}

// scheduledAtOnce checks that no pod of an app was Pending for long, and that all are on a node.
func (p *place) scheduledAtOnce(app, node string) {
	p.Helper()
	pods, err := p.pods(p.Context(), app)
	if err != nil {
		p.Fatal(err)
	}
	for i := range pods {
		waited, err := untilScheduled(&pods[i])
		if err != nil || waited > atOnce || pods[i].Spec.NodeName != node {
			p.Errorf("replacement %s was Pending for %v, is on node %s, error %v; want at most %v and %s", pods[i].Name, waited, pods[i].Spec.NodeName, err, atOnce, node)
		}
	}
}

// setCapacityLabel sets the label by which the pods of the test select nodes to a JSON value.
func (p *place) setCapacityLabel(name, value string) {
	p.Helper()
	patch := `{"metadata": {"labels": {"test.podfit.dev/capacity": ` + value + `}}}`
	if _, err := p.CoreV1().Nodes().Patch(context.Background(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
		p.Errorf("label node %s: %v", name, err)
	}
}

// placeholders returns the placeholder pods of the namespace.
func (p *place) placeholders(ctx context.Context) ([]corev1.Pod, error) {
	l, err := p.CoreV1().Pods(p.ns).List(ctx, metav1.ListOptions{LabelSelector: "podfit.dev/placeholder=true"})
	if err != nil {
		return nil, err
	}
	return l.Items, nil
}

// untilScheduled returns for how long a pod had no node.
func untilScheduled(pod *corev1.Pod) (time.Duration, error) {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionTrue {
			return c.LastTransitionTime.Sub(pod.CreationTimestamp.Time), nil
		}
	}
	return 0, errors.New("the pod has no node")
}
