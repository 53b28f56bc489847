// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package projection

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"podfit.dev/podfit/internal/core/cluster"
)

func TestGroups_writtenAndRead_areTheSame(t *testing.T) {
	want := []cluster.GroupSize{{Role: "Follower_1", Target: cluster.Resources{}.Set(cluster.CPU, 30)}, {Role: "replica", Target: cluster.Amounts(31, 300<<20)}}
	list := WithGroups(corev1.ResourceList{"cpu": resource.MustParse("93m")}, want)
	if got := groups(list); !slices.Equal(got, want) {
		t.Errorf("%v from %v, want %v", got, list, want)
	}
	if got := groups(WithGroups(nil, want)); !slices.Equal(got, want) {
		t.Errorf("%v", got)
	}
	if WithGroups(nil, nil) != nil || groups(nil) != nil {
		t.Error("no groups are some")
	}
}

func TestGroups_quietPods_areListed(t *testing.T) {
	want := []cluster.GroupSize{{Role: cluster.Busy, Target: cluster.Amounts(50, 1<<30)}, {Role: cluster.Quiet, Target: cluster.Amounts(30, 1<<30), Pods: "5ab5bd6d-27d0-4f3c-9e1b-1f3a1c2b3d4e,7"}}
	if got := groups(WithGroups(nil, want)); !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	list := corev1.ResourceList{"cpu.role.podfit.dev/quiet": resource.MustParse("1"), "pod.role.podfit.dev/": resource.MustParse("1"), "pod.role.podfit.dev/a,b": resource.MustParse("1")}
	if got := groups(list); got[0].Pods != "" {
		t.Errorf("%v", got)
	}
	for i := range 100 {
		list[corev1.ResourceName("pod.role.podfit.dev/u"+strconv.Itoa(i))] = resource.MustParse("1")
	}
	if got := groups(list); len(strings.Split(got[0].Pods, ",")) != cluster.MaxListed {
		t.Errorf("%v", got)
	}
}

func TestGroups_hostileStatus_isBounded(t *testing.T) {
	list := corev1.ResourceList{
		"cpu.role.podfit.dev/negative": resource.MustParse("-1"), "cpu.role.podfit.dev/zero": resource.MustParse("0"),
		"cpu.role.podfit.dev/": resource.MustParse("1"), "gpu.role.podfit.dev/a": resource.MustParse("1"), ".role.podfit.dev/a": resource.MustParse("1"),
	}
	if got := groups(list); got != nil {
		t.Errorf("%v", got)
	}
	for i := range 100 {
		list[corev1.ResourceName("cpu.role.podfit.dev/r"+strconv.Itoa(i))] = resource.MustParse("1e30")
	}
	if got := groups(list); len(got) != cluster.MaxGroups || got[0].Target.CPU <= 0 {
		t.Errorf("%v", got)
	}
}

func TestLabelsOf_kindsOfControllers_labelsThatMayDiffer(t *testing.T) {
	p := new(corev1.Pod)
	p.Labels = map[string]string{"role": "leader", "app": "db", appsv1.StatefulSetPodNameLabel: "db-0", appsv1.ControllerRevisionHashLabelKey: "x", cluster.PodIndex: "0"}
	for kind, want := range map[string]string{
		"StatefulSet": "app=db,role=leader", "Cluster": "app=db,role=leader", "ReplicaSet": "", "DaemonSet": "", "Job": "", "ReplicationController": "", "": "",
	} {
		if got := labelsOf(p, &cluster.Pod{Controller: cluster.Workload{Kind: kind}}, new(Interner)); got != want {
			t.Errorf("%s: %q, want %q", kind, got, want)
		}
	}
	waits := podWithAffinity(corev1.NodeSelectorTerm{MatchFields: []corev1.NodeSelectorRequirement{{Key: metav1.ObjectNameField, Operator: corev1.NodeSelectorOpIn, Values: []string{"n1"}}}})
	if got := labelsOf(waits, &cluster.Pod{Controller: cluster.Workload{Kind: "DaemonSet"}}, nil); got != "podfit.dev/node-name=n1" {
		t.Errorf("a pod that waits for its node: %q", got)
	}
	if waits.Spec.NodeName = "n1"; labelsOf(waits, &cluster.Pod{Controller: cluster.Workload{Kind: "DaemonSet"}}, nil) != "" {
		t.Error("a pod with a node has a label")
	}
	many := maps.Clone(p.Labels)
	for i := range 40 {
		many[strings.Repeat("a", 60)+strconv.Itoa(i)] = "value"
	}
	p.Labels = many
	if got := labelsOf(p, &cluster.Pod{Controller: cluster.Workload{Kind: "StatefulSet"}}, nil); got != "" {
		t.Errorf("%d bytes of labels are kept", len(got))
	}
}
