// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package projection

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "podfit.dev/podfit/api/v1"
)

// Whoever may create events, HPAs or MachineDeployments can write a quantity that takes minutes to parse. This test takes as long if one is parsed.
func TestAnnotations_hugeExponent_isNotParsed(t *testing.T) {
	const huge = "1e-999999999"
	e := &corev1.Event{Reason: "Evicted", InvolvedObject: corev1.ObjectReference{Kind: "Pod", Namespace: "shop", Name: "web"}}
	e.Annotations = map[string]string{v1.AnnotationOffendingContainers: "app", v1.AnnotationOffendingContainersUsage: huge, v1.AnnotationStarvedResource: "memory"}
	if got := MemoryEvictions(e); got != nil {
		t.Errorf("evictions %v", got)
	}
	if got := ScalePoints(`[{"resource":"cpu","request":"` + huge + `","percent":50,"set":50}]`); got != nil {
		t.Errorf("scale points %v", got)
	}
	group := machineDeployment{Metadata: metav1.ObjectMeta{Annotations: map[string]string{groupMaxSize: "1", groupCPU: huge, groupMemory: "1Gi"}}}
	if n, _ := group.node(); !n.Unsized {
		t.Error("a node group with such a size was read")
	}
}
