// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"math/rand/v2"
	"testing"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/fleet"
	"podfit.dev/podfit/internal/core/scalepoint"
)

// Whatever the bounds of a pod are, its request stays in the range in which the target of the HPA can follow, or is not changed. A limit
// ratio, LimitRanges, kept limits and the sizes of nodes all change requests.
func TestFit_randomBounds_requestOfTheHPAStaysInItsRange(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 7))
	amount := func(most int64) cluster.Resources { return of(1+r.Int64N(most), (1+r.Int64N(most))*mi) }
	maybe := func(most int64) cluster.Resources {
		if r.IntN(2) == 0 {
			return cluster.Resources{}
		}
		return amount(most)
	}
	held := 0
	for range 20000 {
		var cs []cluster.Container
		a := recommend()
		for _, name := range []string{"app", "log"}[:1+r.IntN(2)] {
			requests := amount(1000)
			c := container(name, requests, cluster.Resources{})
			if r.IntN(2) == 0 {
				c.Limits = requests.Add(maybe(500)).Only(requests.Has)
			}
			cs = append(cs, c)
			low := amount(500)
			target := low.Add(amount(3000))
			a.Advice = append(a.Advice, advice(name, low, target, target.Add(amount(500))))
			if r.IntN(3) == 0 {
				a.Policies = append(a.Policies, cluster.ContainerPolicy{Container: name, MinAllowed: maybe(300), RequestsOnly: r.IntN(2) == 0})
			}
		}
		p := podOf(cs...)
		u := cluster.UtilizationTarget{Resource: cluster.CPU, Percent: 1 + r.Int32N(120)}
		if r.IntN(2) == 0 {
			u.Container = "app"
		}
		base := podRequest(&u, p, nil)
		point := cluster.ScalePoint{Resource: cluster.CPU, Container: u.Container, Base: base, Percent: u.Percent, Set: u.Percent}
		var l Limits
		if r.IntN(2) == 0 {
			l.Range.Pod = cluster.Range{Min: maybe(1500), Max: maybe(3000)}
		}
		if r.IntN(2) == 0 {
			l.Range.Container = cluster.Range{Min: maybe(300), Max: maybe(3000)}
		}
		if r.IntN(3) == 0 {
			l.Nodes = &fleet.Sizes{Largest: []cluster.Resources{amount(3000)}}
		}
		fits := Fit(preserving(scaledBy(a, u), point), l, p)
		to, want := podRequest(&u, p, fits), scalepoint.RequestsAt(&point)
		if to == base {
			continue
		}
		held++
		if !want.Contains(to, len(cs)) {
			t.Fatalf("request %d, want %+v or the present %d\nmetric %+v, pod %+v, advice %+v, policies %+v, limits %+v", to, want, base, u, p.Containers, a.Advice, a.Policies, l.Range)
		}
	}
	if held < 1000 {
		t.Errorf("only %d requests were changed", held)
	}
}
