// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"math/rand/v2"
	"reflect"
	"testing"

	"podfit.dev/podfit/internal/core/admissible"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/fleet"
	"podfit.dev/podfit/internal/core/policy"
)

const gib = int64(1) << 30

// amountsOf returns an amount of CPU in cores and of memory in GiB.
func amountsOf(cores, gibs int64) cluster.Resources { return cluster.Amounts(cores*1000, gibs*gib) }

// A wish is a container and its recommendation.
type wish struct {
	name                 string
	request, limit       cluster.Resources // in the spec
	lower, target, upper cluster.Resources
}

func podOf(ws ...wish) (*cluster.Autoscaler, *cluster.Pod) {
	a := &cluster.Autoscaler{Key: cluster.Key{Namespace: "shop", Name: "cart"}}
	p := &cluster.Pod{Key: cluster.Key{Namespace: "shop", Name: "cart-0"}}
	for i, w := range ws {
		p.Containers = append(p.Containers, cluster.Container{Name: w.name, Index: uint8(i), Requests: w.request, Limits: w.limit})
		if !w.target.Has.Empty() {
			a.Advice = append(a.Advice, cluster.Advice{Container: w.name, Estimate: cluster.Estimate{Lower: w.lower, Target: w.target, Upper: w.upper}})
		}
	}
	return a, p
}

func nodesOf(sizes ...cluster.Resources) *fleet.Sizes {
	f := fleet.Config{}
	for i, s := range sizes {
		f.Nodes = append(f.Nodes, cluster.Node{Name: string(rune('a' + i)), Allocatable: s})
	}
	return fleet.New(f).For(cluster.NodeSelector{}, nil, false)
}

func requestsOf(fits []policy.Fitted) []cluster.Resources {
	var out []cluster.Resources
	for _, f := range fits {
		out = append(out, f.Requests)
	}
	return out
}

func TestFit_podLargerThanAnyNode_isScaledDown(t *testing.T) {
	one := amountsOf(1, 1)
	hard := func(requests, limits cluster.Resources) *cluster.Quotas {
		return &cluster.Quotas{List: []cluster.Quota{{Name: "q", Hard: cluster.PodResources{Requests: requests, Limits: limits}}}}
	}
	ofMemory := func(gibs int64) cluster.Resources { return cluster.Resources{}.Set(cluster.Memory, gibs*gib) }
	for name, c := range map[string]struct {
		limits policy.Limits
		change func(*cluster.Autoscaler, *cluster.Pod)
		wishes []wish
		want   []cluster.Resources
		kind   admissible.NoteKind // of the first container; "": not scaled
	}{
		"it fits": {
			policy.Limits{Nodes: nodesOf(amountsOf(8, 16))}, nil,
			[]wish{{name: "app", request: one, lower: one, target: amountsOf(4, 8)}}, []cluster.Resources{amountsOf(4, 8)}, "",
		},
		"nodes unknown": {
			policy.Limits{Nodes: nodesOf()}, nil,
			[]wish{{name: "app", request: one, lower: one, target: amountsOf(40, 80)}}, []cluster.Resources{amountsOf(40, 80)}, "",
		},
		"switched off": {
			policy.Limits{}, nil,
			[]wish{{name: "app", request: one, lower: one, target: amountsOf(40, 80)}}, []cluster.Resources{amountsOf(40, 80)}, "",
		},
		"one container": {
			policy.Limits{Nodes: nodesOf(amountsOf(8, 16))}, nil,
			[]wish{{name: "app", request: one, lower: one, target: amountsOf(4, 32)}}, []cluster.Resources{amountsOf(4, 16)}, admissible.HeldToNode,
		},
		"in proportion": {
			policy.Limits{Nodes: nodesOf(amountsOf(8, 16))}, nil,
			[]wish{
				{name: "app", request: one, lower: one, target: amountsOf(4, 24)},
				{name: "proxy", request: one, lower: one, target: amountsOf(4, 8)},
			},
			[]cluster.Resources{amountsOf(4, 12), amountsOf(4, 4)}, admissible.HeldToNode,
		},
		"beside a container without recommendation": {
			policy.Limits{Nodes: nodesOf(amountsOf(8, 16))}, nil,
			[]wish{
				{name: "app", request: one, lower: one, target: amountsOf(4, 24)},
				{name: "proxy", request: amountsOf(1, 4)},
			},
			[]cluster.Resources{amountsOf(4, 12)}, admissible.HeldToNode,
		},
		"not below the lower bound": {
			policy.Limits{Nodes: nodesOf(amountsOf(8, 16))}, nil,
			[]wish{
				{name: "app", request: one, lower: one, target: amountsOf(4, 24)},
				{name: "proxy", request: one, lower: amountsOf(1, 7), target: amountsOf(4, 8)},
			},
			[]cluster.Resources{amountsOf(4, 9), amountsOf(4, 7)}, admissible.HeldToNode,
		},
		"not below the present request": {
			policy.Limits{Nodes: nodesOf(amountsOf(8, 16))}, nil,
			[]wish{
				{name: "app", request: one, lower: one, target: amountsOf(4, 24)},
				{name: "proxy", request: amountsOf(1, 7), lower: one, target: amountsOf(4, 8)},
			},
			[]cluster.Resources{amountsOf(4, 9), amountsOf(4, 7)}, admissible.HeldToNode,
		},
		"a template that fits on no node is no minimum": {
			policy.Limits{Nodes: nodesOf(amountsOf(8, 16))}, nil,
			[]wish{{name: "app", request: amountsOf(1, 20), lower: one, target: amountsOf(4, 32)}}, []cluster.Resources{amountsOf(4, 16)}, admissible.HeldToNode,
		},
		"the lower bound does not fit": {
			policy.Limits{Nodes: nodesOf(amountsOf(8, 16))}, nil,
			[]wish{{name: "app", request: one, lower: amountsOf(1, 20), target: amountsOf(4, 32)}}, []cluster.Resources{amountsOf(4, 32)}, "",
		},
		"no lower bound": {
			policy.Limits{Nodes: nodesOf(amountsOf(8, 16))}, nil,
			[]wish{{name: "app", request: one, target: amountsOf(4, 32)}}, []cluster.Resources{amountsOf(4, 32)}, "",
		},
		"minAllowed does not fit": {
			policy.Limits{Nodes: nodesOf(amountsOf(8, 16))},
			func(a *cluster.Autoscaler, _ *cluster.Pod) {
				a.Policies = []cluster.ContainerPolicy{{Container: "app", MinAllowed: ofMemory(20)}}
			},
			[]wish{{name: "app", request: one, lower: one, target: amountsOf(4, 32)}}, []cluster.Resources{amountsOf(4, 32)}, "",
		},
		"the minimum of a LimitRange does not fit": {
			policy.Limits{Nodes: nodesOf(amountsOf(8, 16)), Range: cluster.LimitRange{Pod: cluster.Range{Min: ofMemory(20)}}}, nil,
			[]wish{{name: "app", request: one, lower: one, target: amountsOf(4, 32)}}, []cluster.Resources{amountsOf(4, 32)}, "",
		},
		"the kind of node that leaves most": {
			policy.Limits{Nodes: nodesOf(amountsOf(32, 8), amountsOf(4, 24))}, nil,
			[]wish{{name: "app", request: one, lower: one, target: amountsOf(4, 32)}}, []cluster.Resources{amountsOf(4, 24)}, admissible.HeldToNode,
		},
		"the kind of node that holds the lower bounds": {
			policy.Limits{Nodes: nodesOf(amountsOf(32, 8), amountsOf(4, 24))}, nil,
			[]wish{{name: "app", request: one, lower: amountsOf(6, 1), target: amountsOf(8, 32)}}, []cluster.Resources{amountsOf(8, 8)}, admissible.HeldToNode,
		},
		"whole cores": {
			policy.Limits{Nodes: nodesOf(cluster.Amounts(7900, 16*gib))},
			func(a *cluster.Autoscaler, _ *cluster.Pod) { a.IntegerCPU = []string{"app"} },
			[]wish{{name: "app", request: one, lower: one, target: amountsOf(16, 8)}}, []cluster.Resources{amountsOf(7, 8)}, admissible.HeldToNode,
		},
		"Guaranteed pods stay Guaranteed": {
			policy.Limits{Nodes: nodesOf(amountsOf(8, 16))}, nil,
			[]wish{{name: "app", request: one, limit: one, lower: one, target: amountsOf(4, 32)}}, []cluster.Resources{amountsOf(4, 16)}, admissible.HeldToNode,
		},
		"a Guaranteed pod with kept limits would become Burstable": {
			policy.Limits{Nodes: nodesOf(amountsOf(8, 16))},
			func(a *cluster.Autoscaler, _ *cluster.Pod) {
				a.Policies = []cluster.ContainerPolicy{{Container: "app", RequestsOnly: true}}
			},
			[]wish{{name: "app", request: amountsOf(4, 20), limit: amountsOf(4, 20), lower: one, target: amountsOf(4, 32)}},
			[]cluster.Resources{amountsOf(4, 20)}, "",
		},
		"an overhead that is not known": {
			policy.Limits{Nodes: nodesOf(amountsOf(8, 16))}, func(_ *cluster.Autoscaler, p *cluster.Pod) { p.Overhead = true },
			[]wish{{name: "app", request: one, lower: one, target: amountsOf(4, 32)}}, []cluster.Resources{amountsOf(4, 32)}, "",
		},
		"a quota on requests": {
			policy.Limits{Nodes: nodesOf(amountsOf(64, 64)), Quotas: hard(ofMemory(10), cluster.Resources{})}, nil,
			[]wish{{name: "app", request: one, lower: one, target: amountsOf(4, 32)}}, []cluster.Resources{amountsOf(4, 10)}, admissible.HeldToQuota,
		},
		"a quota on limits": {
			policy.Limits{Nodes: nodesOf(), Quotas: hard(cluster.Resources{}, ofMemory(10))}, nil,
			[]wish{{name: "app", request: one, limit: amountsOf(1, 2), lower: one, target: amountsOf(4, 32)}}, []cluster.Resources{amountsOf(4, 5)}, admissible.HeldToQuota,
		},
		"a quota that allows nothing": {
			policy.Limits{Nodes: nodesOf(), Quotas: hard(ofMemory(0), cluster.Resources{})}, nil,
			[]wish{{name: "app", request: one, lower: one, target: amountsOf(4, 32)}}, []cluster.Resources{amountsOf(4, 32)}, "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			a, p := podOf(c.wishes...)
			if c.change != nil {
				c.change(a, p)
			}
			fits := policy.Fit(a, c.limits, p)
			if got := requestsOf(fits); !reflect.DeepEqual(got, c.want) {
				t.Errorf("requests %v, want %v", got, c.want)
			}
			held := admissible.NoteKind("")
			for _, n := range fits[0].Notes {
				if n.Kind == admissible.HeldToNode || n.Kind == admissible.HeldToQuota {
					held = n.Kind
				}
			}
			if held != c.kind {
				t.Errorf("note %q, want %q", held, c.kind)
			}
		})
	}
}

// TestFit_randomPods_scalingKeepsItsPromises checks the scaling with random pods and nodes: what is scaled fits on a node, keeps the order
// of the bounds, never falls below a lower bound, does not rise with smaller nodes, and is the same for the pod that has it.
func TestFit_randomPods_scalingKeepsItsPromises(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	amount := func(most int64) cluster.Resources {
		return cluster.Amounts(1+r.Int64N(most), 1+r.Int64N(most*1_000_003))
	}
	smaller := func(of cluster.Resources) cluster.Resources {
		return cluster.Amounts(1+r.Int64N(of.CPU), 1+r.Int64N(of.Memory))
	}
	scaled := 0
	for range 3000 {
		var ws []wish
		for i := range 1 + r.IntN(4) {
			w := wish{name: string(rune('a' + i)), request: amount(2000)}
			if r.IntN(2) == 0 {
				w.limit = w.request.Add(amount(1000))
			}
			if r.IntN(5) > 0 {
				w.target = amount(9000)
				w.lower = smaller(smaller(w.target))
				w.upper = w.target.Add(amount(5000))
			}
			ws = append(ws, w)
		}
		a, p := podOf(ws...)
		size := amount(20000)
		limits := policy.Limits{Nodes: nodesOf(size)}
		wanted := policy.Fit(a, policy.Limits{}, p)
		fits := policy.Fit(a, limits, p)
		total := func(fits []policy.Fitted) cluster.Resources {
			demand := admissible.DemandOf(policy.Limits{}, p, cluster.Standing{}, fits)
			return demand.Most().Requests
		}
		if reflect.DeepEqual(requestsOf(fits), requestsOf(wanted)) {
			continue
		}
		scaled++
		if sum := total(fits); sum.CPU > size.CPU || sum.Memory > size.Memory {
			t.Fatalf("scaled to %v, which does not fit on a node with %v", sum, size)
		}
		for i := range fits {
			f, w := &fits[i], &wanted[i]
			for _, res := range cluster.All {
				lower, to := w.Estimate.Lower.Amount(res), f.Requests.Amount(res)
				if to < lower || to > w.Requests.Amount(res) || f.Estimate.Target.Amount(res) != to || f.Estimate.Upper.Amount(res) < to {
					t.Fatalf("container %s: %s %d of %+v, wanted %+v", f.Container, res, to, f.Estimate, w.Estimate)
				}
				if limit, set := f.Limits.Get(res); set && limit < to {
					t.Fatalf("container %s: %s limit %d is below the request %d", f.Container, res, limit, to)
				}
			}
		}
		next := *p
		next.Containers = nil
		for i := range p.Containers {
			c := p.Containers[i]
			for j := range fits {
				if fits[j].Container == c.Name {
					c.Requests, c.Limits = fits[j].Requests.Or(c.Requests), fits[j].Limits.Or(c.Limits)
				}
			}
			next.Containers = append(next.Containers, c)
		}
		if again := policy.Fit(a, limits, &next); !reflect.DeepEqual(requestsOf(again), requestsOf(fits)) {
			t.Fatalf("the pod with the size %v would get %v", requestsOf(fits), requestsOf(again))
		}
		more := nodesOf(size.Add(amount(5000)))
		if more.Hold(total(nil)) != limits.Nodes.Hold(total(nil)) {
			continue // only on the larger node, the present requests are minima
		}
		larger := policy.Fit(a, policy.Limits{Nodes: more}, p)
		for i := range fits {
			if larger[i].Requests.CPU < fits[i].Requests.CPU || larger[i].Requests.Memory < fits[i].Requests.Memory {
				t.Fatalf("a larger node gives %v, less than %v", larger[i].Requests, fits[i].Requests)
			}
		}
	}
	if scaled < 200 {
		t.Errorf("only %d pods were scaled", scaled)
	}
}
