// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package overview computes what the web page shows: totals of the cluster, one row per workload with its risk and its surplus, pools of
// nodes, and a bounded journal of decisions.
//
// The package is pure. It makes no recommendations: it compares the recommendations in the status of VPAs with the requests of pods.
package overview

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"podfit.dev/podfit/internal/core/capacity"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/review"
	"podfit.dev/podfit/internal/core/usage"
)

// A World is the input of Of.
type World struct {
	Now          time.Time
	Snapshot     *cluster.Snapshot
	Nodes        []cluster.Node
	Samples      []usage.Sample // current usage of containers; nil if it is not known
	StartupBoost bool           // the feature gate CPUStartupBoost

	// Excluded are namespaces that are not shown. Their pods count only on nodes.
	Excluded map[string]bool

	// Evidence is what the stored usage of containers with a VPA shows, as podfit recommend counts it. nil: it is not known, and then nothing is
	// recommended, and no workload counts as one without risk. Unread is why, in a few words.
	Evidence map[usage.Ref]*review.Evidence
	Unread   string

	// NoPods is why pods are not known, in a few words; "" if they are. Then nothing is recommended, and no workload counts as
	// one without risk.
	NoPods string

	NoAutoscalers bool // VPAs are not known, so neither is which workloads have none

	// Rules assign nodes to pools, and WholeNodes is whether the capacity of a pool is that of its nodes or what pods can request, as in the
	// CapacityPlan.
	Rules      capacity.Rules
	WholeNodes bool

	// Where pods can run.
	Selectors   []cluster.NodeSelector
	Tolerations []cluster.Tolerations

	// Only for SurplusOf: prices in the order of Nodes.
	Prices  review.Prices
	AllPods bool // Snapshot has the pods of all namespaces, so that it is known how full nodes are
}

// Totals are four amounts of the same pods, in millicores and bytes.
type Totals struct {
	Requested   cluster.Resources
	Used        cluster.Resources // not set if no usage is known
	Recommended cluster.Resources // the target of each container that has one, else its request
	Capacity    cluster.Resources // of the ready nodes that accept new pods; not set if the viewer may not see nodes
}

// An Overview is the state of a cluster at one time. It does not change after Of, so that several goroutines may read it.
type Overview struct {
	At        time.Time
	Totals    Totals
	Rows      []*Row // sorted by workload
	Pools     []capacity.Pool
	Resizes   []*Resize // resizes that have not ended, the oldest first
	Pods      int       // live pods
	NodeCount int
	UsageSeen bool // at least one sample is known
}

// A Row is a workload. Amounts are sums over its live pods.
type Row struct {
	Workload   cluster.Workload
	VPA        string // name of the governing VPA; "" if there is none
	Mode       string // update mode; "" without a VPA
	Frozen     bool   // pods wait for the end of a freeze
	Profile    string // name of the recommender or profile; "" without a VPA
	Pods       int
	Sized      int               // pods whose requests are within the bounds of the recommendation; of no meaning if Unjudged is set
	Containers []*Container      // sorted by name
	Totals     Totals            // without capacity
	Freed      cluster.Resources // requests of the containers whose requests fall, as podfit recommend counts them
	Risk       review.Severity   // not low
	Why        string            // the cause of the risk; "" if there is none
	Unjudged   string            // why it is not known whether there are other risks, and whether requests fit; "" if that is known

	cause review.FindingKind // the most important one, if there is a risk
}

// A Container is a container of a workload, as podfit recommend reviews it, with what only the page shows. Its Places are not set, and Replicas
// is the number of its live pods. Assumed prices rank its waste.
type Container struct {
	review.Row
	Outside cluster.Resources // requests that most pods outside the bounds of the recommendation have; Requests if there are none
	Advice  *cluster.Advice   // of the VPA, shared; nil if there is none
	Used    cluster.Resources // highest current usage of a pod; not set if it is not known
	Kills   []time.Time       // known OOM kills, oldest first
	Roles   []Role            // of its pods, sorted, if some have a size of their own; nil: all pods have one size

	pods *podCount // nil when all pods are counted
}

// A Role is the live pods with one size by role.
type Role struct {
	Name   string // "": those of all roles without a size of their own
	Pods   int
	Target cluster.Resources
}

// countRole counts a pod of a container with sizes by role, and the target of the pod.
func (c *Container) countRole(role string, target cluster.Resources) {
	if target == c.Estimate().Target {
		role = ""
	}
	at, known := slices.BinarySearchFunc(c.Roles, role, func(r Role, role string) int { return strings.Compare(r.Name, role) })
	if !known {
		c.Roles = slices.Insert(c.Roles, at, Role{Name: role, Target: target})
	}
	c.Roles[at].Pods++
}

// Estimate returns the recommendation in the status of the VPA, also while it is too young to be recommended.
func (c *Container) Estimate() cluster.Estimate {
	if c.Advice == nil {
		return cluster.Estimate{}
	}
	return c.Advice.Estimate
}

// A podCount is what is counted of the pods of a container.
type podCount struct {
	sets  []sizeCount
	shown *cluster.Pod     // whose size is shown
	seen  *review.Evidence // OOM kills in the status of pods; nil if there are none
}

// sizeCount counts the pods that have the same requests and limits.
type sizeCount struct {
	review.Size
	pods int
}

// A Resize is a resize in place that the kubelet has not carried out.
type Resize struct {
	Namespace string           `json:"namespace"`
	Pod       string           `json:"pod"`
	Node      string           `json:"node"`
	State     string           `json:"state"`
	Since     time.Time        `json:"since,omitzero"`
	Message   string           `json:"message"`
	Workload  cluster.Workload `json:"-"`
}

// Of returns the overview of a cluster.
func Of(w *World) *Overview {
	o := &Overview{At: w.Now, NodeCount: len(w.Nodes), UsageSeen: len(w.Samples) > 0}
	used := usageOf(w.Samples, w.Now)
	governors := Governors(w.Snapshot, w.StartupBoost)
	rows := make(map[cluster.Workload]*Row, len(w.Snapshot.Autoscalers))
	for _, a := range w.Snapshot.Autoscalers {
		if governors[a.Target] == a && !w.Excluded[a.Namespace] {
			rows[a.Target] = w.rowOf(a.Target, a)
		}
	}
	for _, p := range w.Snapshot.Pods {
		if !p.Live() || p.Placeholder || w.Excluded[p.Namespace] {
			continue
		}
		o.Pods++
		if p.Static && p.Top.IsZero() { // nothing in the cluster changes a static pod
			o.addStatic(p, used)
			continue
		}
		key := p.Workload()
		a := governors[key]
		row := cluster.Memo(&rows, key, func() *Row { return w.rowOf(key, a) })
		row.add(w, p, a, used)
		if p.IsResizing() {
			o.Resizes = append(o.Resizes, &Resize{p.Namespace, p.Name, p.Node, resizeStates[p.Resize.State], p.Resize.Since, p.Resize.Message, key})
		}
	}
	o.Rows = slices.SortedFunc(maps.Values(rows), func(a, b *Row) int { return a.Workload.Compare(b.Workload) })
	var containers []*review.Row
	for _, row := range o.Rows {
		if row.Pods == 0 {
			row.Unjudged = cmp.Or(w.NoPods, "no pod of it is running")
		}
		row.finish(w)
		o.Totals.add(&row.Totals)
		for _, c := range row.Containers {
			containers = append(containers, &c.Row)
		}
	}
	review.RankWaste(containers)
	slices.SortFunc(o.Resizes, func(a, b *Resize) int {
		return cmp.Or(a.Since.Compare(b.Since), strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Pod, b.Pod))
	})
	o.Pools, _ = capacity.Measure(&capacity.World{
		Nodes: w.Nodes, Snapshot: w.Snapshot, Selectors: w.Selectors, Tolerations: w.Tolerations, Used: capacity.UsageByPod(w.Samples, w.Now),
		Rules: w.Rules, Allocatable: !w.WholeNodes,
	})
	for i := range o.Pools {
		o.Totals.Capacity = o.Totals.Capacity.Add(o.Pools[i].Capacity)
		o.Pools[i].Loads = nil // of each workload, which no page shows
	}
	return o
}

func (o *Overview) addStatic(p *cluster.Pod, used map[usage.PodContainer]cluster.Resources) {
	requested := review.RequestsOf(p, nil)
	t := Totals{Requested: requested, Recommended: requested}
	for i := range p.Containers {
		t.Used = t.Used.Add(used[usage.PodContainer{Pod: p.Key, Container: p.Containers[i].Name}])
	}
	o.Totals.add(&t)
}

// resizeStates are the names of the states as Kubernetes writes them.
var resizeStates = map[cluster.ResizeState]string{
	cluster.ResizeDeferred: "Deferred", cluster.ResizeInfeasible: "Infeasible", cluster.ResizeInProgress: "InProgress",
	cluster.ResizeError: "Error", cluster.ResizeUnknown: "Unknown",
}

// Governors returns the VPA of each workload: the one that governs it, or else the oldest. boost is the feature gate CPUStartupBoost.
func Governors(s *cluster.Snapshot, boost bool) map[cluster.Workload]*cluster.Autoscaler {
	out := make(map[cluster.Workload]*cluster.Autoscaler, len(s.Autoscalers))
	for _, a := range s.Autoscalers {
		if _, known := out[a.Target]; known {
			continue
		}
		out[a.Target] = cluster.Responsible(s.AutoscalersOf(a.Target), boost)
	}
	return out
}

func usageOf(samples []usage.Sample, now time.Time) map[usage.PodContainer]cluster.Resources {
	out := make(map[usage.PodContainer]cluster.Resources, len(samples))
	for i := range samples {
		out[samples[i].Of()] = samples[i].Present(now)
	}
	return out
}

func (t *Totals) add(other *Totals) {
	t.Requested = t.Requested.Add(other.Requested)
	t.Used = t.Used.Add(other.Used)
	t.Recommended = t.Recommended.Add(other.Recommended)
}

// Row returns the row of a workload by namespace, kind and name, or nil. A group is compared only if it is not "".
func (o *Overview) Row(namespace, kind, name, group string) *Row {
	first := cluster.Workload{Namespace: namespace, Kind: kind, Name: name}
	from, _ := slices.BinarySearchFunc(o.Rows, first, func(row *Row, w cluster.Workload) int { return row.Workload.Compare(w) })
	for _, row := range o.Rows[from:] {
		w := row.Workload
		if w.Namespace != namespace || w.Kind != kind || w.Name != name {
			return nil
		}
		if group == "" || group == w.Group {
			return row
		}
	}
	return nil
}

// A Lack is why some workloads are not judged.
type Lack struct {
	Why       string `json:"why"`
	Workloads int    `json:"workloads"`
}

// Lacks returns the causes why workloads without a known risk are not judged, the most frequent first. The last one of several stands for all
// further ones.
func (o *Overview) Lacks() (lacks []Lack, workloads int) {
	const most = 4
	for _, row := range o.Rows {
		if row.Risk > review.Harmless || row.Unjudged == "" {
			continue
		}
		workloads++
		cluster.FindOrAdd(&lacks, func(l *Lack) bool { return l.Why == row.Unjudged }, Lack{Why: row.Unjudged}).Workloads++
	}
	slices.SortFunc(lacks, func(a, b Lack) int { return cmp.Or(cmp.Compare(b.Workloads, a.Workloads), cmp.Compare(a.Why, b.Why)) })
	for len(lacks) > most {
		last := lacks[len(lacks)-1]
		lacks = lacks[:len(lacks)-1]
		lacks[most-1] = Lack{"other causes", lacks[most-1].Workloads + last.Workloads}
	}
	return lacks, workloads
}

// Frozen returns the workloads whose pods wait for the end of a freeze, as the updater last reported.
func (o *Overview) Frozen() (out []cluster.Workload) {
	for _, row := range o.Rows {
		if row.Frozen {
			out = append(out, row.Workload)
		}
	}
	return out
}

// A User is an authenticated user.
type User struct {
	Name, UID string
	Groups    []string
	Extra     map[string][]string
}

// A Viewer is who sees a page. The zero value sees nothing.
type Viewer struct {
	Name       string          // "" without authentication
	All        bool            // the viewer may see all namespaces, and nodes
	Namespaces map[string]bool // namespaces that the viewer may see if All is false
}

// Sees reports whether the viewer may see objects of a namespace.
func (v *Viewer) Sees(namespace string) bool { return v.All || v.Namespaces[namespace] }

// Visible returns the part of an overview that the viewer may see. Nodes and their capacity belong to the cluster, so they are not part of it
// for a viewer of some namespaces.
func (o *Overview) Visible(v *Viewer) *Overview {
	if v.All {
		return o
	}
	out := &Overview{At: o.At, UsageSeen: o.UsageSeen}
	for _, row := range o.Rows {
		if v.Sees(row.Workload.Namespace) {
			out.Rows = append(out.Rows, row)
			out.Totals.add(&row.Totals)
			out.Pods += row.Pods
		}
	}
	out.Resizes = slices.DeleteFunc(slices.Clone(o.Resizes), func(r *Resize) bool { return !v.Sees(r.Namespace) })
	return out
}

// Visible returns the part of the surplus that the viewer may see, with the total of the visible rows.
func (s *Surplus) Visible(visible *Overview, v *Viewer) *Surplus {
	if v.All {
		return s
	}
	out := &Surplus{PriceSource: s.PriceSource, Money: s.Money}
	for _, row := range visible.Rows {
		out.Total += max(s.Money[row.Workload], 0)
	}
	return out
}

// VisibleEntries returns the entries that the viewer may see.
func VisibleEntries(entries []Entry, v *Viewer) []Entry {
	if v.All {
		return entries
	}
	return slices.DeleteFunc(slices.Clone(entries), func(e Entry) bool { return !v.Sees(e.Pod.Namespace) })
}
