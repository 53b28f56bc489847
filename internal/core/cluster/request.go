// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

// Requested returns the requests of the pod that the scheduler counts: of all containers that run at the same time, in the spec or in use,
// whichever is larger, or of the pod if it has pod-level requests. The overhead of a RuntimeClass is not included.
func (p *Pod) Requested() Resources {
	total := p.Total(func(i int) Resources {
		requests, _ := p.Containers[i].Running()
		return larger(requests, p.Containers[i].Requests)
	})
	if p.PodLevel != nil {
		total = p.PodLevel.Requests.Or(total)
	}
	return total
}

// Total adds up an amount of each container, by its index, as the scheduler does it with requests: the sum over the containers that run at the
// same time, or, if it is larger, an init container with the sidecars that start before it.
func (p *Pod) Total(of func(i int) Resources) Resources {
	total := Amounts(0, 0)
	var initial, sidecars Resources // init containers and sidecars are in the order of their start
	for i := range p.Containers {
		amounts := of(i)
		switch p.Containers[i].Role {
		case Init:
			initial = larger(initial, sidecars.Add(amounts))
			continue
		case Sidecar, FixedSidecar:
			sidecars = sidecars.Add(amounts)
		case Regular:
		}
		total = total.Add(amounts)
	}
	return larger(total, initial)
}

// larger returns the larger amount of each resource.
func larger(a, b Resources) Resources {
	return Resources{CPU: max(a.CPU, b.CPU), Memory: max(a.Memory, b.Memory), Has: a.Has | b.Has}
}
