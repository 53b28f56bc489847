// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package capacity

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/integer"
	"podfit.dev/podfit/internal/core/usage"
)

// A World is the state of a cluster at one moment.
type World struct {
	Nodes       []cluster.Node
	Snapshot    *cluster.Snapshot
	Selectors   []cluster.NodeSelector
	Tolerations []cluster.Tolerations
	Used        map[cluster.Key]cluster.Resources // present usage by pod; without an entry it is not known
	Rules       Rules
	Groups      []cluster.NewNode // groups of nodes that can grow, as far as they are known
	Allocatable bool              // capacity is what pods can request, instead of the capacity of the machines
}

// A Pool is the state of a pool of nodes at one moment. Amounts are in millicores and bytes.
type Pool struct {
	Name        string
	Nodes       int // all nodes
	Schedulable int // nodes that are ready and not cordoned
	Pods        int
	Pending     int // pods that are not on a node of the cluster; they count in the pool where they probably run

	Capacity       cluster.Resources // of schedulable nodes
	WithoutLargest cluster.Resources // the same without the largest node
	Requested      cluster.Resources // of the pods, as the scheduler counts them
	Used           cluster.Resources // of the pods whose usage is known; not set if it is known of none
	Recoverable    cluster.Resources // requests above recommended ones
	GiveBack       [2]int            // workloads with requests above recommended ones, by resource
	Unadvised      int               // workloads without a recommendation
	Fit            [2]Room           // the largest pod that still fits: by CPU, and by memory
	Extension      Extension         // what can be added

	Loads []Load // by workload, sorted
}

// An Extension is what autoscalers can add to a pool until its groups of nodes are at their maximum.
type Extension struct {
	Known    bool
	Nodes    int               // each of the size of the smallest one of its group
	Capacity cluster.Resources // of these nodes
}

// Room is the free room on a node.
type Room struct {
	Node string // "" if no node has room
	Free cluster.Resources
}

// A Load is what the pods of a workload request in a pool.
type Load struct {
	Workload cluster.Workload
	Pods     int
	Requests cluster.Resources
}

// Unplaced are the pending pods that no pool accepts, or that are larger than every node that accepts them.
type Unplaced struct {
	Pods     int
	Requests cluster.Resources
	Example  cluster.Key // the first by name
}

// Measure returns the pools, sorted by name, and the pods that no pool can take.
func Measure(w *World) ([]Pool, Unplaced) {
	m := newMeasurer(w)
	for _, p := range w.Snapshot.Pods {
		m.add(p)
	}
	m.addPending()
	m.extend()
	return m.finish(), m.unplaced
}

type measurer struct {
	*World
	names    []string       // of the pool of each node
	index    map[string]int // of each node by name
	free     []cluster.Resources
	pools    map[string]*tally
	pending  []*cluster.Pod
	unplaced Unplaced
}

// A tally is a pool while it is measured.
type tally struct {
	Pool
	loads     map[cluster.Workload]*Load
	gives     [2]map[cluster.Workload]bool
	unadvised map[cluster.Workload]bool
}

func newMeasurer(w *World) *measurer {
	m := &measurer{World: w, names: w.Rules.Assign(w.Nodes), index: make(map[string]int, len(w.Nodes)), free: make([]cluster.Resources, len(w.Nodes))}
	for i := range w.Nodes {
		n := &w.Nodes[i]
		m.index[n.Name] = i
		m.free[i] = n.Allocatable
		pool := cluster.Memo(&m.pools, m.names[i], func() *tally {
			return &tally{Pool: Pool{Name: m.names[i], Capacity: cluster.Amounts(0, 0), WithoutLargest: cluster.Amounts(0, 0), Requested: cluster.Amounts(0, 0)}}
		})
		pool.Nodes++
		if !n.TakesPods() {
			continue
		}
		pool.Schedulable++
		c := Of(n, m.Allocatable)
		pool.Capacity = pool.Capacity.Add(c)
		pool.WithoutLargest = cluster.Amounts(max(pool.WithoutLargest.CPU, c.CPU), max(pool.WithoutLargest.Memory, c.Memory)) // the largest, until finish
	}
	return m
}

// Of returns the capacity of a node: what pods can request, or all of it.
func Of(n *cluster.Node, allocatable bool) cluster.Resources {
	if allocatable {
		return cluster.Amounts(n.Allocatable.CPU, n.Allocatable.Memory)
	}
	c := n.Capacity.Or(n.Allocatable)
	return cluster.Amounts(c.CPU, c.Memory)
}

// add counts a pod that is on a node of the cluster, and keeps the others for addPending.
func (m *measurer) add(p *cluster.Pod) {
	if p.HasFinished() {
		return
	}
	at, known := m.index[p.Node]
	requests := p.Requested()
	if known { // a pod takes room until it is gone
		m.free[at] = cluster.Amounts(m.free[at].CPU-requests.CPU, m.free[at].Memory-requests.Memory)
	}
	bound := p.Static || p.Controller.Kind == "DaemonSet" // it needs no room elsewhere if its node is gone
	switch {
	case p.Deleting || p.Placeholder:
	case !known && !bound:
		m.pending = append(m.pending, p)
	case known && (!bound || m.Nodes[at].TakesPods()):
		m.count(m.pools[m.names[at]], p, requests)
	}
}

func (m *measurer) count(pool *tally, p *cluster.Pod, requests cluster.Resources) {
	pool.Pods++
	pool.Requested = pool.Requested.Add(requests)
	if used, ok := m.Used[p.Key]; ok {
		pool.Used = pool.Used.Add(used)
	}
	key := p.Workload()
	load := cluster.Memo(&pool.loads, key, func() *Load { return &Load{Workload: key} })
	load.Pods++
	load.Requests = load.Requests.Add(requests)
	a := cluster.Responsible(m.Snapshot.AutoscalersOf(key), false)
	if a == nil || len(a.Advice) == 0 {
		cluster.Put(&pool.unadvised, key, true)
		return
	}
	surplus := surplusOf(p, a)
	pool.Recoverable = pool.Recoverable.Add(surplus)
	for i, res := range cluster.All {
		if surplus.Amount(res) > 0 {
			cluster.Put(&pool.gives[i], key, true)
		}
	}
}

// surplusOf returns by how much the requests of a pod exceed the recommended ones.
func surplusOf(p *cluster.Pod, a *cluster.Autoscaler) cluster.Resources {
	var out cluster.Resources
	if p.PodLevel != nil {
		return out // the pod-level request counts, and what of it could be given back is not computed
	}
	a = a.For(p)
	for i := range p.Containers {
		c := &p.Containers[i]
		advice := a.AdviceFor(c.Name)
		if advice == nil || c.Role == cluster.Init {
			continue
		}
		requests, _ := c.Running()
		for _, res := range cluster.All {
			target, ok := advice.Target.Get(res)
			if over := requests.Amount(res) - target; ok && over > 0 {
				out = out.Set(res, out.Amount(res)+over)
			}
		}
	}
	return out
}

// addPending counts the pods without a node of the cluster in the pool where most pods of their workload run, or else in the emptiest pool,
// of those with nodes that accept and can hold them.
func (m *measurer) addPending() {
	requestedShare := map[string]float64{} // without the pending pods, so that these do not depend on their order
	for name, pool := range m.pools {
		requestedShare[name] = pool.requestedShare()
	}
	if len(m.pending) == 0 {
		return
	}
	nodes := newNodeIndex(m.World, m.names)
	var accepted map[cluster.Reach][]acceptor
	type chosen struct {
		pool *tally
		pod  *cluster.Pod
	}
	var all []chosen
	for _, p := range m.pending {
		candidates := cluster.Memo(&accepted, p.Reach(), func() []acceptor { return nodes.accepting(p) })
		if p.Node == "" { // a pod that is on a node was not too large
			requests := p.Requested()
			candidates = slices.DeleteFunc(slices.Clone(candidates), func(a acceptor) bool {
				return !a.unknown && (requests.CPU > a.most.CPU || requests.Memory > a.most.Memory) // even if nothing else runs there
			})
		}
		if len(candidates) == 0 {
			m.unplaced.add(p)
			continue
		}
		key := p.Workload()
		pods := func(name string) int {
			if load := m.pools[name].loads[key]; load != nil {
				return load.Pods
			}
			return 0
		}
		best := slices.MinFunc(candidates, func(a, b acceptor) int {
			return cmp.Or(cmp.Compare(pods(b.pool), pods(a.pool)), cmp.Compare(requestedShare[a.pool], requestedShare[b.pool]), strings.Compare(a.pool, b.pool))
		})
		all = append(all, chosen{m.pools[best.pool], p})
	}
	for _, c := range all {
		c.pool.Pending++
		m.count(c.pool, c.pod, c.pod.Requested())
	}
}

func (t *tally) requestedShare() float64 {
	share := 0.0
	for _, res := range cluster.All {
		share = max(share, float64(t.Requested.Amount(res))/float64(max(t.Capacity.Amount(res), 1)))
	}
	return share
}

func (u *Unplaced) add(p *cluster.Pod) {
	if u.Pods == 0 {
		u.Example = p.Key
	}
	u.Pods++
	requests := p.Requested() // of any size
	u.Requests = cluster.Amounts(integer.Sum(u.Requests.CPU, requests.CPU), integer.Sum(u.Requests.Memory, requests.Memory))
}

// An acceptor is a pool with nodes that accept a pod by their labels and taints.
type acceptor struct {
	pool    string
	most    cluster.Resources // the most that one of these nodes can hold of each resource
	unknown bool              // what one of these nodes can hold is not known
}

func (m *measurer) finish() []Pool {
	for i := range m.Nodes {
		n := &m.Nodes[i]
		if !n.TakesPods() {
			continue
		}
		pool := m.pools[m.names[i]]
		free := cluster.Amounts(max(m.free[i].CPU, 0), max(m.free[i].Memory, 0))
		for k, res := range cluster.All {
			if free.CPU > 0 && free.Memory > 0 && free.Amount(res) > pool.Fit[k].Free.Amount(res) {
				pool.Fit[k] = Room{n.Name, free}
			}
		}
	}
	out := make([]Pool, 0, len(m.pools))
	for _, t := range m.pools {
		t.WithoutLargest = cluster.Amounts(t.Capacity.CPU-t.WithoutLargest.CPU, t.Capacity.Memory-t.WithoutLargest.Memory)
		t.Unadvised = len(t.unadvised)
		for i := range t.gives {
			t.GiveBack[i] = len(t.gives[i])
		}
		for _, load := range t.loads {
			t.Loads = append(t.Loads, *load)
		}
		slices.SortFunc(t.Loads, func(a, b Load) int { return a.Workload.Compare(b.Workload) })
		out = append(out, t.Pool)
	}
	slices.SortFunc(out, func(a, b Pool) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// extend sets what can be added to each pool. It is known if each node of the pool is one of a group that is bounded and has no nodes in another
// pool, and its size is known.
func (m *measurer) extend() {
	pools, smallest := map[int]*tally{}, map[int]cluster.Resources{} // by group; -1: none is known
	unclear := map[*tally]bool{}
	for i := range m.Nodes {
		n := &m.Nodes[i]
		at := slices.IndexFunc(m.Groups, func(g cluster.NewNode) bool { return g.Contains(n) })
		pool := m.pools[m.names[i]]
		other := cmp.Or(pools[at], pool)
		size := Of(n, m.Allocatable)
		if at < 0 || m.Groups[at].Addable(size) == math.MaxInt || other != pool || size.HasNone() {
			unclear[pool] = true
			unclear[other] = true
		}
		pools[at] = pool
		smallest[at] = smallest[at].Lowest(size)
	}
	for at, pool := range pools {
		if unclear[pool] {
			continue
		}
		e := &pool.Extension
		nodes := m.Groups[at].Addable(smallest[at])
		e.Known = true
		e.Nodes += nodes
		for _, res := range cluster.All {
			added, _ := integer.Scaled(int64(nodes), smallest[at].Amount(res), 1)
			e.Capacity = e.Capacity.Set(res, integer.Sum(e.Capacity.Amount(res), added))
		}
	}
}

// UsageByPod returns the present usage of each pod.
func UsageByPod(samples []usage.Sample, now time.Time) map[cluster.Key]cluster.Resources {
	out := make(map[cluster.Key]cluster.Resources)
	for i := range samples {
		if used := samples[i].Present(now); !used.Has.Empty() {
			out[samples[i].Pod] = out[samples[i].Pod].Add(used)
		}
	}
	return out
}

// A Day is a day in UTC: the number of days since 1 January 1970. 0 means no day.
type Day int32

const dayLength = 24 * time.Hour

// DayOf returns the day of a time.
func DayOf(t time.Time) Day { return Day(math.Floor(float64(t.Unix()) / dayLength.Seconds())) }

// Time returns the start of the day.
func (d Day) Time() time.Time { return time.Unix(int64(d)*int64(dayLength/time.Second), 0).UTC() }

// weekday returns the day of the week, 0 to 6.
func (d Day) weekday() int { return int((int64(d)%7 + 7) % 7) }

// String returns the date, such as 2026-11-22, or "" for no day.
func (d Day) String() string {
	if d == 0 {
		return ""
	}
	return d.Time().Format(time.DateOnly)
}

// ParseDay returns the day of a date such as 2026-11-22.
func ParseDay(s string) (Day, bool) {
	t, err := time.Parse(time.DateOnly, s)
	if err != nil {
		return 0, false
	}
	return DayOf(t), true
}

// OtherNodes is the pool of nodes that no rule and no known label assigns to a pool.
const OtherNodes = "other"

// MostPools is the maximum number of pools. The nodes of further pools, by name, are in the pool OtherNodes.
const MostPools = 16

// A Rule assigns nodes to a pool.
type Rule struct {
	Pool     string
	Labels   []string // that a node has, each as "key=value"; all of them; none: no node
	LeadTime int      // days from an order until nodes serve pods; 0: the one of the plan
}

// Rules assign nodes to pools. The first rule that matches counts. A node without a rule belongs to the pool of its label PoolLabel, or of
// the labels of the known cloud providers, or of its role.
type Rules struct {
	Pools     []Rule
	PoolLabel string // "" means the known labels
}

func (r *Rules) poolOf(n *cluster.Node) string {
	for _, rule := range r.Pools {
		if len(rule.Labels) > 0 && n.Matches(cluster.NodeSelector{Labels: rule.Labels}) {
			return rule.Pool
		}
	}
	if r.PoolLabel != "" {
		return cmp.Or(n.Label(r.PoolLabel), OtherNodes)
	}
	pool, _ := n.Pool()
	role, _ := n.Role()
	return cmp.Or(pool, role, OtherNodes)
}

// LeadTime returns the lead time of a pool in days: its own one, or else otherwise, the one of the plan.
func (r *Rules) LeadTime(pool string, otherwise int) int {
	for i := range r.Pools {
		if r.Pools[i].Pool == pool && r.Pools[i].LeadTime > 0 {
			return r.Pools[i].LeadTime
		}
	}
	return otherwise
}

// Assign returns the pool of each node, with at most MostPools names.
func (r *Rules) Assign(nodes []cluster.Node) []string {
	out := make([]string, len(nodes))
	for i := range nodes {
		out[i] = r.poolOf(&nodes[i])
	}
	names := slices.Compact(slices.Sorted(slices.Values(out)))
	if len(names) <= MostPools {
		return out
	}
	kept := names[:MostPools-1]
	for i := range out {
		if _, ok := slices.BinarySearch(kept, out[i]); !ok {
			out[i] = OtherNodes
		}
	}
	return out
}
