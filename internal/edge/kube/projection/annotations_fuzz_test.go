// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package projection

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/edge/kube"
)

// Records that podfit accepts can be written again, and are read as the same.
func FuzzScalePoints_anyAnnotation_acceptedOnesCanBeWritten(f *testing.F) {
	for _, s := range []string{
		`[{"resource":"cpu","request":"500m","percent":70,"set":60,"resets":1,"resetAt":"2026-03-02T12:00:00Z"}]`,
		`[{"resource":"memory","container":"app","request":"1.5Gi","percent":70,"set":60,"resetAt":"9999-12-31T23:59:59-01:00"}]`,
		`[{"resource":"cpu","request":"0.1m","percent":1,"set":2147483647,"resetAt":"0000-01-01T00:00:00+01:00"}]`,
		`[{"resource":"memory","request":"1E99","percent":1,"set":1}]`, "[null]", "null", "[]", "{",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, annotation string) {
		points := ScalePoints(annotation)
		text, err := ScalePointsAnnotation(points)
		if err != nil {
			t.Fatalf("an accepted record cannot be written: %v", err)
		}
		if len(points) == 0 {
			return
		}
		for _, p := range points {
			if p.Base < 1 || p.Base > kube.MostAmount || p.Percent < 1 || p.Set < 1 || p.Resets < 0 {
				t.Errorf("accepted %+v", p)
			}
		}
		if again := ScalePoints(text); len(text) <= maxScalePointBytes && !cmp.Equal(again, points) {
			t.Errorf("%s is read as %+v, want %+v", text, again, points)
		}
	})
}

// The sizes of nodes that can be added are never negative, whatever NodePools and node groups contain.
func FuzzNewNodes_anyObject_sizesAreValid(f *testing.F) {
	f.Add([]byte(`{"items":[{"spec":{"limits":{"cpu":"100","memory":"1Gi"},"template":{"spec":{"requirements":[{"key":"karpenter.k8s.aws/instance-memory","operator":"Lt","values":["4096"]}],"taints":[{"key":"a","effect":"NoSchedule"}]}}}}]}`), "3", "4", "16Gi", "a=b:NoSchedule, c:NoExecute,:,", "a=b,c")
	f.Add([]byte(`{"items":[null,{"spec":{"limits":{"cpu":"1E99"}}},7]}`), "9999999999999999999", "-1", "1E99", "=:", "=,==,\x00")
	f.Fuzz(func(t *testing.T, list []byte, most, cpu, memory, taints, labels string) {
		nodes, err := NodePools(list)
		if err != nil && len(nodes) != 0 {
			t.Errorf("nodes %+v and error %v", nodes, err)
		}
		m := machineDeployment{Metadata: metav1.ObjectMeta{Annotations: map[string]string{groupMaxSize: most, groupCPU: cpu, groupMemory: memory, groupTaints: taints, groupLabels: labels}}}
		group, ok := m.node()
		if ok {
			if !slices.IsSorted(group.Labels) || len(group.Labels) == 0 {
				t.Errorf("labels %q", group.Labels)
			}
			nodes = append(nodes, group)
		}
		for _, n := range nodes {
			for _, res := range cluster.All {
				if v, bounded := n.Size.Get(res); bounded && !n.Unsized && (v < 1 || v > kube.MostAmount) {
					t.Errorf("%s of a node is %d", res, v)
				}
				if n.More < 0 || n.More > 100_000 || n.Room.Amount(res) > kube.MostAmount {
					t.Errorf("the group of a node can grow by %+v", n.NodeGroup)
				}
			}
		}
		if len(nodes) > 0 && !json.Valid(list) && !ok {
			t.Error("nodes from invalid JSON")
		}
	})
}
