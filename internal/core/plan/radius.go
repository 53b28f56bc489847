// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"maps"
	"math"
	"slices"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/decision"
	"podfit.dev/podfit/internal/core/rollout"
)

// A radius counts what is changed in an hour, per namespace and in the cluster.
type radius struct {
	namespaces map[string]*rollout.Radius
	cluster    rollout.Radius
	unknown    time.Time // until then, changes of the last hour are unknown; zero if all are known
}

// RequestedBy returns the requests of running pods by namespace.
func RequestedBy(pods []*cluster.Pod) map[string]cluster.Resources {
	out := map[string]cluster.Resources{}
	for _, p := range pods {
		if p.Live() {
			out[p.Namespace] = out[p.Namespace].Add(runningRequests(p))
		}
	}
	return out
}

// runningRequests returns the requests that a node has granted to a running pod, which its size limits. Other requests have no limit: with
// a pod that no node can hold, a tenant could make any share of the cluster small, or use it up.
func runningRequests(p *cluster.Pod) cluster.Resources {
	var sum cluster.Resources
	if p.Phase != cluster.Running || p.Node == "" {
		return sum
	}
	for i := range p.Containers {
		if c := &p.Containers[i]; c.Role != cluster.Init {
			requests, _ := c.Running()
			sum = sum.Add(requests)
		}
	}
	return sum
}

// LimitsRadius reports whether the share of requests that is changed in an hour is limited.
func (b *Budget) LimitsRadius() bool { return b.NamespaceShare < 1 || b.ClusterShare < 1 }

// newRadius returns what was changed in the last hour; nil if that is not limited.
func newRadius(now time.Time, w World, b Budget) *radius {
	if !b.LimitsRadius() {
		return nil
	}
	out := &radius{namespaces: map[string]*rollout.Radius{}, cluster: rollout.Radius{Share: b.ClusterShare}, unknown: w.Ledger.ChangesUnknownUntil(now)}
	for ns, amount := range w.Requested {
		out.namespaces[ns] = &rollout.Radius{Share: b.NamespaceShare, Total: amount}
		out.cluster.Total = out.cluster.Total.Add(amount)
	}
	for workload, list := range w.Ledger.Changes() {
		if of := out.namespaces[workload.Namespace]; of != nil {
			of.Changes = append(of.Changes, rollout.Recent(list, now)...)
		}
	}
	for _, ns := range slices.Sorted(maps.Keys(out.namespaces)) {
		of := out.namespaces[ns]
		of.Changes = rollout.Capped(of.Changes, of.Total)
		out.cluster.Changes = append(out.cluster.Changes, of.Changes...)
	}
	return out
}

// plan adds a decided change. It stays counted until the next pass, whatever its outcome is.
func (r *radius) plan(p *cluster.Pod) {
	if r == nil {
		return
	}
	r.add(p.Namespace, runningRequests(p))
}

// withdraw removes a decided change that is not carried out, because the plan changed before its execution.
func (r *radius) withdraw(p *cluster.Pod) {
	if r == nil {
		return
	}
	size := runningRequests(p)
	r.add(p.Namespace, cluster.Resources{CPU: -size.CPU, Memory: -size.Memory, Has: size.Has})
}

func (r *radius) add(namespace string, size cluster.Resources) {
	r.cluster.Planned = r.cluster.Planned.Add(size)
	if of := r.namespaces[namespace]; of != nil {
		of.Planned = of.Planned.Add(size)
	}
}

// inTurn returns the governed pods in the order in which decisions are made. If the share of the cluster is limited, the least recently served
// namespaces come first, so that the same namespaces do not use it up again and again.
func (s *pass) inTurn() []cluster.Governed {
	if s.b.ClusterShare >= 1 {
		return s.w.Governed
	}
	out := slices.Clone(s.w.Governed)
	slices.SortStableFunc(out, func(a, b cluster.Governed) int {
		return s.w.Ledger.Served(a.Autoscaler.Namespace).Compare(s.w.Ledger.Served(b.Autoscaler.Namespace))
	})
	return out
}

// overRadius blocks a change that would exceed the share of requests that may be changed in an hour. A pod with a container that was
// OOM-killed does not wait, and counts. A pod that does not run does not count and does not wait.
func (t *candidate) overRadius() (decision.Reason, bool) {
	r := t.pass.radius
	if r == nil || t.d.Wanted.Code == decision.OutOfMemory || t.isFailedCanary() || t.d.Pod.Phase != cluster.Running || t.d.Pod.Node == "" {
		return decision.Reason{}, false
	}
	if !r.unknown.IsZero() {
		return decision.Reason{Code: decision.BlastRadius, Until: r.unknown}, true
	}
	size := runningRequests(t.d.Pod)
	for _, of := range []struct {
		name   string
		limit  *rollout.Radius
		active bool
	}{
		{"namespace " + t.d.Pod.Namespace, r.namespaces[t.d.Pod.Namespace], t.b.NamespaceShare < 1},
		{"the cluster", &r.cluster, t.b.ClusterShare < 1},
	} {
		if of.limit == nil || !of.active {
			continue
		}
		if have, until, exceeded := of.limit.Exceeded(size); exceeded {
			return decision.Reason{Code: decision.BlastRadius, Have: have, Want: int(math.Round(of.limit.Share * 100)), Text: of.name, Until: until}, true
		}
	}
	return decision.Reason{}, false
}

// countChange records a change that was carried out, or may have been.
func (p *Pass) countChange(d decision.Decision) {
	if p.radius == nil {
		return
	}
	if size := runningRequests(d.Pod); size.CPU > 0 || size.Memory > 0 {
		p.w.Ledger.RecordChange(p.now, d.Pod, size)
	}
}
