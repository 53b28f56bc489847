// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package capacity

import (
	"encoding/json"
	"io"
	"time"

	"podfit.dev/podfit/api/podfit/v1alpha1"
	core "podfit.dev/podfit/internal/core/capacity"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/fragments"
)

// Version is the version of the JSON format. Fields may be added in it, but not changed or removed.
const Version = "podfit.dev/capacity/v1"

// A document is a plan in JSON. CPU is in cores, memory in bytes. Days are in UTC.
type document struct {
	APIVersion string           `json:"apiVersion"`
	Kind       string           `json:"kind"`
	At         string           `json:"at"`
	Cluster    string           `json:"cluster"`
	Source     string           `json:"source"`
	Complete   bool             `json:"complete"`
	Missing    []string         `json:"missing"`
	Notes      []string         `json:"notes,omitempty"`
	BackedOff  []string         `json:"nodeGroupsInBackOff,omitempty"`
	Pools      []documentPool   `json:"pools"`
	Unplaced   *unplaced        `json:"unplacedPods,omitempty"`
	Fragments  []fragments.Pool `json:"fragments,omitempty"`
}

// Amounts are in cores and bytes.
type amounts struct {
	CPU    float64 `json:"cpu"`
	Memory float64 `json:"memory"`
}

func amountsOf(r cluster.Resources) amounts {
	return amounts{cluster.CPU.InUnits(r.CPU), cluster.Memory.InUnits(r.Memory)}
}

type unplaced struct {
	Count int `json:"count"`
	amounts
	Example string `json:"example"`
}

type documentPool struct {
	Name        string           `json:"name"`
	Nodes       int              `json:"nodes"`
	Schedulable int              `json:"schedulableNodes"`
	Pods        int              `json:"pods"`
	Pending     int              `json:"pendingPods"`
	Unadvised   int              `json:"workloadsWithoutRecommendation"`
	LeadTime    int              `json:"leadTimeDays"`
	Addable     *int             `json:"addableNodes,omitempty"` // only if it is known
	CPU         documentResource `json:"cpu"`
	Memory      documentResource `json:"memory"`
	Changes     []documentChange `json:"changes"`
}

type documentResource struct {
	Capacity       float64                      `json:"capacity"`
	WithoutLargest float64                      `json:"capacityWithoutLargestNode"`
	Requested      float64                      `json:"requested"`
	Used           *float64                     `json:"used,omitempty"`
	Recoverable    float64                      `json:"recoverable"`
	GiveBack       int                          `json:"recoverableWorkloads"`
	LargestPod     *documentRoom                `json:"largestPod,omitempty"`
	CanLoseANode   bool                         `json:"canLoseANode"`
	Thresholds     []v1alpha1.CapacityThreshold `json:"thresholds"`
	OrderBy        string                       `json:"orderBy,omitempty"`
	HistoryDays    int                          `json:"historyDays"`
	ForecastDays   int                          `json:"forecastDays"`
	Shortage       string                       `json:"whyNoForecast,omitempty"`
	GrowthPerDay   *float64                     `json:"growthPerDay,omitempty"`
	Steps          []documentStep               `json:"steps"`
	Growth         *documentGrowth              `json:"growth,omitempty"`
	After          []v1alpha1.CapacityThreshold `json:"thresholdsAfterGivingBack,omitempty"`
	Extended       []v1alpha1.CapacityThreshold `json:"thresholdsWithAddableNodes,omitempty"`
	Advice         string                       `json:"advice"`
	Message        string                       `json:"message"`
}

type documentRoom struct {
	Node string `json:"node"`
	amounts
}

type documentStep struct {
	Day    string  `json:"day"`
	Amount float64 `json:"amount"`
}

type documentGrowth struct {
	Days     int     `json:"days"`
	Total    float64 `json:"total"`
	New      float64 `json:"newWorkloads"`
	Gone     float64 `json:"goneWorkloads"`
	Replicas float64 `json:"replicas"`
	PerPod   float64 `json:"requestsPerPod"`
	Other    float64 `json:"notRecorded"`
}

type documentChange struct {
	Day       string `json:"day"`
	Cause     string `json:"cause"`
	Namespace string `json:"namespace"`
	Group     string `json:"group,omitempty"`
	Kind      string `json:"kind"`
	Name      string `json:"name"`
	amounts
}

func writeJSON(w io.Writer, r *Report) error {
	d := document{
		APIVersion: Version, Kind: "CapacityReport", At: r.Now.UTC().Format(time.RFC3339), Cluster: r.Cluster, Source: r.Source,
		Complete: len(r.Missing) == 0, Missing: append([]string{}, r.Missing...), Notes: r.Notes, BackedOff: r.BackedOff, Pools: cluster.Each(r.Pools, poolOf),
		Fragments: r.Fragments,
	}
	if u := &r.Unplaced; u.Pods > 0 {
		d.Unplaced = &unplaced{u.Pods, amountsOf(u.Requests), u.Example.String()}
	}
	out := json.NewEncoder(w)
	out.SetIndent("", "  ")
	return out.Encode(d)
}

func poolOf(p *core.PoolPlan) documentPool {
	out := documentPool{
		Name: p.Name, Nodes: p.Nodes, Schedulable: p.Schedulable, Pods: p.Pods, Pending: p.Pending, Unadvised: p.Unadvised, LeadTime: p.LeadTime,
		CPU: resourceOf(&p.Resources[0]), Memory: resourceOf(&p.Resources[1]), Changes: cluster.Each(p.Changes, func(c *core.Change) documentChange {
			w := c.Workload
			return documentChange{c.Day.String(), string(c.Cause), w.Namespace, w.Group, w.Kind, w.Name, amountsOf(c.Amount)}
		}),
	}
	if p.Extension.Known {
		out.Addable = new(p.Extension.Nodes)
	}
	return out
}

func resourceOf(r *core.ResourcePlan) documentResource {
	res := r.Resource
	out := documentResource{
		Capacity: res.InUnits(r.Capacity), WithoutLargest: res.InUnits(r.WithoutLargest), Requested: res.InUnits(r.Requested),
		Recoverable: res.InUnits(r.Recoverable), GiveBack: r.GiveBack, CanLoseANode: r.CanLoseANode(),
		Thresholds: thresholdsOf(&r.Outlook), OrderBy: r.Outlook.OrderBy.String(), HistoryDays: r.Outlook.Days, ForecastDays: r.Outlook.Reach,
		Shortage: string(r.Outlook.Shortage), Extended: thresholdsOf(&r.Extended), Advice: string(r.Advice), Message: r.AdviceText(),
		Steps: cluster.Each(r.Outlook.Steps, func(s *core.Step) documentStep { return documentStep{s.Day.String(), res.InUnits(int64(s.Amount))} }),
	}
	if r.Recoverable > 0 {
		out.After = thresholdsOf(&r.After)
	}
	if r.UsedKnown {
		out.Used = new(res.InUnits(r.Used))
	}
	if r.Fit.Node != "" {
		out.LargestPod = &documentRoom{r.Fit.Node, amountsOf(r.Fit.Free)}
	}
	if r.Outlook.Shortage == core.NoShortage {
		out.GrowthPerDay = new(res.InUnits(int64(r.Outlook.Slope)))
	}
	if r.GrewDays > 0 {
		g := &r.Grew
		out.Growth = &documentGrowth{
			Days: r.GrewDays, Total: res.InUnits(r.GrewTotal), New: res.InUnits(g.New.Amount(res)), Gone: res.InUnits(g.Gone.Amount(res)),
			Replicas: res.InUnits(g.Replicas.Amount(res)), PerPod: res.InUnits(g.PerPod.Amount(res)), Other: res.InUnits(r.GrewTotal - g.Explained(res)),
		}
	}
	return out
}

func thresholdsOf(o *core.Outlook) []v1alpha1.CapacityThreshold {
	return cluster.Each(o.Crossings, func(c *core.Crossing) v1alpha1.CapacityThreshold {
		return v1alpha1.CapacityThreshold{
			Percent: int32(100*c.Threshold + 0.5), State: string(c.State), Since: c.Since.String(),
			Earliest: c.Earliest.String(), Expected: c.Expected.String(), Latest: c.Latest.String(),
		}
	})
}
