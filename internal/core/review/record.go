// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package review

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/wording"
)

// A Record is a row in JSON, as podfit recommend prints it and the web page serves it. Amounts are Kubernetes quantities. Fields may be added,
// but not changed or removed.
type Record struct {
	Namespace    string          `json:"namespace"`
	Group        string          `json:"group,omitempty"`
	Kind         string          `json:"kind"`
	Name         string          `json:"name"`
	Container    string          `json:"container"`
	VPA          string          `json:"vpa,omitempty"`
	Source       string          `json:"source,omitempty"` // where its usage is from; absent if it has no recommendation
	Replicas     int             `json:"replicas"`
	Risk         string          `json:"risk"`
	Waste        string          `json:"waste,omitempty"`         // absent if it is not known yet
	MoneyMonth   *float64        `json:"moneyPerMonth,omitempty"` // of the freed requests; negative if the requests rise
	Freed        Quantities      `json:"requestsFreed"`
	Confidence   string          `json:"confidence"`
	Provisional  bool            `json:"provisional,omitempty"`
	Young        bool            `json:"young,omitempty"`        // its youngTarget is to be shown, not to be applied
	UsageMinutes *int            `json:"usageMinutes,omitempty"` // the usage that a young recommendation is from
	Days         int             `json:"days"`
	SamplesShare float64         `json:"shareOfHours"`
	Why          string          `json:"why,omitempty"`
	Findings     []FindingRecord `json:"findings"`
	CPU          ResourceRecord  `json:"cpu"`
	Memory       ResourceRecord  `json:"memory"`
	Profiles     []ProfileRecord `json:"profiles,omitempty"`
	Unpacked     string          `json:"notForFullNodes,omitempty"` // why a profile for full nodes sizes it as balanced does
	Template     *TemplateRecord `json:"template,omitempty"`        // of the pods of the workload; absent if it is not known
}

// Quantities are amounts of CPU and memory. An amount that is not set is absent.
type Quantities struct {
	CPU    string `json:"cpu,omitempty"`
	Memory string `json:"memory,omitempty"`
}

// A TemplateRecord has what the pod template has, and whether the newest pod has something else.
type TemplateRecord struct {
	Differs  bool       `json:"differs"`
	Requests Quantities `json:"requests"`
	Limits   Quantities `json:"limits"`
}

// A FindingRecord is a finding.
type FindingRecord struct {
	Reason   string   `json:"reason"`
	Severity string   `json:"severity"`
	Resource string   `json:"resource"`
	Text     string   `json:"text"`
	Count    int      `json:"count,omitempty"`
	Share    *float64 `json:"share,omitempty"`
	Since    string   `json:"since,omitempty"`
}

// A ResourceRecord has the amounts of one resource. An absent amount is not set, or not known.
type ResourceRecord struct {
	Request    string `json:"request,omitempty"`
	Limit      string `json:"limit,omitempty"`
	Young      string `json:"youngTarget,omitempty"` // the recommendation while usage is too short to rely on it
	Target     string `json:"target,omitempty"`      // the recommendation, as in the status of a VPA
	NewRequest string `json:"newRequest,omitempty"`  // what to request: the target in whole MiB, or the present request if it is kept
	NewLimit   string `json:"newLimit,omitempty"`
	Kept       string `json:"kept,omitempty"` // why the request is kept
	By         string `json:"keptBy,omitempty"`
	HPATarget  int32  `json:"hpaTargetPercent,omitempty"` // the target that the HPA needs with the new request
}

// A ProfileRecord is what a profile recommends.
type ProfileRecord struct {
	Profile string     `json:"profile"`
	Target  Quantities `json:"target"`
}

// Record returns the row as data. It has a price only if prices are known.
func (r *Row) Record(now time.Time, prices *Prices) Record {
	w := r.Workload
	out := Record{
		Namespace: w.Namespace, Group: w.Group, Kind: w.Kind, Name: w.Name, Container: r.Container, VPA: r.VPA, Replicas: max(len(r.Places), r.Replicas),
		Risk: r.Risk.String(), Waste: r.Waste.String(), Freed: QuantitiesOf(r.Freed), Confidence: r.Confidence.String(),
		Provisional: r.Evidence.Provisional, Young: !r.Young.Has.Empty(), Days: r.Evidence.Days(), SamplesShare: rounded(r.Evidence.Share(), 3), Why: r.Why(now),
		Findings: []FindingRecord{}, CPU: r.resource(cluster.CPU), Memory: r.resource(cluster.Memory),
	}
	if out.Young {
		out.UsageMinutes = new(int(r.Evidence.Age().Minutes()))
	}
	if r.Confidence > None {
		out.Unpacked = r.Unpacked
	}
	if prices.Known() {
		out.MoneyMonth = Cents(r.Weight)
	}
	if r.Template != nil {
		out.Template = &TemplateRecord{r.TemplateDiffers(), QuantitiesOf(r.Template.Requests), QuantitiesOf(r.Template.Limits)}
	}
	for _, f := range r.Findings {
		x := FindingRecord{Reason: f.Kind.String(), Severity: f.Severity.String(), Resource: f.Resource.String(), Text: f.Text(now), Count: f.Count}
		if f.Share > 0 {
			x.Share = new(rounded(f.Share, 3))
		}
		if !f.Since.IsZero() {
			x.Since = f.Since.UTC().Format(time.RFC3339)
		}
		out.Findings = append(out.Findings, x)
	}
	return out
}

func (r *Row) resource(res cluster.Resource) ResourceRecord {
	kept := r.KeptFor(res)
	out := ResourceRecord{
		Request: quantityIn(r.Requests, res), Limit: quantityIn(r.Limits, res), Target: quantityIn(r.Target, res), Young: quantityIn(r.Young, res),
	}
	if kept.IsKept() {
		out.Kept, out.By = string(kept.Reason), kept.By
	}
	if r.FollowedByHPA(res) {
		out.By = kept.By
		out.HPATarget = kept.Percent
	}
	if r.OnlyShown(res) {
		out.Target = "" // a program that does not know youngTarget must not apply it
	}
	if r.Confidence > None {
		out.NewRequest, out.NewLimit = quantityIn(r.Request, res), quantityIn(r.Limit, res)
	}
	return out
}

// Risks describes the risks of the present requests.
func (r *Row) Risks(now time.Time) []string {
	return cluster.Each(r.Findings, func(f *Finding) string { return f.Text(now) })
}

// Why returns the risks of the present requests, why there is no recommendation, and what an HPA needs. Names in it are not escaped.
func (r *Row) Why(now time.Time) string {
	parts := r.Risks(now)
	switch basis := r.Basis(); {
	case r.Confidence == None:
		parts = append(parts, r.Lack())
	case basis != "":
		parts = append(parts, "young: "+basis)
	}
	for i, res := range cluster.All {
		if r.FollowedByHPA(res) {
			parts = append(parts, fmt.Sprintf("set the %s target of HPA %s to %d %%", wording.Name(res), r.Kept[i].By, r.Kept[i].Percent))
		}
	}
	return strings.Join(parts, "; ")
}

// Lack returns why there is no recommendation.
func (r *Row) Lack() string {
	return cmp.Or(r.Evidence.Lacking(), "no recommendation, although its usage is known") // for example a container that the VPA does not size
}

// QuantitiesOf returns amounts as Kubernetes quantities.
func QuantitiesOf(r cluster.Resources) Quantities {
	return Quantities{CPU: quantityIn(r, cluster.CPU), Memory: quantityIn(r, cluster.Memory)}
}

// quantityIn returns an amount as a quantity, "" if it is not set.
func quantityIn(r cluster.Resources, res cluster.Resource) string {
	v, ok := r.Get(res)
	if !ok {
		return ""
	}
	return cluster.Quantity(res, v)
}

// Cents rounds money to two decimals.
func Cents(v float64) *float64 { return new(rounded(v, 2)) }

func rounded(v float64, decimals int) float64 {
	r, err := strconv.ParseFloat(strconv.FormatFloat(v, 'f', decimals, 64), 64)
	if err != nil || r == 0 {
		return 0 // not -0
	}
	return r
}
