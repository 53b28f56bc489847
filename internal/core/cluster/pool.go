// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"slices"
	"strings"
)

// poolLabels are the labels of nodes that name their pool, the most specific first.
var poolLabels = [...]string{
	"karpenter.sh/nodepool", "eks.amazonaws.com/nodegroup", "cloud.google.com/gke-nodepool", "kubernetes.azure.com/agentpool",
	"agentpool", "node.kubernetes.io/instance-type",
}

// roleLabel is the prefix of the labels that name the roles of a node.
const roleLabel = "node-role.kubernetes.io/"

// Pool returns the pool of the node according to the labels of the known cloud providers, and the label that names it. Both are "" if it
// has none of them.
func (n *Node) Pool() (name, label string) {
	for _, key := range poolLabels {
		if value := n.Label(key); value != "" {
			return value, key
		}
	}
	return "", ""
}

// Label returns the value of a label, "" if the node does not have it.
func (n *Node) Label(key string) string {
	if value, exists := n.label(key + "="); exists {
		return value
	}
	return ""
}

// Role returns the first role of the node by name, such as control-plane or worker, and its label. Both are "" if it has none.
func (n *Node) Role() (name, label string) {
	at, _ := slices.BinarySearch(n.Labels, roleLabel)
	if at == len(n.Labels) || !strings.HasPrefix(n.Labels[at], roleLabel) {
		return "", ""
	}
	label, _, _ = strings.Cut(n.Labels[at], "=")
	return strings.TrimPrefix(label, roleLabel), label
}
