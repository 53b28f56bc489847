// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"math"

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
//
// A pod-level request takes the place of the sum. Nothing exceeds it or a pod-level limit, because the API server would refuse the pod.
func FitInit(a *cluster.Autoscaler, l Limits, p *cluster.Pod, fits []Fitted) []Fitted {
	f := initFitting{fitting: fitting{a: a, l: l, p: p, fits: fits}}
	for i := range p.Containers {
		if c := &p.Containers[i]; c.Role != cluster.Init {
			f.sum = f.sum.Add(f.requests(c))
		}
	}
	if level := admissible.PodLevelOf(p, fits); level != nil {
		f.sum, f.level = level.Requests.Or(f.sum), *level
	}
	var out []Fitted
	for i := range p.Containers {
		switch c := &p.Containers[i]; c.Role {
		case cluster.Init:
			if fit := f.size(c); !fit.Requests.Has.Empty() {
				out = append(out, fit)
			}
		case cluster.Sidecar, cluster.FixedSidecar:
			f.sidecars = f.sidecars.Add(f.requests(c))
		case cluster.Regular:
		}
	}
	return out
}

// An initFitting is a pod whose init containers are sized, in their order.
type initFitting struct {
	fitting
	level    cluster.PodResources // of the pod, with fits
	sum      cluster.Resources    // what the pod requests without its init containers
	sidecars cluster.Resources    // of this, what the sidecars request that have started
}

// requests returns the requests of a container of the new pod.
func (f *initFitting) requests(c *cluster.Container) cluster.Resources {
	requests, _ := f.l.Defaulted(admissible.SizeOf(c, f.fits))
	return requests
}

// size returns the size of one init container, without requests if it is not changed.
func (f *initFitting) size(c *cluster.Container) Fitted {
	cp := f.a.Policy(c.Name)
	fit := Fitted{Container: c.Name, Index: int(c.Index), Sidecar: true, LimitsKept: cp != nil && cp.RequestsOnly}
	adv := f.a.AdviceFor(c.Name)
	if adv == nil || f.p.Container(c.Name) != c { // the API server rejects two containers of one name
		return fit
	}
	within := f.boundsOf(c.Name, targetLeast)
	needed := within.apply(adv.Target.Only(cp.Controls()), &fit.Notes, nil)
	if !fit.LimitsKept {
		fit.Limits = proportionalLimits(c, needed, f.l.Range.Container.Default, &fit.Notes)
	}
	for _, res := range cluster.All {
		amount, ok := needed.Get(res)
		if !ok {
			continue
		}
		isKilled := res == cluster.Memory && adv.Lower.Amount(res) >= adv.Target.Amount(res)
		room := f.sum.Amount(res)
		if isKilled && !f.level.Requests.Has.Has(res) {
			room = math.MaxInt64
		}
		if most, isBounded := f.level.Limits.Get(res); isBounded {
			room = min(room, most)
			fit.Limits = fit.Limits.Set(res, min(fit.Limits.Amount(res), most)).Only(fit.Limits.Has)
		}
		room -= f.sidecars.Amount(res)
		if amount > room {
			own, isLimited := c.Limits.Get(res)
			if room <= 0 || !isKilled && isLimited && c.Requests.Amount(res) == own {
				fit.Limits = fit.Limits.Only(fit.Limits.Has &^ cluster.Of(res))
				continue
			}
			amount = within.apply(cluster.Resources{}.Set(res, room), nil, nil).Amount(res)
			note(&fit.Notes, res, admissible.LoweredToContainers)
		}
		if fit.LimitsKept && f.p.Fractions && res == cluster.Memory && amount == c.Limits.Memory {
			amount-- // limits of init containers are rounded up
		}
		fit.Requests = fit.Requests.Set(res, amount)
	}
	return fit
}
