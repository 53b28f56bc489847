// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package watcher

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/edge/kube/kubetest"
)

func quotaFrom(t *testing.T, text string) *corev1.ResourceQuota {
	t.Helper()
	q := new(corev1.ResourceQuota)
	if err := yaml.UnmarshalStrict([]byte(text), q); err != nil {
		t.Fatal(err)
	}
	return q
}

func TestProjectQuota_whatIsLeft(t *testing.T) {
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
		"hard minus used, both names of requests": {
			`status: {hard: {cpu: "2", requests.cpu: 1500m, limits.memory: 1Gi}, used: {cpu: "1", requests.cpu: "1", limits.memory: 0}}`,
			cluster.Quota{Name: "q", Left: cluster.PodResources{Requests: cpu(500), Limits: memory(1 << 30)}},
		},
		"more is used than allowed, and in fractions": {
			`status: {hard: {requests.memory: 0.1Gi, limits.cpu: "1"}, used: {requests.memory: 0, limits.cpu: 1500m}}`,
			cluster.Quota{Name: "q", Left: cluster.PodResources{Requests: memory(107374182), Limits: cpu(-500)}},
		},
		"only the status counts": {
			`{spec: {hard: {cpu: "2"}}, status: {hard: {memory: 1Gi}, used: {memory: 1Gi}}}`,
			cluster.Quota{Name: "q", Left: cluster.PodResources{Requests: memory(0)}},
		},
		"not counted yet": {
			`status: {hard: {cpu: "2"}}`,
			cluster.Quota{Name: "q", Left: cluster.PodResources{Requests: cpu(2000)}, NotCounted: true},
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
		"classes": {
			selector(`{scopeName: PriorityClass, operator: In, values: [a, b]}, {scopeName: PriorityClass, operator: NotIn, values: [c]},
				{scopeName: PriorityClass, operator: DoesNotExist}, {scopeName: PriorityClass, operator: New}`),
			scopes(cluster.QuotaScope{Kind: cluster.PriorityClassIn, Classes: []string{"a", "b"}},
				cluster.QuotaScope{Kind: cluster.PriorityClassNotIn, Classes: []string{"c"}},
				cluster.QuotaScope{Kind: cluster.PriorityClassDoesNotExist}, cluster.QuotaScope{}),
		},
		"more names than are read": {
			selector(`{scopeName: PriorityClass, operator: In, values: [` + strings.Repeat("x", 2000) + `]}`), scopes(cluster.QuotaScope{}),
		},
		"more scopes than are read": {
			`spec: {scopes: [` + strings.Repeat("BestEffort,", 20) + `]}`, scopes(cluster.QuotaScope{}),
		},
	} {
		t.Run(name, func(t *testing.T) {
			q := quotaFrom(t, c.quota)
			q.Name = "q"
			if diff := cmp.Diff(c.want, projectQuota(q)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

const quotasPath = "/api/v1/resourcequotas"

func quotaJSON(name, used string) string {
	return `{"metadata":{"namespace":"shop","name":"` + name + `"},"status":{"hard":{"cpu":"4"},"used":{"cpu":"` + used + `"}}}`
}

func TestWorld_quotas_followTheWatch(t *testing.T) {
	f := kubetest.NewFakeAPI(t)
	f.ApplyShop()
	f.Apply(quotasPath, quotaJSON("a", "1"))
	w := startWorld(t, f, Options{Quotas: true})
	left := func() (out []int64) {
		if qs := w.Quotas("shop"); qs != nil {
			for _, q := range qs.List {
				out = append(out, q.Left.Requests.CPU)
			}
		}
		return out
	}
	if got := left(); !slices.Equal(got, []int64{3000}) {
		t.Errorf("left %v", got)
	}
	if w.Quotas("other") != nil || len(w.quotaSets) > 1 {
		t.Error("a namespace without quotas has some, or is remembered")
	}
	f.Apply(quotasPath, quotaJSON("a", "2"))
	f.Apply(quotasPath, quotaJSON("b", "4"))
	kubetest.Eventually(t, "what is used is known", func() bool { return slices.Equal(left(), []int64{2000, 0}) })
}

func TestWorld_tooManyQuotas_areNotEvaluated(t *testing.T) {
	f := kubetest.NewFakeAPI(t)
	f.ApplyShop()
	for i := range cluster.MostQuotas + 1 {
		f.Apply(quotasPath, quotaJSON(fmt.Sprintf("q%d", i), "1"))
	}
	w := startWorld(t, f, Options{Quotas: true})
	if q := w.Quotas("shop"); q == nil || !q.TooMany || len(q.List) != 0 {
		t.Errorf("got %+v", q)
	}
}

// Upstream's roles give no right to ResourceQuotas. podfit starts all the same, and knows nothing of them.
func TestWorld_quotasMayNotBeRead_goesOnWithoutThem(t *testing.T) {
	f := kubetest.NewFakeAPI(t)
	f.ApplyShop()
	f.Apply(quotasPath, quotaJSON("a", "1"))
	f.Reply("GET "+quotasPath, 403, forbidden)
	var text logText
	w := startWorld(t, f, Options{Quotas: true, Log: slog.New(slog.NewTextHandler(&text, nil))})
	if !w.Synced() || w.Quotas("shop") != nil {
		t.Errorf("synced %t, quotas %+v", w.Synced(), w.Quotas("shop"))
	}
	kubetest.Eventually(t, "it is tried again", func() bool { return f.Refusals("GET "+quotasPath) > 2 })
	if n := strings.Count(text.String(), "goes on without\" resource=resourcequotas lost="); n != 1 {
		t.Errorf("it is said %d times:\n%s", n, text.String())
	}
	f.ForgetReply("GET " + quotasPath)
	kubetest.Eventually(t, "once there is the right, quotas are known", func() bool { return w.Quotas("shop") != nil })
}

func TestProjectPod_sizedAtAdmission_isMarked(t *testing.T) {
	for annotation, want := range map[string]bool{`vpaUpdates: Pod resources updated by web`: true, `other: a`: false} {
		p := podFrom(t, "metadata: {namespace: shop, name: web, annotations: {"+annotation+"}}\nspec: {containers: [{name: app}]}\n")
		if got := ProjectPod(p, nil).Sized; got != want {
			t.Errorf("%s: %t", annotation, got)
		}
	}
}
