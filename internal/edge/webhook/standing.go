// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"bytes"
	"errors"

	corev1 "k8s.io/api/core/v1"
	kjson "k8s.io/apimachinery/pkg/util/json"

	"podfit.dev/podfit/internal/core/cluster"
)

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
