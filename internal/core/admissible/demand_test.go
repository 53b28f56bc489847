// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package admissible_test

import (
	"testing"

	"podfit.dev/podfit/internal/core/admissible"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/policy"
)

func TestQuotaRefusal_newSizeOverQuota_ownSizeNot(t *testing.T) {
	running := cluster.Standing{Terminating: cluster.No, CrossNamespaceAffinity: cluster.No, PriorityClassKnown: true}
	requests := func(left cluster.Resources, scopes ...cluster.ScopeKind) cluster.Quota {
		q := cluster.Quota{Name: "q", Left: cluster.PodResources{Requests: left}}
		for _, s := range scopes {
			q.Scopes = append(q.Scopes, cluster.QuotaScope{Kind: s})
		}
		return q
	}
	bestEffort := cluster.Resources{}
	for name, c := range map[string]struct {
		own    cluster.Resources
		quotas []cluster.Quota
		want   admissible.RefusalKind
	}{
		"no quota":                           {own: cpu(100)},
		"as much as is left":                 {own: cpu(100), quotas: []cluster.Quota{requests(cpu(500))}},
		"more than is left":                  {own: cpu(100), quotas: []cluster.Quota{requests(cpu(499))}, want: admissible.OverQuota},
		"more than the second has left":      {own: cpu(100), quotas: []cluster.Quota{requests(cpu(900)), requests(cpu(499))}, want: admissible.OverQuota},
		"the own size is refused, too":       {own: cpu(100), quotas: []cluster.Quota{requests(cpu(99))}},
		"by another quota":                   {own: cpu(100), quotas: []cluster.Quota{requests(cpu(499)), requests(cpu(99))}},
		"another resource":                   {own: cpu(100), quotas: []cluster.Quota{requests(memory(5))}, want: admissible.NotRefused},
		"a quota for other pods":             {own: cpu(100), quotas: []cluster.Quota{requests(cpu(1), cluster.TerminatingScope)}},
		"a quota that may be for other pods": {own: cpu(100), quotas: []cluster.Quota{requests(cpu(1), cluster.UnreadableScope)}, want: admissible.OverQuota},
		"leaves the scope BestEffort": {
			own: bestEffort, quotas: []cluster.Quota{requests(cpu(1), cluster.NotBestEffortScope)}, want: admissible.OverQuota,
		},
		"leaves the scope BestEffort for one without a place": {
			own: bestEffort, quotas: []cluster.Quota{{Name: "q", BoundsPods: true, Scopes: []cluster.QuotaScope{{Kind: cluster.NotBestEffortScope}}}}, want: admissible.NoPodLeft,
		},
		"leaves the scope BestEffort for one that requires limits": {
			own: bestEffort, want: admissible.QuotaRequires, quotas: []cluster.Quota{{
				Name: "q", Left: cluster.PodResources{Limits: memory(1 << 30)}, Scopes: []cluster.QuotaScope{{Kind: cluster.NotBestEffortScope}},
			}},
		},
		"leaves the scope BestEffort for one without status": {
			own: bestEffort, want: admissible.QuotaNotCounted, quotas: []cluster.Quota{{
				Name: "q", NotCounted: true, Scopes: []cluster.QuotaScope{{Kind: cluster.NotBestEffortScope}},
			}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := &cluster.Pod{Containers: []cluster.Container{{Name: "app", Requests: c.own}}}
			l := admissible.Limits{Quotas: &cluster.Quotas{List: c.quotas}}
			fits := policy.Fit(advising(cpu(500)), l, p)
			if got := admissible.QuotaRefusal(l, p, running, fits); got.Kind != c.want || got.Refused() && got.String() == "" {
				t.Errorf("got %q: %s", got.Kind, got)
			}
		})
	}
	p := &cluster.Pod{Containers: []cluster.Container{{Name: "app", Requests: cpu(100)}}}
	l := admissible.Limits{Quotas: &cluster.Quotas{TooMany: true}}
	if got := admissible.QuotaRefusal(l, p, running, policy.Fit(advising(cpu(500)), l, p)); got.Kind != admissible.TooManyQuotas || got.Kind.OfLimitRange() {
		t.Errorf("too many quotas: %s", got)
	}
}

// Quotas count the overhead of a pod.
func TestQuotaRefusal_overhead_isCounted(t *testing.T) {
	p := &cluster.Pod{Containers: []cluster.Container{{Name: "app", Requests: cpu(100)}}}
	l := admissible.Limits{Quotas: &cluster.Quotas{List: []cluster.Quota{{Name: "q", Left: cluster.PodResources{Requests: cpu(520)}}}}}
	fits := policy.Fit(advising(cpu(500)), l, p)
	for overhead, refused := range map[int64]bool{20: false, 21: true} {
		if got := admissible.QuotaRefusal(l, p, cluster.Standing{Overhead: cpu(overhead)}, fits); got.Refused() != refused {
			t.Errorf("overhead %d: %s", overhead, got)
		}
	}
}
