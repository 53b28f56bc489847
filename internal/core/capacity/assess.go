// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package capacity forecasts when the requests of a pool of nodes reach its capacity: by the trend, the season and the steps of the daily
// maximum of requests, with a band that is calibrated by the errors of the model's own past forecasts.
//
// Measure adds up requests and capacity, History keeps one value per day, and Assess returns the dates. A date is only returned if the
// history supports it: otherwise the result contains the reason why there is none. The package does not read the clock and does no input
// or output.
package capacity

import (
	"cmp"
	"fmt"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/wording"
)

// Settings are the settings of a plan.
type Settings struct {
	Rules      Rules
	LeadTime   int       // days from an order of nodes until they serve pods
	Thresholds []float64 // shares of the capacity, sorted; the last one is 1
}

// Defaults returns the default settings: a lead time of 14 days, and the thresholds 70 % and 100 %.
func Defaults() Settings { return Settings{LeadTime: 14, Thresholds: []float64{0.70, 1}} }

// A Plan is the capacity assessment of all pools of a cluster.
type Plan struct {
	Now      time.Time
	Pools    []PoolPlan
	Unplaced Unplaced
}

// A PoolPlan is the assessment of a pool.
type PoolPlan struct {
	Pool
	LeadTime  int
	Resources [2]ResourcePlan // in the order of cluster.All
	Changes   []Change        // the largest changes of the last GrowthDays days
}

// A ResourcePlan is the assessment of a resource of a pool. Amounts are in millicores or bytes.
type ResourcePlan struct {
	Resource       cluster.Resource
	Capacity       int64
	WithoutLargest int64
	Requested      int64
	Used           int64 // valid if UsedKnown
	UsedKnown      bool
	Recoverable    int64
	GiveBack       int // workloads
	Fit            Room
	Outlook        Outlook
	Extended       Outlook // with all nodes that can be added; only if these are known
	After          Outlook // if the recoverable requests were given back today; only if there are some
	Grew           Growth  // in GrewDays days
	GrewTotal      int64
	GrewDays       int
	Advice         Advice
}

// Share returns an amount as a share of the capacity, 0 without capacity.
func (r *ResourcePlan) Share(amount int64) float64 {
	if r.Capacity <= 0 {
		return 0
	}
	return float64(amount) / float64(r.Capacity)
}

// CanLoseANode reports whether the requests fit if the largest node is lost.
func (r *ResourcePlan) CanLoseANode() bool { return r.Requested <= r.WithoutLargest }

// Crossing returns the crossing of a threshold.
func (o Outlook) Crossing(threshold float64) Crossing {
	for _, c := range o.Crossings {
		if c.Threshold == threshold {
			return c
		}
	}
	return Crossing{Threshold: threshold}
}

// Assess returns the plan. histories has the history of each pool by name; a pool without one has no forecast.
func Assess(now time.Time, pools []Pool, unplaced Unplaced, histories map[string]*History, s Settings) Plan {
	return Plan{Now: now, Unplaced: unplaced, Pools: cluster.Each(pools, func(p *Pool) PoolPlan {
		return assessPool(now, p, cmp.Or(histories[p.Name], new(History)), &s)
	})}
}

func assessPool(now time.Time, p *Pool, h *History, s *Settings) PoolPlan {
	out := PoolPlan{Pool: *p, LeadTime: s.Rules.LeadTime(p.Name, s.LeadTime), Changes: LargestChanges(h.Changes, MostChanges)}
	today := DayOf(now)
	for i, res := range cluster.All {
		r := ResourcePlan{
			Resource: res, Capacity: p.Capacity.Amount(res), WithoutLargest: p.WithoutLargest.Amount(res), Requested: p.Requested.Amount(res),
			Used: p.Used.Amount(res), UsedKnown: p.Used.Has.Has(res), Recoverable: p.Recoverable.Amount(res), GiveBack: p.GiveBack[i], Fit: p.Fit[i],
		}
		in := Input{
			Points: h.Points(res), Steps: h.Steps(res, r.Capacity), Capacity: float64(r.Capacity), Requested: float64(r.Requested),
			Thresholds: s.Thresholds, LeadTime: out.LeadTime, Now: now,
		}
		lines := linesOf(&in)
		r.Outlook = lines.against(&in)
		if p.Extension.Known {
			extended := in
			extended.Points = nil // the maximum of past days is not known
			extended.Capacity += float64(p.Extension.Capacity.Amount(res))
			r.Extended = lines.against(&extended)
			for i := range r.Extended.Crossings {
				r.Extended.Crossings[i].Since = 0
			}
		}
		if r.Recoverable > 0 {
			in.Less = float64(r.Recoverable)
			r.After = lines.against(&in)
		}
		r.Grew, r.GrewTotal, r.GrewDays = h.Grown(res, today)
		r.Advice = adviceFor(&r, today)
		out.Resources[i] = r
	}
	return out
}

// An Advice is what to do about a pool.
type Advice string

// The values of Advice, the most urgent last.
const (
	Wait       Advice = "Wait"       // nothing is to be done now
	Unforeseen Advice = "NoForecast" // there is no forecast
	OrderLater Advice = "OrderLater" // order by the order-by date
	GiveBack   Advice = "GiveBack"   // do not order: recoverable requests suffice
	OrderNow   Advice = "OrderNow"   // the order-by date is today or past
)

func adviceFor(r *ResourcePlan, today Day) Advice {
	full := r.Outlook.Crossing(1)
	after := r.After.Crossing(1)
	needed := full.State == Above || full.State == Ahead
	switch {
	case needed && r.Recoverable > 0 && after.State == NotWithin:
		return GiveBack
	case needed && r.Outlook.OrderBy <= today:
		return OrderNow
	case needed:
		return OrderLater
	case r.Outlook.Shortage != NoShortage:
		return Unforeseen
	}
	return Wait
}

// AdviceText returns the advice for people.
func (r *ResourcePlan) AdviceText() string {
	full := r.Outlook.Crossing(1)
	switch r.Advice {
	case Wait:
		return fmt.Sprintf("nothing to do: 100 %% not within %d days", r.Outlook.Reach)
	case Unforeseen:
		return string(r.Outlook.Shortage)
	case OrderLater:
		return "order by " + r.Outlook.OrderBy.String() + r.givesBack()
	case GiveBack:
		return fmt.Sprintf("do not order: %s could give back %s, which leaves %s; then 100 %% is not within %d days",
			workloads(r.GiveBack), wording.Total(r.Resource, r.Recoverable), wording.Percent(r.Share(r.Requested-r.Recoverable)), r.After.Reach)
	case OrderNow:
		if full.State == Above {
			return "order now: the pool is full" + r.givesBack()
		}
		return "order now: the pool may be full on " + full.Earliest.String() + r.givesBack()
	}
	return ""
}

// givesBack returns what recoverable requests would change if they do not suffice, with a leading separator.
func (r *ResourcePlan) givesBack() string {
	if r.Recoverable <= 0 {
		return ""
	}
	text := fmt.Sprintf("; %s could give back %s", workloads(r.GiveBack), wording.Total(r.Resource, r.Recoverable))
	if c := r.After.Crossing(1); c.State == Ahead && c.Earliest > r.Outlook.Crossing(1).Earliest {
		text += ", and it may then be full on " + c.Earliest.String()
	}
	return text
}

func workloads(n int) string {
	return fmt.Sprintf("%d %s", n, wording.Form(n, "workload", "workloads"))
}
