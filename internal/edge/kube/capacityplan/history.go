// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package capacityplan

import (
	"cmp"
	"slices"

	"podfit.dev/podfit/api/podfit/v1alpha1"
	"podfit.dev/podfit/internal/core/capacity"
	"podfit.dev/podfit/internal/core/cluster"
)

// unknown marks a value that is not known.
const unknown = -1

func storeHistory(h *capacity.History, today capacity.Day) v1alpha1.CapacityHistory {
	days := slices.DeleteFunc(slices.Clone(h.Days), func(r capacity.Record) bool { return r.Day > today })
	days = days[max(0, len(days)-v1alpha1.MaxCapacityDays):]
	var out v1alpha1.CapacityHistory
	out.Days = cluster.Each(days, func(r *capacity.Record) string { return r.Day.String() })
	out.CPU, out.Memory = storeSeries(days, cluster.CPU), storeSeries(days, cluster.Memory)
	loads := slices.Clone(h.Loads)
	slices.SortStableFunc(loads, func(a, b capacity.Load) int { return cmp.Compare(b.Requests.CPU, a.Requests.CPU) })
	out.WorkloadsOmitted = h.Partial
	if len(loads) > v1alpha1.MaxCapacityWorkloads {
		loads = loads[:v1alpha1.MaxCapacityWorkloads]
		out.WorkloadsOmitted = true
	}
	out.Workloads = cluster.Each(loads, func(l *capacity.Load) v1alpha1.CapacityWorkload { return storeWorkload(l.Workload, l.Pods, l.Requests) })
	return out
}

func storeSeries(days []capacity.Record, res cluster.Resource) v1alpha1.CapacitySeries {
	var out v1alpha1.CapacitySeries
	for i := range days {
		d := &days[i]
		out.Requested = append(out.Requested, storeAmount(d.Requested, res))
		out.Capacity = append(out.Capacity, storeAmount(d.Capacity, res))
		out.Used = append(out.Used, storeAmount(d.Used, res))
		if i < len(days)-capacity.GrowthDays {
			continue
		}
		out.New = append(out.New, inUnit(res, d.Growth.New.Amount(res)))
		out.Gone = append(out.Gone, inUnit(res, d.Growth.Gone.Amount(res)))
		out.Replicas = append(out.Replicas, inUnit(res, d.Growth.Replicas.Amount(res)))
		out.PerPod = append(out.PerPod, inUnit(res, d.Growth.PerPod.Amount(res)))
	}
	if !slices.ContainsFunc(out.Used, func(v int64) bool { return v != unknown }) {
		out.Used = nil
	}
	return out
}

func storeAmount(r cluster.Resources, res cluster.Resource) int64 {
	v, ok := r.Get(res)
	if !ok || v < 0 {
		return unknown
	}
	return inUnit(res, v)
}

// inUnit returns an amount in the unit of the object: millicores or MiB.
func inUnit(res cluster.Resource, v int64) int64 { return cluster.Pick(res, v, mebibytes(v)) }

func storeWorkload(w cluster.Workload, pods int, r cluster.Resources) v1alpha1.CapacityWorkload {
	return v1alpha1.CapacityWorkload{Group: w.Group, Kind: w.Kind, Namespace: w.Namespace, Name: w.Name, Pods: int32(pods), CPU: r.CPU, Memory: mebibytes(r.Memory)}
}

// halve leaves out the smaller half of the workloads, and reports whether there were some.
func halve(p *v1alpha1.CapacityPoolStatus) bool {
	h := &p.History
	n := len(h.Workloads)
	h.Workloads = h.Workloads[:n/2]
	h.WorkloadsOmitted = h.WorkloadsOmitted || n > 0
	return n > 0
}

// dropDays leaves out the oldest days, and reports whether there were some.
func dropDays(h *v1alpha1.CapacityHistory, n int) bool {
	n = min(n, len(h.Days))
	h.Days = h.Days[n:]
	for _, s := range []*v1alpha1.CapacitySeries{&h.CPU, &h.Memory} {
		for _, list := range []*[]int64{&s.Requested, &s.Capacity, &s.Used} {
			*list = (*list)[min(n, len(*list)):]
		}
		for _, list := range []*[]int64{&s.New, &s.Gone, &s.Replicas, &s.PerPod} {
			*list = (*list)[max(0, len(*list)-len(h.Days)):]
		}
	}
	return n > 0
}

// Histories returns the histories of a status by pool. What is not valid is left out.
func Histories(s *v1alpha1.CapacityPlanStatus) map[string]*capacity.History {
	out := make(map[string]*capacity.History, len(s.Pools))
	for i := range s.Pools[:min(len(s.Pools), v1alpha1.MaxCapacityPools)] {
		out[s.Pools[i].Name] = loadHistory(&s.Pools[i])
	}
	return out
}

func loadHistory(p *v1alpha1.CapacityPoolStatus) *capacity.History {
	h := &p.History
	out := &capacity.History{Partial: h.WorkloadsOmitted}
	n := len(h.Days)
	for i, text := range h.Days {
		day, ok := capacity.ParseDay(text)
		if !ok || day <= 0 {
			continue
		}
		r := capacity.Record{Day: day}
		for _, res := range cluster.All {
			s := cluster.Pick(res, &h.CPU, &h.Memory)
			r.Requested = loadAmount(r.Requested, res, s.Requested, i)
			r.Capacity = loadAmount(r.Capacity, res, s.Capacity, i)
			r.Used = loadAmount(r.Used, res, s.Used, i)
			for _, part := range []struct {
				to   *cluster.Resources
				from []int64
			}{{&r.Growth.New, s.New}, {&r.Growth.Gone, s.Gone}, {&r.Growth.Replicas, s.Replicas}, {&r.Growth.PerPod, s.PerPod}} {
				if k := i - (n - len(part.from)); k >= 0 && k < len(part.from) {
					*part.to = part.to.Set(res, inBase(res, part.from[k]))
				}
			}
		}
		out.Days = append(out.Days, r)
	}
	slices.SortFunc(out.Days, func(a, b capacity.Record) int { return cmp.Compare(a.Day, b.Day) })
	out.Days = slices.CompactFunc(out.Days, func(a, b capacity.Record) bool { return a.Day == b.Day })
	for i := range p.Changes {
		c := &p.Changes[i]
		day, ok := capacity.ParseDay(c.Day)
		cause := capacity.Cause(c.Cause)
		if ok && slices.Contains(capacity.Causes, cause) {
			out.Changes = append(out.Changes, capacity.Change{Day: day, Cause: cause, Workload: workloadOf(&c.Workload), Amount: amountsOf(&c.Workload)})
		}
	}
	for i := range h.Workloads {
		w := &h.Workloads[i]
		out.Loads = append(out.Loads, capacity.Load{Workload: workloadOf(w), Pods: int(w.Pods), Requests: amountsOf(w)})
	}
	slices.SortFunc(out.Loads, func(a, b capacity.Load) int { return a.Workload.Compare(b.Workload) })
	return out
}

func loadAmount(to cluster.Resources, res cluster.Resource, values []int64, i int) cluster.Resources {
	if i >= len(values) || values[i] < 0 || values[i] > maxAmount(res) {
		return to
	}
	return to.Set(res, inBase(res, values[i]))
}

// maxAmount is the largest value that is believed: a billion cores, or 2^43 MiB, which does not overflow in bytes.
func maxAmount(res cluster.Resource) int64 { return cluster.Pick[int64](res, 1e12, 1<<42) }

// inBase returns an amount in millicores or bytes, 0 if it is out of range.
func inBase(res cluster.Resource, v int64) int64 {
	if v > maxAmount(res) || v < -maxAmount(res) {
		return 0
	}
	return cluster.Pick(res, v, v<<20)
}

func workloadOf(w *v1alpha1.CapacityWorkload) cluster.Workload {
	return cluster.Workload{Group: w.Group, Kind: w.Kind, Namespace: w.Namespace, Name: w.Name}
}

func amountsOf(w *v1alpha1.CapacityWorkload) cluster.Resources {
	return cluster.Amounts(inBase(cluster.CPU, w.CPU), inBase(cluster.Memory, w.Memory))
}
