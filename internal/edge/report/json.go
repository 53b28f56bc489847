// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"encoding/json"
	"io"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/replay"
)

// jsonSummary is a replay.Summary in JSON. Its fields have the names of the figures in the report.
type jsonSummary struct {
	Containers     int      `json:"containers"`
	Days           int      `json:"container_days"`
	MeanSlack      float64  `json:"mean_slack"`
	MedianSlack    float64  `json:"median_slack"`
	AggregateSlack float64  `json:"aggregate_slack"`
	FreeDays       float64  `json:"exceed_free_days"`
	Above          float64  `json:"samples_above_per_day"`
	Kills          *float64 `json:"oom_kills_per_day,omitempty"`
	Shortfall      float64  `json:"usage_above"`
	Changes        float64  `json:"changes_per_day"`
	Footprint      float64  `json:"footprint"` // of all pods together, in cores or bytes
	MeanUsage      float64  `json:"mean_usage"`
	MeanPods       float64  `json:"mean_pods"` // sum over containers
	NeverAbove     int      `json:"containers_never_above"`
	MostDaysAbove  int      `json:"most_days_above_of_a_container"`
}

type jsonOutcome struct {
	Recommender string       `json:"recommender"`
	CPU         *jsonSummary `json:"cpu,omitempty"`
	Memory      *jsonSummary `json:"memory,omitempty"`
	Money       *float64     `json:"money_per_month,omitempty"`
	Promised    *float64     `json:"promised_days_above,omitempty"` // only in the outcomes over all workloads
	Keeps       *bool        `json:"keeps_promise,omitempty"`
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

// jsonOf returns nil if nothing was measured.
func jsonOf(s replay.Summary, res cluster.Resource) *jsonSummary {
	if s.Days == 0 {
		return nil
	}
	j := &jsonSummary{
		Containers: s.Containers, Days: s.Days, MeanSlack: s.MeanSlack, MedianSlack: s.MedianSlack, AggregateSlack: s.AggregateSlack,
		FreeDays: s.FreeDays, Above: s.Above, Shortfall: s.Shortfall, Changes: s.Changes, Footprint: s.Footprint,
		MeanUsage: s.UsedMean, MeanPods: s.Pods, NeverAbove: s.NeverAbove, MostDaysAbove: s.WorstDays,
	}
	if res == cluster.Memory {
		j.Kills = &s.Events
	}
	return j
}

// jsonOutcomes converts one outcome per recommender.
func jsonOutcomes(c *replay.Comparison, outcomes []replay.Outcome) []jsonOutcome {
	out := make([]jsonOutcome, len(outcomes))
	for i, outcome := range outcomes {
		out[i] = jsonOutcome{
			Recommender: c.Recommenders[i].Name,
			CPU:         jsonOf(outcome.CPU, cluster.CPU),
			Memory:      jsonOf(outcome.Memory, cluster.Memory),
		}
		if outcome.Measured() {
			out[i].Money = &outcomes[i].Money
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
		budget := c.Recommenders[i].OOMBudget
		if budget == 0 || outcome.Memory.Days == 0 {
			continue
		}
		keeps := outcome.Keeps(budget)
		report.Total[i].Promised = &budget
		report.Total[i].Keeps = &keeps
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
