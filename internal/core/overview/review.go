// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package overview

import (
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/review"
	"podfit.dev/podfit/internal/core/usage"
)

// Surplus is the part of the requests that could be given back, by the rules of podfit recommend.
type Surplus struct {
	review.PriceSource
	Money   map[cluster.Workload]float64 // of a workload in a month; negative if its requests rise
	Total   float64                      // of all workloads whose requests fall
	Shares  map[usage.Ref]Share          // of containers with a recommendation; nil without prices
	Packing review.Packing
}

// A Share is the part of a container in the surplus.
type Share struct {
	Money float64 // as Surplus.Money
	Waste review.Severity
}

// SurplusOf reviews the requests of a cluster against the recommendations in the status of VPAs. It packs all pods on the nodes, so it takes
// longer than Of.
func SurplusOf(w *World, o *Overview) *Surplus {
	config := review.Config{Now: w.Now, Prices: w.Prices, Nodes: w.Nodes, Selectors: w.Selectors, Tolerations: w.Tolerations}
	if w.AllPods {
		config.Pods = w.Snapshot.Pods
	}
	report := review.New(config, subjectsOf(w, o))
	out := &Surplus{PriceSource: w.Prices.PriceSource, Packing: report.Summary.Packing}
	if !w.Prices.Known() {
		return out
	}
	out.Money = make(map[cluster.Workload]float64, len(o.Rows))
	out.Shares = make(map[usage.Ref]Share, len(report.Rows))
	for _, row := range report.Rows {
		out.Shares[usage.Ref{Workload: row.Workload, Container: row.Container}] = Share{report.Money(row), row.Waste}
		out.Money[row.Workload] += report.Money(row)
	}
	out.Total = report.Summary.Recoverable
	return out
}

func subjectsOf(w *World, o *Overview) []review.Subject {
	governors := Governors(w.Snapshot, w.StartupBoost)
	places := make(map[usage.Ref][]review.Place, len(o.Rows))
	for _, p := range w.Snapshot.Pods {
		if !p.Live() || p.Placeholder {
			continue
		}
		for i := range p.Containers {
			requests, _ := p.Containers[i].Running()
			ref := usage.Ref{Workload: p.Workload(), Container: p.Containers[i].Name}
			places[ref] = append(places[ref], review.Place{Pod: p.Name, Node: p.Node, Requests: requests, Own: governors[p.Workload()].OwnTarget(p, p.Containers[i].Name)})
		}
	}
	var out []review.Subject
	for _, row := range o.Rows {
		for _, c := range row.Containers {
			if c.Estimate().Target.Has.Empty() || row.Pods == 0 {
				continue
			}
			s := c.Subject
			s.Places = places[usage.Ref{Workload: row.Workload, Container: c.Container}]
			if !c.Target.Has.Empty() { // containers do not keep it as a target of the profile, because there are many
				s.Targets = []review.Target{{Profile: row.Profile, Amount: c.Target}}
			}
			out = append(out, s)
		}
	}
	return out
}

// Priced returns the review of the container with the money and the waste of the surplus if prices are known, and whether its waste is known.
func (c *Container) Priced(s *Surplus) (row review.Row, ranked bool) {
	row = c.Row
	if s == nil || s.Shares == nil {
		return row, true
	}
	share, known := s.Shares[usage.Ref{Workload: c.Workload, Container: c.Container}]
	row.Weight = share.Money
	row.Waste = share.Waste
	return row, known || row.Freed.CPU == 0 && row.Freed.Memory == 0
}
