// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package review

import (
	"encoding/csv"
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"sigs.k8s.io/yaml"

	"podfit.dev/podfit/internal/core/cluster"
	core "podfit.dev/podfit/internal/core/review"
)

// Version is the version of the JSON and YAML formats. Fields may be added in it, but not changed or removed.
const Version = "podfit.dev/recommend/v1"

// A document is a report in JSON. Amounts are Kubernetes quantities.
type document struct {
	APIVersion string         `json:"apiVersion"`
	Kind       string         `json:"kind"`
	At         string         `json:"at"`
	Cluster    string         `json:"cluster"`
	Source     string         `json:"source"`
	Window     string         `json:"window,omitempty"`
	Profiles   []string       `json:"profiles"`
	Complete   bool           `json:"complete"`
	Missing    []string       `json:"missing"`
	Notes      []string       `json:"notes,omitempty"`
	Prices     *documentPrice `json:"prices"` // null without prices
	Summary    summary        `json:"summary"`
	Containers []containerRow `json:"containers"`
	Groups     []groupRow     `json:"groups,omitempty"` // with --group-by
}

type documentPrice struct {
	Currency string `json:"currency"`
	From     string `json:"from"`
	Assumed  bool   `json:"assumed"`
}

type summary struct {
	Workloads   int      `json:"workloads"`
	Pods        int      `json:"pods"`
	Nodes       int      `json:"nodes"`
	AtRisk      int      `json:"workloadsAtRisk"`
	Without     int      `json:"containersWithoutRecommendation"`
	Requested   *amounts `json:"requested,omitempty"`
	Used        *amounts `json:"used,omitempty"`
	Capacity    *amounts `json:"capacity,omitempty"`
	Freed       amounts  `json:"requestsFreed"`
	Recoverable *float64 `json:"requestsFreedMoneyPerMonth,omitempty"`
	NodesGone   *int     `json:"nodesThatCouldGo,omitempty"`
	NodesBefore *int     `json:"nodesThatCouldGoWithPresentRequests,omitempty"`
	NodesMoney  *float64 `json:"nodesThatCouldGoMoneyPerMonth,omitempty"`
}

type amounts struct {
	CPU    string `json:"cpu,omitempty"`
	Memory string `json:"memory,omitempty"`
}

type containerRow struct {
	Namespace    string       `json:"namespace"`
	Group        string       `json:"group,omitempty"`
	Kind         string       `json:"kind"`
	Name         string       `json:"name"`
	Container    string       `json:"container"`
	VPA          string       `json:"vpa,omitempty"`
	Replicas     int          `json:"replicas"`
	Risk         string       `json:"risk"`
	Waste        string       `json:"waste"`
	MoneyMonth   *float64     `json:"moneyPerMonth,omitempty"` // of the freed requests; negative if the requests rise
	Freed        amounts      `json:"requestsFreed"`
	Confidence   string       `json:"confidence"`
	Provisional  bool         `json:"provisional,omitempty"`
	Days         int          `json:"days"`
	SamplesShare float64      `json:"shareOfHours"`
	Why          string       `json:"why,omitempty"`
	Findings     []findingRow `json:"findings"`
	CPU          resourceRow  `json:"cpu"`
	Memory       resourceRow  `json:"memory"`
	Profiles     []profileRow `json:"profiles,omitempty"`
	Template     *templateRow `json:"template,omitempty"` // of the pods of the workload; absent if it is not known
}

// A templateRow has what the pod template has, and whether the newest pod has something else.
type templateRow struct {
	Differs  bool    `json:"differs"`
	Requests amounts `json:"requests"`
	Limits   amounts `json:"limits"`
}

type findingRow struct {
	Reason   string   `json:"reason"`
	Severity string   `json:"severity"`
	Resource string   `json:"resource"`
	Text     string   `json:"text"`
	Count    int      `json:"count,omitempty"`
	Share    *float64 `json:"share,omitempty"`
	Since    string   `json:"since,omitempty"`
}

// A resourceRow has the amounts of one resource. An absent amount is not set, or not known.
type resourceRow struct {
	Request    string `json:"request,omitempty"`
	Limit      string `json:"limit,omitempty"`
	Target     string `json:"target,omitempty"`     // the recommendation, as in the status of a VPA
	NewRequest string `json:"newRequest,omitempty"` // what to request: the target in whole MiB, or the present request if it is kept
	NewLimit   string `json:"newLimit,omitempty"`
	Kept       string `json:"kept,omitempty"` // why the request is kept
	By         string `json:"keptBy,omitempty"`
	HPATarget  int32  `json:"hpaTargetPercent,omitempty"` // the target that the HPA needs with the new request
}

type profileRow struct {
	Profile string  `json:"profile"`
	Target  amounts `json:"target"`
}

// keptReasons are the names of the reasons in data formats.
var keptReasons = map[core.KeptReason]string{
	core.ScaledByHPA: "ScaledByHPA", core.SeveralMetrics: "SeveralMetricsOfHPA", core.FollowsHPA: "", core.NotControlled: "NotControlledByVPA", core.Provisional: "Provisional",
}

// document returns the report as data.
func (p *printer) document() document {
	d := document{
		APIVersion: Version, Kind: "Recommendations", At: p.Now.UTC().Format(time.RFC3339), Cluster: p.Cluster, Source: p.Source,
		Profiles: p.Profiles, Complete: len(p.Missing) == 0, Missing: append([]string{}, p.Missing...), Notes: p.Notes, Summary: p.summary(), Containers: []containerRow{},
	}
	if p.Window > 0 {
		d.Window = window(p.Window)
	}
	if p.Prices.Known() {
		d.Prices = &documentPrice{p.Prices.Currency, p.Prices.From, p.Prices.Assumed}
	}
	if p.options.Groups != nil {
		d.Groups = p.groupRows()
	}
	for _, row := range p.all() {
		d.Containers = append(d.Containers, p.containerRow(row))
	}
	return d
}

// all returns the rows in the order of the options.
func (p *printer) all() []*core.Row {
	switch p.options.Sort {
	case SortName:
		return p.ByName()
	case SortMoney:
		return p.ByMoney()
	}
	rows := make([]*core.Row, len(p.Rows))
	for i := range p.Rows {
		rows[i] = &p.Rows[i]
	}
	return rows
}

func (p *printer) summary() summary {
	s := &p.Summary
	out := summary{Workloads: s.Workloads, Pods: s.Pods, Nodes: s.Nodes, AtRisk: s.AtRisk, Without: s.Young, Freed: amountsOf(s.Freed)}
	if s.Packing.Known {
		requested, capacity := amountsOf(s.Requested), amountsOf(s.Capacity)
		out.Requested, out.Capacity = &requested, &capacity
		out.NodesGone, out.NodesBefore = &s.Packing.Gone, &s.Packing.Already
	}
	if !s.Used.Has.Empty() {
		used := amountsOf(s.Used)
		out.Used = &used
	}
	if p.Prices.Known() {
		out.Recoverable = cents(s.Recoverable)
		if s.Packing.Known {
			out.NodesMoney = cents(s.Packing.Money)
		}
	}
	return out
}

func (p *printer) containerRow(row *core.Row) containerRow {
	w := row.Workload
	out := containerRow{
		Namespace: w.Namespace, Group: w.Group, Kind: w.Kind, Name: w.Name, Container: row.Container, VPA: row.VPA, Replicas: max(len(row.Places), row.Replicas),
		Risk: row.Risk.String(), Waste: row.Waste.String(), Freed: amountsOf(row.Freed), Confidence: row.Confidence.String(),
		Provisional: row.Evidence.Provisional, Days: row.Evidence.Days(), SamplesShare: rounded(row.Evidence.Share(), 3), Why: p.why(row),
		Findings: []findingRow{}, CPU: resourceRowOf(row, cluster.CPU), Memory: resourceRowOf(row, cluster.Memory),
	}
	if p.Prices.Known() {
		out.MoneyMonth = cents(row.Weight)
	}
	if row.Template != nil {
		out.Template = &templateRow{row.TemplateDiffers(), amountsOf(row.Template.Requests), amountsOf(row.Template.Limits)}
	}
	for i := range row.Findings {
		f := &row.Findings[i]
		x := findingRow{Reason: f.Kind.String(), Severity: f.Severity.String(), Resource: f.Resource.String(), Text: f.Text(p.Now), Count: f.Count}
		if f.Share > 0 {
			share := rounded(f.Share, 3)
			x.Share = &share
		}
		if !f.Since.IsZero() {
			x.Since = f.Since.UTC().Format(time.RFC3339)
		}
		out.Findings = append(out.Findings, x)
	}
	if len(p.Profiles) > 1 {
		for _, t := range row.Targets {
			out.Profiles = append(out.Profiles, profileRow{t.Profile, amountsOf(t.Amount)})
		}
	}
	return out
}

func resourceRowOf(row *core.Row, res cluster.Resource) resourceRow {
	kept := row.Kept[index(res)]
	out := resourceRow{
		Request: quantityIn(row.Requests, res), Limit: quantityIn(row.Limits, res), Target: quantityIn(row.Target, res), Kept: keptReasons[kept.Reason],
	}
	if kept.IsKept() {
		out.By = kept.By
	}
	if kept.Reason == core.FollowsHPA {
		out.By, out.HPATarget = kept.By, kept.Percent
	}
	if row.Confidence > core.None {
		out.NewRequest, out.NewLimit = quantityIn(row.Request, res), quantityIn(row.Limit, res)
	}
	return out
}

// quantityIn returns an amount as a quantity, "" if it is not set.
func quantityIn(r cluster.Resources, res cluster.Resource) string {
	v, ok := r.Get(res)
	if !ok {
		return ""
	}
	return quantity(res, v)
}

func amountsOf(r cluster.Resources) amounts {
	return amounts{CPU: quantityIn(r, cluster.CPU), Memory: quantityIn(r, cluster.Memory)}
}

// cents rounds money to two decimals.
func cents(v float64) *float64 {
	v = rounded(v, 2)
	return &v
}

func rounded(v float64, decimals int) float64 {
	r, err := strconv.ParseFloat(strconv.FormatFloat(v, 'f', decimals, 64), 64)
	if err != nil || r == 0 {
		return 0 // not -0
	}
	return r
}

func (p *printer) json() {
	data, err := json.MarshalIndent(p.document(), "", "  ")
	p.text.Write(data)
	p.text.WriteString("\n")
	p.err = err
}

func (p *printer) yaml() {
	data, err := yaml.Marshal(p.document())
	p.text.Write(data)
	p.err = err
}

// csv writes one line for each container. Amounts are millicores and bytes.
func (p *printer) csv() {
	w := csv.NewWriter(&p.text)
	header := []string{
		"namespace", "kind", "name", "container", "vpa", "replicas", "risk", "waste", "confidence", "days",
		"cpu_request_millicores", "cpu_target_millicores", "cpu_new_request_millicores", "cpu_limit_millicores", "cpu_new_limit_millicores",
		"memory_request_bytes", "memory_target_bytes", "memory_new_request_bytes", "memory_limit_bytes", "memory_new_limit_bytes",
		"cpu_freed_millicores", "memory_freed_bytes", "money_per_month", "currency", "why",
	}
	_ = w.Write(header)
	for _, row := range p.all() {
		cells := []string{
			inert(row.Workload.Namespace), inert(row.Workload.Kind), inert(row.Workload.Name), inert(row.Container), inert(row.VPA),
			strconv.Itoa(max(len(row.Places), row.Replicas)), row.Risk.String(), row.Waste.String(), row.Confidence.String(), strconv.Itoa(row.Evidence.Days()),
		}
		for _, res := range cluster.All {
			request, limit := row.Request, row.Limit
			if row.Confidence == core.None {
				request, limit = cluster.Resources{}, cluster.Resources{}
			}
			for _, r := range []cluster.Resources{row.Requests, row.Target, request, row.Limits, limit} {
				cells = append(cells, numberIn(r, res))
			}
		}
		cells = append(cells, numberIn(row.Freed, cluster.CPU), numberIn(row.Freed, cluster.Memory))
		money := ""
		if p.Prices.Known() {
			money = strconv.FormatFloat(*cents(row.Weight), 'f', 2, 64)
		}
		_ = w.Write(append(cells, money, inert(p.Prices.Currency), inert(p.why(row))))
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
