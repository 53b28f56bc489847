// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package recommend

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"podfit.dev/podfit/internal/core/cluster"
)

// CriticalityLabel is the label of pods whose value is the criticality of their workload: a number from MinCriticality to MaxCriticality.
const CriticalityLabel = "podfit.dev/criticality"

// The bounds of a criticality.
const (
	MinCriticality = 1
	MaxCriticality = 3
)

// maxLabel is the length of the longest value of a label in Kubernetes.
const maxLabel = 63

// A Criticality is the factor by which BusyHours multiplies the percentile, and where it comes from.
type Criticality struct {
	Factor float64
	Origin FactorOrigin
	Class  string // the PriorityClass, of FromPriorityClass
}

// A FactorOrigin is where a factor comes from. Machines read it; the zero value is the profile.
type FactorOrigin string

// The origins, the strongest last.
const (
	FromProfile       FactorOrigin = ""
	FromPriorityClass FactorOrigin = "priority-class"
	FromLabel         FactorOrigin = "label"
)

// A PriorityFactor is the criticality of pods with a PriorityClass.
type PriorityFactor struct {
	Class  string
	Factor float64
}

// Declared is what the live pods of a workload say about its criticality. The zero value is nothing.
type Declared struct {
	Label      float64  // the highest valid value of CriticalityLabel; 0: no pod has one
	Classes    []string // the PriorityClasses of the pods without a valid label, sorted; "" for pods without one
	HasInvalid bool     // a pod has an invalid value of CriticalityLabel
	Invalid    string   // the first of these values, sorted
}

// Known reports whether a pod was seen.
func (d Declared) Known() bool { return d.Label > 0 || len(d.Classes) > 0 }

// DeclaredBy returns what the live pods say. ok is false if no pod is live.
func DeclaredBy(pods []*cluster.Pod) (out Declared, ok bool) {
	for _, p := range pods {
		if !p.Live() {
			continue
		}
		ok = true
		class := ""
		if p.Marks != nil {
			if factor, valid := out.read(&p.Marks.Criticality); valid {
				out.Label = max(out.Label, factor)
				continue
			}
			class = p.Marks.Criticality.PriorityClass
		}
		if at, known := slices.BinarySearch(out.Classes, class); !known {
			out.Classes = slices.Insert(out.Classes, at, class)
		}
	}
	return out, ok
}

// read returns the valid label of a pod, and notes an invalid one.
func (d *Declared) read(c *cluster.Criticality) (float64, bool) {
	if !c.Labelled {
		return 0, false
	}
	factor, valid := ParseCriticality(c.Label)
	if !valid && (!d.HasInvalid || c.Label < d.Invalid) {
		d.HasInvalid, d.Invalid = true, c.Label
	}
	return factor, valid
}

// ParseCriticality reads the value of CriticalityLabel: digits, with or without decimals, from MinCriticality to MaxCriticality.
func ParseCriticality(text string) (float64, bool) {
	if len(text) > maxLabel {
		return 0, false
	}
	whole, decimals, dotted := strings.Cut(text, ".")
	if !digits(whole) || dotted && !digits(decimals) {
		return 0, false
	}
	v, err := strconv.ParseFloat(text, 64)
	return v, err == nil && v >= MinCriticality && v <= MaxCriticality
}

func digits(text string) bool {
	return text != "" && strings.Trim(text, "0123456789") == ""
}

// criticality returns the highest criticality of the pods, each of which has that of its label, else that of its PriorityClass, else that of
// the profile. Of equal ones the strongest origin counts, and the first PriorityClass.
func (b *BusyParams) criticality(d Declared) Criticality {
	profile := Criticality{Factor: b.Factor}
	if !d.Known() {
		return profile
	}
	var highest Criticality
	if d.Label > 0 {
		highest = Criticality{Factor: d.Label, Origin: FromLabel}
	}
	for _, class := range d.Classes {
		of := profile
		i := slices.IndexFunc(b.PriorityClasses, func(p PriorityFactor) bool { return p.Class == class })
		if i >= 0 && class != "" {
			of = Criticality{Factor: b.PriorityClasses[i].Factor, Origin: FromPriorityClass, Class: class}
		}
		if cmp.Or(cmp.Compare(of.Factor, highest.Factor), cmp.Compare(of.Origin.rank(), highest.Origin.rank())) > 0 {
			highest = of
		}
	}
	return highest
}

func (o FactorOrigin) rank() int {
	return slices.Index([]FactorOrigin{FromProfile, FromPriorityClass, FromLabel}, o)
}

// NodeSizes is the CPU of the smallest node that the pods of a workload may run on, in millicores; 0: not known. The two may be of
// different nodes.
type NodeSizes struct{ Allocatable, Capacity int64 }

// Of returns the CPU of a base.
func (n NodeSizes) Of(base cluster.NodeBase) int64 {
	if base == cluster.OfCapacity {
		return n.Capacity
	}
	return n.Allocatable
}

// For returns the profile as it applies to a workload: with the criticality that its pods declare, and limited by the nodes that they may run
// on. Only BusyHours has a criticality.
func (p Profile) For(d Declared, nodes NodeSizes) Profile {
	if p.MostOfNode > 0 {
		p.Node = cluster.NodeShare{
			Millicores: nodes.Of(p.MostOfNodeBase), Share: p.MostOfNode, Base: p.MostOfNodeBase, Floor: p.Floor(1).CPU,
		}
	}
	busy, ok := p.Estimator.(*busyHours)
	if !ok {
		return p
	}
	if of := busy.p.criticality(d); of != busy.criticality {
		changed := *busy
		changed.criticality = of
		p.Estimator = &changed
	}
	return p
}

// Criticality returns the criticality that the profile multiplies usage by. ok is false if the profile has none.
func (p Profile) Criticality() (c Criticality, ok bool) {
	busy, ok := p.Estimator.(*busyHours)
	if !ok {
		return Criticality{}, false
	}
	return busy.criticality, true
}
