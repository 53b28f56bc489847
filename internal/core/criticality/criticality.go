// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package criticality reads how critical a workload is: a factor of its usage, from the label of its pods, their PriorityClass or its profile.
package criticality

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/derivation"
)

// Label is the label of pods whose value is the criticality of their workload: a number from Min to Max.
const Label = "podfit.dev/criticality"

// The bounds of a criticality.
const (
	Min = 1
	Max = 3
)

// maxLabel is the length of the longest value of a label in Kubernetes.
const maxLabel = 63

// A Factor is what the algorithm BusyHours multiplies usage by, and where it comes from.
type Factor struct {
	Factor float64
	Origin derivation.FactorOrigin
	Class  string // the PriorityClass, of FromPriorityClass
}

// A ClassFactor is the criticality of pods with a PriorityClass.
type ClassFactor struct {
	Class  string
	Factor float64
}

// Declared is what the live pods of a workload say about its criticality. The zero value is nothing.
type Declared struct {
	Label      float64  // the highest valid value of Label; 0: no pod has one
	Classes    []string // the PriorityClasses of the pods without a valid label, sorted; "" for pods without one
	HasInvalid bool     // a pod has an invalid value of Label
	Invalid    string   // the first of these values, sorted
	Limited    []string // the containers with a CPU limit, and those by whose CPU an HPA scales (AddScaled), sorted
	Capped     []string // those with a memory limit
	Runtimes   []string // those with a memory limit and a language runtime that sizes its heap by it
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
		out.addLimits(p)
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

// AddScaled notes the containers of live pods that an HPA scales by the utilization of their CPU request, whether or not podfit changes that request.
func (d *Declared) AddScaled(a *cluster.Autoscaler, pods []*cluster.Pod) {
	if len(a.Horizontal) == 0 {
		return
	}
	for _, p := range pods {
		for i := range p.Containers {
			c := &p.Containers[i]
			_, metrics := a.ScaledBy(c.Name, cluster.CPU)
			add(&d.Limited, c.Name, metrics > 0 && p.Live() && c.IsSized())
		}
	}
}

// add inserts a name into a sorted list, if it is to be in it.
func add(to *[]string, name string, is bool) {
	if at, known := slices.BinarySearch(*to, name); is && !known {
		*to = slices.Insert(*to, at, name)
	}
}

// addLimits notes the containers of a pod with limits.
func (d *Declared) addLimits(p *cluster.Pod) {
	for i := range p.Containers {
		if c := &p.Containers[i]; c.IsSized() {
			_, limits := c.Running()
			add(&d.Limited, c.Name, limits.CPU > 0)
			add(&d.Capped, c.Name, limits.Memory > 0)
			add(&d.Runtimes, c.Name, limits.Memory > 0 && p.Runtime(c) != nil)
		}
	}
}

// read returns the valid label of a pod, and notes an invalid one.
func (d *Declared) read(c *cluster.Criticality) (float64, bool) {
	if !c.Labelled {
		return 0, false
	}
	factor, valid := Parse(c.Label)
	if !valid && (!d.HasInvalid || c.Label < d.Invalid) {
		d.HasInvalid = true
		d.Invalid = c.Label
	}
	return factor, valid
}

// Parse reads the value of Label: digits, with or without decimals, from Min to Max.
func Parse(text string) (float64, bool) {
	if len(text) > maxLabel {
		return 0, false
	}
	whole, decimals, dotted := strings.Cut(text, ".")
	if !digits(whole) || dotted && !digits(decimals) {
		return 0, false
	}
	v, err := strconv.ParseFloat(text, 64)
	return v, err == nil && v >= Min && v <= Max
}

func digits(text string) bool { return text != "" && strings.Trim(text, "0123456789") == "" }

// Of returns the highest criticality of the pods, each of which has that of its label, else that of its PriorityClass, else that of
// the profile. Of equal ones the strongest origin counts, and the first PriorityClass.
func (d Declared) Of(profile float64, classes []ClassFactor) Factor {
	usual := Factor{Factor: profile}
	if !d.Known() {
		return usual
	}
	var highest Factor
	if d.Label > 0 {
		highest = Factor{Factor: d.Label, Origin: derivation.FromLabel}
	}
	for _, class := range d.Classes {
		of := usual
		i := slices.IndexFunc(classes, func(p ClassFactor) bool { return p.Class == class })
		if i >= 0 && class != "" {
			of = Factor{Factor: classes[i].Factor, Origin: derivation.FromPriorityClass, Class: class}
		}
		if cmp.Or(cmp.Compare(of.Factor, highest.Factor), cmp.Compare(rank(of.Origin), rank(highest.Origin))) > 0 {
			highest = of
		}
	}
	return highest
}

// rank orders origins, the strongest last.
func rank(o derivation.FactorOrigin) int {
	return slices.Index([]derivation.FactorOrigin{derivation.FromProfile, derivation.FromPriorityClass, derivation.FromLabel}, o)
}
