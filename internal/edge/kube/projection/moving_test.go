// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package projection

import (
	"strings"
	"testing"

	v1 "podfit.dev/podfit/api/v1"
	"podfit.dev/podfit/test/kubetest"
)

func TestPod_whatTiesItToItsNode_isKept(t *testing.T) {
	type facts struct{ localData, ownVolume, tied, overhead bool }
	for text, want := range map[string]facts{
		`containers: [{name: app}]`: {},
		`containers: [{name: app}], volumes: [{name: a, configMap: {name: a}}, {name: b, secret: {secretName: b}}, {name: c, projected: {}}]`:                            {},
		`containers: [{name: app}], volumes: [{name: a, emptyDir: {medium: Memory}}]`:                                                                                    {},
		`containers: [{name: app}], volumes: [{name: a, emptyDir: {}}]`:                                                                                                  {localData: true},
		`containers: [{name: app}], volumes: [{name: a, hostPath: {path: /var}}]`:                                                                                        {localData: true, ownVolume: true},
		`containers: [{name: app}], volumes: [{name: a, persistentVolumeClaim: {claimName: a}}]`:                                                                         {tied: true},
		`containers: [{name: app}], volumes: [{name: a, ephemeral: {volumeClaimTemplate: {spec: {}}}}]`:                                                                  {localData: true, ownVolume: true, tied: true},
		`containers: [{name: app}], volumes: [{name: a, csi: {driver: scratch}}]`:                                                                                        {localData: true, ownVolume: true},
		`containers: [{name: app}], volumes: [{name: a, csi: {driver: secrets, readOnly: true}}]`:                                                                        {},
		`containers: [{name: app}], topologySpreadConstraints: [{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: DoNotSchedule}]`:                                      {tied: true},
		`containers: [{name: app}], topologySpreadConstraints: [{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: ScheduleAnyway}]`:                                     {},
		`containers: [{name: app}], affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: host}]}}`:                                {tied: true},
		`containers: [{name: app}], affinity: {podAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: host}]}}`:                                    {tied: true},
		`containers: [{name: app}], affinity: {podAntiAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 1, podAffinityTerm: {topologyKey: host}}]}}`: {},
		`containers: [{name: app, ports: [{containerPort: 80, hostPort: 80}]}]`:                                                                                          {tied: true},
		`containers: [{name: app, ports: [{containerPort: 80}]}]`:                                                                                                        {},
		`containers: [{name: app}], hostNetwork: true`:                                                                                                                   {tied: true},
		`containers: [{name: app, resources: {limits: {nvidia.com/gpu: 1}}}]`:                                                                                            {tied: true},
		`containers: [{name: app}], initContainers: [{name: first, resources: {requests: {ephemeral-storage: 1Gi}}}]`:                                                    {tied: true},
		`containers: [{name: app}], resourceClaims: [{name: a}]`:                                                                                                         {tied: true},
		`containers: [{name: app, resources: {requests: {cpu: 1, memory: 1Gi}, limits: {cpu: 1}}}], overhead: {cpu: 250m}`:                                               {overhead: true},
	} {
		p := Pod(kubetest.PodFrom(t, "metadata: {namespace: shop, name: web}\nspec: {"+text+"}\n"), nil)
		if got := (facts{p.LocalData, p.OwnVolume, p.Tied, p.Overhead}); got != want {
			t.Errorf("%s: got %+v, want %+v", text, got, want)
		}
	}
}

func TestPod_priorityAndDeletionCost_areKept(t *testing.T) {
	for annotation, want := range map[string]int32{`"-7"`: -7, `"many"`: 0, `"99999999999"`: 0} {
		p := Pod(kubetest.PodFrom(t, "metadata: {namespace: shop, name: web, annotations: {controller.kubernetes.io/pod-deletion-cost: "+annotation+"}}\nspec: {priority: 1000, containers: [{name: app}]}\n"), nil)
		if p.Priority != 1000 || p.DeletionCost != want {
			t.Errorf("%s: priority %d, deletion cost %d", annotation, p.Priority, p.DeletionCost)
		}
	}
}

func TestPod_annotationsAgainstEviction_areKept(t *testing.T) {
	const karpenter, clusterAutoscaler = "karpenter.sh/do-not-disrupt: ", "cluster-autoscaler.kubernetes.io/safe-to-evict: "
	for annotations, want := range map[string]string{
		karpenter + `"true"`:                                             karpenter + "true",
		clusterAutoscaler + `"false"`:                                    clusterAutoscaler + "false",
		clusterAutoscaler + `"true", ` + karpenter + `"true"`:            karpenter + "true",
		clusterAutoscaler + `"false", ` + karpenter + `"true"`:           clusterAutoscaler + "false",
		clusterAutoscaler + `"true", ` + karpenter + `"false", other: a`: "",
	} {
		p := Pod(kubetest.PodFrom(t, "metadata: {namespace: shop, name: web, annotations: {"+annotations+"}}\nspec: {containers: [{name: app}]}\n"), nil)
		if p.IsProtected() != (want != "") || want != "" && p.Marks.Protection != want {
			t.Errorf("%s: marks %+v", annotations, p.Marks)
		}
	}
}

func TestAutoscaler_annotationMakeRoom_isKeptAndBounded(t *testing.T) {
	o := new(v1.VerticalPodAutoscaler)
	if got := Autoscaler(o).MakeRoom; got != "" {
		t.Errorf("without the annotation: %q", got)
	}
	o.Annotations = map[string]string{v1.AnnotationMakeRoom: "move"}
	if got := Autoscaler(o).MakeRoom; got != "move" {
		t.Errorf("got %q", got)
	}
	o.Annotations[v1.AnnotationMakeRoom] = strings.Repeat("ä", 10_000)
	if got := Autoscaler(o).MakeRoom; len(got) > longestMakeRoom || got == "" {
		t.Errorf("%d bytes are kept", len(got))
	}
}
