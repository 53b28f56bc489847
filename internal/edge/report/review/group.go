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
)

// groupTable returns the totals by group.
func (c *content) groupTable() ([]column, [][]string) {
	columns := []column{
		{title: strings.ToUpper(plain(c.options.Groups.By)), least: 16}, {title: "WORKLOADS", right: true}, {title: "AT RISK", right: true}, {title: "PODS", right: true},
		{title: "CPU FREED", right: true}, {title: "MEMORY FREED", right: true},
	}
	if c.Prices.Known() {
		columns = append(columns, c.moneyColumn())
	}
	var rows [][]string
	for i := range c.options.Groups.All {
		g := &c.options.Groups.All[i]
		row := []string{
			cmp.Or(plain(g.Name), "(none)"), strconv.Itoa(g.Workloads), strconv.Itoa(g.AtRisk), strconv.Itoa(g.Pods), wording.Total(cluster.CPU, g.Freed.CPU), wording.Total(cluster.Memory, g.Freed.Memory),
		}
		if c.Prices.Known() {
			row = append(row, price(g.Weight))
		}
		rows = append(rows, row)
	}
	return columns, rows
}

type groupRow struct {
	Name       string          `json:"name"`
	Workloads  int             `json:"workloads"`
	AtRisk     int             `json:"workloadsAtRisk"`
	Pods       int             `json:"pods"`
	Freed      core.Quantities `json:"requestsFreed"`
	MoneyMonth *float64        `json:"moneyPerMonth,omitempty"`
}

// groupRows returns the totals by group as data.
func (c *content) groupRows() []groupRow {
	out := []groupRow{}
	for i := range c.options.Groups.All {
		g := &c.options.Groups.All[i]
		row := groupRow{Name: g.Name, Workloads: g.Workloads, AtRisk: g.AtRisk, Pods: g.Pods, Freed: core.QuantitiesOf(g.Freed)}
		if c.Prices.Known() {
			row.MoneyMonth = core.Cents(g.Weight)
		}
		out = append(out, row)
	}
	return out
}
