// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package admissible

import "podfit.dev/podfit/internal/core/cluster"

// QoSOf returns the class a pod has by its spec, with fits and the defaults of LimitRanges set on it.
func QoSOf(around Limits, p *cluster.Pod, fits []Fitted) cluster.QoS {
	var requests, limits cluster.Resources
	guaranteed := true
	if level := PodLevelOf(p, fits); level != nil { // the containers' amounts do not determine the class
		requests = level.Requests
		limits = level.Limits
		guaranteed = limits.CPU > 0 && limits.Memory > 0
	}
	for i := range p.Containers {
		if p.PodLevel != nil {
			break
		}
		c := &p.Containers[i]
		r := c.Requests
		l := c.Limits
		for j := range fits {
			if c.IsSized() && fits[j].Container == c.Name {
				r, l = fits[j].Requests.Or(r), fits[j].Limits.Or(l)
			}
		}
		r, l = around.Defaulted(r, l)
		guaranteed = guaranteed && l.CPU > 0 && l.Memory > 0
		requests, limits = requests.Add(r), limits.Add(l)
	}
	switch {
	case requests.CPU == 0 && requests.Memory == 0 && limits.CPU == 0 && limits.Memory == 0:
		return cluster.BestEffort
	case guaranteed && requests.CPU == limits.CPU && requests.Memory == limits.Memory:
		return cluster.Guaranteed
	}
	return cluster.Burstable
}
