// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

// Requested returns the requests of the pod that the scheduler counts: of all containers that run at the same time, in the spec or in use,
// whichever is larger, or of the pod if it has pod-level requests. The overhead of a RuntimeClass is not included.
func (p *Pod) Requested() Resources {
	total := Amounts(0, 0)
	var initial, sidecars Resources // init containers and sidecars are in the order of their start
	for i := range p.Containers {
		c := &p.Containers[i]
		requests, _ := c.Running()
		requests = larger(requests, c.Requests)
		switch c.Role {
		case Init:
			initial = larger(initial, sidecars.Add(requests))
			continue
		case Sidecar:
			sidecars = sidecars.Add(requests)
		case Regular:
		}
		total = total.Add(requests)
	}
	total = larger(total, initial)
	if p.PodLevel != nil {
		total = p.PodLevel.Requests.Or(total)
	}
	return total
}

// larger returns the larger amount of each resource.
func larger(a, b Resources) Resources {
	return Resources{CPU: max(a.CPU, b.CPU), Memory: max(a.Memory, b.Memory), Has: a.Has | b.Has}
}
