// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package projection

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/edge/kube"
)

func quotaFrom(t *testing.T, text string) *corev1.ResourceQuota {
	t.Helper()
	q := new(corev1.ResourceQuota)
	if err := yaml.UnmarshalStrict([]byte(text), q); err != nil {
		t.Fatal(err)
	}
	return q
}

func TestQuota_objectFields_giveUnusedAmounts(t *testing.T) {
	cpu := func(v int64) cluster.Resources { return cluster.Resources{}.Set(cluster.CPU, v) }
	memory := func(v int64) cluster.Resources { return cluster.Resources{}.Set(cluster.Memory, v) }
	scopes := func(s ...cluster.QuotaScope) cluster.Quota { return cluster.Quota{Name: "q", Scopes: s} }
	selector := func(expression string) string {
		return "spec: {scopeSelector: {matchExpressions: [" + expression + "]}}"
	}
	for name, c := range map[string]struct {
		quota string
		want  cluster.Quota
	}{
		"hard minus used, with both names of CPU requests": {
			`status: {hard: {cpu: "2", requests.cpu: 1500m, limits.memory: 1Gi}, used: {cpu: "1", requests.cpu: "1", limits.memory: 0}}`,
			cluster.Quota{Name: "q", Left: cluster.PodResources{Requests: cpu(500), Limits: memory(1 << 30)}, Hard: cluster.PodResources{Requests: cpu(1500), Limits: memory(1 << 30)}},
		},
		"more used than allowed, fractions of bytes": {
			`status: {hard: {requests.memory: 0.1Gi, limits.cpu: "1"}, used: {requests.memory: 0, limits.cpu: 1500m}}`,
			cluster.Quota{Name: "q", Left: cluster.PodResources{Requests: memory(107374182), Limits: cpu(-500)}, Hard: cluster.PodResources{Requests: memory(107374182), Limits: cpu(1000)}},
		},
		"amounts that do not fit in int64": {
			`status: {hard: {cpu: "9223372036854775807", limits.cpu: 10P, memory: 1e19, pods: 1e19},
				used: {cpu: 0, limits.cpu: 0, memory: 1, pods: 1}}`,
			cluster.Quota{Name: "q", BoundsPods: true, PodsLeft: kube.MostAmount, Left: cluster.PodResources{
				Requests: cluster.Amounts(kube.MostAmount, kube.MostAmount), Limits: cpu(kube.MostAmount),
			}, Hard: cluster.PodResources{
				Requests: cluster.Amounts(kube.MostAmount, kube.MostAmount), Limits: cpu(kube.MostAmount),
			}},
		},
		"more used than fits in int64": {
			`status: {hard: {cpu: 1, memory: 1}, used: {cpu: 10P, memory: 1e19}}`,
			cluster.Quota{Name: "q", Left: cluster.PodResources{Requests: cluster.Amounts(-kube.MostAmount, -kube.MostAmount)}, Hard: cluster.PodResources{Requests: cluster.Amounts(1000, 1)}},
		},
		"hard of spec and status differ: the status is used": {
			`{spec: {hard: {cpu: "2"}}, status: {hard: {memory: 1Gi}, used: {memory: 1Gi}}}`,
			cluster.Quota{Name: "q", Left: cluster.PodResources{Requests: memory(0)}, Hard: cluster.PodResources{Requests: memory(1 << 30)}},
		},
		"usage is not calculated yet": {
			`status: {hard: {cpu: "2"}}`,
			cluster.Quota{Name: "q", Left: cluster.PodResources{Requests: cpu(2000)}, Hard: cluster.PodResources{Requests: cpu(2000)}, NotCounted: true},
		},
		"pods": {
			`{spec: {scopes: [NotBestEffort]}, status: {hard: {pods: 3}, used: {pods: 2}}}`,
			cluster.Quota{Name: "q", BoundsPods: true, PodsLeft: 1, Scopes: []cluster.QuotaScope{{Kind: cluster.NotBestEffortScope}}},
		},
		"scopes": {
			`spec: {scopes: [Terminating, NotTerminating, BestEffort, CrossNamespacePodAffinity, PriorityClass, VolumeAttributesClass, New]}`,
			scopes(cluster.QuotaScope{Kind: cluster.TerminatingScope}, cluster.QuotaScope{Kind: cluster.NotTerminatingScope},
				cluster.QuotaScope{Kind: cluster.BestEffortScope}, cluster.QuotaScope{Kind: cluster.CrossNamespaceAffinityScope},
				cluster.QuotaScope{Kind: cluster.PriorityClassExists}, cluster.QuotaScope{Kind: cluster.NoPodScope}, cluster.QuotaScope{}),
		},
		"priority classes": {
			selector(`{scopeName: PriorityClass, operator: In, values: [a, b]}, {scopeName: PriorityClass, operator: NotIn, values: [c]},
				{scopeName: PriorityClass, operator: DoesNotExist}, {scopeName: PriorityClass, operator: New}`),
			scopes(cluster.QuotaScope{Kind: cluster.PriorityClassIn, Classes: []string{"a", "b"}},
				cluster.QuotaScope{Kind: cluster.PriorityClassNotIn, Classes: []string{"c"}},
				cluster.QuotaScope{Kind: cluster.PriorityClassDoesNotExist}, cluster.QuotaScope{}),
		},
		"class names longer than the maximum": {
			selector(`{scopeName: PriorityClass, operator: In, values: [` + strings.Repeat("x", 2000) + `]}`), scopes(cluster.QuotaScope{}),
		},
		"too many scopes": {
			`spec: {scopes: [` + strings.Repeat("BestEffort,", 20) + `]}`, scopes(cluster.QuotaScope{}),
		},
	} {
		t.Run(name, func(t *testing.T) {
			q := quotaFrom(t, c.quota)
			q.Name = "q"
			if diff := cmp.Diff(c.want, Quota(q)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// A tenant may have many quotas that count objects only. They do not bound sizes, so they do not count towards the limit.
func TestMergeQuotas_manyQuotasOfObjects_areIgnored(t *testing.T) {
	all := make([]cluster.Quota, cluster.MostQuotas+50)
	bound := cluster.Quota{Name: "compute"}
	bound.Left.Requests = cluster.Resources{}.Set(cluster.CPU, 500)
	if got := MergeQuotas(append(all, bound)); got == nil || got.TooMany || len(got.List) != 1 {
		t.Errorf("got %+v, want the quota compute only", got)
	}
	if got := MergeQuotas(make([]cluster.Quota, cluster.MostQuotas+50)); got != nil {
		t.Errorf("got %+v, want nil", got)
	}
}
