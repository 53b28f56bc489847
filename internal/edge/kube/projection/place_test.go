// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package projection

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"podfit.dev/podfit/internal/core/cluster"
)

func TestPod_nodeSelectorsAndAffinity_determinePlace(t *testing.T) {
	in := new(Interner)
	place := func(selector map[string]string, a *corev1.NodeAffinity) cluster.Place {
		p := &corev1.Pod{Spec: corev1.PodSpec{NodeSelector: selector, Affinity: &corev1.Affinity{NodeAffinity: a}}}
		return Pod(p, in).Place
	}
	small := place(map[string]string{"pool": "small", "arch": "arm64"}, nil)
	large := place(map[string]string{"pool": "large"}, &corev1.NodeAffinity{}) // an affinity that requires nothing
	again := place(map[string]string{"arch": "arm64", "pool": "small"}, nil)
	if small != cluster.Selected || large != cluster.Selected+1 || again != small {
		t.Errorf("places %d, %d and %d", small, large, again)
	}
	if diff := cmp.Diff([]cluster.NodeSelector{{Labels: []string{"arch=arm64", "pool=small"}}, {Labels: []string{"pool=large"}}}, in.Selectors()); diff != "" {
		t.Error(diff)
	}
	if got := place(nil, nil); got != cluster.Anywhere {
		t.Errorf("without a selector: %d", got)
	}
	required := &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: new(corev1.NodeSelector)}
	if got := place(map[string]string{"pool": "small"}, required); got != cluster.Somewhere {
		t.Errorf("with a required affinity: %d", got)
	}
	if got := Pod(&corev1.Pod{Spec: corev1.PodSpec{NodeSelector: map[string]string{"a": "b"}}}, nil).Place; got != cluster.Somewhere {
		t.Errorf("without an interner: %d", got)
	}
}

func TestNode_taintsAndLabels_areKept(t *testing.T) {
	tainted := func(taints ...corev1.Taint) cluster.Node {
		return Node(&corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: map[string]string{"pool": "small", "arch": "arm64"}},
			Spec:       corev1.NodeSpec{Taints: taints},
		}, nil)
	}
	node := func(effect corev1.TaintEffect) cluster.Node { return tainted(corev1.Taint{Key: "k", Effect: effect}) }
	if n := node(corev1.TaintEffectNoSchedule); !n.Tainted || !n.Matches(cluster.NodeSelector{Labels: []string{"arch=arm64", "pool=small"}}) || n.Matches(cluster.NodeSelector{Labels: []string{"pool=large"}}) {
		t.Errorf("NoSchedule: %+v", n)
	}
	if n := node(corev1.TaintEffectNoExecute); !n.Tainted {
		t.Errorf("NoExecute: %+v", n)
	}
	if n := node(corev1.TaintEffectPreferNoSchedule); n.Tainted {
		t.Errorf("PreferNoSchedule: %+v", n)
	}
	down := []corev1.Taint{ // set by the node controller on an unreachable node
		{Key: "node.kubernetes.io/unreachable", Effect: corev1.TaintEffectNoSchedule},
		{Key: "node.kubernetes.io/unreachable", Effect: corev1.TaintEffectNoExecute},
	}
	if n := tainted(down...); n.Tainted {
		t.Errorf("a node with only transient taints counts as tainted: %+v", n)
	}
	if n := tainted(append(down, corev1.Taint{Key: "k", Effect: corev1.TaintEffectNoSchedule})...); !n.Tainted {
		t.Errorf("a node with a permanent taint beside transient ones does not count as tainted: %+v", n)
	}
}

func TestTolerations_transientTaints_areOmitted(t *testing.T) {
	in := new(Interner)
	tolerance := func(ts ...corev1.Toleration) cluster.Tolerance {
		return Pod(&corev1.Pod{Spec: corev1.PodSpec{Tolerations: ts}}, in).Tolerance
	}
	common := corev1.Toleration{Key: "node.kubernetes.io/not-ready", Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute}
	gpu := corev1.Toleration{Key: "gpu", Value: "yes", Effect: corev1.TaintEffectNoSchedule}
	arm := corev1.Toleration{Key: "arch", Operator: corev1.TolerationOpExists}
	if got := tolerance(common); got != cluster.NoTaint {
		t.Errorf("default tolerations of every pod: %d", got)
	}
	first := tolerance(gpu, common)
	second := tolerance(arm, gpu)
	again := tolerance(gpu, arm)
	if first != cluster.FirstListed || second != cluster.FirstListed+1 || again != second {
		t.Errorf("tolerances %d, %d and %d", first, second, again)
	}
	want := []cluster.Tolerations{
		{{Key: "gpu", Value: "yes", Effect: "NoSchedule"}},
		{{Key: "arch", Exists: true}, {Key: "gpu", Value: "yes", Effect: "NoSchedule"}},
	}
	if diff := cmp.Diff(want, in.Tolerations()); diff != "" {
		t.Error(diff)
	}
	if got := tolerance(make([]corev1.Toleration, maxTolerations+1)...); got != cluster.AnyTaint {
		t.Errorf("too many tolerations: %d", got)
	}
	for i := range 1000 {
		tolerance(corev1.Toleration{Key: fmt.Sprint("k", i)})
	}
	const most = int(cluster.Unlisted - cluster.FirstListed)
	if n := len(in.Tolerations()); n != (most+1)/2 {
		t.Errorf("%d different lists of tolerations of one namespace are stored, want half of %d", n, most)
	}
	if got := tolerance(corev1.Toleration{Key: "one more"}); got != cluster.Unlisted {
		t.Errorf("tolerance when no more lists can be stored: %d", got)
	}
	other := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop"}, Spec: corev1.PodSpec{Tolerations: []corev1.Toleration{{Key: "one more"}}}}
	if got := Pod(other, in).Tolerance; got == cluster.Unlisted {
		t.Error("one namespace has used up the list for others")
	}
	for i := range 2000 {
		other.Namespace, other.Spec.Tolerations[0].Key = fmt.Sprint("ns", i), fmt.Sprint("key", i)
		Pod(other, in)
	}
	if n := len(in.Tolerations()); n > most {
		t.Errorf("%d different lists of tolerations are stored, want at most %d", n, most)
	}
}

func TestNode_permanentTaints_areKept(t *testing.T) {
	n := Node(&corev1.Node{Spec: corev1.NodeSpec{Taints: []corev1.Taint{
		{Key: "gpu", Value: "yes", Effect: corev1.TaintEffectNoSchedule},
		{Key: "soft", Effect: corev1.TaintEffectPreferNoSchedule},
		{Key: "node.kubernetes.io/unreachable", Effect: corev1.TaintEffectNoExecute},
	}}}, nil)
	if diff := cmp.Diff([]cluster.Taint{{Key: "gpu", Value: "yes", Effect: "NoSchedule"}}, n.Taints); diff != "" {
		t.Error(diff)
	}
}
