// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"podfit.dev/podfit/internal/core/cluster"
)

func cpu(milli int64) cluster.Resources   { return cluster.Resources{}.Set(cluster.CPU, milli) }
func memory(b int64) cluster.Resources    { return cluster.Resources{}.Set(cluster.Memory, b) }
func of(milli, b int64) cluster.Resources { return cluster.Amounts(milli, b) }

const mi = 1 << 20

func advice(container string, lower, target, upper cluster.Resources) cluster.Advice {
	return cluster.Advice{
		Container: container, Uncapped: target,
		Estimate: cluster.Estimate{Lower: lower, Target: target, Upper: upper},
	}
}

func TestCap_policies_boundEstimates(t *testing.T) {
	raw := advice("app", of(100, 100*mi), of(250, 300*mi), of(900, 900*mi))
	cases := map[string]struct {
		policies []cluster.ContainerPolicy
		integer  []string
		global   cluster.Resources
		want     cluster.Estimate
	}{
		"nothing bounds": {want: raw.Estimate},
		"every bound is raised to minAllowed": {
			policies: []cluster.ContainerPolicy{{Container: "app", MinAllowed: of(300, 0)}},
			want:     cluster.Estimate{Lower: of(300, 100*mi), Target: of(300, 300*mi), Upper: of(900, 900*mi)},
		},
		"every bound is lowered to maxAllowed": {
			policies: []cluster.ContainerPolicy{{Container: "*", MaxAllowed: of(200, 50*mi)}},
			want:     cluster.Estimate{Lower: of(100, 50*mi), Target: of(200, 50*mi), Upper: of(200, 50*mi)},
		},
		"the policy of the container's name beats the one for all": {
			policies: []cluster.ContainerPolicy{
				{Container: "*", MaxAllowed: cpu(10)}, {Container: "app", MaxAllowed: cpu(700)},
			},
			want: cluster.Estimate{Lower: of(100, 100*mi), Target: of(250, 300*mi), Upper: of(700, 900*mi)},
		},
		"the maximum wins over a larger minimum": {
			policies: []cluster.ContainerPolicy{{Container: "app", MinAllowed: cpu(500), MaxAllowed: cpu(200)}},
			want:     cluster.Estimate{Lower: of(200, 100*mi), Target: of(200, 300*mi), Upper: of(200, 900*mi)},
		},
		"the global maximum holds what the policy does not name": {
			policies: []cluster.ContainerPolicy{{Container: "app", MaxAllowed: cpu(800)}},
			global:   of(200, 200*mi),
			want:     cluster.Estimate{Lower: of(100, 100*mi), Target: of(250, 200*mi), Upper: of(800, 200*mi)},
		},
		"a maximum of zero does not bind, and hides the global one": {
			policies: []cluster.ContainerPolicy{{Container: "app", MaxAllowed: cpu(0)}},
			global:   cpu(200),
			want:     raw.Estimate,
		},
		"whole cores come before the caps": {
			integer:  []string{"app"},
			policies: []cluster.ContainerPolicy{{Container: "app", MaxAllowed: cpu(700)}},
			want:     cluster.Estimate{Lower: of(700, 100*mi), Target: of(700, 300*mi), Upper: of(700, 900*mi)},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			a := &cluster.Autoscaler{Policies: c.policies, IntegerCPU: c.integer}
			got := Cap(a, []cluster.Advice{raw}, c.global, cluster.NodeShare{})
			if diff := cmp.Diff(c.want, got[0].Estimate); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestCap_integerCPU_roundsUncappedTargetWithoutCap(t *testing.T) {
	a := &cluster.Autoscaler{
		IntegerCPU: []string{"app"}, Policies: []cluster.ContainerPolicy{{Container: "app", MaxAllowed: of(100, mi)}},
	}
	raw := []cluster.Advice{advice("app", of(100, mi), of(1250, 3*mi), of(2000, 4*mi)), advice("other", cpu(1), cpu(2), cpu(3))}
	got := Cap(a, raw, cluster.Resources{}, cluster.NodeShare{})
	if want := of(2000, 3*mi); got[0].Uncapped != want {
		t.Errorf("uncapped is %v, want %v", got[0].Uncapped, want)
	}
	if got[1].Target != cpu(2) {
		t.Errorf("a container without integer CPU changed to %v", got[1].Target)
	}
	if raw[0].Target != of(1250, 3*mi) {
		t.Error("Cap changed its input")
	}
}

func TestCap_anyPolicy_keepsOrderOfBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := drawAutoscaler(t, []string{"app"})
		for _, adv := range Cap(a, a.Advice, drawResources(t, "global"), cluster.NodeShare{}) {
			checkOrder(t, adv.Estimate)
		}
	})
}

func checkOrder(t *rapid.T, e cluster.Estimate) {
	t.Helper()
	for _, res := range cluster.All {
		target, ok := e.Target.Get(res)
		if !ok {
			continue
		}
		if v, ok := e.Lower.Get(res); ok && v > target {
			t.Fatalf("%s: lower %d above target %d", res, v, target)
		}
		if v, ok := e.Upper.Get(res); ok && v < target {
			t.Fatalf("%s: upper %d below target %d", res, v, target)
		}
	}
}

func drawResources(t *rapid.T, what string) cluster.Resources {
	var r cluster.Resources
	for _, res := range cluster.All {
		if rapid.Bool().Draw(t, what+" has "+res.String()) {
			r = r.Set(res, amount().Draw(t, what))
		}
	}
	return r
}

// drawAutoscaler returns a random autoscaler with recommendations for some of the containers and with any policies.
func drawAutoscaler(t *rapid.T, containers []string) *cluster.Autoscaler {
	a := &cluster.Autoscaler{Key: cluster.Key{Namespace: "shop", Name: "cart"}}
	for _, c := range append(containers, "*", "gone") {
		if rapid.Bool().Draw(t, "policy") {
			cp := cluster.ContainerPolicy{
				Container: c, MinAllowed: drawResources(t, "min"), MaxAllowed: drawResources(t, "max"),
				Off: rapid.Bool().Draw(t, "off"), RequestsOnly: rapid.Bool().Draw(t, "requests only"),
				ControlsSet: rapid.Bool().Draw(t, "controls set"), Controlled: cluster.Set(rapid.IntRange(0, 3).Draw(t, "controls")),
			}
			if rapid.Bool().Draw(t, "boost") {
				cp.Boost = drawBoost(t)
			}
			a.Policies = append(a.Policies, cp)
		}
		if c != "*" && rapid.Bool().Draw(t, "advice") {
			a.Advice = append(a.Advice, advice(c, drawResources(t, "lower"), drawResources(t, "target"), drawResources(t, "upper")))
		}
		if rapid.Bool().Draw(t, "integer") {
			a.IntegerCPU = append(a.IntegerCPU, c)
		}
	}
	if rapid.Bool().Draw(t, "boost") {
		a.Boost = drawBoost(t)
	}
	return a
}

func drawBoost(t *rapid.T) *cluster.Boost {
	return &cluster.Boost{
		Factor: rapid.Int32().Draw(t, "factor"), Quantity: amount().Draw(t, "quantity"),
		ByQuantity: rapid.Bool().Draw(t, "by quantity"),
	}
}
