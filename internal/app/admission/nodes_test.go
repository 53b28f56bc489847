// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"reflect"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/edge/kube/watcher"
)

// fakeNodes is the watched nodes.
type fakeNodes struct {
	nodes []cluster.Node
	reads int
}

func (f *fakeNodes) Nodes() []cluster.Node {
	f.reads++
	return f.nodes
}
func (f *fakeNodes) NewNodes() ([]cluster.NewNode, bool) { return nil, true }
func (f *fakeNodes) Daemons() []cluster.Daemon           { return nil }
func (f *fakeNodes) Selectors() []cluster.NodeSelector   { return nil }
func (f *fakeNodes) Tolerations() []cluster.Tolerations  { return nil }

func TestNodeTable_newPod_getsTheSizesOfItsNodes(t *testing.T) {
	taint := []cluster.Taint{{Key: "gpu", Value: "yes", Effect: "NoSchedule"}}
	watch := &fakeNodes{nodes: []cluster.Node{
		{Name: "small", Allocatable: cluster.Amounts(4000, 8<<30), Labels: []string{"pool=a"}},
		{Name: "large", Allocatable: cluster.Amounts(8000, 32<<30), Labels: []string{"pool=b"}},
		{Name: "gpu", Allocatable: cluster.Amounts(16000, 64<<30), Taints: taint, Tainted: true},
	}}
	small, large, gpu := cluster.Amounts(4000, 8<<30), cluster.Amounts(8000, 32<<30), cluster.Amounts(16000, 64<<30)
	required := &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{}}}
	daemon := []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "DaemonSet", Name: "agent", Controller: new(true)}}
	for name, c := range map[string]struct {
		pod  corev1.Pod
		want []cluster.Resources
	}{
		"no restriction":         {corev1.Pod{}, []cluster.Resources{large}},
		"node selector":          {corev1.Pod{Spec: corev1.PodSpec{NodeSelector: map[string]string{"pool": "a"}}}, []cluster.Resources{small}},
		"affinity not evaluated": {corev1.Pod{Spec: corev1.PodSpec{NodeSelector: map[string]string{"pool": "a"}, Affinity: required}}, []cluster.Resources{large}},
		"required node affinity to labels": {corev1.Pod{Spec: corev1.PodSpec{Affinity: &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
				MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "pool", Operator: corev1.NodeSelectorOpNotIn, Values: []string{"b"}}},
			}}},
		}}}}, []cluster.Resources{small}},
		"toleration": {
			corev1.Pod{Spec: corev1.PodSpec{Tolerations: []corev1.Toleration{{Key: "gpu", Operator: corev1.TolerationOpExists}}}}, []cluster.Resources{gpu},
		},
		"too many tolerations": {corev1.Pod{Spec: corev1.PodSpec{Tolerations: make([]corev1.Toleration, 50)}}, []cluster.Resources{gpu}},
		"pod of a DaemonSet": {
			corev1.Pod{ObjectMeta: metav1.ObjectMeta{OwnerReferences: daemon}, Spec: corev1.PodSpec{NodeName: "small", Affinity: required}}, []cluster.Resources{small},
		},
		"pod of a DaemonSet without a node": {corev1.Pod{ObjectMeta: metav1.ObjectMeta{OwnerReferences: daemon}}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			table := &nodeTable{options: watcher.FleetOptions{Scale: true}, watch: watch}
			if got := table.Sizes(&c.pod).Largest; !reflect.DeepEqual(got, c.want) {
				t.Errorf("sizes %v, want %v", got, c.want)
			}
		})
	}
	if sizes := (&nodeTable{watch: watch}).Sizes(&corev1.Pod{}); sizes != nil {
		t.Errorf("sizes %v with --fit-nodes=false, want nil", sizes)
	}
}

func TestNodeTable_manyReviews_readTheNodesEveryFiveSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		watch := &fakeNodes{nodes: []cluster.Node{{Name: "a", Allocatable: cluster.Amounts(4000, 8<<30)}}}
		table := &nodeTable{options: watcher.FleetOptions{Scale: true}, watch: watch}
		for range 100 {
			table.Sizes(&corev1.Pod{})
		}
		if watch.reads != 1 {
			t.Errorf("nodes read %d times, want once", watch.reads)
		}
		watch.nodes = []cluster.Node{{Name: "a", Allocatable: cluster.Amounts(8000, 8<<30)}}
		time.Sleep(nodeTableAge + time.Millisecond)
		if got := table.Sizes(&corev1.Pod{}).Largest; len(got) != 1 || got[0].CPU != 8000 || watch.reads != 2 {
			t.Errorf("sizes %v after %d reads, want the new size after two", got, watch.reads)
		}
	})
}
