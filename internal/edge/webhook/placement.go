// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"bytes"
	"errors"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kjson "k8s.io/apimachinery/pkg/util/json"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/fleet"
)

// nodes are the nodes of the cluster, from memory.
type nodes interface {
	// Sizes returns the sizes of the nodes that may take a new pod, or nil if its size does not depend on nodes.
	Sizes(*corev1.Pod) *fleet.Sizes
}

// Bounds of the fields that determine which nodes may take a pod. If one is exceeded, the nodes for the pod are unknown.
const (
	maxSelector       = 100 // labels in the node selector
	maxTolerations    = 100
	maxPlacementNames = 64 << 10 // bytes of each of these fields
	maxNodeAffinity   = 16 << 10 // bytes of a required node affinity
)

// A nodeSelector is the node selector of a pod. It is unknown if it exceeds its bounds.
type nodeSelector struct {
	labels  map[string]string
	unknown bool
}

func (s *nodeSelector) UnmarshalJSON(text []byte) error {
	if s.unknown = len(text) > maxPlacementNames; s.unknown {
		return nil
	}
	err := kjson.Unmarshal(text, &s.labels)
	if len(s.labels) > maxSelector {
		*s = nodeSelector{unknown: true}
	}
	return err
}

// tolerations are the tolerations of a pod. They are unknown if they exceed their bounds.
type tolerations struct {
	all     []corev1.Toleration
	unknown bool
}

func (t *tolerations) UnmarshalJSON(text []byte) error {
	if t.unknown = len(text) > maxPlacementNames; t.unknown {
		return nil
	}
	err := elements(text, maxTolerations, "tolerations", func(element []byte) error {
		var one corev1.Toleration
		err := kjson.Unmarshal(element, &one)
		t.all = append(t.all, one)
		return err
	})
	if _, tooMany := errors.AsType[unboundedError](err); tooMany {
		*t = tolerations{unknown: true}
		return nil
	}
	return err
}

// A podAffinity is the affinity of a pod: whether it refers to pods of other namespaces, and to which nodes it restricts the pod.
type podAffinity struct {
	crossNamespace
	required *corev1.NodeSelector // the required node affinity, without terms if it exceeds its bounds; nil if there is none
	node     string               // the only node that it allows, as for pods of DaemonSets; "" if it is another affinity
}

func (a *podAffinity) UnmarshalJSON(text []byte) error {
	var from struct {
		NodeAffinity struct {
			Required shared `json:"requiredDuringSchedulingIgnoredDuringExecution"`
		} `json:"nodeAffinity"`
	}
	err := errors.Join(a.crossNamespace.UnmarshalJSON(text), kjson.Unmarshal(text, &from))
	text = from.NodeAffinity.Required
	if len(text) == 0 {
		return err
	}
	a.required = &corev1.NodeSelector{}
	if len(text) <= maxNodeAffinity && kjson.Unmarshal(bytes.Clone(text), a.required) != nil {
		a.required = &corev1.NodeSelector{}
	}
	a.node = onlyNode(a.required)
	return err
}

// onlyNode returns the node that a required node affinity names, or "" if it is of another form.
func onlyNode(s *corev1.NodeSelector) string {
	if len(s.NodeSelectorTerms) != 1 {
		return ""
	}
	t := &s.NodeSelectorTerms[0]
	if len(t.MatchFields) != 1 || len(t.MatchExpressions) > 0 {
		return ""
	}
	f := &t.MatchFields[0]
	if f.Key != metav1.ObjectNameField || f.Operator != corev1.NodeSelectorOpIn || len(f.Values) != 1 {
		return ""
	}
	return f.Values[0]
}

// affinity encodes a as an affinity. standingOf decodes what concerns other namespaces, and fleet.Sizes the rest.
func (a *podAffinity) affinity() *corev1.Affinity {
	out := a.crossNamespace.affinity()
	if a.required == nil {
		return out
	}
	if out == nil {
		out = &corev1.Affinity{}
	}
	out.NodeAffinity = &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: a.required}
	return out
}

// standingOf returns the properties of a new pod that determine which ResourceQuotas apply to it.
func standingOf(p *corev1.Pod) cluster.Standing {
	s := cluster.Standing{
		Terminating:            cluster.TruthOf(p.Spec.ActiveDeadlineSeconds != nil && *p.Spec.ActiveDeadlineSeconds >= 0),
		CrossNamespaceAffinity: crossing(p.Spec.Affinity),
		PriorityClass:          p.Spec.PriorityClassName,
		PriorityClassKnown:     true,
	}
	if q, ok := p.Spec.Overhead[corev1.ResourceCPU]; ok {
		s.Overhead = s.Overhead.Set(cluster.CPU, q.MilliValue())
	}
	if q, ok := p.Spec.Overhead[corev1.ResourceMemory]; ok {
		s.Overhead = s.Overhead.Set(cluster.Memory, q.Value())
	}
	return s
}

// crossing converts the result of crossNamespace.affinity.
func crossing(a *corev1.Affinity) cluster.Truth {
	switch {
	case a == nil:
		return cluster.No
	case a.PodAffinity != nil:
		return cluster.Yes
	case a.PodAntiAffinity != nil:
		return cluster.Unknown
	}
	return cluster.No
}

// crossNamespace is whether an affinity refers to pods of other namespaces. The zero value means that it does not.
type crossNamespace struct{ yes, unknown bool }

func (c *crossNamespace) UnmarshalJSON(text []byte) error {
	type podTerms struct {
		Required  terms[term]         `json:"requiredDuringSchedulingIgnoredDuringExecution"`
		Preferred terms[weightedTerm] `json:"preferredDuringSchedulingIgnoredDuringExecution"`
	}
	var from struct {
		PodAffinity     podTerms `json:"podAffinity"`
		PodAntiAffinity podTerms `json:"podAntiAffinity"`
	}
	err := kjson.Unmarshal(text, &from)
	for _, of := range [...]crossNamespace{
		from.PodAffinity.Required.crossNamespace, from.PodAffinity.Preferred.crossNamespace,
		from.PodAntiAffinity.Required.crossNamespace, from.PodAntiAffinity.Preferred.crossNamespace,
	} {
		c.yes = c.yes || of.yes
		c.unknown = c.unknown || of.unknown
	}
	return err
}

// affinity encodes c as an affinity, which standingOf decodes. No other property of an affinity is used.
func (c crossNamespace) affinity() *corev1.Affinity {
	switch {
	case c.yes:
		return &corev1.Affinity{PodAffinity: &corev1.PodAffinity{}}
	case c.unknown:
		return &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{}}
	}
	return nil
}

// maxTerms is the maximum number of terms in a list of an affinity that are decoded.
const maxTerms = 100

// terms is whether one of the terms in a list refers to other namespaces. It is unknown for a list with more than maxTerms terms.
type terms[T interface{ crosses() bool }] struct{ crossNamespace }

func (t *terms[T]) UnmarshalJSON(text []byte) error {
	err := elements(text, maxTerms, "affinity terms", func(element []byte) error {
		var one T
		err := kjson.Unmarshal(element, &one)
		t.yes = t.yes || one.crosses()
		return err
	})
	if _, tooMany := errors.AsType[unboundedError](err); tooMany {
		t.unknown = true
		return nil
	}
	return err
}

type weightedTerm struct {
	Term term `json:"podAffinityTerm"`
}

func (t weightedTerm) crosses() bool { return t.Term.crosses() }

type term struct {
	Namespaces        occupied `json:"namespaces"`
	NamespaceSelector present  `json:"namespaceSelector"`
}

func (t term) crosses() bool { return bool(t.Namespaces) || bool(t.NamespaceSelector) }

// occupied is whether an array has elements.
type occupied bool

func (o *occupied) UnmarshalJSON(text []byte) error {
	if bytes.Equal(text, null) {
		return nil
	}
	if text[0] != '[' {
		return errors.New("not an array")
	}
	*o = len(bytes.TrimSpace(text[1:len(text)-1])) > 0
	return nil
}
