// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/integer"
	"podfit.dev/podfit/internal/core/scalepoint"
)

// PreservesScalePoint reports whether an autoscaler is to change the requests on which a metric of an HPA depends: the user has opted in, no
// other metric depends on them, and there is a recommendation for at least one of them.
func PreservesScalePoint(a *cluster.Autoscaler, u *cluster.UtilizationTarget) bool {
	if a == nil || !a.PreserveScalePoint || !a.Mode.Applies() {
		return false
	}
	for i := range a.Advice {
		c := &a.Advice[i]
		if _, advised := c.Target.Get(u.Resource); !advised || !u.Concerns(c.Container) || !a.Policy(c.Container).Controls().Has(u.Resource) {
			continue
		}
		if _, n := a.ScaledBy(c.Container, u.Resource); n == 1 {
			return true
		}
	}
	return false
}

// AverageOf returns the average request of live pods. changes are the sizes that pods are about to get, by UID. The CPU of a startup
// boost does not count, because it ends soon.
func AverageOf(u *cluster.UtilizationTarget, pods []*cluster.Pod, changes map[string][]Fitted) scalepoint.Average {
	var n, current, lowest int64
	for _, p := range pods {
		if !p.Live() {
			continue
		}
		from := podRequest(u, p, nil)
		to := podRequest(u, p, changes[p.UID])
		if from <= 0 {
			continue
		}
		n++
		current = integer.Sum(current, from)
		lowest = integer.Sum(lowest, min(from, to))
	}
	if n == 0 {
		return scalepoint.Average{}
	}
	return scalepoint.Average{Now: current / n, Lowest: lowest / n}
}

// podRequest returns the request of a pod on which a metric depends, with fits set on it. As for the HPA, the spec counts.
func podRequest(u *cluster.UtilizationTarget, p *cluster.Pod, fits []Fitted) int64 {
	var total int64
	for i := range p.Containers {
		c := &p.Containers[i]
		if c.Role == cluster.Init || !u.Concerns(c.Name) {
			continue
		}
		v := c.Requests.Amount(u.Resource)
		if c.Boosted != nil {
			v = c.Boosted.Requests.Amount(u.Resource)
		}
		for j := range fits {
			if to, ok := fits[j].Requests.Get(u.Resource); ok && fits[j].Container == c.Name {
				v = to
			}
		}
		total = integer.Sum(total, v)
	}
	return total
}

// ChangesRequest reports whether fits change the request of a pod on which a metric depends.
func ChangesRequest(u *cluster.UtilizationTarget, p *cluster.Pod, fits []Fitted) bool {
	return podRequest(u, p, nil) != podRequest(u, p, fits)
}
