// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package projection

import (
	"reflect"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"podfit.dev/podfit/internal/core/cluster"
)

func TestNodePools_requirementsAndLimits_boundTheSize(t *testing.T) {
	cpu := func(cores int64) cluster.Resources { return cluster.Resources{}.Set(cluster.CPU, cores*1000) }
	const requirements = `{"spec":{"template":{"spec":{"requirements":[`
	for name, c := range map[string]struct {
		pool string
		want []cluster.NewNode
	}{
		"no bounds":       {`{"spec":{}}`, []cluster.NewNode{{}}},
		"limits":          {`{"spec":{"limits":{"cpu":"100","memory":"400Gi"}}}`, []cluster.NewNode{{Size: cluster.Amounts(100_000, 400<<30)}}},
		"limits of zero":  {`{"spec":{"limits":{"cpu":"0"}}}`, nil},
		"being deleted":   {`{"metadata":{"deletionTimestamp":"2026-01-01T00:00:00Z"}}`, nil},
		"listed sizes":    {requirements + `{"key":"karpenter.k8s.aws/instance-cpu","operator":"In","values":["4","16","8"]}]}}}}`, []cluster.NewNode{{Size: cpu(16)}}},
		"less than":       {requirements + `{"key":"karpenter.k8s.aws/instance-cpu","operator":"Lt","values":["17"]}]}}}}`, []cluster.NewNode{{Size: cpu(16)}}},
		"greater than":    {requirements + `{"key":"karpenter.k8s.aws/instance-cpu","operator":"Gt","values":["17"]}]}}}}`, []cluster.NewNode{{}}},
		"not a number":    {requirements + `{"key":"karpenter.k8s.aws/instance-cpu","operator":"In","values":["many"]}]}}}}`, []cluster.NewNode{{}}},
		"memory in MiB":   {requirements + `{"key":"karpenter.azure.com/sku-memory","operator":"Lt","values":["2"]}]}}}}`, []cluster.NewNode{{Size: cluster.Resources{}.Set(cluster.Memory, 1<<20)}}},
		"largest int64":   {requirements + `{"key":"karpenter.k8s.aws/instance-memory","operator":"In","values":["9223372036854775807"]}]}}}}`, nil},
		"other keys":      {requirements + `{"key":"kubernetes.io/arch","operator":"In","values":["1"]}]}}}}`, []cluster.NewNode{{}}},
		"both, and taint": {`{"spec":{"limits":{"cpu":"8"},"template":{"spec":{"taints":[{"key":"gpu","effect":"NoSchedule"}],"requirements":[{"key":"karpenter.k8s.aws/instance-cpu","operator":"In","values":["16"]}]}}}}`, []cluster.NewNode{{Size: cpu(8), Taints: []cluster.Taint{{Key: "gpu", Effect: "NoSchedule"}}}}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := NodePools([]byte(`{"items":[` + c.pool + `]}`))
			if name == "largest int64" {
				if err != nil || len(got) != 1 || got[0].Size.Memory <= 0 {
					t.Errorf("got %+v (%v), want a large positive size", got, err)
				}
				return
			}
			if err != nil || !reflect.DeepEqual(got, c.want) {
				t.Errorf("got %+v (%v), want %+v", got, err, c.want)
			}
		})
	}
	garbage := `{"items":[{"spec":{"limits":{"cpu":"many"}}},3,{"spec":{"limits":{"cpu":"1e18","memory":"-1"}}},{"spec":{"limits":{"cpu":"8"}}}]}`
	if got, err := NodePools([]byte(garbage)); err != nil || len(got) != 1 || got[0].Size != cpu(8) {
		t.Errorf("garbage beside a pool: got %+v (%v), want the pool", got, err)
	}
	if got, err := NodePools([]byte(`{"items":3}`)); err == nil {
		t.Errorf("got %+v of an invalid list, want an error", got)
	}
}

func TestNodeGroup_annotations_describeTheNode(t *testing.T) {
	all := func() map[string]string {
		return map[string]string{groupMaxSize: "5", groupCPU: "8", groupMemory: "32Gi", groupTaints: "gpu=yes:NoSchedule, soft:PreferNoSchedule"}
	}
	without := func(key, value string) map[string]string {
		a := all()
		a[key] = value
		return a
	}
	for name, c := range map[string]struct {
		annotations map[string]string
		want        bool
	}{
		"all":                 {all(), true},
		"none":                {nil, false},
		"not autoscaled":      {without(groupMaxSize, "0"), false},
		"no capacity":         {without(groupCPU, ""), false},
		"capacity of zero":    {without(groupMemory, "0"), false},
		"capacity is no size": {without(groupMemory, "much"), false},
	} {
		got, ok := NodeGroup(&metav1.ObjectMeta{Annotations: c.annotations})
		want := cluster.NewNode{Size: cluster.Amounts(8000, 32<<30), Taints: []cluster.Taint{{Key: "gpu", Value: "yes", Effect: "NoSchedule"}}}
		if ok != c.want || ok && !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %+v, %t", name, got, ok)
		}
	}
}
