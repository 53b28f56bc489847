// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"slices"

	"podfit.dev/podfit/internal/core/admissible"
	"podfit.dev/podfit/internal/core/cluster"
)

// FitInit returns the sizes that the ordinary init containers of a new pod should have, in the order of the pod. fits are the sizes of the other
// containers, without a startup boost (Fit).
//
// Kubernetes counts for a pod the sum of the requests of its containers and sidecars or, if it is more, an init container with the sidecars that
// start before it. So a request of an init container is raised or lowered to the recommendation within that sum, where it costs nothing, and
// not beyond. Beyond it
//
//   - the request is the sum, and the limit keeps its ratio to the recommendation, so that the container is not killed for the cap,
//   - a container whose limit equals its request keeps its own amounts,
//   - what an OOM kill has shown to be needed (the lower bound equals the target), minAllowed and the minimum of a LimitRange apply all the same: the
//     pod would not start otherwise.
func FitInit(a *cluster.Autoscaler, l Limits, p *cluster.Pod, fits []Fitted) []Fitted {
	isAdvised := func(c cluster.Container) bool { return c.Role == cluster.Init && a.AdviceFor(c.Name) != nil }
	if !slices.ContainsFunc(p.Containers, isAdvised) {
		return nil
	}
	var out []Fitted
	var sum, sidecars cluster.Resources // sidecars: of those that start before the init container
	requests := make([]cluster.Resources, len(p.Containers))
	for i := range p.Containers {
		if c := &p.Containers[i]; c.Role != cluster.Init {
			requests[i] = newRequests(l, c, fits)
			sum = sum.Add(requests[i])
		}
	}
	for i := range p.Containers {
		switch c := &p.Containers[i]; c.Role {
		case cluster.Init:
			if fit := fitInit(a, l, p, c, sum, sidecars); !fit.Requests.Has.Empty() {
				out = append(out, fit)
			}
		case cluster.Sidecar, cluster.FixedSidecar:
			sidecars = sidecars.Add(requests[i])
		case cluster.Regular:
		}
	}
	return out
}

// newRequests returns the requests of a container of a new pod.
func newRequests(l Limits, c *cluster.Container, fits []Fitted) cluster.Resources {
	requests, limits := c.Requests, c.Limits
	if f := cluster.Find(fits, func(f *Fitted) bool { return f.Container == c.Name }); f != nil {
		requests, limits = f.Requests.Or(requests), f.Limits.Or(limits)
	}
	requests, _ = l.Defaulted(requests, limits)
	return requests
}

// fitInit returns the size of one init container, without requests if it is not changed.
func fitInit(a *cluster.Autoscaler, l Limits, p *cluster.Pod, c *cluster.Container, sum, sidecars cluster.Resources) Fitted {
	cp := a.Policy(c.Name)
	fit := Fitted{Container: c.Name, Index: int(c.Index), Sidecar: true, LimitsKept: cp != nil && cp.RequestsOnly}
	adv := a.AdviceFor(c.Name)
	if adv == nil || p.Container(c.Name) != c { // the API server rejects two containers of one name
		return fit
	}
	within := fitting{a: a, l: l, p: p}.boundsOf(c.Name)
	needed := within.apply(adv.Target.Only(cp.Controls()), &fit.Notes, nil)
	if !fit.LimitsKept {
		fit.Limits = proportionalLimits(c, needed, l.Range.Container.Default, &fit.Notes)
	}
	for _, res := range cluster.All {
		amount, ok := needed.Get(res)
		if !ok {
			continue
		}
		room := sum.Amount(res) - sidecars.Amount(res)
		isKilled := res == cluster.Memory && adv.Lower.Amount(res) >= adv.Target.Amount(res)
		if amount > room && !isKilled {
			own, isLimited := c.Limits.Get(res)
			if room <= 0 || isLimited && c.Requests.Amount(res) == own {
				fit.Limits = fit.Limits.Only(fit.Limits.Has &^ cluster.Of(res))
				continue
			}
			amount = within.apply(cluster.Resources{}.Set(res, room), nil, nil).Amount(res)
			note(&fit.Notes, res, admissible.LoweredToContainers)
		}
		if fit.LimitsKept && p.Fractions && res == cluster.Memory && amount == c.Limits.Memory {
			amount-- // limits of init containers are rounded up
		}
		fit.Requests = fit.Requests.Set(res, amount)
	}
	return fit
}
