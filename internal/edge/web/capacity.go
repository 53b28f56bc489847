// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package web

import (
	"fmt"
	"strings"
	"time"

	"podfit.dev/podfit/api/podfit/v1alpha1"
	"podfit.dev/podfit/internal/core/cluster"
)

// planView is what the page /nodes shows of the CapacityPlan of the cluster.
type planView struct {
	Updated time.Time  `json:"updated,omitzero"`
	Rows    []planLine `json:"resources"`
	Problem string     `json:"problem,omitempty"` // why it cannot be read
}

type planLine struct {
	Pool       string                       `json:"pool"`
	Resource   string                       `json:"resource"`
	Requested  string                       `json:"requested"`
	Capacity   string                       `json:"capacity"`
	Thresholds []v1alpha1.CapacityThreshold `json:"thresholds"`
	OrderBy    string                       `json:"orderBy,omitempty"`
	Advice     string                       `json:"advice"`
	Message    string                       `json:"message,omitempty"`

	Share  string `json:"-"` // of the capacity that is requested, "" if there is no capacity
	Urgent bool   `json:"-"` // nodes should be ordered now
	days   int32
}

// planViewOf returns the view of a plan; nil if the cluster has none.
func planViewOf(s *State) *planView {
	if s.Plan == nil && s.PlanProblem == "" {
		return nil
	}
	v := &planView{Problem: s.PlanProblem, Rows: []planLine{}}
	if s.Plan == nil {
		return v
	}
	if s.Plan.Updated != nil {
		v.Updated = s.Plan.Updated.Time
	}
	for _, p := range s.Plan.Pools {
		v.Rows = append(v.Rows, planLineOf(p.Name, "CPU", &p.CPU), planLineOf(p.Name, "Memory", &p.Memory))
	}
	return v
}

func planLineOf(pool, resource string, r *v1alpha1.CapacityResource) planLine {
	line := planLine{
		Pool: pool, Resource: resource, Requested: r.Requested.String(), Capacity: r.Capacity.String(), Thresholds: r.Thresholds, OrderBy: r.OrderBy,
		Advice: r.Advice, Message: r.Message, days: r.ForecastDays, Urgent: r.Advice == "OrderNow",
	}
	if line.Thresholds == nil {
		line.Thresholds = []v1alpha1.CapacityThreshold{}
	}
	if capacity := r.Capacity.AsApproximateFloat64(); capacity > 0 {
		line.Share = fmt.Sprintf("%.0f %%", 100*r.Requested.AsApproximateFloat64()/capacity)
	}
	return line
}

// Reaches returns when requests reach the thresholds: "70 % since 2026-11-18; 100 % on 2026-12-09 (2026-12-02 to 2026-12-20)".
func (l planLine) Reaches() string {
	parts := cluster.Each(l.Thresholds, func(t *v1alpha1.CapacityThreshold) string { return fmt.Sprintf("%d %% %s", t.Percent, l.reached(t)) })
	return strings.Join(parts, "; ")
}

func (l planLine) reached(t *v1alpha1.CapacityThreshold) string {
	switch {
	case t.State == "Above":
		return "since " + t.Since
	case t.State == "NotWithin":
		return fmt.Sprintf("not within %d days", l.days)
	case t.State != "Ahead":
		return "not known"
	case t.Expected == "":
		return "from " + t.Earliest
	case t.Latest == "":
		return fmt.Sprintf("on %s (from %s)", t.Expected, t.Earliest)
	}
	return fmt.Sprintf("on %s (%s to %s)", t.Expected, t.Earliest, t.Latest)
}
