// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"math"
	"time"

	"podfit.dev/podfit/internal/core/change"
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

// RequestedBy returns the requests of live pods by namespace.
func RequestedBy(pods []*cluster.Pod) map[string]cluster.Resources {
	out := map[string]cluster.Resources{}
	for _, p := range pods {
		if p.Live() {
			out[p.Namespace] = out[p.Namespace].Add(change.Total(p, nil))
		}
	}
	return out
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
		list = rollout.Recent(list, now)
		out.cluster.Changes = append(out.cluster.Changes, list...)
		if of := out.namespaces[workload.Namespace]; of != nil {
			of.Changes = append(of.Changes, list...)
		}
	}
	return out
}

// plan adds a decided change. It stays counted until the next pass, whatever its outcome is.
func (r *radius) plan(p *cluster.Pod) {
	if r == nil {
		return
	}
	size := change.Total(p, nil)
	r.cluster.Planned = r.cluster.Planned.Add(size)
	if of := r.namespaces[p.Namespace]; of != nil {
		of.Planned = of.Planned.Add(size)
	}
}

// overRadius blocks a change that would exceed the share of requests that may be changed in an hour. A pod with a container that was
// OOM-killed does not wait, and counts.
func (t *candidate) overRadius() (decision.Reason, bool) {
	r := t.pass.radius
	if r == nil || t.d.Wanted.Code == decision.OutOfMemory {
		return decision.Reason{}, false
	}
	if !r.unknown.IsZero() {
		return decision.Reason{Code: decision.BlastRadius, Until: r.unknown}, true
	}
	size := change.Total(t.d.Pod, nil)
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
	p.w.Ledger.RecordChange(p.now, d.Pod)
}
