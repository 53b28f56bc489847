// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"strings"
	"testing"

	"podfit.dev/podfit/internal/core/cluster"
)

func TestHandler_resourceScaledByHPA_keepsTheRequestAndLimitOfTheTemplate(t *testing.T) {
	pod := cart("", `"containers":[{"name":"app","resources":{"requests":{"cpu":"100m","memory":"100Mi"},"limits":{"cpu":"200m","memory":"200Mi"}}}]`)
	a := recommending("vpa", map[string]cluster.Resources{"app": cluster.Amounts(250, mi(300))})
	for res, other := range map[cluster.Resource]cluster.Resource{cluster.CPU: cluster.Memory, cluster.Memory: cluster.CPU} {
		scaled := a.WithHorizontal([]*cluster.HorizontalAutoscaler{{
			Key: cluster.Key{Namespace: "shop", Name: "cart"}, Target: a.Target, Utilization: []cluster.UtilizationTarget{{Resource: res, Percent: 80}},
		}})
		patch := strings.Join(patchLines(t, ask(t, handler(worldOf(scaled), Options{}), createRequest(pod)).Patch), "\n")
		if strings.Contains(patch, "/requests/"+res.String()) || strings.Contains(patch, "/limits/"+res.String()) {
			t.Errorf("%s is changed:\n%s", res, patch)
		}
		if !strings.Contains(patch, "/requests/"+other.String()) || !strings.Contains(patch, "/limits/"+other.String()) {
			t.Errorf("%s is not changed:\n%s", other, patch)
		}
	}
}

// A DaemonSet's controller names the node of a new pod by its affinity.
func TestHandler_podOfDaemonSet_hasTheSizeOfItsNode(t *testing.T) {
	a := recommending("vpa", map[string]cluster.Resources{"app": cluster.Amounts(250, mi(300))})
	a.Mode, a.Target.Kind = cluster.Recreate, "DaemonSet"
	a.NodeSizes = map[string]string{"n1": "4cpu-16Gi", "n2": "64cpu-256Gi"}
	a.Advice[0].Groups = []cluster.GroupSize{{Role: "4cpu-16Gi", Target: cluster.Amounts(30, mi(100))}}
	for node, want := range map[string][2]string{"n1": {`"30m"`, `"100Mi"`}, "n2": {`"250m"`, `"300Mi"`}, "unknown": {`"250m"`, `"300Mi"`}} {
		affinity := `"affinity":{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[` +
			`{"matchFields":[{"key":"metadata.name","operator":"In","values":["` + node + `"]}]}]}}},`
		pod := strings.Replace(cart("", affinity+`"containers":[{"name":"app"}]`), `"kind":"ReplicaSet"`, `"kind":"DaemonSet"`, 1)
		patch := strings.Join(patchLines(t, ask(t, handler(worldOf(a), Options{}), createRequest(pod)).Patch), "\n")
		if !strings.Contains(patch, want[0]) || !strings.Contains(patch, want[1]) {
			t.Errorf("%s:\n%s", node, patch)
		}
	}
}

// The ordinal of a pod of a StatefulSet is known before the pod exists, other roles are not.
func TestHandler_podIndexIsItsRole_newPodHasTheSizeOfItsGroup(t *testing.T) {
	a := recommending("vpa", map[string]cluster.Resources{"app": cluster.Amounts(250, mi(300))})
	a.Mode, a.Rules.RoleLabel = cluster.InPlaceOrRecreate, cluster.PodIndex
	a.Target.Kind = "StatefulSet"
	a.Advice[0].Groups = []cluster.GroupSize{{Role: "1", Target: cluster.Resources{}.Set(cluster.CPU, 30)}}
	for name, want := range map[string]string{"cart-1": `"30m"`, "cart-0": `"250m"`} {
		pod := strings.Replace(cart("", `"containers":[{"name":"app"}]`), `"metadata":{`, `"metadata":{"name":"`+name+`",`, 1)
		pod = strings.Replace(pod, `"kind":"ReplicaSet"`, `"kind":"StatefulSet"`, 1)
		patch := strings.Join(patchLines(t, ask(t, handler(worldOf(a), Options{}), createRequest(pod)).Patch), "\n")
		if !strings.Contains(patch, want) {
			t.Errorf("%s:\n%s", name, patch)
		}
	}
}
