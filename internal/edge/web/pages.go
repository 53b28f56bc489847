// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package web

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/overview"
	"podfit.dev/podfit/internal/core/recommend"
	"podfit.dev/podfit/internal/core/review"
	"podfit.dev/podfit/internal/core/wording"
)

// The maximum numbers of rows of the tables.
const (
	pageSize     = 100
	topRows      = 8
	activityRows = 200
)

// pageOf returns a page with what all pages show.
func pageOf(title, section string, s *State, v *overview.Viewer, body any) *page {
	return &page{
		Title: title, Section: section, Now: s.Overview.At, Contact: s.Contact, Age: s.Overview.At.Sub(s.Contact), Loading: s.Loading, Notes: notesOf(s, v),
		Unheard: s.NoActivity, Viewer: v.Name, Health: healthOf(s, v), Body: body,
	}
}

// notesOf returns the problems of the data. A viewer of some namespaces gets no causes that may name others.
func notesOf(s *State, v *overview.Viewer) []string {
	if v.All {
		return slices.Concat(s.Problems, s.Causes)
	}
	return s.Problems
}

// healthOf returns the health of podfit. A viewer of some namespaces gets no names of leaders.
func healthOf(s *State, v *overview.Viewer) []overview.Part {
	out := append([]overview.Part{}, s.Health...)
	for i := range out {
		if !v.All {
			out[i].Text = ""
		}
	}
	return out
}

// Summary returns the health of all parts in a few words: those that work, then those that do not.
func (p *page) Summary() (out []overview.Part) {
	byCondition := cluster.GroupBy(p.Health, func(part overview.Part) overview.Condition { return part.Condition })
	for _, condition := range [...]overview.Condition{overview.Healthy, overview.Frozen, overview.Late, overview.Failing, overview.NotKnown} {
		names := cluster.Each(byCondition[condition], func(part *overview.Part) string { return part.Name })
		if len(names) > 0 {
			out = append(out, overview.Part{Condition: condition, Text: strings.Join(names, ", ") + " " + string(condition)})
		}
	}
	return out
}

// overviewView is the page /. Its totals have the names that they have in "podfit recommend -o json".
type overviewView struct {
	At          time.Time           `json:"at"`
	Requested   amounts             `json:"requested"`
	Used        amounts             `json:"used"`
	Recommended amounts             `json:"recommended"`
	Capacity    amounts             `json:"capacity"`
	Bars        []barView           `json:"totals"` // the same in cores and GiB
	Workloads   int                 `json:"workloads"`
	Pods        int                 `json:"pods"`
	Nodes       int                 `json:"nodes,omitempty"`
	VPAs        int                 `json:"workloadsWithVPA"`
	AtRisk      int                 `json:"workloadsAtRisk"`
	Unjudged    int                 `json:"workloadsNotJudged,omitempty"` // without a known risk, and with too little known usage to exclude one
	Lacks       []overview.Lack     `json:"notJudged,omitempty"`
	Frozen      int                 `json:"workloadsFrozen,omitempty"`
	Risks       []workloadView      `json:"risks"`
	Freed       amounts             `json:"requestsFreed"`
	Savings     []workloadView      `json:"savings"`
	Prices      *review.PriceSource `json:"prices,omitempty"`
	Currency    string              `json:"-"`
	Money       float64             `json:"requestsFreedMoneyPerMonth,omitempty"`
	Removable   int                 `json:"nodesThatCouldGo,omitempty"`
	Already     int                 `json:"nodesThatCouldGoWithPresentRequests,omitempty"`
	Orders      []planLine          `json:"orderNodes,omitempty"`        // pools that need nodes at a known date
	Forecast    time.Time           `json:"orderNodesForecast,omitzero"` // when the dates were computed
	Counts      *overview.Counts    `json:"lastDay,omitempty"`           // nil if it is not known what podfit did
	Since       time.Time           `json:"activitySince,omitzero"`
	From        string              `json:"activityFrom"`
	Activity    []entryView         `json:"activity"`
	Health      []overview.Part     `json:"health"`

	sized    int  // workloads with a VPA whose requests are judged
	complete bool // all that podfit may read has been read, and pods are known
	used     bool // the current usage of pods is known
}

// RiskTitle returns how many workloads are at risk. What is not known is no good news.
func (v overviewView) RiskTitle() string {
	of := " of " + wording.Count(v.Workloads, "workload")
	switch {
	case v.AtRisk > 0 && v.Unjudged > 0:
		return "At risk: " + wording.Grouped(float64(v.AtRisk)) + of + ", and " + wording.Grouped(float64(v.Unjudged)) + " not judged"
	case v.AtRisk > 0:
		return "At risk: " + wording.Grouped(float64(v.AtRisk)) + of
	case !v.complete || v.Unjudged > 0 && v.Unjudged == v.Workloads:
		return "Whether workloads are at risk is not known yet"
	case !v.used:
		return "No risk is known" + of + ", but their current usage is not known"
	case v.Unjudged > 0:
		return "No risk in " + wording.Grouped(float64(v.Workloads-v.Unjudged)) + of + "; " + wording.Grouped(float64(v.Unjudged)) + " not judged"
	}
	return "No workload of " + wording.Grouped(float64(v.Workloads)) + " is at risk"
}

// NoRisk reports whether some workloads are judged, and none of all is at risk.
func (v overviewView) NoRisk() bool {
	return v.complete && v.used && v.AtRisk == 0 && v.Unjudged < v.Workloads
}

// FreedKnown reports whether some requests are judged, or it is known that there are none to judge.
func (v overviewView) FreedKnown() bool { return v.complete && (v.VPAs == 0 || v.sized > 0) }

// FreedTitle returns what could be given back.
func (v overviewView) FreedTitle() string {
	const title = "Could be given back: "
	already := ""
	if v.Already > 0 {
		already = "; " + wording.Count(v.Already, "node") + " could go with the present requests"
	}
	switch {
	case !v.FreedKnown():
		return title + "not known yet"
	case v.Freed.r.CPU <= 0 && v.Freed.r.Memory <= 0:
		return title + "nothing" + already
	}
	text := title + wording.Totals(v.Freed.r)
	if v.Removable > v.Already {
		text += ", up to " + wording.Count(v.Removable, "node")
	}
	if v.Currency != "" {
		text += ", " + v.Currency + " " + wording.Number(v.Money) + " a month"
	}
	return text + already
}

func (h *handler) overview(s *State, v *overview.Viewer, _ query) any {
	o := s.Overview.Visible(v)
	view := overviewView{
		At: o.At, Workloads: len(o.Rows), Frozen: len(o.Frozen()), Pods: o.Pods, Nodes: o.NodeCount, From: s.ActivityFrom, Since: s.ActivitySince,
		Requested: amounts{o.Totals.Requested}, Used: amounts{o.Totals.Used}, Recommended: amounts{o.Totals.Recommended}, Capacity: amounts{o.Totals.Capacity},
	}
	var freed cluster.Resources
	for _, row := range o.Rows {
		freed = freed.Add(row.Freed)
		if row.VPA != "" {
			view.VPAs++
		}
		if row.VPA != "" && row.Unjudged == "" && row.Pods > 0 {
			view.sized++
		}
	}
	view.Freed = amounts{freed}
	view.Lacks, view.Unjudged = o.Lacks()
	view.complete = s.Complete() && !s.NoPods
	view.used = o.UsageSeen || o.Pods == 0
	totals := o.Totals
	if view.sized == 0 { // otherwise they would be the present requests
		totals.Recommended = cluster.Resources{}
		view.Recommended = amounts{}
	}
	view.Bars = []barView{barOf(cluster.CPU, &totals), barOf(cluster.Memory, &totals)}
	risks := o.Select(overview.Query{Risk: "any", Order: overview.ByRisk, Size: topRows})
	view.AtRisk = risks.Total
	var surplus overview.Surplus
	if s.Surplus != nil {
		surplus = *s.Surplus.Visible(o, v)
	}
	view.Removable = surplus.Packing.Gone
	view.Already = surplus.Packing.Already
	view.Money = surplus.Total
	view.Currency = surplus.Currency
	if view.Currency != "" {
		view.Prices = &surplus.PriceSource
	}
	view.Risks = s.viewsOf(risks.Rows)
	view.Savings = []workloadView{}
	for _, row := range o.Select(overview.Query{VPA: "with", Order: overview.BySavings, Size: topRows}).Rows {
		if row.Saving() > 0 {
			saving := s.viewOf(row)
			saving.Money = surplus.Money[row.Workload]
			view.Savings = append(view.Savings, saving)
		}
	}
	if plan := planViewOf(s); v.All && plan != nil {
		view.Orders = slices.DeleteFunc(plan.Rows, func(l planLine) bool { return l.OrderBy == "" && !l.Urgent })
		if len(view.Orders) > 0 {
			view.Forecast = plan.Updated
		}
	}
	entries := overview.VisibleEntries(s.Activity, v)
	if !s.NoActivity {
		view.Counts = new(overview.CountSince(entries, o.At.Add(-24*time.Hour)))
	}
	view.Activity = entryViews(overview.Grouped(entries), 6)
	view.Health = healthOf(s, v)
	return view
}

type workloadsView struct {
	At         time.Time        `json:"at"`
	Total      int              `json:"total"`
	Page       int              `json:"page"`
	Pages      int              `json:"pages"`
	Rows       []workloadView   `json:"workloads"`
	Query      overview.Query   `json:"-"`
	Namespaces []string         `json:"-"`
	Orders     []overview.Order `json:"-"`
}

func (h *handler) workloads(s *State, v *overview.Viewer, q query) any {
	const maxChoices = 200 // bounds the namespaces in the filter of the page
	o := s.Overview.Visible(v)
	asked := overview.Query{
		Text: q.text("q"), Namespace: q.text("namespace"), Risk: q.text("risk"), VPA: q.text("vpa"), Order: overview.Order(q.text("sort")), Page: q.page(), Size: pageSize,
	}
	asked.Order = cmp.Or(asked.Order, overview.ByRisk)
	found := o.Select(asked)
	all := o.Namespaces()
	return workloadsView{
		At: o.At, Total: found.Total, Page: found.Page, Pages: found.Pages, Rows: s.viewsOf(found.Rows), Query: asked,
		Namespaces: all[:min(len(all), maxChoices)], Orders: overview.Orders[:],
	}
}

// Number returns the number of a page relative to the current one, "" if there is none.
func (v workloadsView) Number(step int) string {
	if n := v.Page + step; n >= 1 && n <= v.Pages {
		return strconv.Itoa(n)
	}
	return ""
}

type nodesView struct {
	At      time.Time          `json:"at"`
	Visible bool               `json:"-"`
	Pools   []poolView         `json:"pools"`
	Plan    *planView          `json:"capacityPlan,omitempty"`
	Resizes []*overview.Resize `json:"resizes"`
}

type poolView struct {
	Name    string    `json:"name"`
	Nodes   int       `json:"nodes"`
	Ready   int       `json:"schedulable"`
	Bars    []barView `json:"totals"`
	Largest amounts   `json:"largestFreeNode"`
	OnNode  string    `json:"onNode,omitempty"`
}

func (h *handler) nodes(s *State, v *overview.Viewer, _ query) any {
	o := s.Overview.Visible(v)
	view := nodesView{At: o.At, Visible: v.All, Pools: make([]poolView, 0, len(o.Pools)), Resizes: []*overview.Resize{}}
	for _, p := range o.Pools {
		largest := p.Fit[1] // the most memory
		totals := overview.Totals{Requested: p.Requested, Used: p.Used, Capacity: p.Capacity}
		view.Pools = append(view.Pools, poolView{
			Name: p.Name, Nodes: p.Nodes, Ready: p.Schedulable, Largest: amounts{largest.Free}, OnNode: largest.Node,
			Bars: []barView{barOf(cluster.CPU, &totals), barOf(cluster.Memory, &totals)},
		})
	}
	if v.All {
		view.Plan = planViewOf(s)
	}
	view.Resizes = append(view.Resizes, o.Resizes[:min(len(o.Resizes), activityRows)]...)
	return view
}

type activityView struct {
	At      time.Time     `json:"at"`
	Since   time.Time     `json:"since,omitzero"`
	From    string        `json:"from"`
	Reason  string        `json:"reason,omitempty"`
	Act     string        `json:"action,omitempty"`
	Total   int           `json:"total"`
	Reasons []reasonCount `json:"reasons"`
	Entries []entryView   `json:"entries"`
}

type reasonCount struct {
	Reason  string `json:"reason"`
	Entries int    `json:"entries"`
}

func (h *handler) activity(s *State, v *overview.Viewer, q query) any {
	view := activityView{
		At: s.Overview.At, Since: s.ActivitySince, From: s.ActivityFrom, Reason: q.text("reason"), Act: q.text("action"), Reasons: []reasonCount{},
	}
	var found []overview.Entry
	for _, e := range overview.VisibleEntries(s.Activity, v) {
		cluster.FindOrAdd(&view.Reasons, func(r *reasonCount) bool { return r.Reason == e.Reason }, reasonCount{Reason: e.Reason}).Entries++
		if (view.Reason == "" || view.Reason == e.Reason) && (view.Act == "" || view.Act == e.Act) {
			found = append(found, e)
		}
	}
	view.Total = len(found)
	view.Entries = entryViews(overview.Grouped(found), activityRows)
	return view
}

type profilesView struct {
	Profiles []profileView `json:"profiles"`
	Custom   []profileView `json:"sizingProfiles"`
}

type profileView struct {
	Name    string  `json:"name"`
	About   string  `json:"about"`
	Invalid bool    `json:"invalid,omitempty"` // the parameters are not known
	Budget  float64 `json:"memoryBudgetPercent,omitempty"`
	CPU     int     `json:"minimumCPUMillicores"`
	Memory  int     `json:"minimumMemoryMiB"`
	Users   int     `json:"workloads"`
}

func profileViewOf(p *recommend.Profile, users int) profileView {
	return profileView{Name: p.Name, About: p.About, Budget: p.OOMBudget * 100, CPU: int(p.FloorMillicores), Memory: int(p.FloorMegabytes), Users: users}
}

func (h *handler) profiles(s *State, v *overview.Viewer, _ query) any {
	o := s.Overview.Visible(v)
	users := make(map[string]int)
	for _, row := range o.Rows {
		if row.VPA != "" {
			users[row.Profile]++
		}
	}
	return profilesView{
		Profiles: cluster.Each(recommend.Builtins(), func(p *recommend.Profile) profileView { return profileViewOf(p, users[p.Name]) }),
		Custom: cluster.Each(s.Custom, func(p *CustomProfile) profileView {
			v := profileViewOf(&p.Profile, users[p.Name])
			v.Invalid = !p.Known
			return v
		}),
	}
}

type aboutView struct {
	Version  string    `json:"version"`
	Cluster  string    `json:"cluster"`
	Contact  time.Time `json:"lastContact,omitzero"`
	Loading  []string  `json:"loading,omitempty"`
	Problems []string  `json:"problems,omitempty"`
	Usage    bool      `json:"usageKnown"`
	From     string    `json:"activityFrom"`
	Viewer   string    `json:"viewer,omitempty"`
	License  string    `json:"-"`
	Prices   string    `json:"prices,omitempty"`
	Excluded []string  `json:"excludedNamespaces,omitempty"`

	Health []overview.Part `json:"health"`
}

func (h *handler) about(s *State, v *overview.Viewer, _ query) any {
	view := aboutView{
		Version: h.Version, Cluster: h.Cluster, Contact: s.Contact, Loading: s.Loading, Problems: notesOf(s, v), Usage: s.Overview.UsageSeen,
		From: s.ActivityFrom, Viewer: v.Name, License: bundled().License, Health: healthOf(s, v),
	}
	if v.All {
		view.Excluded = s.Excluded
	}
	if s.Surplus != nil && s.Surplus.Currency != "" {
		view.Prices = s.Surplus.Currency + ", from " + s.Surplus.From
	}
	return view
}
