// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"slices"
	"strings"

	"podfit.dev/podfit/internal/core/admissible"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/runtimeguard"
)

// guardRuntimes changes the targets of containers whose language runtime would misread them, as the guards of the autoscaler require
// (Autoscaler.Guards). Without guards it changes nothing.
//
//   - Memory: the target and the lower bound of a JVM are at least the heap that its options set.
//   - CPU: the target of a JVM without CPU limit is outside of the ranges that it misreads (runtimeguard.Band): raised to the next amount
//     above the range, or lowered to the next one below if a bound of the container does not allow that.
//
// The bounds of the container (container LimitRange, minAllowed, maxAllowed, a limit that is kept) have precedence. Requests by which an HPA
// scales and CPU that is rounded to whole cores are not changed.
func guardRuntimes(f fitting) []Fitted {
	if f.p.Runtimes == nil || !f.a.Guards.CPU && !f.a.Guards.Memory {
		return f.fits
	}
	for i := range f.fits {
		fit := &f.fits[i]
		c := f.p.Container(fit.Container)
		r := f.p.Runtime(c)
		if r == nil || r.Kind != cluster.JVM || fit.Inserted {
			continue
		}
		b := f.boundsOf(fit.Container, targetLeast)
		if f.a.Guards.Memory && !isScaled(f.a, fit, cluster.Memory) {
			guardHeap(fit, HeapFloor(f.a, c, r), b, f.looked.of(i))
		}
		if ReadsCPURequest(f.a, f.l, f.p, c, r) && !isScaled(f.a, fit, cluster.CPU) {
			guardShare(fit, b, f.looked.of(i))
		}
	}
	f.looked.proceed(f.fits)
	return f.fits
}

// isScaled reports whether an HPA scales by a request, so that its target is changed together with the request.
func isScaled(a *cluster.Autoscaler, f *Fitted, res cluster.Resource) bool {
	state, _ := HorizontalOf(a, f.Container, res)
	return state != NotScaled
}

// HeapFloor returns the heap in bytes that the memory request of a JVM must hold, 0 if its options set none. A heap in percent of the memory
// limit counts only if the policy keeps the limit: otherwise the limit follows the request, and the heap the limit.
func HeapFloor(a *cluster.Autoscaler, c *cluster.Container, r *cluster.Runtime) int64 {
	limit := int64(0)
	if cp := a.Policy(c.Name); cp != nil && cp.RequestsOnly {
		_, limits := c.Running()
		limit = limits.Memory
	}
	heap, _ := runtimeguard.Heap(r, limit)
	return heap
}

func guardHeap(f *Fitted, heap int64, b bounds, looked *[]Bound) {
	before, ok := f.Estimate.Target.Get(cluster.Memory)
	if !ok || heap <= 0 {
		return
	}
	floor := b.amount(cluster.Memory, heap)
	after := max(before, floor)
	look(looked, Bound{Resource: cluster.Memory, Kind: JVMHeap, Amount: heap, Before: before, After: after})
	if lower, ok := f.Estimate.Lower.Get(cluster.Memory); ok && lower < floor {
		f.Estimate.Lower = f.Estimate.Lower.Set(cluster.Memory, floor)
	}
	if after != before {
		f.Estimate.Target = f.Estimate.Target.Set(cluster.Memory, after)
		f.Notes = append(slices.Clip(f.Notes), Note{Resource: cluster.Memory, Kind: admissible.RaisedToHeap})
	}
}

// ReadsCPURequest reports whether the guard for CPU applies to a container: a JVM that may take its number of processors from its CPU
// request. It does not if the container has or gets a CPU limit, if its options set the number, if the webhook does, which changes only new
// pods, or if the request is rounded to whole cores.
func ReadsCPURequest(a *cluster.Autoscaler, l Limits, p *cluster.Pod, c *cluster.Container, r *cluster.Runtime) bool {
	if !a.Guards.CPU || r == nil || r.Kind != cluster.JVM || r.CPUCountSet || a.Guards.InjectCPUCount && r.VariableOpen && p.Node == "" {
		return false
	}
	_, limits := c.Running()
	return limits.CPU <= 0 && l.Range.Container.Default.CPU <= 0 && !slices.Contains(a.IntegerCPU, c.Name)
}

func guardShare(f *Fitted, b bounds, looked *[]Bound) {
	before, ok := f.Estimate.Target.Get(cluster.CPU)
	if !ok {
		return
	}
	band, misread := runtimeguard.Band(before)
	if !misread {
		return
	}
	for _, to := range []struct {
		amount int64
		kind   admissible.NoteKind
	}{{band.To + 1, admissible.RaisedOutOfBand}, {band.From - 1, admissible.LoweredOutOfBand}} {
		if b.amount(cluster.CPU, to.amount) != to.amount {
			continue
		}
		f.Estimate.Target = f.Estimate.Target.Set(cluster.CPU, to.amount)
		f.Notes = append(slices.Clip(f.Notes), Note{Resource: cluster.CPU, Kind: to.kind})
		look(looked, Bound{Resource: cluster.CPU, Kind: JVMShare, Before: before, After: to.amount})
		return
	}
}

// guardBoost lowers boosted CPU requests in place out of the ranges that a JVM misreads, but not below the requests without the boost.
func guardBoost(a *cluster.Autoscaler, l Limits, p *cluster.Pod, without, boosted []Fitted) {
	if p.Runtimes == nil || !a.Guards.CPU {
		return
	}
	for i := range boosted {
		f := &boosted[i]
		c := p.Container(f.Container)
		band, misread := runtimeguard.Band(f.Requests.CPU)
		requests, _ := admissible.SizeOf(c, without)
		if misread && requests.CPU < band.From && ReadsCPURequest(a, l, p, c, p.Runtime(c)) {
			f.Requests = f.Requests.Set(cluster.CPU, band.From-1)
		}
	}
}

// lowerOutOfBands lowers CPU targets that a scaling has lowered into a range that a JVM misreads, if their floors allow it.
func (s *scaling) lowerOutOfBands(out []Fitted, floors []cluster.Resources) {
	if s.p.Runtimes == nil {
		return
	}
	for i := range out {
		f := &out[i]
		c := s.p.Container(f.Container)
		band, misread := runtimeguard.Band(f.Estimate.Target.CPU)
		if misread && !f.Inserted && band.From-1 >= floors[i].CPU && ReadsCPURequest(s.a, s.l, s.p, c, s.p.Runtime(c)) && !isScaled(s.a, f, cluster.CPU) {
			f.Estimate.Target = f.Estimate.Target.Set(cluster.CPU, band.From-1)
			f.Notes = append(slices.Clip(f.Notes), Note{Resource: cluster.CPU, Kind: admissible.LoweredOutOfBand})
		}
	}
}

// A Variable is a variable to add to the environment of a container of a new pod.
type Variable struct{ Container, Name, Value string }

// Variables returns the variables by which the runtimes of a new pod take their number of processors from the CPU request that fits sets, or
// else from their own, and JVMs the ceiling of their heap from the memory limit. There are none unless the autoscaler asks for them
// (RuntimeGuards).
//
// A container gets none if the variable is set or may be, or if the policy of the container is Off. It gets no option that is set already, no
// number of processors without a CPU request or with a CPU limit, which the runtimes read, and no heap without a memory limit.
func Variables(a *cluster.Autoscaler, l Limits, p *cluster.Pod, fits []Fitted) []Variable {
	g := &a.Guards
	if !g.InjectCPUCount && g.InjectHeapPercent == 0 || p.Runtimes == nil {
		return nil
	}
	var out []Variable
	for i := range p.Containers {
		c := &p.Containers[i]
		r := p.Runtime(c)
		cp := a.Policy(c.Name)
		if r == nil || !r.VariableOpen || cp != nil && cp.Off {
			continue
		}
		var values []string
		requests, limits := admissible.SizeOf(c, fits)
		if g.InjectCPUCount && !r.CPUCountSet && c.Limits.CPU <= 0 && l.Range.Container.Default.CPU <= 0 && requests.CPU > 0 {
			values = append(values, runtimeguard.CPUCountValue(r.Kind, requests.CPU))
		}
		if limited := limits.Memory > 0 || l.Range.Container.Default.Memory > 0; g.InjectHeapPercent > 0 && r.Kind == cluster.JVM && r.HeapBytes == 0 && r.HeapPercent == 0 && limited {
			values = append(values, runtimeguard.HeapPercentOption(g.InjectHeapPercent))
		}
		if len(values) > 0 {
			out = append(out, Variable{Container: c.Name, Name: runtimeguard.VariableOf(r.Kind), Value: strings.Join(values, " ")})
		}
	}
	return out
}
