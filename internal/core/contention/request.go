// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package contention

import (
	"fmt"
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
}

// Groups are containers, sorted by name, at most mostGroups.
type Groups []Group

func (g *Groups) add(p *cluster.Pod, c *cluster.Container) {
	at, found := slices.BinarySearchFunc(*g, c.Name, func(e Group, name string) int { return strings.Compare(e.Container, name) })
	if !found && len(*g) == mostGroups {
		return
	}
	if !found {
		*g = slices.Insert(*g, at, Group{Container: c.Name, First: p.Name, Request: requestOf(c)})
	}
	(*g)[at].Pods++
}

// Unrequested returns the containers of live pods that have had no CPU request for an hour. The requests of a pod as a whole count for its
// containers.
func Unrequested(pods []*cluster.Pod, now time.Time) Groups {
	var out Groups
	for _, p := range pods {
		started := startOf(p, nil)
		if !p.Live() || p.Phase != cluster.Running || started.IsZero() || now.Sub(started) < unrequestedFor {
			continue
		}
		if p.PodLevel != nil && p.PodLevel.Requests.Amount(cluster.CPU) > 0 {
			continue
		}
		for i := range p.Containers {
			if c := &p.Containers[i]; c.Role != cluster.Init && requestOf(c) == 0 && c.Requests.Amount(cluster.CPU) <= 0 {
				out.add(p, c)
			}
		}
	}
	return out
}

// WithoutRequest returns the finding for containers without a CPU request.
func WithoutRequest(missing Groups, s *Situation) Finding {
	var out []opinion
	for i := range missing {
		g := &missing[i]
		reason, rank := NotApplied, 0
		if !s.Autoscaler.Policy(g.Container).Controls().Has(cluster.CPU) {
			reason, rank = NotControlled, 1
		}
		out = append(out, opinion{Finding{reason, fmt.Sprintf(
			"Container %s has had no CPU request for at least an hour in %s. The scheduler counts no CPU for it, so it takes CPU on which the requests of other pods rely. %s",
			g.Container, where(g.Pods, g.First), s.notApplied(g.Container, 0))}, rank})
	}
	return join(out)
}

// Misread returns the containers with a JVM whose running CPU request is in a range that a JVM may take for "no request was set". Those with
// a CPU limit or a set number of processors are not among them.
func Misread(pods []*cluster.Pod) Groups {
	var out Groups
	for _, p := range pods {
		if p.Runtimes == nil || !p.Live() || p.PodLevel != nil && p.PodLevel.Limits.Amount(cluster.CPU) > 0 {
			continue
		}
		for i := range p.Containers {
			c := &p.Containers[i]
			r := p.Runtime(c)
			if r == nil || r.Kind != cluster.JVM || r.CPUCountSet {
				continue
			}
			if _, in := runtimeguard.Band(requestOf(c)); in && limitOf(c) <= 0 {
				out.add(p, c)
			}
		}
	}
	return out
}

// AllCores returns the finding for containers that Misread returns. guarded is true if podfit keeps requests out of these ranges.
func AllCores(misread Groups, guarded bool) Finding {
	var out []opinion
	for i := range misread {
		g := &misread[i]
		band, _ := runtimeguard.Band(g.Request)
		remedy := fmt.Sprintf("Set -XX:ActiveProcessorCount (for example in JAVA_TOOL_OPTIONS), or a request below %dm or above %dm, "+
			"or the annotation podfit.dev/runtime-guards: cpu on this VPA.", band.From, band.To)
		if guarded {
			remedy = "The runtime guards of podfit change the request at the next update of the pod. To be independent of the request, set -XX:ActiveProcessorCount."
		}
		out = append(out, opinion{Finding{RequestInBand, fmt.Sprintf("Container %s runs a JVM with a CPU request of %dm and no CPU limit in %s. "+
			"A JVM that reads CPU shares (OpenJDK before 11.0.17, 17.0.5 and 18.0.2, or with -XX:+UseContainerCpuShares) takes requests from %dm to %dm for no request, "+
			"depending on the cgroup version of the node, and then uses all cores of the node. Newer ones do so whatever the request is. %s",
			g.Container, g.Request, where(g.Pods, g.First), band.From, band.To, remedy)}, 0})
	}
	return join(out)
}
