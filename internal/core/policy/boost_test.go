// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"testing"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
)

func TestBoost_startupBoost_raisesCPU(t *testing.T) {
	factor := &cluster.Boost{Factor: 3}
	quantity := &cluster.Boost{ByQuantity: true, Quantity: 500}
	none := cluster.Resources{}
	cases := map[string]struct {
		requests, limits cluster.Resources
		advice           cluster.Resources
		boost            *cluster.Boost
		policy           cluster.ContainerPolicy
		most             int64
		want, wantLimits cluster.Resources
	}{
		"a factor of the recommendation": {
			requests: cpu(100), advice: of(200, mi), boost: factor, want: of(600, mi),
		},
		"a quantity on top": {requests: cpu(100), advice: cpu(200), boost: quantity, want: cpu(700)},
		"of the container's own request where none is recommended": {
			requests: cpu(100), boost: factor, want: cpu(300),
		},
		"the limit follows": {
			requests: cpu(100), limits: cpu(200), advice: cpu(200), boost: factor, want: cpu(600), wantLimits: cpu(1200),
		},
		"not above the flag": {requests: cpu(100), advice: cpu(200), boost: factor, most: 450, want: cpu(450)},
		"a limit left alone keeps 1m above": {
			requests: cpu(100), limits: cpu(400), advice: cpu(200), boost: factor,
			policy: cluster.ContainerPolicy{RequestsOnly: true}, want: cpu(399),
		},
		"nothing times three is nothing": {requests: none, boost: factor, want: none},
		"the policy's boost beats the autoscaler's": {
			requests: cpu(100), boost: factor, policy: cluster.ContainerPolicy{Boost: quantity}, want: cpu(600),
		},
		"a container left alone has no boost": {
			requests: cpu(100), boost: factor, policy: cluster.ContainerPolicy{Off: true}, want: none,
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			a := recommend()
			if !c.advice.Has.Empty() {
				a = recommend(exactly("app", c.advice))
			}
			a.Boost = c.boost
			c.policy.Container = "app"
			a.Policies = []cluster.ContainerPolicy{c.policy}
			p := podOf(container("app", c.requests, c.limits))
			b := boostBy(a, p, Fit(a, Limits{}, p), c.most, wholeBoost)
			got, originals := b.Fits, b.Originals
			var f Fitted
			if len(got) == 1 {
				f = got[0]
			}
			if f.Requests != c.want || f.Limits != c.wantLimits {
				t.Errorf("got %v, limits %v; want %v, %v", f.Requests, f.Limits, c.want, c.wantLimits)
			}
			if boosted := !c.want.Has.Empty(); boosted != (len(originals) == 1) {
				t.Errorf("originals: %v", originals)
			}
		})
	}
}

func TestOriginal_value_isJSONOfQuantities(t *testing.T) {
	o := Original{Container: "app", Requests: of(500, 1<<30), Limits: cpu(2000)}
	if got, want := o.Key(), "vpaCpuStartupBoost/app"; got != want {
		t.Errorf("key %q", got)
	}
	if got, want := o.Value(), `{"requests":{"cpu":"500m","memory":"1Gi"},"limits":{"cpu":"2"}}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got, want := (Original{Requests: memory(1500)}).Value(), `{"requests":{"memory":"1500"},"limits":{}}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestUnboost_boostOver_restoresOriginal(t *testing.T) {
	ready := time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)
	a := recommend(exactly("app", memory(mi)))
	a.Boost = &cluster.Boost{Factor: 2, Duration: time.Minute}
	c := container("app", of(400, mi), cluster.Resources{})
	c.Boosted = &cluster.Applied{Requests: of(200, 2*mi)}
	p := podOf(c)
	fits := Fit(a, Limits{}, p)

	if over, until := Unboost(a, p, fits, ready.Add(time.Hour)); len(over) != 0 || !until.IsZero() {
		t.Errorf("not ready: over %v until %v", over, until)
	}
	p.Ready, p.ReadySince = true, ready
	if over, until := Unboost(a, p, fits, ready.Add(time.Minute)); len(over) != 0 || !until.Equal(ready.Add(time.Minute)) {
		t.Errorf("exactly at its end: over %v until %v", over, until)
	}
	over, _ := Unboost(a, p, fits, ready.Add(time.Minute+1))
	if len(over) != 1 || over[0].Requests != of(200, mi) {
		t.Errorf("CPU without recommendation is not restored from the original: %v", over)
	}
	if over, _ := Unboost(a, p, nil, ready.Add(time.Hour)); len(over) != 1 || over[0].Requests != of(200, 2*mi) {
		t.Errorf("without recommendation: %v", over)
	}
	a.Boost.Duration = 0
	if over, _ := Unboost(a, p, fits, ready); len(over) != 1 {
		t.Errorf("without duration the boost does not end at Ready: %v", over)
	}
}

func TestKeepBoost_boostedContainer_keepsItsCPU(t *testing.T) {
	pod := &cluster.Pod{Containers: []cluster.Container{
		{Name: "app", Requests: cluster.Amounts(800, 1<<30), Boosted: &cluster.Applied{}}, {Name: "log", Requests: cluster.Amounts(100, 1<<30)},
	}}
	fits := []Fitted{{Container: "app", Requests: cluster.Amounts(400, 2<<30)}, {Container: "log", Requests: cluster.Amounts(200, 2<<30)}}
	got := KeepBoost(pod, fits)
	if got[0].Requests != cluster.Amounts(800, 2<<30) || got[1].Requests != fits[1].Requests || fits[0].Requests.CPU != 400 {
		t.Errorf("%v and %v", got[0].Requests, got[1].Requests)
	}
}
