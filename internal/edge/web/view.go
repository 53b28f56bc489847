// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package web

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/overview"
	"podfit.dev/podfit/internal/core/review"
	"podfit.dev/podfit/internal/core/wording"
)

// amounts are an amount of CPU and memory in a page and its JSON.
type amounts struct{ r cluster.Resources }

// MarshalJSON implements json.Marshaler. Amounts are Kubernetes quantities, and one that is not known is absent.
func (a amounts) MarshalJSON() ([]byte, error) { return json.Marshal(review.QuantitiesOf(a.r)) }

type workloadView struct {
	Namespace   string          `json:"namespace"`
	Kind        string          `json:"kind"`
	Name        string          `json:"name"`
	Group       string          `json:"group,omitempty"`
	VPA         string          `json:"vpa,omitempty"`
	Mode        string          `json:"updateMode,omitempty"`
	Frozen      bool            `json:"frozen,omitempty"` // pods wait for the end of a freeze
	Profile     string          `json:"profile,omitempty"`
	Pods        int             `json:"pods"`
	Sized       *int            `json:"podsWithinBounds,omitempty"` // absent if it is not known
	Unjudged    string          `json:"notJudged,omitempty"`        // why it is not known whether requests fit and whether there are other risks
	Risk        string          `json:"risk"`
	Why         string          `json:"why,omitempty"`
	Requested   amounts         `json:"requested"`
	Used        amounts         `json:"used"`
	Recommended amounts         `json:"recommended"`
	Freed       amounts         `json:"requestsFreed"`
	Containers  []containerView `json:"containers"`
	Money       float64         `json:"moneyPerMonth,omitempty"`
}

// A containerView is a container as "podfit recommend -o json" prints it, with what only the page shows.
type containerView struct {
	review.Record
	Lower   amounts     `json:"lowerBound"`
	Target  amounts     `json:"statusTarget"` // also while it is too young to be recommended
	Upper   amounts     `json:"upperBound"`
	Used    amounts     `json:"highestUsage"`
	Kills   []time.Time `json:"oomKills,omitempty"`
	Sidecar bool        `json:"sidecar,omitempty"` // an init container that keeps running
	Roles   []roleView  `json:"roles,omitempty"`   // absent if all pods have one size

	Requests amounts `json:"-"`
	Limits   amounts `json:"-"`

	raw *overview.Container
}

// A roleView is the pods with one size by role, and that size. Those of all roles without a size of their own have no name.
type roleView struct {
	Role   string  `json:"role,omitempty"`
	Pods   int     `json:"pods"`
	Target amounts `json:"target"`
}

// HasRoles reports whether pods of a container have sizes by role.
func (v workloadView) HasRoles() bool {
	return slices.ContainsFunc(v.Containers, func(c containerView) bool { return len(c.Roles) > 0 })
}

// Left returns why podfit leaves a request as it is although there is a recommendation, "" if it does not.
func (c containerView) Left(resource string) string {
	res, _ := cluster.ParseResource(resource)
	switch reason := c.raw.KeptFor(res).Reason; {
	case reason == review.NotControlled:
		return "not controlled"
	case c.Young:
		return "young"
	case reason == review.ScaledByHPA:
		return "kept: HPA"
	}
	return ""
}

func (s *State) viewOf(r *overview.Row) workloadView {
	w := &r.Workload
	v := workloadView{
		Namespace: w.Namespace, Kind: w.Kind, Name: w.Name, Group: w.Group, VPA: r.VPA, Mode: r.Mode, Frozen: r.Frozen, Profile: r.Profile,
		Pods: r.Pods, Unjudged: r.Unjudged, Risk: r.Risk.String(), Why: r.Why,
		Requested: amounts{r.Totals.Requested}, Used: amounts{r.Totals.Used}, Recommended: amounts{r.Totals.Recommended}, Freed: amounts{r.Freed},
	}
	if r.Unjudged == "" {
		v.Sized = &r.Sized
	}
	v.Containers = cluster.Each(r.Containers, func(of **overview.Container) containerView {
		c := *of
		return containerView{
			Record: s.recordOf(c), Requests: amounts{c.Requests}, Limits: amounts{c.Limits}, Lower: amounts{c.Estimate().Lower}, Target: amounts{c.Estimate().Target},
			Upper: amounts{c.Estimate().Upper}, Used: amounts{c.Used}, Kills: c.Kills, raw: c,
			Sidecar: c.Sidecar,
			Roles:   cluster.Each(c.Roles, func(r *overview.Role) roleView { return roleView{r.Name, r.Pods, amounts{r.Target}} }),
		}
	})
	return v
}

// recordOf returns a container as podfit recommend prints it. Its waste and price are absent until they are known.
func (s *State) recordOf(c *overview.Container) review.Record {
	row, ranked := c.Priced(s.Surplus)
	var prices review.Prices
	if s.Surplus != nil && ranked {
		prices.Currency = s.Surplus.Currency
	}
	out := row.Record(s.Overview.At, &prices)
	if !ranked {
		out.Waste = ""
	}
	if row.Confidence != review.None {
		out.Source = review.SourceVPAs
	}
	return out
}

func (s *State) viewsOf(rows []*overview.Row) []workloadView {
	return cluster.Each(rows, func(r **overview.Row) workloadView { return s.viewOf(*r) })
}

// Path returns the path of the page of the workload, relative to the root of the page.
func (v workloadView) Path() string {
	return workloadPath(cluster.Workload{Namespace: v.Namespace, Kind: v.Kind, Name: v.Name, Group: v.Group})
}

// plainGroups are the API groups whose kinds need no group in the address.
var plainGroups = map[string]bool{"": true, "apps": true, "batch": true}

func workloadPath(w cluster.Workload) string {
	p := "workloads/" + url.PathEscape(w.Namespace) + "/" + url.PathEscape(w.Kind) + "/" + url.PathEscape(w.Name)
	if !plainGroups[w.Group] {
		p += "?" + url.Values{"group": {w.Group}}.Encode()
	}
	return p
}

// Change returns the requests before and after the recommendation of one resource for the containers that would change, or why the
// request is kept.
func (v workloadView) Change(resource string) string {
	res, _ := cluster.ParseResource(resource)
	var parts []string
	kept := ""
	for i := range v.Containers {
		c := v.Containers[i].raw
		target, ok := c.Estimate().Target.Get(res)
		request, requested := c.Outside.Get(res)
		switch {
		case !ok || c.KeptFor(res).Reason == review.NotControlled:
		case c.Young.Has.Has(res):
			parts = append(parts, v.named(c, changeText(res, request, requested, "%s (young %s)", target)))
		case c.Confidence == review.None:
			kept = "not judged"
		case c.KeptFor(res).IsKept():
			kept = "keep (HPA)"
		case requested && wording.Spaced(res, request) == wording.Spaced(res, target) || c.Fits():
			kept = "keep"
		default:
			parts = append(parts, v.named(c, changeText(res, request, requested, "%s → %s", target)))
		}
	}
	if len(parts) > 2 {
		parts = append(parts[:2], "…")
	}
	return cmp.Or(strings.Join(parts, ", "), kept, "–")
}

// named returns a text about a container, with its name if the workload has several.
func (v workloadView) named(c *overview.Container, text string) string {
	if len(v.Containers) > 1 {
		return c.Container + " " + text
	}
	return text
}

// Basis returns what the young recommendations of the workload are from, "" if it has none.
func (v workloadView) Basis() string {
	for i := range v.Containers {
		if c := v.Containers[i].raw; c.Basis() != "" {
			return "young: " + c.Basis()
		}
	}
	return ""
}

func changeText(res cluster.Resource, request int64, requested bool, format string, target int64) string {
	before := "none"
	if requested {
		before = wording.Spaced(res, request)
	}
	return fmt.Sprintf(format, before, wording.Spaced(res, target))
}

type entryView struct {
	At        time.Time `json:"time"`
	Namespace string    `json:"namespace"`
	Pod       string    `json:"pod"`
	Workload  string    `json:"workload,omitempty"`
	VPA       string    `json:"vpa,omitempty"`
	Act       string    `json:"action"`
	Reason    string    `json:"reason"`
	Text      string    `json:"text"`
	Change    string    `json:"change,omitempty"`
	Pods      int       `json:"pods"`
	Times     int       `json:"times,omitempty"` // more than 1: the texts are of the last time
	Path      string    `json:"-"`               // of the page of the workload, "" if the workload is not known
}

// Title returns what the entry is about.
func (v entryView) Title() string {
	if v.Pods > 1 {
		return wording.Count(v.Pods, "pod")
	}
	return v.Pod
}

// verbs say what was done, by action.
var verbs = map[string]string{"resize": "Resized in place", "evict": "Evicted", "delete": "Deleted", "surge": "Replaced by a surge"}

// Verb returns what was done.
func (v entryView) Verb() string {
	out := cmp.Or(verbs[v.Act], "Left alone")
	if v.Times > 1 {
		out += fmt.Sprintf(" %d times, the last time", v.Times)
	}
	return out
}

func entryViews(entries []overview.Entry, most int) []entryView {
	return cluster.Each(entries[:min(len(entries), most)], func(e *overview.Entry) entryView {
		v := entryView{
			At: e.At.UTC(), Namespace: e.Pod.Namespace, Pod: e.Pod.Name, VPA: e.VPA, Act: e.Act, Reason: e.Reason, Text: e.Text, Change: e.Change,
			Pods: max(e.Pods, 1), Times: e.Times,
		}
		if w := e.Workload; !w.IsZero() {
			v.Workload = w.Kind + "/" + w.Name
			v.Path = workloadPath(w)
		}
		return v
	})
}

// A barView is one resource of the cluster: four amounts in cores or GiB.
type barView struct {
	Resource    string  `json:"resource"`
	Unit        string  `json:"unit"`
	Used        float64 `json:"used,omitempty"`
	Recommended float64 `json:"recommended,omitempty"`
	Requested   float64 `json:"requested"`
	Capacity    float64 `json:"capacity,omitempty"`
	HasUsage    bool    `json:"-"`
	HasCapacity bool    `json:"-"`
	HasTarget   bool    `json:"-"`
	Class       string  `json:"-"`
}

func barOf(res cluster.Resource, t *overview.Totals) barView {
	unit := units[res]
	amount := func(r cluster.Resources) float64 { return float64(r.Amount(res)) / unit.scale }
	return barView{
		Resource: unit.title, Unit: unit.name, Class: unit.class, HasUsage: t.Used.Has.Has(res), HasCapacity: t.Capacity.Has.Has(res), HasTarget: t.Recommended.Has.Has(res),
		Used: amount(t.Used), Recommended: amount(t.Recommended), Requested: amount(t.Requested), Capacity: amount(t.Capacity),
	}
}

// whole is the amount that the length of the bar stands for.
func (b barView) whole() float64 {
	if b.HasCapacity {
		return max(b.Capacity, b.Requested)
	}
	return max(b.Requested, b.Recommended, b.Used)
}

// Width returns the width of an amount in thousandths of the bar.
func (b barView) Width(amount float64) int {
	if b.whole() <= 0 {
		return 0
	}
	return int(min(amount/b.whole(), 1)*1000 + 0.5)
}

// Share returns an amount as a share of the capacity, "" without capacity.
func (b barView) Share(amount float64) string {
	if b.Capacity <= 0 {
		return ""
	}
	return wording.Percent(amount / b.Capacity)
}
