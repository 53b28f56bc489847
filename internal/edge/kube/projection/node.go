// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package projection

import (
	"encoding/json"
	"fmt"
	"net"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

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
		Group:       in.String(groupOf(n)),
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

// groupOf returns the name of the group of a node that Karpenter or the Cluster API has added; "" if that is not known. The MachineSet that owns
// a machine is named after its MachineDeployment, with a suffix.
func groupOf(n *corev1.Node) string {
	if pool := n.Labels["karpenter.sh/nodepool"]; pool != "" {
		return nodePoolKind + pool
	}
	owner := n.Annotations["cluster.x-k8s.io/owner-name"]
	end := strings.LastIndex(owner, "-")
	if n.Annotations["cluster.x-k8s.io/owner-kind"] != "MachineSet" || end < 0 {
		return ""
	}
	return path.Join(machineDeploymentKind, n.Annotations["cluster.x-k8s.io/cluster-namespace"], owner[:end])
}

// The beginnings of the names of groups.
const (
	nodePoolKind          = "NodePool/"
	machineDeploymentKind = "MachineDeployment/" // as the cluster autoscaler names groups of the Cluster API
)

// count sets the number of nodes that can still be added to a group. It is not known if an amount is not plausible: a very high maximum stands
// for no maximum.
func count(g *cluster.NodeGroup, most, has *int64) {
	g.Counted = most != nil && *most >= 0 && *most <= 100_000 && has != nil && *has >= 0
	if g.Counted {
		g.More = int(max(*most-*has, 0))
	}
}

// readable returns the objects that can be decoded, so that one that cannot does not hide the others.
func readable[T any](all []json.RawMessage) []T {
	out := make([]T, 0, len(all))
	for i := range all {
		var v T
		if json.Unmarshal(all[i], &v) == nil {
			out = append(out, v)
		}
	}
	return out
}

// items returns the readable objects of a list in JSON.
func items[T any](list []byte) ([]T, error) {
	var all struct {
		Items []json.RawMessage `json:"items"`
	}
	err := json.Unmarshal(list, &all)
	return readable[T](all.Items), err
}

// A nodePool is the part of a NodePool of Karpenter that podfit reads.
type nodePool struct {
	Metadata metav1.ObjectMeta `json:"metadata"`
	Spec     struct {
		Replicas *int64                                    `json:"replicas"` // of a static pool
		Limits   map[corev1.ResourceName]resource.Quantity `json:"limits"`
		Template struct {
			Spec struct {
				Taints       []corev1.Taint                   `json:"taints"`
				Requirements []corev1.NodeSelectorRequirement `json:"requirements"`
			} `json:"spec"`
		} `json:"template"`
	} `json:"spec"`
	Status struct {
		Resources map[corev1.ResourceName]resource.Quantity `json:"resources"` // of the nodes that exist
	} `json:"status"`
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

// NodePools returns the largest nodes that the NodePools of Karpenter can add, from a NodePoolList in JSON.
func NodePools(list []byte) (out []cluster.NewNode, err error) {
	all, err := items[nodePool](list)
	for i := range all {
		if all[i].Metadata.DeletionTimestamp == nil {
			out = append(out, all[i].node())
		}
	}
	return out, err
}

// node returns the largest node that the pool can add: it is not larger than the limits of the pool and its requirements on the size of instances.
// A pool without both can add nodes of any size. The pool can grow by its limits minus what exists. That is not known if the status lacks the
// amount of a limit, or the limit is one of another resource. A static pool adds no nodes for pods.
func (p *nodePool) node() cluster.NewNode {
	n := cluster.NewNode{Taints: reserving(p.Spec.Template.Spec.Taints, nil), NodeGroup: cluster.NodeGroup{Name: nodePoolKind + p.Metadata.Name}}
	if p.Spec.Replicas != nil {
		return cluster.NewNode{Unsized: true, NodeGroup: cluster.NodeGroup{Name: n.Name, Counted: true}}
	}
	grown := n.NodeGroup
	known := true
	for name, limit := range p.Spec.Limits {
		has, reported := p.Status.Resources[name]
		res, isSize := cluster.ParseResource(string(name)) // other amounts are whole numbers, as memory
		most := kube.SignedAmount(res, limit)
		exists := kube.SignedAmount(res, has)
		if isSize {
			n.Size = n.Size.Set(res, most)
			grown.Room = grown.Room.Set(res, most-max(exists, 0))
		} else {
			count(&grown, &most, &exists)
		}
		known = known && reported && (isSize || name == "nodes")
	}
	if known {
		n.NodeGroup = grown
	}
	for j := range p.Spec.Template.Spec.Requirements {
		r := &p.Spec.Template.Spec.Requirements[j]
		if size, known := poolSizes[r.Key]; known {
			if most, bounded := highest(r); bounded {
				n.Size = n.Size.Lowest(cluster.Resources{}.Set(size.res, min(most, kube.MostAmount/size.unit)*size.unit))
			}
		}
	}
	n.Unsized = n.Size.HasNone()
	return n
}

// highest returns the highest value that a requirement allows, and false if it has no bound that podfit can read.
func highest(r *corev1.NodeSelectorRequirement) (int64, bool) {
	var most int64
	for _, text := range r.Values {
		v, err := strconv.ParseInt(text, 10, 64)
		if err != nil || v < 0 {
			return 0, false
		}
		most = max(most, v)
	}
	switch {
	case len(r.Values) > 0 && (r.Operator == "In" || r.Operator == "Lte"):
		return most, true
	case len(r.Values) > 0 && r.Operator == "Lt":
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
	groupLabels  = "capacity.cluster-autoscaler.kubernetes.io/labels"
)

// A machineDeployment is the part of a MachineDeployment of the Cluster API that podfit reads.
type machineDeployment struct {
	Metadata metav1.ObjectMeta `json:"metadata"`
	Spec     struct {
		Replicas *int64 `json:"replicas"`
	} `json:"spec"`
}

// MachineDeployments returns the nodes that the cluster autoscaler can add to node groups of the Cluster API, from a list in JSON.
func MachineDeployments(list []byte) (out []cluster.NewNode, err error) {
	all, err := items[machineDeployment](list)
	for i := range all {
		if n, managed := all[i].node(); managed {
			out = append(out, n)
		}
	}
	return out, err
}

// node returns the node that the autoscaler can add, and false if it does not manage the group. If the group does not describe its nodes, the
// existing ones show their size.
func (m *machineDeployment) node() (n cluster.NewNode, managed bool) {
	a := m.Metadata.Annotations
	most, err := strconv.ParseInt(a[groupMaxSize], 10, 64)
	if err != nil || most <= 0 || m.Metadata.DeletionTimestamp != nil {
		return n, false
	}
	n.Name = path.Join(machineDeploymentKind, m.Metadata.Namespace, m.Metadata.Name)
	count(&n.NodeGroup, &most, m.Spec.Replicas)
	cpu, err := kube.ParseQuantity(a[groupCPU])
	memory, err2 := kube.ParseQuantity(a[groupMemory])
	n.Size = cluster.Amounts(kube.SignedAmount(cluster.CPU, cpu), kube.SignedAmount(cluster.Memory, memory))
	n.Unsized = err != nil || err2 != nil || n.Size.HasNone()
	for text := range strings.SplitSeq(a[groupTaints], ",") {
		keyValue, effect, ok := strings.Cut(strings.TrimSpace(text), ":")
		key, value, _ := strings.Cut(keyValue, "=")
		if ok {
			n.Taints = append(n.Taints, reserving([]corev1.Taint{{Key: key, Value: value, Effect: corev1.TaintEffect(effect)}}, nil)...)
		}
	}
	labels := map[string]string{corev1.LabelOSStable: "linux"} // which the autoscaler expects, too
	for text := range strings.SplitSeq(a[groupLabels], ",") {
		if key, value, ok := strings.Cut(text, "="); ok {
			labels[key] = value
		}
	}
	n.Labels = Pairs(labels, nil)
	return n, true
}

// A groupStatus is the part of the status of a group of the cluster autoscaler that podfit reads.
type groupStatus struct {
	Name   string `json:"name"`
	Health struct {
		Target *int64 `json:"cloudProviderTarget"` // nodes that should exist
		Most   *int64 `json:"maxSize"`
	} `json:"health"`
	ScaleUp struct {
		Status string `json:"status"`
	} `json:"scaleUp"`
}

// AutoscalerStatus returns the groups of the cluster autoscaler, from its status ConfigMap in JSON. The error says what of it is not usable, also
// if there are groups.
func AutoscalerStatus(now time.Time, object []byte) ([]cluster.NewNode, error) {
	const (
		statusTTL  = 15 * time.Minute // the autoscaler writes it every 10 seconds
		mostGroups = 1000
	)
	var m corev1.ConfigMap
	if err := json.Unmarshal(object, &m); err != nil || m.Data["status"] == "" {
		return nil, err
	}
	var status struct {
		Time   string            `json:"time"`
		Groups []json.RawMessage `json:"nodeGroups"`
	}
	if err := yaml.Unmarshal([]byte(m.Data["status"]), &status); err != nil {
		return nil, fmt.Errorf("the status must be YAML, as cluster autoscaler 1.30 and later write it: %w", err)
	}
	at, err := time.Parse("2006-01-02 15:04:05.999999999 -0700 MST", status.Time)
	if err != nil || now.Sub(at) > statusTTL {
		return nil, fmt.Errorf("the status must be newer than %s, its time is %q", statusTTL, status.Time)
	}
	var out []cluster.NewNode
	for _, g := range readable[groupStatus](status.Groups[:min(len(status.Groups), mostGroups)]) {
		n := cluster.NewNode{Unsized: true, NodeGroup: cluster.NodeGroup{Name: g.Name, BackedOff: g.ScaleUp.Status == "Backoff"}}
		count(&n.NodeGroup, g.Health.Most, g.Health.Target)
		if g.Name != "" && n.Counted {
			out = append(out, n)
		}
	}
	if lost := len(status.Groups) - len(out); lost > 0 {
		return out, fmt.Errorf("%d of %d node groups are ignored: they have no name, or no valid maxSize or cloudProviderTarget, or come after the first %d", lost, len(status.Groups), mostGroups)
	}
	return out, nil
}
