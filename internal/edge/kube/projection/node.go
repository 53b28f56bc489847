// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package projection

import (
	"encoding/json"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/edge/kube"
)

// Node returns the projection of a node.
func Node(n *corev1.Node, in *Interner) cluster.Node {
	out := cluster.Node{
		Labels:      Pairs(n.Labels, in),
		Name:        n.Name,
		Allocatable: kube.Amounts(n.Status.Allocatable),
		Capacity:    kube.Amounts(n.Status.Capacity),
		MaxPods:     int(n.Status.Allocatable.Pods().Value()),
		Cordoned:    n.Spec.Unschedulable,
		Kept:        n.Annotations["cluster-autoscaler.kubernetes.io/scale-down-disabled"] == "true",
		Kernel:      in.String(n.Status.NodeInfo.KernelVersion),
	}
	out.Taints = reserving(n.Spec.Taints, in)
	out.Tainted = len(out.Taints) > 0
	for _, a := range n.Status.Addresses {
		if port := n.Status.DaemonEndpoints.KubeletEndpoint.Port; a.Type == corev1.NodeInternalIP && port > 0 && out.Kubelet == "" {
			out.Kubelet = net.JoinHostPort(a.Address, strconv.Itoa(int(port)))
		}
	}
	for i := range n.Status.Conditions {
		switch c := &n.Status.Conditions[i]; c.Type {
		case corev1.NodeReady:
			out.Ready = c.Status == corev1.ConditionTrue
		case corev1.NodeMemoryPressure:
			out.LowMemory = c.Status == corev1.ConditionTrue
		}
	}
	return out
}

// reserving returns the taints that reserve a node for certain pods.
func reserving(taints []corev1.Taint, in *Interner) []cluster.Taint {
	var out []cluster.Taint
	for i := range taints {
		t := &taints[i]
		if !transientTaints[t.Key] && (t.Effect == corev1.TaintEffectNoSchedule || t.Effect == corev1.TaintEffectNoExecute) {
			out = append(out, cluster.Taint{Key: in.String(t.Key), Value: in.String(t.Value), Effect: in.String(string(t.Effect))})
		}
	}
	return out
}

// transientTaints are the taints that Kubernetes sets on a node while a condition of the node is bad or the node is cordoned. The
// conditions and the spec of the node have the same information. These taints do not reserve the node for certain pods.
var transientTaints = map[string]bool{
	corev1.TaintNodeNotReady: true, corev1.TaintNodeUnreachable: true, corev1.TaintNodeUnschedulable: true,
	corev1.TaintNodeMemoryPressure: true, corev1.TaintNodeDiskPressure: true, corev1.TaintNodePIDPressure: true,
	corev1.TaintNodeNetworkUnavailable: true,
}

// Pairs returns labels as "key=value", sorted.
func Pairs(labels map[string]string, in *Interner) []string {
	if len(labels) == 0 {
		return nil
	}
	out := make([]string, 0, len(labels))
	for k, v := range labels {
		out = append(out, in.String(k+"="+v))
	}
	slices.Sort(out)
	return out
}

// A nodePool is the part of a NodePool of Karpenter that podfit reads.
type nodePool struct {
	Metadata metav1.ObjectMeta `json:"metadata"`
	Spec     struct {
		Limits   map[corev1.ResourceName]resource.Quantity `json:"limits"`
		Template struct {
			Spec struct {
				Taints       []corev1.Taint    `json:"taints"`
				Requirements []poolRequirement `json:"requirements"`
			} `json:"spec"`
		} `json:"template"`
	} `json:"spec"`
}

type poolRequirement struct {
	Key      string   `json:"key"`
	Operator string   `json:"operator"`
	Values   []string `json:"values"`
}

// poolSizes are the requirements that bound the size of an instance. Karpenter's providers for AWS and Azure define them.
var poolSizes = map[string]struct {
	res  cluster.Resource
	unit int64 // millicores or bytes
}{
	"karpenter.k8s.aws/instance-cpu":    {cluster.CPU, 1000},
	"karpenter.k8s.aws/instance-memory": {cluster.Memory, 1 << 20},
	"karpenter.azure.com/sku-cpu":       {cluster.CPU, 1000},
	"karpenter.azure.com/sku-memory":    {cluster.Memory, 1 << 20},
}

// NodePools returns the largest nodes that the NodePools of Karpenter can add, from a NodePoolList in JSON. A node is not larger than the
// limits of its pool and than its requirements on the size of instances. A pool without both can add nodes of any size. A pool that is not
// readable is left out, so that it does not hide the others.
func NodePools(list []byte) ([]cluster.NewNode, error) {
	var all struct {
		Items []json.RawMessage `json:"items"`
	}
	if err := json.Unmarshal(list, &all); err != nil {
		return nil, fmt.Errorf("decode NodePools: %w", err)
	}
	var out []cluster.NewNode
	for i := range all.Items {
		var p nodePool
		if err := json.Unmarshal(all.Items[i], &p); err != nil || p.Metadata.DeletionTimestamp != nil {
			continue
		}
		var n cluster.NewNode
		for _, res := range cluster.All {
			if limit, ok := p.Spec.Limits[corev1.ResourceName(res.String())]; ok {
				lower(&n.Size, res, kube.SignedAmount(res, limit))
			}
		}
		for j := range p.Spec.Template.Spec.Requirements {
			r := &p.Spec.Template.Spec.Requirements[j]
			if size, known := poolSizes[r.Key]; known {
				if most, bounded := r.most(); bounded {
					lower(&n.Size, size.res, min(most, kube.MostAmount/size.unit)*size.unit)
				}
			}
		}
		n.Taints = reserving(p.Spec.Template.Spec.Taints, nil)
		if !hasNone(n.Size) {
			out = append(out, n)
		}
	}
	return out, nil
}

// hasNone reports whether a pool cannot add any node.
func hasNone(size cluster.Resources) bool {
	return slices.ContainsFunc(cluster.All[:], func(res cluster.Resource) bool {
		v, bounded := size.Get(res)
		return bounded && v <= 0
	})
}

// most returns the highest value that a requirement allows, and false if it has no bound that podfit can read.
func (r *poolRequirement) most() (int64, bool) {
	var most int64
	for _, text := range r.Values {
		v, err := strconv.ParseInt(text, 10, 64)
		if err != nil || v < 0 {
			return 0, false
		}
		most = max(most, v)
	}
	switch {
	case len(r.Values) == 0:
		return 0, false
	case r.Operator == "In", r.Operator == "Lte":
		return most, true
	case r.Operator == "Lt":
		return most - 1, true
	}
	return 0, false
}

// The annotations by which a node group of the Cluster API describes its nodes to the cluster autoscaler.
const (
	groupMaxSize = "cluster.x-k8s.io/cluster-api-autoscaler-node-group-max-size"
	groupCPU     = "capacity.cluster-autoscaler.kubernetes.io/cpu"
	groupMemory  = "capacity.cluster-autoscaler.kubernetes.io/memory"
	groupTaints  = "capacity.cluster-autoscaler.kubernetes.io/taints"
)

// NodeGroup returns the node that the cluster autoscaler can add to a node group of the Cluster API. It returns false if the autoscaler
// does not manage the group, or if the group does not describe its nodes: then the existing nodes show their size.
func NodeGroup(m metav1.Object) (cluster.NewNode, bool) {
	a := m.GetAnnotations()
	if most, err := strconv.Atoi(a[groupMaxSize]); err != nil || most <= 0 || m.GetDeletionTimestamp() != nil {
		return cluster.NewNode{}, false
	}
	cpu, err := kube.ParseQuantity(a[groupCPU])
	memory, err2 := kube.ParseQuantity(a[groupMemory])
	n := cluster.NewNode{Size: cluster.Amounts(kube.SignedAmount(cluster.CPU, cpu), kube.SignedAmount(cluster.Memory, memory))}
	if err != nil || err2 != nil || hasNone(n.Size) {
		return cluster.NewNode{}, false
	}
	for text := range strings.SplitSeq(a[groupTaints], ",") {
		keyValue, effect, ok := strings.Cut(strings.TrimSpace(text), ":")
		key, value, _ := strings.Cut(keyValue, "=")
		if ok {
			n.Taints = append(n.Taints, reserving([]corev1.Taint{{Key: key, Value: value, Effect: corev1.TaintEffect(effect)}}, nil)...)
		}
	}
	return n, true
}
