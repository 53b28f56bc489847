// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package contention

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/runtimeguard"
)

// unrequestedFor is how long a pod runs without a CPU request before that is a problem.
const unrequestedFor = time.Hour

// A Group is a container with the same problem in one or more pods.
type Group struct {
	Container string
	Pods      int
	First     string // name of the first pod
	Request   int64  // CPU request in that pod, in millicores

	throttling *Throttling // in that pod, if it is the problem
}

// Groups are containers, sorted by name, at most mostGroups.
type Groups []Group

// add counts a pod with the problem in a container.
func (g *Groups) add(p *cluster.Pod, c *cluster.Container, t *Throttling) {
	at, found := slices.BinarySearchFunc(*g, c.Name, func(e Group, name string) int { return strings.Compare(e.Container, name) })
	if !found && len(*g) == mostGroups {
		return
	}
	if !found {
		*g = slices.Insert(*g, at, Group{Container: c.Name, First: p.Name, Request: requestOf(c), throttling: t})
	}
	(*g)[at].Pods++
}

// groupsOf returns the containers of live pods that have a problem.
func groupsOf(pods []*cluster.Pod, hasProblem func(p *cluster.Pod, c *cluster.Container) bool) Groups {
	var out Groups
	for _, p := range pods {
		for i := range p.Containers {
			if c := &p.Containers[i]; p.Live() && hasProblem(p, c) {
				out.add(p, c, nil)
			}
		}
	}
	return out
}

// Unrequested returns the containers of live pods that have had no CPU request for an hour. The requests of a pod as a whole count for its
// containers.
func Unrequested(pods []*cluster.Pod, now time.Time) Groups {
	return groupsOf(pods, func(p *cluster.Pod, c *cluster.Container) bool {
		started := startOf(p, nil)
		if p.Phase != cluster.Running || started.IsZero() || now.Sub(started) < unrequestedFor || p.PodLevel != nil && p.PodLevel.Requests.Amount(cluster.CPU) > 0 {
			return false
		}
		return c.Role != cluster.Init && requestOf(c) == 0 && c.Requests.Amount(cluster.CPU) <= 0
	})
}

// WithoutRequest returns the finding for containers without a CPU request.
func WithoutRequest(missing Groups, s *Situation) Finding {
	return join(cluster.Each(missing, func(g *Group) opinion {
		reason, rank := NotApplied, 0
		if !s.Autoscaler.Policy(g.Container).Controls().Has(cluster.CPU) {
			reason, rank = NotControlled, 1
		}
		return opinion{Finding{reason, fmt.Sprintf(
			"Container %s has had no CPU request for at least an hour in %s. The scheduler counts no CPU for it, so it takes CPU on which the requests of other pods rely. %s",
			g.Container, where(g.Pods, g.First), s.notApplied(g.Container, 0))}, rank, 0}
	}))
}

// Misread returns the containers with a JVM whose running CPU request is in a range that a JVM may take for "no request was set". Those with
// a CPU limit or a set number of processors are not among them.
func Misread(pods []*cluster.Pod) Groups {
	return groupsOf(pods, func(p *cluster.Pod, c *cluster.Container) bool {
		r := p.Runtime(c)
		if r == nil || r.Kind != cluster.JVM || r.CPUCountSet || p.PodLevel != nil && p.PodLevel.Limits.Amount(cluster.CPU) > 0 {
			return false
		}
		_, misread := runtimeguard.Band(requestOf(c))
		return misread && limitOf(c) <= 0
	})
}

// AllCores returns the finding for containers that Misread returns. guarded is true if podfit keeps requests out of these ranges.
func AllCores(misread Groups, guarded bool) Finding {
	return join(cluster.Each(misread, func(g *Group) opinion {
		band, _ := runtimeguard.Band(g.Request)
		remedy := fmt.Sprintf("Set -XX:ActiveProcessorCount (for example in JAVA_TOOL_OPTIONS), or a request below %dm or above %dm, "+
			"or the annotation podfit.dev/runtime-guards: cpu on this VPA.", band.From, band.To)
		if guarded {
			remedy = "The runtime guards of podfit change the request at the next update of the pod. To be independent of the request, set -XX:ActiveProcessorCount."
		}
		return opinion{Finding{RequestInBand, fmt.Sprintf("Container %s runs a JVM with a CPU request of %dm and no CPU limit in %s. "+
			"A JVM that reads CPU shares (OpenJDK before 11.0.17, 17.0.5 and 18.0.2, or with -XX:+UseContainerCpuShares) takes requests from %dm to %dm for no request, "+
			"depending on the cgroup version of the node, and then uses all cores of the node. Newer ones do so whatever the request is. %s",
			g.Container, g.Request, where(g.Pods, g.First), band.From, band.To, remedy)}, 0, 0}
	}))
}

// The ranks of the causes of UsageAboveRequest: that of the container with the highest one is the reason of the condition.
const (
	rankStarting = iota
	rankSpare
	rankOneReplica
	rankTooLow
)

// AboveRequest returns the finding for containers whose usage is above their request, and those of a profile for full nodes that lack CPU. nodes are those
// whose usage is known.
//
// The causes count in this order: the container is starting; only few of its replicas use that much; the request is too low, because the
// recommendation is above it, or the usage is at the limit; nobody is harmed, because the nodes have spare CPU. Without spare CPU the
// request counts as too low.
func AboveRequest(excesses []Excess, s *Situation, nodes map[string]NodeUse) (Finding, []Lack) {
	var lacks []Lack
	opinions := cluster.Each(excesses, func(e *Excess) opinion {
		out := e.opinion(s, nodes)
		if out.lacking > 0 {
			lacks = append(lacks, Lack{Workload: s.Autoscaler.Target, Container: e.Container, Millicores: out.lacking})
		}
		return out
	})
	return join(opinions), lacks
}

func (e *Excess) opinion(s *Situation, nodes map[string]NodeUse) opinion {
	text := fmt.Sprintf("Container %s has used more CPU than its request for at least 30 minutes: about %s of %s in %s. ",
		e.Container, cpu(e.Usage), cpu(e.Request), where(len(e.Pods), e.Worst.Name))
	switch {
	case e.Cause == Starting:
		return opinion{Finding{Starting, text + "It started less than 45 minutes ago, so the cause may be its start. If each start needs this much CPU, set startupBoost in this VPA."}, rankStarting, 0}
	case e.Cause == OneReplica:
		return opinion{Finding{OneReplica, text + fmt.Sprintf("The median of its replicas is about %s, so the load is not balanced or the process is stuck in a loop. Examine the pod, or delete it.", cpu(e.Median))}, rankOneReplica, 0}
	case !e.isNeeded(s) && !slices.ContainsFunc(e.Pods, func(p *cluster.Pod) bool { return !nodes[p.Node].hasSpare() }):
		return opinion{Finding{NodeHasSpare, text + "No other pod is harmed, because its node has spare CPU. " + s.notApplied(e.Container, e.Request)}, rankSpare, 0}
	}
	lacking := e.lacking(s, nodes[e.Worst.Node])
	if lacking > 0 {
		text += fmt.Sprintf("While all pods of its node need CPU, it gets about %s less than that. ", cpu(lacking))
	}
	return opinion{Finding{RequestTooLow, text + s.notApplied(e.Container, e.Request)}, rankTooLow, lacking}
}

// lacking returns how much less CPU than it uses the worst pod gets, in millicores, while all pods of its node use what their requests give them: with a
// profile for full nodes, whose requests are below peaks, and without spare CPU on the node. Otherwise it is 0.
func (e *Excess) lacking(s *Situation, node NodeUse) int64 {
	if !s.Packs || node.requested <= 0 || node.hasSpare() {
		return 0
	}
	share := float64(e.Request) / node.requested * node.allocatable
	return max(e.Usage-int64(share), 0)
}

// isNeeded reports whether a higher request is recommended, or the container uses nearly all of its limit.
func (e *Excess) isNeeded(s *Situation) bool {
	wanted, _, known := s.target(e.Container)
	if known && wanted > e.Request {
		return true
	}
	limit := limitOf(e.Worst.Container(e.Container))
	return limit > 0 && float64(e.Usage) >= atLimit*float64(limit)
}

// A Lack is the CPU that a container of a workload would lack on a busy node.
type Lack struct {
	Workload   cluster.Workload
	Container  string
	Millicores int64
}

// maxLacks is the maximum number of containers that MostLacking returns.
const maxLacks = 10

// MostLacking returns the containers that would lack most CPU, the first ones of a sorted list.
func MostLacking(all []Lack) []Lack {
	sorted := slices.SortedFunc(slices.Values(all), func(a, b Lack) int {
		return cmp.Or(cmp.Compare(b.Millicores, a.Millicores), a.Workload.Compare(b.Workload), strings.Compare(a.Container, b.Container))
	})
	return sorted[:min(len(sorted), maxLacks)]
}

// spareBelow is the used share of the allocatable CPU of a node below which it has spare CPU.
const spareBelow = 0.5

// A NodeUse is the CPU of a node, in millicores. The zero value is a node of which nothing is known.
type NodeUse struct{ allocatable, requested, used float64 }

func (n NodeUse) hasSpare() bool { return n.used < spareBelow*n.allocatable }

// Uses returns the use of nodes by their names. pods are all pods of the cluster, and used has their usage in millicores. A pod without usage counts
// with its request, and a node without any usage is not in the result.
func Uses(nodes []cluster.Node, pods []*cluster.Pod, used map[cluster.Key]int64) map[string]NodeUse {
	uses := make(map[string]NodeUse, len(nodes))
	for i := range nodes {
		uses[nodes[i].Name] = NodeUse{allocatable: float64(nodes[i].Allocatable.Amount(cluster.CPU))}
	}
	measured := make(map[string]bool, len(nodes))
	for _, p := range pods {
		use, known := uses[p.Node]
		if !known || p.HasFinished() {
			continue
		}
		requested := p.Requested().Amount(cluster.CPU)
		v, hasUsage := used[p.Key]
		if hasUsage {
			measured[p.Node] = true
		} else {
			v = requested
		}
		use.used += float64(v)
		use.requested += float64(requested)
		uses[p.Node] = use
	}
	maps.DeleteFunc(uses, func(node string, _ NodeUse) bool { return !measured[node] })
	return uses
}
