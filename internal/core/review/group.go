// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package review

import (
	"cmp"
	"slices"
	"strings"

	"podfit.dev/podfit/internal/core/capacity"
	"podfit.dev/podfit/internal/core/cluster"
)

// Groups are totals of a report by group.
type Groups struct {
	By  string // namespace, pool, or the name of a label
	All []Group
}

// A Group has the totals of the pods of a group. A workload whose pods are in several groups counts in each of them.
type Group struct {
	Name      string            `json:"name"`
	Workloads int               `json:"workloads"`
	AtRisk    int               `json:"workloadsAtRisk"` // with a high or medium risk
	Pods      int               `json:"pods"`
	Freed     cluster.Resources `json:"-"` // negative if the requests rise
	Weight    float64           `json:"-"` // price of Freed in a month, by assumed prices if none are known
}

// ByNamespace returns the totals by namespace.
func (r *Report) ByNamespace() *Groups {
	return r.group("namespace", func(row *Row, _ *Place) string { return row.Workload.Namespace })
}

// ByPool returns the totals by pool of nodes, with the names that a CapacityPlan without rules has.
func (r *Report) ByPool() *Groups {
	pools := make(map[string]string, len(r.Nodes))
	for i, pool := range new(capacity.Rules).Assign(r.Nodes) {
		pools[r.Nodes[i].Name] = pool
	}
	return r.group("pool", func(_ *Row, p *Place) string { return pools[p.Node] })
}

// ByLabel returns the totals by a label of pods. values has the values of the pods that have the label.
func (r *Report) ByLabel(name string, values map[cluster.Key]string) *Groups {
	return r.group(name, func(row *Row, p *Place) string {
		return values[cluster.Key{Namespace: row.Workload.Namespace, Name: p.Pod}]
	})
}

// group returns the totals by a property of pods.
func (r *Report) group(by string, of func(*Row, *Place) string) *Groups {
	type total struct {
		Group
		workloads map[cluster.Workload]bool // true: at risk
		pods      map[cluster.Key]bool
	}
	var totals map[string]*total
	for _, row := range r.Rows {
		for _, place := range row.Places {
			name := of(row, &place)
			t := cluster.Memo(&totals, name, func() *total {
				return &total{Group: Group{Name: name}, workloads: map[cluster.Workload]bool{}, pods: map[cluster.Key]bool{}}
			})
			t.workloads[row.Workload] = t.workloads[row.Workload] || row.Risk >= SeverityMedium
			t.pods[cluster.Key{Namespace: row.Workload.Namespace, Name: place.Pod}] = true
			freed := row.freedOf(&place)
			t.Freed = t.Freed.Add(freed)
			t.Weight += r.Prices.At(place.Node).Of(freed)
		}
	}
	out := &Groups{By: by}
	for _, t := range totals {
		t.Workloads = len(t.workloads)
		t.Pods = len(t.pods)
		for _, atRisk := range t.workloads {
			if atRisk {
				t.AtRisk++
			}
		}
		out.All = append(out.All, t.Group)
	}
	slices.SortFunc(out.All, func(a, b Group) int { return cmp.Or(cmp.Compare(b.Weight, a.Weight), strings.Compare(a.Name, b.Name)) })
	return out
}

// freedOf returns what the row frees in one pod. A request that is kept frees nothing, also while the pods have different ones.
func (r *Row) freedOf(p *Place) cluster.Resources {
	var freed cluster.Resources
	for _, res := range cluster.All {
		to, ok := r.requestIn(p).Get(res)
		if !ok {
			continue
		}
		if !r.Applies(res) || r.PodLevel.Has(res) && !p.Requests.Has.Has(res) { // or it takes a part of the pod-level request
			to = p.Requests.Amount(res)
		}
		freed = freed.Set(res, p.Requests.Amount(res)-to)
	}
	return freed
}

// requestIn returns what the container should request in a pod.
func (r *Row) requestIn(p *Place) cluster.Resources {
	out := r.Request
	for _, res := range cluster.All {
		if own, has := p.Own.Get(res); has && r.Applies(res) {
			out = out.Set(res, Rounded(res, own))
		}
	}
	return out
}
