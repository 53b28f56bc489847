// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package review

import (
	"cmp"
	"strconv"
	"strings"

	"podfit.dev/podfit/internal/core/cluster"
	core "podfit.dev/podfit/internal/core/review"
	"podfit.dev/podfit/internal/core/wording"
	"podfit.dev/podfit/internal/look/page"
)

func (c *content) groupTable() page.Section {
	t := &page.Table{Columns: []page.Column{
		{Title: strings.ToUpper(plain(c.options.Groups.By)), Least: 16}, {Title: "WORKLOADS", Right: true}, {Title: "AT RISK", Right: true}, {Title: "PODS", Right: true},
		{Title: "CPU FREED", Right: true}, {Title: "MEMORY FREED", Right: true},
	}}
	if c.Prices.Known() {
		t.Columns = append(t.Columns, c.moneyColumn())
	}
	for i := range c.options.Groups.All {
		g := &c.options.Groups.All[i]
		cells := []string{
			cmp.Or(plain(g.Name), "(none)"), strconv.Itoa(g.Workloads), strconv.Itoa(g.AtRisk), strconv.Itoa(g.Pods), wording.Total(cluster.CPU, g.Freed.CPU), wording.Total(cluster.Memory, g.Freed.Memory),
		}
		if c.Prices.Known() {
			cells = append(cells, price(g.Weight))
		}
		t.Rows = append(t.Rows, page.Row{Cells: cells})
	}
	return page.Section{Title: "By " + c.options.Groups.By, Table: t}
}

type groupRow struct {
	core.Group
	Freed      core.Quantities `json:"requestsFreed"`
	MoneyMonth *float64        `json:"moneyPerMonth,omitempty"`
}

// groupRows returns the totals by group as data.
func (c *content) groupRows() []groupRow {
	out := []groupRow{}
	for i := range c.options.Groups.All {
		g := &c.options.Groups.All[i]
		row := groupRow{Group: *g, Freed: core.QuantitiesOf(g.Freed)}
		if c.Prices.Known() {
			row.MoneyMonth = core.Cents(g.Weight)
		}
		out = append(out, row)
	}
	return out
}
