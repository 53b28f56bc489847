// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"encoding/json"
	"io"
	"time"

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
	Source    string         `json:"trace"`
	From      time.Time      `json:"from"`
	To        time.Time      `json:"to"`
	Learning  int            `json:"learning_days"`
	Currency  string         `json:"currency,omitempty"` // of money_per_month
	Judged    bool           `json:"judged"`             // false: no container has samples after the learning days
	Budget    float64        `json:"oom_budget"`         // share of days above the memory request that the winner may have
	Chosen    bool           `json:"oom_budget_chosen"`  // set with --oom-budget; false: the largest budget of the recommenders
	Shortfall float64        `json:"cpu_shortfall"`      // share of CPU usage above the request that the winner may have
	Best      string         `json:"best,omitempty"`
	Tied      []string       `json:"tied,omitempty"`
	Total     []jsonOutcome  `json:"recommenders"`
	Workloads []jsonWorkload `json:"workloads"`
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
func WriteJSON(w io.Writer, c *replay.Comparison) error {
	report := jsonReport{
		Source: c.Source, From: c.From, To: c.To, Learning: c.Learning, Currency: c.Prices.Currency,
		Judged: c.Judged(),
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
