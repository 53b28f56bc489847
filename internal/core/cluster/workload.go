// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"cmp"
	"strings"
)

// A Key names one namespaced object of a known kind.
type Key struct{ Namespace, Name string }

// String returns "namespace/name".
func (k Key) String() string { return k.Namespace + "/" + k.Name }

// Compare orders keys by namespace, then name.
func (k Key) Compare(o Key) int {
	return cmp.Or(strings.Compare(k.Namespace, o.Namespace), strings.Compare(k.Name, o.Name))
}

// A Workload names the controller that owns pods. It is comparable: history is keyed by it.
// The zero value means that nothing owns the pod.
type Workload struct {
	Group     string // API group, "" for the core group; never a version: versions change, workloads stay
	Kind      string
	Namespace string
	Name      string
}

// IsZero reports whether w names nothing.
func (w Workload) IsZero() bool { return w == Workload{} }

// String returns "namespace/Kind/name", with the group in front of a kind outside Kubernetes' own groups.
func (w Workload) String() string {
	kind := w.Kind
	if w.Group != "" && strings.Contains(w.Group, ".") {
		kind = w.Kind + "." + w.Group
	}
	return w.Namespace + "/" + kind + "/" + w.Name
}

// Compare orders workloads by namespace, kind, name and group.
func (w Workload) Compare(o Workload) int {
	return cmp.Or(
		strings.Compare(w.Namespace, o.Namespace),
		strings.Compare(w.Kind, o.Kind),
		strings.Compare(w.Name, o.Name),
		strings.Compare(w.Group, o.Group),
	)
}

// Scale is what a controller says of its replicas.
type Scale struct {
	Known      bool  // false: the controller's number of replicas cannot be read, or has not been read yet
	Unscalable bool  // there is nothing to read: the controller's kind has no scale
	Replicas   int32 // wanted replicas (for a DaemonSet: nodes that should run a pod)
	Ready      int32 // replicas that the controller counts as ready; only read for DaemonSets
}
