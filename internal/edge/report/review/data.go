// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package review

import (
	"cmp"
	"encoding/csv"
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	core "podfit.dev/podfit/internal/core/review"
	"podfit.dev/podfit/internal/core/wording"
	"podfit.dev/podfit/internal/edge/report/terminal"
	"podfit.dev/podfit/internal/look/page"
)

// Version is the version of the JSON and YAML formats. Fields may be added in it, but not changed or removed.
const Version = "podfit.dev/recommend/v1"

// A document is a report in JSON. Amounts are Kubernetes quantities.
type document struct {
	APIVersion string            `json:"apiVersion"`
	Kind       string            `json:"kind"`
	At         string            `json:"at"`
	Cluster    string            `json:"cluster"`
	Source     string            `json:"source"`
	Window     string            `json:"window,omitempty"`
	Profiles   []string          `json:"profiles"`
	Complete   bool              `json:"complete"`
	Missing    []string          `json:"missing"`
	Notes      []string          `json:"notes,omitempty"`
	Prices     *core.PriceSource `json:"prices"` // null without prices
	Summary    summary           `json:"summary"`
	Containers []core.Record     `json:"containers"`
	Groups     []groupRow        `json:"groups,omitempty"` // with --group-by
}

type summary struct {
	core.Counts
	Requested   *core.Quantities `json:"requested,omitempty"`
	Used        *core.Quantities `json:"used,omitempty"`
	Capacity    *core.Quantities `json:"capacity,omitempty"`
	Freed       core.Quantities  `json:"requestsFreed"`
	Recoverable *float64         `json:"requestsFreedMoneyPerMonth,omitempty"`
	NodesGone   *int             `json:"nodesThatCouldGo,omitempty"`
	NodesBefore *int             `json:"nodesThatCouldGoWithPresentRequests,omitempty"`
	NodesMoney  *float64         `json:"nodesThatCouldGoMoneyPerMonth,omitempty"`
	NodesShort  *int             `json:"nodesThatMayBeShortOfMemory,omitempty"` // only with a profile for full nodes
}

func (c *content) document() document {
	d := document{
		APIVersion: Version, Kind: "Recommendations", At: c.Now.UTC().Format(time.RFC3339), Cluster: c.Cluster, Source: c.Source,
		Profiles: c.Profiles, Complete: len(c.Missing) == 0, Missing: append([]string{}, c.Missing...), Notes: c.Notes, Summary: c.summary(),
		Containers: cluster.Each(c.all(), func(row **core.Row) core.Record { return c.record(*row) }),
	}
	if c.Window > 0 {
		d.Window = window(c.Window)
	}
	if c.Prices.Known() {
		d.Prices = &c.Prices.PriceSource
	}
	if c.options.Groups != nil {
		d.Groups = c.groupRows()
	}
	return d
}

func (c *content) all() []*core.Row {
	switch c.options.Sort {
	case SortName:
		return c.ByName()
	case SortMoney:
		return c.ByMoney()
	}
	return c.Rows
}

func (c *content) summary() summary {
	s := &c.Summary
	out := summary{Counts: s.Counts, Freed: core.QuantitiesOf(s.Freed), NodesShort: s.Packing.Short}
	if s.Packing.Known {
		out.Requested = new(core.QuantitiesOf(s.Requested))
		out.Capacity = new(core.QuantitiesOf(s.Capacity))
		out.NodesGone = &s.Packing.Gone
		out.NodesBefore = &s.Packing.Already
	}
	if !s.Used.Has.Empty() {
		out.Used = new(core.QuantitiesOf(s.Used))
	}
	if c.Prices.Known() {
		out.Recoverable = core.Cents(s.Recoverable)
		if s.Packing.Known {
			out.NodesMoney = core.Cents(s.Packing.Money)
		}
	}
	return out
}

// record returns a row as data. Names of other tools' objects in its texts have no control characters.
func (c *content) record(row *core.Row) core.Record {
	out := row.Record(c.Now, &c.Prices)
	out.Why = plain(out.Why)
	if row.Confidence != core.None {
		out.Source = plain(c.Source)
	}
	if len(c.Profiles) > 1 && !c.heldBack(row) {
		for _, t := range row.Targets {
			out.Profiles = append(out.Profiles, core.ProfileRecord{Profile: t.Profile, Target: core.QuantitiesOf(t.Amount)})
		}
	}
	return out
}

func (p *printer) writeJSON(value any) {
	data, err := json.MarshalIndent(value, "", "  ")
	p.Text.Write(data)
	p.Text.WriteString("\n")
	p.err = err
}

// csv writes one line for each container. Amounts are millicores and bytes.
func (p *printer) csv() {
	w := csv.NewWriter(&p.Text)
	header := []string{
		"namespace", "kind", "name", "container", "vpa", "replicas", "risk", "waste", "confidence", "days",
		"cpu_request_millicores", "cpu_target_millicores", "cpu_new_request_millicores", "cpu_limit_millicores", "cpu_new_limit_millicores",
		"memory_request_bytes", "memory_target_bytes", "memory_new_request_bytes", "memory_limit_bytes", "memory_new_limit_bytes",
		"cpu_freed_millicores", "memory_freed_bytes", "money_per_month", "currency", "why", "source",
		"young", "usage_minutes", "cpu_young_target_millicores", "memory_young_target_bytes",
	}
	_ = w.Write(header)
	for _, row := range p.all() {
		cells := []string{
			inert(row.Workload.Namespace), inert(row.Workload.Kind), inert(row.Workload.Name), inert(row.Container), inert(row.VPA),
			strconv.Itoa(max(len(row.Places), row.Replicas)), row.Risk.String(), row.Waste.String(), row.Confidence.String(), strconv.Itoa(row.Evidence.Days()),
		}
		for _, res := range cluster.All {
			request := row.Request
			limit := row.Limit
			if row.Confidence == core.None {
				request, limit = cluster.Resources{}, cluster.Resources{}
			}
			target := row.Target
			if row.OnlyShown(res) {
				target = cluster.Resources{}
			}
			for _, r := range []cluster.Resources{row.Requests, target, request, row.Limits, limit} {
				cells = append(cells, numberIn(r, res))
			}
		}
		cells = append(cells, numberIn(row.Freed, cluster.CPU), numberIn(row.Freed, cluster.Memory))
		money := ""
		if p.Prices.Known() {
			money = strconv.FormatFloat(*core.Cents(row.Weight), 'f', 2, 64)
		}
		cells = append(cells, money, inert(p.Prices.Currency), inert(p.why(row)), inert(p.Source), "", "", "", "")
		if age := row.Evidence.Age(); !row.Young.Has.Empty() {
			copy(cells[len(cells)-4:], []string{"true", strconv.Itoa(int(age.Minutes())), numberIn(row.Young, cluster.CPU), numberIn(row.Young, cluster.Memory)})
		}
		_ = w.Write(cells)
	}
	w.Flush()
	p.err = w.Error()
}

func numberIn(r cluster.Resources, res cluster.Resource) string {
	v, ok := r.Get(res)
	if !ok {
		return ""
	}
	return strconv.FormatInt(v, 10)
}

// inert returns a cell of a CSV file that spreadsheets do not evaluate as a formula.
func inert(s string) string {
	s = plain(s)
	if s != "" && strings.ContainsRune("=+-@\t\r|%", rune(s[0])) {
		return "'" + s
	}
	return s
}

// shortKinds are kubectl's short names of kinds.
var shortKinds = map[string]string{
	"Deployment": "deploy", "StatefulSet": "sts", "DaemonSet": "ds", "ReplicaSet": "rs", "ReplicationController": "rc",
	"CronJob": "cj", "Job": "job", "Pod": "pod",
}

// ShortName returns "namespace/deploy/name".
func ShortName(w cluster.Workload) string {
	return plain(w.Namespace + "/" + cmp.Or(shortKinds[w.Kind], strings.ToLower(w.Kind)) + "/" + w.Name)
}

func plain(s string) string { return terminal.Plain(s) }

func (c *content) groupTable() page.Section {
	t := &page.Table{Columns: []page.Column{
		{Title: strings.ToUpper(plain(c.options.Groups.By)), Least: 16}, {Title: "WORKLOADS", Right: true}, {Title: "AT RISK", Right: true}, {Title: "PODS", Right: true},
		{Title: "CPU FREED", Right: true}, {Title: "MEMORY FREED", Right: true},
	}}
	if c.Prices.Known() {
		t.Columns = append(t.Columns, c.moneyColumn().Column)
	}
	for _, g := range c.options.Groups.All {
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

func (c *content) groupRows() []groupRow {
	return cluster.Each(c.options.Groups.All, func(g *core.Group) groupRow {
		row := groupRow{Group: *g, Freed: core.QuantitiesOf(g.Freed)}
		if c.Prices.Known() {
			row.MoneyMonth = core.Cents(g.Weight)
		}
		return row
	})
}
