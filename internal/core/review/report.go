// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package review compares the present requests of containers with recommended ones. Its result is what podfit recommend prints: one Row
// per container of a workload, with the risk of the present requests, the waste, its price, and the confidence in the recommendation.
//
// It does not compute recommendations: packages recommend and policy do. It does not format, except for the texts of findings.
package review

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
)

// SourceVPAs is the source of recommendations in the status of VPAs, with the usage that is stored for them.
const SourceVPAs = "VPA objects"

// Config is the input of New that is the same for all subjects.
type Config struct {
	Cluster  string // name of the cluster or file
	Source   string // where usage is from, such as SourceVPAs
	Profiles []string
	Window   time.Duration // length of the history that was asked for; 0 if it has no such limit
	Peaks    bool          // usage is known as hourly peaks, so the mean of it is more than the mean usage
	Now      time.Time
	Limits   LimitRule
	Prices   Prices

	// Nodes and Pods are those of the whole cluster, for the number of nodes that could go. Pods is empty if only a part is known.
	Nodes       []cluster.Node
	Pods        []*cluster.Pod
	Selectors   []cluster.NodeSelector // of pods, from cluster.Selected on
	Tolerations []cluster.Tolerations  // of pods, from cluster.FirstListed on

	IncludeYoung bool // young recommendations count like others

	Missing []string // what could not be read
	Notes   []string // what a reader should know
}

// A Row is the review of one container of one workload.
type Row struct {
	Subject

	// Target is the recommendation of the first profile, without resources that are not recommended. It is empty without confidence.
	Target cluster.Resources

	// Young is the recommendation of the first profile if its Evidence is young. It is shown, but not applied unless Target has it, too.
	Young cluster.Resources

	// Request and Limit are what the container should have: Target, with memory rounded up to MiB, and the present amount where the
	// request is kept.
	Request, Limit cluster.Resources

	Findings   []Finding
	Confidence Confidence
	Risk       Severity
	Waste      Severity
	limits     LimitRule // of the report

	Freed  cluster.Resources // over all pods; negative if the requests rise
	Weight float64           // price of Freed in a month, by assumed prices if none are known; negative if the requests rise
}

// Money returns what the row frees in a month, 0 if prices are not known.
func (r *Report) Money(row *Row) float64 {
	if !r.Prices.Known() {
		return 0
	}
	return row.Weight
}

// Declared returns what the pod template has, or the newest pod if the template is not known.
func (r *Row) Declared() Size {
	if r.Template != nil {
		return *r.Template
	}
	return Size{r.Requests, r.Limits}
}

// Declare returns what the pod template should have, where Declared returns what it has.
func (r *Row) Declare() Size { return r.sized(r.Declared()) }

// Applies reports whether there is a recommendation for a request that is not kept.
func (r *Row) Applies(res cluster.Resource) bool {
	return r.Target.Has.Has(res) && !r.KeptFor(res).IsKept()
}

// OnlyShown reports whether the recommendation for a request is young and not applied.
func (r *Row) OnlyShown(res cluster.Resource) bool { return r.Young.Has.Has(res) && !r.Applies(res) }

// FollowedByHPA reports whether the target of an HPA must be changed with a request.
func (r *Row) FollowedByHPA(res cluster.Resource) bool {
	return r.Applies(res) && r.KeptFor(res).Reason == FollowsHPA
}

// Changes reports whether the request or limit of a resource in the pod template changes.
func (r *Row) Changes(res cluster.Resource) bool {
	from := r.Declared()
	to := r.Declare()
	return to.Requests.Amount(res) != from.Requests.Amount(res) || to.Limits.Amount(res) != from.Limits.Amount(res)
}

// KeepsMore reports whether a request that is kept is above its target.
func (r *Row) KeepsMore() bool {
	for i, res := range cluster.All {
		if to, ok := r.Target.Get(res); ok && r.Kept[i].IsKept() && r.Requests.Amount(res) > Rounded(res, to) {
			return true
		}
	}
	return false
}

// IsIdle reports whether the row is of a workload that has a pod template and no pods now: a CronJob of which no Job runs.
func (r *Row) IsIdle() bool { return len(r.Places) == 0 && r.Template != nil }

// TemplateDiffers reports whether the newest pod has other requests or limits than the pod template.
func (r *Row) TemplateDiffers() bool {
	return r.Template != nil && *r.Template != Size{r.Requests, r.Limits}
}

// A Report is the result of a review.
type Report struct {
	Config
	Rows    []*Row // sorted by risk, then by money, then by name
	Summary Summary
}

// A Summary has the totals of a report.
type Summary struct {
	Counts
	Requested   cluster.Resources // by all known pods
	Used        cluster.Resources // by the reviewed pods; a resource that was not measured is not set
	Reviewed    cluster.Resources // requests of the reviewed pods whose usage is known
	Capacity    cluster.Resources // allocatable on ready nodes that accept new pods
	Freed       cluster.Resources // by rows whose requests fall
	Recoverable float64           // money of Freed in a month
	Packing     Packing
}

// Counts are the numbers of a summary, as in JSON.
type Counts struct {
	Workloads int `json:"workloads"`
	Pods      int `json:"pods"`
	Nodes     int `json:"nodes"`
	AtRisk    int `json:"workloadsAtRisk"`                 // with a high or medium risk
	Unjudged  int `json:"workloadsNotJudged,omitempty"`    // without a known risk, of which some container has too little usage to exclude one
	Young     int `json:"containersWithoutRecommendation"` // containers with none, or with one that is only shown
}

// New reviews subjects.
func New(c Config, subjects []Subject) *Report {
	r := &Report{Config: c, Rows: make([]*Row, 0, len(subjects))}
	for i := range subjects {
		row := rowOf(&subjects[i], len(subjects[i].Places), c.Limits, c.IncludeYoung)
		r.price(&row)
		r.Rows = append(r.Rows, &row)
	}
	RankWaste(r.Rows)
	slices.SortFunc(r.Rows, func(a, b *Row) int { // highest risk first, then most money, then by name
		return cmp.Or(cmp.Compare(b.Risk, a.Risk), cmp.Compare(firstKind(a), firstKind(b)), cmp.Compare(b.Weight, a.Weight), byName(a, b))
	})
	r.summarize()
	return r
}

// RowOf reviews one subject with Replicas pods whose limits are kept. What depends on its Places or on all subjects is not set.
func RowOf(s *Subject) Row { return rowOf(s, s.Replicas, KeepLimits, false) }

func rowOf(s *Subject, pods int, limits LimitRule, includeYoung bool) Row {
	if s.Evidence == nil {
		s.Evidence = new(Evidence)
	}
	row := Row{Subject: *s, limits: limits}
	var target cluster.Resources
	if len(s.Targets) > 0 {
		target = s.Targets[0].Amount
	}
	if !target.Has.Empty() {
		row.Confidence = s.Evidence.Confidence()
		if s.Evidence.Young() {
			row.Young = target
			if includeYoung {
				row.Confidence = Low
			}
		}
	}
	row.Findings = findings(s, target, row.Confidence, pods)
	for _, f := range row.Findings {
		row.Risk = max(row.Risk, f.Severity)
	}
	if row.Confidence > None {
		row.Target = target
	} else {
		row.Targets = nil
	}
	sized := row.sized(Size{s.Requests, s.Limits})
	row.Request = sized.Requests
	row.Limit = sized.Limits
	return row
}

// sized returns a size with the rounded target where it applies, and the limits that go with it.
func (r *Row) sized(before Size) Size {
	if r.Confidence == None {
		return before
	}
	after := before.Requests
	for _, res := range cluster.All {
		if r.Applies(res) {
			after = after.Set(res, Rounded(res, r.Target.Amount(res)))
		}
	}
	return Size{after, r.limits.apply(before.Limits, before.Requests, after)}
}

// price sets what the row frees: Σ over pods of (request − target) × price of the pod's node.
func (r *Report) price(row *Row) {
	if row.Confidence == None {
		return // nothing changes
	}
	for i := range row.Places {
		freed := row.freedOf(&row.Places[i])
		row.Freed = row.Freed.Add(freed)
		row.Weight += r.Prices.At(row.Places[i].Node).Of(freed)
	}
}

// RankWaste sets the waste of all rows of a cluster by their weights. Without prices, the default ratio of prices ranks it.
func RankWaste(rows []*Row) {
	const muchWaste = 0.02 // the share of the recoverable money of the cluster from which the waste of a row is high
	total := 0.0
	for _, row := range rows {
		total += max(row.Weight, 0)
	}
	for _, row := range rows {
		switch {
		case row.Weight <= 0:
			row.Waste = Harmless
		case row.Weight >= muchWaste*total:
			row.Waste = SeverityHigh
		default:
			row.Waste = SeverityLow
		}
	}
}

func firstKind(r *Row) int {
	if len(r.Findings) == 0 {
		return int(AllCores) + 1
	}
	return int(r.Findings[0].Kind)
}

func byName(a, b *Row) int {
	return cmp.Or(a.Workload.Compare(b.Workload), strings.Compare(a.Container, b.Container))
}

// ByName returns the rows sorted by name.
func (r *Report) ByName() []*Row { return slices.SortedStableFunc(slices.Values(r.Rows), byName) }

// ByMoney returns the rows sorted by money, the highest first.
func (r *Report) ByMoney() []*Row {
	return slices.SortedStableFunc(slices.Values(r.Rows), func(a, b *Row) int { return cmp.Or(cmp.Compare(b.Weight, a.Weight), byName(a, b)) })
}

// addAmounts adds what a row uses, and what its recommendation gives back.
func (s *Summary) addAmounts(row *Row) {
	for _, res := range cluster.All {
		freed := row.Freed.Amount(res)
		if freed > 0 {
			s.Freed = s.Freed.Set(res, s.Freed.Amount(res)+freed)
		}
		if used, ok := row.Evidence.Used.Get(res); ok {
			for _, place := range row.Places {
				s.Used = s.Used.Set(res, s.Used.Amount(res)+used)
				s.Reviewed = s.Reviewed.Set(res, s.Reviewed.Amount(res)+place.Requests.Amount(res))
			}
		}
	}
}

func (r *Report) summarize() {
	s := &r.Summary
	workloads := map[cluster.Workload]bool{} // true: at risk
	unjudged := map[cluster.Workload]bool{}
	pods := map[cluster.Workload]int{}
	for _, row := range r.Rows {
		workloads[row.Workload] = workloads[row.Workload] || row.Risk >= SeverityMedium
		pods[row.Workload] = max(pods[row.Workload], len(row.Places))
		if row.Confidence == None || !row.Young.Has.Empty() && !r.IncludeYoung {
			s.Young++
		}
		if row.Evidence.Lacking() != "" {
			unjudged[row.Workload] = true
		}
		s.addAmounts(row)
		s.Recoverable += max(r.Money(row), 0)
	}
	s.Workloads = len(workloads)
	for w, atRisk := range workloads {
		s.Pods += pods[w]
		switch {
		case atRisk:
			s.AtRisk++
		case unjudged[w]:
			s.Unjudged++
		}
	}
	s.Nodes = len(r.Nodes)
	for i := range r.Nodes {
		if r.Nodes[i].TakesPods() {
			s.Capacity = s.Capacity.Add(r.Nodes[i].Allocatable)
		}
	}
	for _, p := range r.Pods {
		if p.Live() {
			s.Requested = s.Requested.Add(RequestsOf(p, nil))
		}
	}
	if len(r.Pods) > 0 && len(r.Nodes) > 0 {
		s.Packing = r.pack()
	}
}
