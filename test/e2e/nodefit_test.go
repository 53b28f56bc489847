// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	vpav1 "podfit.dev/podfit/api/v1"
	"podfit.dev/podfit/test/e2e/invariant"
)

// TestPodfit_recommendationFitsNoNode_podIsScaledDownUntilANodeIsAdded has a pool of one node, of which a DaemonSet leaves little CPU. A
// pod must run in the pool because of its node affinity. Its containers need more, so they get what there is, in proportion. Then a node
// without the DaemonSet joins the pool.
func TestPodfit_recommendationFitsNoNode_podIsScaledDownUntilANodeIsAdded(t *testing.T) {
	p := newPlace(t, "pool")
	// The smaller size is within the bounds of the recommendation. The updater changes such pods after 12 hours by default.
	p.allow(invariant.Advised, "the pod is within the bounds, and the test lowers the age at which it is updated nevertheless")
	p.restartUpdater("--in-recommendation-bounds-eviction-lifetime-threshold=5s")
	small, large := p.node(0), p.node(1)
	p.labelNode(small, "pool", "test")
	p.labelNode(small, "agents", "yes")
	free := small.Status.Allocatable.Cpu().MilliValue() - 600
	p.apply(fmt.Sprintf(`apiVersion: apps/v1
kind: DaemonSet
metadata: {name: agent}
spec:
  selector: {matchLabels: {app: agent}}
  template:
    metadata: {labels: {app: agent}}
    spec:
      terminationGracePeriodSeconds: 1
      nodeSelector: {agents: "yes"}
      containers: [{name: agent, image: test/agent, resources: {requests: {cpu: %dm}}}]
`, free))
	p.start("agent", 1)
	p.apply(`apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 1
  selector: {matchLabels: {app: web}}
  template:
    metadata:
      labels: {app: web}
      annotations:
        sim.podfit.dev/big.cpu: 600m
        sim.podfit.dev/big.memory: 50Mi
        sim.podfit.dev/little.cpu: 300m
        sim.podfit.dev/little.memory: 50Mi
    spec:
      terminationGracePeriodSeconds: 1
      affinity:
        nodeAffinity:
          requiredDuringSchedulingIgnoredDuringExecution:
            nodeSelectorTerms: [{matchExpressions: [{key: pool, operator: In, values: [test]}]}]
      containers:
      - {name: big, image: test/app, resources: {requests: {cpu: 50m, memory: 50Mi}}}
      - {name: little, image: test/app, resources: {requests: {cpu: 50m, memory: 50Mi}}}
`, strings.Replace(autoscaler("web", "", "web", "Recreate", ""), `"Recreate"`, "Recreate, minReplicas: 1", 1))
	p.start("web", 1)

	needs := vpav1.VerticalPodAutoscalerConditionType("NeedsLargerNode")
	p.eventually("the condition says what a node needs, and for how many pods", measured, p.says("web", needs, "ScaledDown", "1 pod fits with its recommended size on no node", "A node needs", "The pods get"))
	var wanted []int64
	p.eventually("the containers share the free CPU in proportion", resized, func(ctx context.Context) error {
		pods, err := p.running(ctx, "web", 1)
		if err != nil {
			return err
		}
		wanted, err = p.cpuTargets(ctx, "web")
		if err != nil {
			return err
		}
		big, little := cpuOf(&pods[0], "big"), cpuOf(&pods[0], "little")
		if big+little < 590 || big+little > 600 || wanted[0]+wanted[1] <= 600 {
			return fmt.Errorf("the requests are %dm and %dm, the targets %v; want 600m in total", big, little, wanted)
		}
		if got, want := float64(big)/float64(little), float64(wanted[0])/float64(wanted[1]); got < want*0.97 || got > want*1.03 {
			return fmt.Errorf("the requests are %dm and %dm, want the proportion of the targets %v", big, little, wanted)
		}
		return nil
	})
	p.always("the pod is not replaced", 8*time.Second, p.same("web", p.start("web", 1)))

	p.labelNode(large, "pool", "test")
	p.eventually("the pod has its target on the node that was added", resized, func(ctx context.Context) error {
		pods, err := p.running(ctx, "web", 1)
		if err != nil {
			return err
		}
		if wanted, err = p.cpuTargets(ctx, "web"); err != nil {
			return err
		}
		if big, little := cpuOf(&pods[0], "big"), cpuOf(&pods[0], "little"); big != wanted[0] || little != wanted[1] || pods[0].Spec.NodeName != large.Name {
			return fmt.Errorf("the requests on %s are %dm and %dm, the targets %v", pods[0].Spec.NodeName, big, little, wanted)
		}
		return nil
	})
	p.eventually("the condition is removed", resized, func(ctx context.Context) error {
		if c, err := p.condition(ctx, "web", needs); err == nil {
			return fmt.Errorf("the condition is %+v", c)
		}
		return nil
	})
}

// node returns one of the nodes of the cluster.
func (p *place) node(i int) *corev1.Node {
	p.Helper()
	l, err := p.CoreV1().Nodes().List(p.Context(), metav1.ListOptions{})
	if err != nil {
		p.Fatal(err)
	}
	return &l.Items[i]
}

// labelNode sets a label of a node until the test ends.
func (p *place) labelNode(n *corev1.Node, name, value string) {
	p.Helper()
	if err := p.setNodeLabel(p.Context(), n, name, fmt.Sprintf("%q", value)); err != nil {
		p.Fatal(err)
	}
	p.Cleanup(func() {
		if err := p.setNodeLabel(context.Background(), n, name, "null"); err != nil {
			p.Error(err)
		}
	})
}

func (p *place) setNodeLabel(ctx context.Context, n *corev1.Node, name, value string) error {
	patch := fmt.Sprintf(`{"metadata": {"labels": {%q: %s}}}`, name, value)
	_, err := p.CoreV1().Nodes().Patch(ctx, n.Name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	return err
}

// cpuTargets returns the targets of the containers of a VPA in millicores, sorted by the names of the containers.
func (p *place) cpuTargets(ctx context.Context, name string) (out []int64, err error) {
	a, err := p.Autoscaler(ctx, p.ns, name)
	if err != nil {
		return nil, err
	}
	if a.Status.Recommendation != nil {
		for _, r := range a.Status.Recommendation.ContainerRecommendations {
			out = append(out, r.Target.Cpu().MilliValue())
		}
	}
	if len(out) != 2 {
		return nil, fmt.Errorf("the VPA has %d recommendations", len(out))
	}
	return out, nil
}

// cpuOf returns the actual CPU request of a container in millicores.
func cpuOf(pod *corev1.Pod, container string) int64 {
	for _, c := range pod.Status.ContainerStatuses {
		if c.Name == container && c.Resources != nil {
			return c.Resources.Requests.Cpu().MilliValue()
		}
	}
	return 0
}
