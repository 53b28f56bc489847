// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package radius limits the share of the requests of a namespace and of the cluster that is changed in an hour.
package radius

import (
	"maps"
	"math"
	"slices"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/decision"
	"podfit.dev/podfit/internal/core/ledger"
	"podfit.dev/podfit/internal/core/rollout"
)

// RequestedBy returns the requests of running pods by namespace.
func RequestedBy(pods []*cluster.Pod) map[string]cluster.Resources {
	out := map[string]cluster.Resources{}
	for _, p := range pods {
		if p.Live() {
			out[p.Namespace] = out[p.Namespace].Add(Running(p))
		}
	}
	return out
}

// Running returns the requests that a node has granted to a running pod, which its size limits. Other requests have no limit: with
// a pod that no node can hold, a tenant could make any share of the cluster small, or use it up.
func Running(p *cluster.Pod) cluster.Resources {
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

// Shares are the shares of the requests of a namespace and of the cluster that may be changed in an hour
// (--max-change-per-hour-namespace, --max-change-per-hour-cluster). 1 or more means no limit.
type Shares struct {
	NamespaceShare, ClusterShare float64
}

// LimitsRadius reports whether the share of requests that is changed in an hour is limited.
func (s Shares) LimitsRadius() bool { return s.NamespaceShare < 1 || s.ClusterShare < 1 }

// A Book counts what is changed in an hour, per namespace and in the cluster. Nil is without limit.
type Book struct {
	shares     Shares
	namespaces map[string]*rollout.Radius
	Cluster    rollout.Radius
	unknown    time.Time // until then, changes of the last hour are unknown; zero if all are known
}

// NewBook returns what was changed in the last hour; nil if that is not limited. requested are the requests of all live pods by namespace.
func NewBook(now time.Time, shares Shares, requested map[string]cluster.Resources, l *ledger.Ledger) *Book {
	if !shares.LimitsRadius() {
		return nil
	}
	out := &Book{
		shares: shares, namespaces: map[string]*rollout.Radius{}, Cluster: rollout.Radius{Share: shares.ClusterShare}, unknown: l.ChangesUnknownUntil(now),
	}
	for ns, amount := range requested {
		out.namespaces[ns] = &rollout.Radius{Share: shares.NamespaceShare, Total: amount}
		out.Cluster.Total = out.Cluster.Total.Add(amount)
	}
	for workload, list := range l.Changes() {
		if of := out.namespaces[workload.Namespace]; of != nil {
			of.Changes = append(of.Changes, rollout.Recent(list, now)...)
		}
	}
	for _, ns := range slices.Sorted(maps.Keys(out.namespaces)) {
		of := out.namespaces[ns]
		of.Changes = rollout.Capped(of.Changes, of.Total)
		out.Cluster.Changes = append(out.Cluster.Changes, of.Changes...)
	}
	return out
}

// Plan adds a decided change. It stays counted until the next pass, whatever its outcome is.
func (r *Book) Plan(p *cluster.Pod) { r.add(p, 1) }

// Withdraw removes a decided change that is not carried out, because the plan changed before its execution.
func (r *Book) Withdraw(p *cluster.Pod) { r.add(p, -1) }

func (r *Book) add(p *cluster.Pod, times int64) {
	if r == nil {
		return
	}
	size := Running(p)
	size.CPU *= times
	size.Memory *= times
	r.Cluster.Planned = r.Cluster.Planned.Add(size)
	if of := r.namespaces[p.Namespace]; of != nil {
		of.Planned = of.Planned.Add(size)
	}
}

// Exceeded returns why the change of a pod would exceed a share, and false if it does not. A pod that does not run does not count and does not wait.
func (r *Book) Exceeded(p *cluster.Pod) (decision.Reason, bool) {
	if r == nil || p.Phase != cluster.Running || p.Node == "" {
		return decision.Reason{}, false
	}
	if !r.unknown.IsZero() {
		return decision.Reason{Code: decision.BlastRadius, Until: r.unknown}, true
	}
	size := Running(p)
	for _, of := range []struct {
		name   string
		limit  *rollout.Radius
		active bool
	}{
		{"namespace " + p.Namespace, r.namespaces[p.Namespace], r.shares.NamespaceShare < 1},
		{"the cluster", &r.Cluster, r.shares.ClusterShare < 1},
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
