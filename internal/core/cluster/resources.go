// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// A Resource is CPU or memory.
type Resource uint8

// The resources that podfit sets. They are bits, so that a Set can contain several.
const (
	CPU    Resource = 1 << iota // millicores
	Memory                      // bytes
)

// All lists every resource in the order in which output names them.
var All = [...]Resource{CPU, Memory}

// String returns the Kubernetes name of the resource.
func (r Resource) String() string {
	switch r {
	case CPU:
		return "cpu"
	case Memory:
		return "memory"
	}
	return fmt.Sprintf("resource(%d)", uint8(r))
}

// Pick returns the value that belongs to a resource.
func Pick[T any](res Resource, cpu, memory T) T {
	if res == CPU {
		return cpu
	}
	return memory
}

// InUnits returns an amount in cores or bytes.
func (r Resource) InUnits(amount int64) float64 { return float64(amount) / Pick(r, 1000.0, 1) }

// ParseResource returns the resource with a Kubernetes name, and whether podfit supports it.
func ParseResource(name string) (Resource, bool) {
	for _, res := range All {
		if res.String() == name {
			return res, true
		}
	}
	return 0, false
}

// A Set is a set of resources. The zero value is empty.
type Set uint8

// Both is the set of every resource.
const Both = Set(CPU | Memory)

// Of returns the set of the given resources.
func Of(rs ...Resource) Set {
	var s Set
	for _, r := range rs {
		s |= Set(r)
	}
	return s
}

// Has reports whether the set contains r.
func (s Set) Has(r Resource) bool { return s&Set(r) != 0 }

// With returns the set with r added.
func (s Set) With(r Resource) Set { return s | Set(r) }

// Without returns the set with r removed.
func (s Set) Without(r Resource) Set { return s &^ Set(r) }

// Empty reports whether the set is empty.
func (s Set) Empty() bool { return s == 0 }

// Resources is an amount of CPU and memory, each of which may be absent.
// The zero value sets neither. An absent amount is zero, so that sums do not need a check.
type Resources struct {
	CPU    int64 // millicores
	Memory int64 // bytes
	Has    Set   // which of the two are set; a set amount may be zero
}

// Amounts returns resources with both amounts set, in millicores and bytes.
func Amounts(cpu, memory int64) Resources { return Resources{CPU: cpu, Memory: memory, Has: Both} }

// Get returns the amount of one resource in its unit, and whether it is set.
func (r Resources) Get(res Resource) (int64, bool) {
	if res == CPU {
		return r.CPU, r.Has.Has(CPU)
	}
	return r.Memory, r.Has.Has(Memory)
}

// Amount returns the amount of one resource in its unit, zero if absent.
func (r Resources) Amount(res Resource) int64 { return Pick(res, r.CPU, r.Memory) }

// Set returns r with the amount of one resource replaced.
func (r Resources) Set(res Resource, amount int64) Resources {
	if res == CPU {
		r.CPU = amount
	} else {
		r.Memory = amount
	}
	r.Has = r.Has.With(res)
	return r
}

// Unset returns r without one resource.
func (r Resources) Unset(res Resource) Resources {
	if res == CPU {
		r.CPU = 0
	} else {
		r.Memory = 0
	}
	r.Has = r.Has.Without(res)
	return r
}

// Only returns r restricted to a set of resources.
func (r Resources) Only(s Set) Resources {
	for _, res := range All {
		if !s.Has(res) {
			r = r.Unset(res)
		}
	}
	return r
}

// Or returns r, with amounts that are not set taken from other.
func (r Resources) Or(other Resources) Resources {
	for _, res := range All {
		if v, ok := other.Get(res); ok && !r.Has.Has(res) {
			r = r.Set(res, v)
		}
	}
	return r
}

// Add returns the sum of two amounts. A resource is set in the sum if it is set in one of them.
func (r Resources) Add(other Resources) Resources {
	return Resources{CPU: r.CPU + other.CPU, Memory: r.Memory + other.Memory, Has: r.Has | other.Has}
}

// Highest returns the higher amount of each resource. A resource is set if it is set in one of them.
func (r Resources) Highest(other Resources) Resources {
	return Resources{CPU: max(r.CPU, other.CPU), Memory: max(r.Memory, other.Memory), Has: r.Has | other.Has}
}

// Lowest returns the lower amount of each resource, of those that are set.
func (r Resources) Lowest(other Resources) Resources {
	for _, res := range All {
		if v, ok := other.Get(res); ok && (!r.Has.Has(res) || v < r.Amount(res)) {
			r = r.Set(res, v)
		}
	}
	return r
}

// HasNone reports whether an amount is set and not positive.
func (r Resources) HasNone() bool {
	return slices.ContainsFunc(All[:], func(res Resource) bool { return r.Has.Has(res) && r.Amount(res) <= 0 })
}

// String returns a readable form, such as "cpu=100m memory=256Mi", or "none".
func (r Resources) String() string {
	var parts []string
	for _, res := range All {
		if v, ok := r.Get(res); ok {
			parts = append(parts, res.String()+"="+Format(res, v))
		}
	}
	if len(parts) == 0 {
		return "none"
	}
	return strings.Join(parts, " ")
}

// Format returns a readable form of an amount: CPU as "350m" or "2", memory with the largest
// binary unit that divides it, or with one decimal of the largest unit that fits ("745.2Mi").
func Format(res Resource, amount int64) string {
	if res == CPU {
		if amount%1000 == 0 {
			return fmt.Sprintf("%d", amount/1000)
		}
		return fmt.Sprintf("%dm", amount)
	}
	for _, u := range binary {
		if amount < u.size && amount > -u.size {
			continue
		}
		if amount%u.size == 0 {
			return fmt.Sprintf("%d%s", amount/u.size, u.name)
		}
		return fmt.Sprintf("%.1f%s", float64(amount)/float64(u.size), u.name)
	}
	return fmt.Sprintf("%d", amount)
}

// Quantity returns an amount as a Kubernetes quantity, without rounding: memory with the largest unit that divides it.
func Quantity(res Resource, amount int64) string {
	for _, u := range binary {
		if res == Memory && amount != 0 && amount%u.size == 0 {
			return fmt.Sprintf("%d%s", amount/u.size, u.name)
		}
	}
	if res == Memory {
		return strconv.FormatInt(amount, 10)
	}
	return Format(res, amount)
}

// binary are the units of memory, the largest first.
var binary = [...]struct {
	name string
	size int64
}{{"Ti", 1 << 40}, {"Gi", 1 << 30}, {"Mi", 1 << 20}, {"Ki", 1 << 10}}

// units are the factors of the suffixes of quantities.
var units = map[string]float64{
	"m": 1e-3, "": 1, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15,
	"Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30, "Ti": 1 << 40, "Pi": 1 << 50,
}

// MostAmount is the largest amount that ParseAmount accepts, in millicores or bytes.
const MostAmount = 1e14

// ParseAmount reads a Kubernetes quantity as millicores or bytes, rounded up. It accepts no sign and no exponent.
func ParseAmount(res Resource, text string) (int64, error) {
	number := strings.TrimRight(text, "mkMGTPKi")
	factor, ok := units[text[len(number):]]
	v, err := strconv.ParseFloat(number, 64)
	example := "1Gi or 800Mi"
	if res == CPU {
		example = "500m or 2"
		v *= 1000
	}
	if !ok || err != nil || number == "" || strings.ContainsAny(number, "eExXpPnN+_-") || math.IsNaN(v) || math.IsInf(v, 0) {
		return 0, fmt.Errorf("must be a quantity such as %s, got %q", example, text)
	}
	v *= factor
	if v > MostAmount {
		return 0, fmt.Errorf("must be a quantity of at most %s, got %q", Format(res, MostAmount), text)
	}
	return int64(math.Ceil(v - 1e-9)), nil
}

// Requested returns the requests of the pod that the scheduler counts: of all containers that run at the same time, in the spec or in use,
// whichever is larger, or of the pod if it has pod-level requests. The overhead of a RuntimeClass is not included.
func (p *Pod) Requested() Resources {
	total := p.Total(func(i int) Resources {
		requests, _ := p.Containers[i].Running()
		return requests.Highest(p.Containers[i].Requests)
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
			initial = initial.Highest(sidecars.Add(amounts))
			continue
		case Sidecar, FixedSidecar:
			sidecars = sidecars.Add(amounts)
		case Regular:
		}
		total = total.Add(amounts)
	}
	return total.Highest(initial)
}
