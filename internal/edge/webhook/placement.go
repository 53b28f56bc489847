// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"bytes"
	"errors"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kjson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/utils/ptr"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/fleet"
)

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

// A podAffinity is the affinity of a pod. Of a required node affinity, it has the terms, or none if they exceed their bounds. PodAffinity is set
// if it refers to pods of other namespaces, and PodAntiAffinity if that is unknown: standingOf reads no other property of them.
type podAffinity struct {
	corev1.Affinity
	node string // the only node that it allows, as for pods of DaemonSets; "" if it is another affinity
}

func (a *podAffinity) UnmarshalJSON(text []byte) error {
	type podTerms struct {
		Required  podTermList `json:"requiredDuringSchedulingIgnoredDuringExecution"`
		Preferred podTermList `json:"preferredDuringSchedulingIgnoredDuringExecution"`
	}
	var from struct {
		NodeAffinity struct {
			Required shared `json:"requiredDuringSchedulingIgnoredDuringExecution"`
		} `json:"nodeAffinity"`
		PodAffinity     podTerms `json:"podAffinity"`
		PodAntiAffinity podTerms `json:"podAntiAffinity"`
	}
	err := kjson.Unmarshal(text, &from)
	*a = podAffinity{}
	together, apart := &from.PodAffinity, &from.PodAntiAffinity
	switch {
	case together.Required.crosses || together.Preferred.crosses || apart.Required.crosses || apart.Preferred.crosses:
		a.PodAffinity = &corev1.PodAffinity{}
	case together.Required.unknown || together.Preferred.unknown || apart.Required.unknown || apart.Preferred.unknown:
		a.PodAntiAffinity = &corev1.PodAntiAffinity{}
	}
	text = from.NodeAffinity.Required
	if len(text) == 0 {
		return err
	}
	required := &corev1.NodeSelector{}
	if len(text) <= maxNodeAffinity && kjson.Unmarshal(bytes.Clone(text), required) != nil {
		required = &corev1.NodeSelector{}
	}
	a.NodeAffinity = &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: required}
	a.node = onlyNode(required)
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

// standingOf returns the properties of a new pod that determine which ResourceQuotas apply to it.
func standingOf(p *corev1.Pod) cluster.Standing {
	s := cluster.Standing{
		Terminating:            cluster.TruthOf(ptr.Deref(p.Spec.ActiveDeadlineSeconds, -1) >= 0),
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

// crossing returns whether an affinity refers to pods of other namespaces (podAffinity).
func crossing(a *corev1.Affinity) cluster.Truth {
	switch {
	case a != nil && a.PodAffinity != nil:
		return cluster.Yes
	case a != nil && a.PodAntiAffinity != nil:
		return cluster.Unknown
	}
	return cluster.No
}

// maxTerms is the maximum number of terms in a list of an affinity that are decoded.
const maxTerms = 100

// A podTermList is whether one of the terms in a list refers to pods of other namespaces. It is unknown for a list with more than maxTerms
// terms.
type podTermList struct{ crosses, unknown bool }

func (l *podTermList) UnmarshalJSON(text []byte) error {
	type term struct {
		Namespaces        nonEmpty `json:"namespaces"`
		NamespaceSelector present  `json:"namespaceSelector"`
	}
	err := elements(text, maxTerms, "affinity terms", func(element []byte) error {
		var one struct {
			term          // of a required affinity
			Weighted term `json:"podAffinityTerm"` // of a preferred one
		}
		err := kjson.Unmarshal(element, &one)
		for _, t := range [...]term{one.term, one.Weighted} {
			l.crosses = l.crosses || bool(t.Namespaces) || bool(t.NamespaceSelector)
		}
		return err
	})
	if _, tooMany := errors.AsType[unboundedError](err); tooMany {
		l.unknown = true
		return nil
	}
	return err
}
