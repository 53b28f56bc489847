// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"fmt"
	"log/slog"
	"reflect"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/fleet"
)

func TestDecodePod_placement_isDecodedWithinBounds(t *testing.T) {
	anyTaint := []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
	field := func(term string) string {
		return `"affinity":{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[` + term + `]}}}`
	}
	const onlyN1 = `{"matchFields":[{"key":"metadata.name","operator":"In","values":["n1"]}]}`
	for name, c := range map[string]struct {
		spec        string
		selector    map[string]string
		tolerations []corev1.Toleration
		node        string
		restricted  bool
		unknown     bool // the affinity has no terms
	}{
		"none": {spec: `"nodeSelector":null,"tolerations":null,"affinity":null`},
		"node selector and toleration": {
			spec:     `"nodeSelector":{"pool":"a"},"tolerations":[{"key":"gpu","operator":"Exists","effect":"NoSchedule"}]`,
			selector: map[string]string{"pool": "a"}, tolerations: []corev1.Toleration{{Key: "gpu", Operator: "Exists", Effect: "NoSchedule"}},
		},
		"too many tolerations": {
			spec: `"tolerations":[` + strings.TrimSuffix(strings.Repeat(`{"key":"a"},`, maxTolerations+1), ",") + `]`, tolerations: anyTaint,
		},
		"too long node selector":  {spec: `"nodeSelector":{"a":"` + strings.Repeat("x", maxPlacementNames) + `"}`, tolerations: anyTaint},
		"too many labels":         {spec: `"nodeSelector":{` + manyLabels(maxSelector+1) + `}`, tolerations: anyTaint},
		"the node of a DaemonSet": {spec: field(onlyN1), node: "n1", restricted: true},
		"two terms":               {spec: field(onlyN1 + "," + onlyN1), restricted: true},
		"labels of nodes":         {spec: field(`{"matchExpressions":[{"key":"a","operator":"Exists"}]}`), restricted: true},
		"preferred affinity":      {spec: `"affinity":{"nodeAffinity":{"preferredDuringSchedulingIgnoredDuringExecution":[]}}`},
		"affinity to other pods":  {spec: `"affinity":{"podAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":[{"namespaces":["b"]}]}}`},
		"too long affinity":       {spec: field(`{"matchExpressions":[{"key":"` + strings.Repeat("x", maxNodeAffinity) + `","operator":"Exists"}]}`), restricted: true, unknown: true},
		"invalid affinity":        {spec: field(`{"matchExpressions":[{"key":3}]}`), restricted: true, unknown: true},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := decodePod([]byte(`{"metadata":{"name":"a"},"spec":{"containers":[{"name":"app"}],` + c.spec + `}}`))
			if err != nil {
				t.Fatal(err)
			}
			restricted := p.Spec.Affinity != nil && p.Spec.Affinity.NodeAffinity != nil
			if !reflect.DeepEqual(p.Spec.NodeSelector, c.selector) || !reflect.DeepEqual(p.Spec.Tolerations, c.tolerations) || p.Spec.NodeName != c.node || restricted != c.restricted {
				t.Errorf("selector %v, tolerations %v, node %q, restricted %t", p.Spec.NodeSelector, p.Spec.Tolerations, p.Spec.NodeName, restricted)
			}
			if restricted {
				if got := len(p.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms); (got == 0) != c.unknown {
					t.Errorf("%d terms", got)
				}
			}
			if got := standingOf(p).CrossNamespaceAffinity == cluster.Yes; got != strings.Contains(c.spec, "podAffinity") {
				t.Errorf("affinity to other namespaces: %t", got)
			}
		})
	}
}

func manyLabels(n int) string {
	var labels []string
	for i := range n {
		labels = append(labels, fmt.Sprintf(`"l%d":"v"`, i))
	}
	return strings.Join(labels, ",")
}

// fixedNodes are nodes of one size.
type fixedNodes struct{ size cluster.Resources }

func (n fixedNodes) Sizes(*corev1.Pod) *fleet.Sizes {
	return &fleet.Sizes{Largest: []cluster.Resources{n.size}}
}

func TestHandler_recommendationLargerThanNodes_podIsScaledDown(t *testing.T) {
	a := recommending("cart", map[string]cluster.Resources{"app": cluster.Amounts(4000, 32<<30)})
	a.Advice[0].Lower = cluster.Amounts(100, 1<<30)
	pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "app"}}}}
	projected := &cluster.Pod{Key: cluster.Key{Namespace: "shop", Name: "cart-0"}, Top: shopCart, Containers: []cluster.Container{{Name: "app"}}}
	for name, c := range map[string]struct {
		nodes nodes
		want  string
	}{
		"no nodes":    {nil, `"value":"32Gi"`},
		"large nodes": {fixedNodes{cluster.Amounts(8000, 64<<30)}, `"value":"32Gi"`},
		"small nodes": {fixedNodes{cluster.Amounts(8000, 16<<30)}, `"value":"16Gi"`},
	} {
		t.Run(name, func(t *testing.T) {
			h := NewHandler(worldOf(a), Options{Nodes: c.nodes}, NewMetrics(prometheus.NewRegistry()), slog.New(slog.DiscardHandler))
			patch, err := h.fit(a, pod, projected)
			if err != nil || !strings.Contains(string(patch), c.want) {
				t.Errorf("patch %s (%v), want %s", patch, err, c.want)
			}
			if scaled := strings.Contains(string(patch), "memory capped to the largest node for the pod"); scaled != strings.Contains(c.want, "16Gi") {
				t.Errorf("patch %s: the annotation names the node: %t", patch, scaled)
			}
		})
	}
}
