// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"encoding/csv"
	"encoding/json"
	"io"
	"strconv"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/packing"
	"podfit.dev/podfit/internal/core/replay"
)

// A cpuSummary is a Summary without OOM kills.
type cpuSummary struct {
	replay.Summary
	Events *float64 `json:"oom_kills_per_day,omitempty"` // nil: hides that of the Summary
}

type jsonOutcome struct {
	Recommender string          `json:"recommender"`
	CPU         *cpuSummary     `json:"cpu,omitempty"`
	Memory      *replay.Summary `json:"memory,omitempty"`
	Money       *float64        `json:"money_per_month,omitempty"`
	Promised    *float64        `json:"promised_days_above,omitempty"` // only in the outcomes over all workloads
	Keeps       *bool           `json:"keeps_promise,omitempty"`
}

type jsonWorkload struct {
	Namespace string        `json:"namespace"`
	Kind      string        `json:"kind"`
	Name      string        `json:"name"`
	Best      string        `json:"best,omitempty"`
	Tied      []string      `json:"tied,omitempty"`
	Outcomes  []jsonOutcome `json:"recommenders"`
}

type jsonReport struct {
	Source    string           `json:"trace"`
	From      time.Time        `json:"from"`
	To        time.Time        `json:"to"`
	Learning  int              `json:"learning_days"`
	Currency  string           `json:"currency,omitempty"` // of money_per_month
	Judged    bool             `json:"judged"`             // false: no container has samples after the learning days
	Budget    float64          `json:"oom_budget"`         // share of days above the memory request that the winner may have
	Chosen    bool             `json:"oom_budget_chosen"`  // set with --oom-budget; false: the largest budget of the recommenders
	Shortfall float64          `json:"cpu_shortfall"`      // share of CPU usage above the request that the winner may have
	Best      string           `json:"best,omitempty"`
	Tied      []string         `json:"tied,omitempty"`
	Total     []jsonOutcome    `json:"recommenders"`
	Workloads []jsonWorkload   `json:"workloads"`
	Nodes     []packing.Report `json:"nodes,omitempty"` // with --nodes, in the order of the flags
}

// jsonOutcomes converts one outcome per recommender. A resource that was not measured is left out.
func jsonOutcomes(c *replay.Comparison, outcomes []replay.Outcome) []jsonOutcome {
	out := make([]jsonOutcome, len(outcomes))
	for i := range outcomes {
		outcome := &outcomes[i]
		out[i].Recommender = c.Recommenders[i].Name
		if outcome.CPU.Days > 0 {
			out[i].CPU = &cpuSummary{Summary: outcome.CPU}
		}
		if outcome.Memory.Days > 0 {
			out[i].Memory = &outcome.Memory
		}
		if outcome.Measured() {
			out[i].Money = &outcome.Money
		}
	}
	return out
}

// WriteJSON writes the report as one JSON object.
func WriteJSON(w io.Writer, c *replay.Comparison, o Options) error {
	report := jsonReport{
		Source: c.Source, From: c.From, To: c.To, Learning: c.Learning, Currency: c.Prices.Currency,
		Judged: c.Judged(), Nodes: o.Nodes,
		Budget: c.Tolerance.DaysAbove, Chosen: c.BudgetChosen, Shortfall: c.Tolerance.Shortfall,
		Total: jsonOutcomes(c, c.Total), Workloads: make([]jsonWorkload, len(c.Workloads)),
	}
	report.Best, report.Tied = winnersOf(c, c.Best)
	for i, outcome := range c.Total {
		if budget := c.Recommenders[i].OOMBudget; budget != 0 && outcome.Memory.Days > 0 {
			report.Total[i].Promised = &budget
			report.Total[i].Keeps = new(outcome.Keeps(budget))
		}
	}
	for i, workload := range c.Workloads {
		report.Workloads[i] = jsonWorkload{
			Namespace: workload.Key.Namespace, Kind: workload.Key.Kind, Name: workload.Key.Name,
			Outcomes: jsonOutcomes(c, workload.Outcomes),
		}
		report.Workloads[i].Best, report.Workloads[i].Tied = winnersOf(c, workload.Best)
	}
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	return encoder.Encode(report)
}

// WriteTimeline writes the requests over time as CSV: one row per change, grouped by recommender, container and
// resource, and sorted by time within each group. Requests are in cores and bytes.
func WriteTimeline(w io.Writer, c *replay.Comparison) error {
	out := csv.NewWriter(w)
	out.Write([]string{"time", "namespace", "kind", "name", "container", "recommender", "resource", "request"})
	for i, recommender := range c.Recommenders {
		for _, workload := range c.Workloads {
			for container, name := range workload.Containers {
				for _, res := range cluster.All {
					for _, change := range replay.ChangesOf(workload.Changes[i], container, res) {
						out.Write([]string{
							strconv.FormatInt(change.At, 10), workload.Key.Namespace, workload.Key.Kind, workload.Key.Name,
							name, recommender.Name, res.String(), strconv.FormatFloat(res.InUnits(change.Request), 'f', -1, 64),
						})
					}
				}
			}
		}
	}
	out.Flush()
	return out.Error()
}

// WriteCSV writes one row per workload, recommender and resource. The rows with empty names are over all workloads.
func WriteCSV(w io.Writer, c *replay.Comparison) error {
	out := csv.NewWriter(w)
	header := []string{"namespace", "kind", "name", "recommender", "resource", "container_days"}
	for _, f := range figures {
		header = append(header, f.name)
	}
	out.Write(append(header, "footprint", "money_per_month", "mean_pods"))
	for k := range c.Workloads {
		writeOutcomes(out, c, c.Workloads[k].Key, c.Workloads[k].Outcomes)
	}
	writeOutcomes(out, c, cluster.Workload{}, c.Total)
	out.Flush()
	return out.Error()
}

func writeOutcomes(out *csv.Writer, c *replay.Comparison, key cluster.Workload, outcomes []replay.Outcome) {
	for i, outcome := range outcomes {
		for _, res := range cluster.All {
			s := summary(outcome, res)
			if s.Days == 0 {
				continue
			}
			row := []string{key.Namespace, key.Kind, key.Name, c.Recommenders[i].Name, res.String(), strconv.Itoa(s.Days)}
			for _, f := range figures {
				cell := ""
				if f.only == 0 || f.only == res {
					cell = strconv.FormatFloat(f.value(s), 'g', 6, 64)
				}
				row = append(row, cell)
			}
			row = append(row,
				strconv.FormatFloat(s.Footprint, 'f', -1, 64),
				strconv.FormatFloat(money(c.Prices, res, s), 'f', 4, 64),
				strconv.FormatFloat(s.Pods, 'g', 6, 64))
			out.Write(row)
		}
	}
}
