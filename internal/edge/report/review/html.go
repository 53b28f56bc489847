// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package review

import (
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/wording"
	"podfit.dev/podfit/internal/edge/report/page"
)

// html writes one page without scripts, which loads nothing.
func (p *printer) html() {
	d := p.shown(true)
	d.Figures = p.figures()
	d.Foot = []string{"podfit recommend, " + p.Now.UTC().Format(time.RFC1123) + ". Requests that could be freed save money only if nodes go."}
	p.err = page.Write(&p.Text, d)
}

// figures returns the four numbers at the top.
func (c *content) figures() []page.Figure {
	s := &c.Summary
	out := []page.Figure{
		{Name: "Workloads at risk", Value: wording.Grouped(float64(s.AtRisk)), Detail: "of " + wording.Grouped(float64(s.Workloads))},
		{Name: "CPU that could be freed", Value: wording.Total(cluster.CPU, s.Freed.CPU), Detail: "requests"},
		{Name: "Memory that could be freed", Value: wording.Total(cluster.Memory, s.Freed.Memory), Detail: "requests"},
	}
	if s.Packing.Known {
		f := page.Figure{Name: "Nodes that could go", Value: wording.Grouped(float64(s.Packing.Gone)), Detail: "of " + wording.Grouped(float64(s.Packing.Nodes))}
		if c.Prices.Known() {
			f.Detail += ", " + c.amountOfMoney(s.Packing.Money) + " a month"
		}
		out = append(out, f)
	}
	return out
}
