// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package explanation

// Present returns the present recommendation of each resource of each container, compared with the observed usage in the same way as
// the sizes of WhatIf.
func Present(in *Sizing) []Counterfactual {
	var out []Counterfactual
	for _, w := range WhyOf(in) {
		c := Counterfactual{Container: w.Container, Resource: w.Resource, Known: true, Target: w.Range.Target, Size: w.Size, Steps: w.Steps, Bounds: w.Bounds}
		if advice := in.Autoscaler.AdviceFor(w.Container); advice != nil {
			if target, ok := advice.Target.Get(w.Resource); ok {
				c.Target = target
			}
		}
		in.judge(&c, historyOf(in.Histories, w.Container))
		out = append(out, c)
	}
	return out
}
