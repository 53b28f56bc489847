// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package projection

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/criticality"
	"podfit.dev/podfit/internal/edge/kube"
	"podfit.dev/podfit/test/kubetest"
)

func TestPod_allFields_areKept(t *testing.T) {
	got := Pod(kubetest.PodFrom(t, kubetest.RichPod), new(Interner))
	want := &cluster.Pod{
		Key:        cluster.Key{Namespace: "shop", Name: "web-1-x"},
		UID:        "5d1c2c0e-7d1b-4f0e-9a51-1f5a3f1f8c11",
		Controller: cluster.Workload{Group: "apps", Kind: "ReplicaSet", Namespace: "shop", Name: "web-1"},
		Node:       "n1",
		Created:    kubetest.At(t, "2026-03-01T10:00:00Z"),
		Started:    kubetest.At(t, "2026-03-01T10:00:05Z"),
		Ready:      true,
		ReadySince: kubetest.At(t, "2026-03-01T10:01:00Z"),
		Phase:      cluster.Running,
		QoS:        cluster.Burstable,
		Deleting:   true,
		Marks:      &cluster.Marks{Observed: new("app, log")}, // without the sidecar: the pod was admitted when sidecars were not sized
		Resize:     &cluster.Resize{State: cluster.ResizeDeferred, Since: kubetest.At(t, "2026-03-01T12:00:00Z"), Message: "no room"},
		Containers: []cluster.Container{
			{
				Name: "app", Index: 0, Reported: true,
				Requests: cluster.Amounts(2, 1<<30), // 1.5 millicores, rounded up
				Limits:   cluster.Resources{}.Set(cluster.CPU, 2000),
				Applied:  &cluster.Applied{Requests: cluster.Amounts(1, 1<<30), Limits: cluster.Resources{}.Set(cluster.CPU, 2000)},
				Restarts: 3,
				Exit: &cluster.Exit{OOM: true, Resumed: kubetest.At(t, "2026-03-01T12:30:00Z").Unix(),
					Started: kubetest.At(t, "2026-03-01T12:00:00Z"), Finished: kubetest.At(t, "2026-03-01T12:29:00Z")},
				Restart: cluster.Of(cluster.Memory),
				Boosted: &cluster.Applied{Requests: cluster.Amounts(100, 1<<30), Limits: cluster.Resources{}.Set(cluster.CPU, 1000)},
			},
			{Name: "log", Index: 1, Reported: true, Requests: cluster.Resources{}.Set(cluster.CPU, 10)},
			{Name: "setup", Role: cluster.Init, Index: 0, Exit: &cluster.Exit{
				Started: kubetest.At(t, "2026-03-01T10:00:06Z"), Finished: kubetest.At(t, "2026-03-01T10:00:07Z"), Now: true}},
			{Name: "mesh", Role: cluster.Sidecar, Index: 1, Restarts: 1, Exit: &cluster.Exit{
				OOM: true, Finished: kubetest.At(t, "2026-03-01T10:00:09Z"), Now: true}},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestPod_missingOrInvalidFields_getDefaults(t *testing.T) {
	for name, tc := range map[string]struct {
		pod   string
		holds func(*cluster.Pod) bool
	}{
		"resize failed: the memory is in use": {
			`status: {conditions: [{type: PodResizeInProgress, status: "True", reason: Error, message: cannot decrease memory limits}]}`,
			func(p *cluster.Pod) bool {
				return p.Resize.State == cluster.ResizeError && p.Resize.Problem == cluster.MemoryInUse
			}},
		"resize failed: a pod-level limit is below the usage": {
			`status: {conditions: [{type: PodResizeInProgress, status: "True", reason: Error, message: pod memory limit below current usage}]}`,
			func(p *cluster.Pod) bool { return p.Resize.Problem == cluster.MemoryInUse }},
		"resize failed: another cause": {
			`status: {conditions: [{type: PodResizeInProgress, status: "True", reason: Error, message: cgroup not found}]}`,
			func(p *cluster.Pod) bool {
				return p.Resize.State == cluster.ResizeError && p.Resize.Problem == cluster.OtherProblem
			}},
		"empty object": {`{}`, func(p *cluster.Pod) bool {
			return p.Controller.IsZero() && p.Created.IsZero() && len(p.Containers) == 0 && p.Resize == nil
		}},
		"an owner without the field controller (W-21)": {
			`metadata: {ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: r}]}`,
			func(p *cluster.Pod) bool { return p.Controller.IsZero() }},
		"an owner that is not the controller": {
			`metadata: {ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: r, controller: false}]}`,
			func(p *cluster.Pod) bool { return p.Controller.IsZero() }},
		"neither a criticality nor a PriorityClass": {
			`metadata: {labels: {app: web}}`,
			func(p *cluster.Pod) bool { return p.Marks == nil }},
		"an empty criticality": {
			`metadata: {labels: {podfit.dev/criticality: ""}}`,
			func(p *cluster.Pod) bool { return p.Marks.Criticality == cluster.Criticality{Labelled: true} }},
		"a criticality and a PriorityClass": {
			`{metadata: {labels: {podfit.dev/criticality: "1.5"}}, spec: {priorityClassName: gold}}`,
			func(p *cluster.Pod) bool {
				return p.Marks.Criticality == cluster.Criticality{Labelled: true, Label: "1.5", PriorityClass: "gold"}
			}},
		"a criticality that is longer than a label can be": {
			`metadata: {labels: {podfit.dev/criticality: "2.` + strings.Repeat("0", 1000) + `"}}`,
			func(p *cluster.Pod) bool {
				_, valid := criticality.Parse(p.Marks.Criticality.Label)
				return !valid && len(p.Marks.Criticality.Label) < 100
			}},
		"a static pod": {
			`metadata: {ownerReferences: [{apiVersion: v1, kind: Node, name: n, controller: true}]}`,
			func(p *cluster.Pod) bool { return p.Controller.IsZero() }},
		"a StatefulSet of another API group (W-22)": {
			`metadata: {namespace: shop, ownerReferences: [{apiVersion: apps.kruise.io/v1beta1, kind: StatefulSet, name: s, controller: true}]}`,
			func(p *cluster.Pod) bool {
				return p.Controller == cluster.Workload{Group: "apps.kruise.io", Kind: "StatefulSet", Namespace: "shop", Name: "s"}
			}},
		"negative and excessive amounts": {
			`spec: {containers: [{name: c, resources: {requests: {cpu: "-1", memory: 9e18}}}]}`,
			func(p *cluster.Pod) bool {
				return p.Containers[0].Requests == cluster.Amounts(0, kube.MostAmount)
			}},
		"a status without any resources": {
			`{spec: {containers: [{name: c, resources: {requests: {cpu: "1"}}}]}, status: {containerStatuses: [{name: c, resources: {}}]}}`,
			func(p *cluster.Pod) bool { return p.Containers[0].Applied == nil }},
		"a limit that is not applied yet": {
			`{spec: {containers: [{name: c, resources: {limits: {cpu: "1"}}}]}, status: {containerStatuses: [{name: c, resources: {requests: {cpu: "1"}}}]}}`,
			func(p *cluster.Pod) bool { return p.Containers[0].Applied != nil }},
		"a status of a container that is not in the spec": {
			`status: {containerStatuses: [{name: other, restartCount: 1}]}`,
			func(p *cluster.Pod) bool { return len(p.Containers) == 0 }},
		"resize infeasible": {
			`status: {conditions: [{type: PodResizePending, status: "True", reason: Infeasible}]}`,
			func(p *cluster.Pod) bool { return p.Resize.State == cluster.ResizeInfeasible }},
		"resize pending for an unknown reason": {
			`status: {conditions: [{type: PodResizePending, status: "True", reason: New}]}`,
			func(p *cluster.Pod) bool { return p.Resize.State == cluster.ResizeUnknown }},
		"resize in progress": {
			`status: {conditions: [{type: PodResizeInProgress, status: "True"}]}`,
			func(p *cluster.Pod) bool { return p.Resize.State == cluster.ResizeInProgress }},
		"resize failed": {
			`status: {conditions: [{type: PodResizeInProgress, status: "True", reason: Error, message: m}]}`,
			func(p *cluster.Pod) bool { return p.Resize.State == cluster.ResizeError && p.Resize.Message == "m" }},
		"resize completed": {
			`status: {conditions: [{type: PodResizeInProgress, status: "False"}]}`,
			func(p *cluster.Pod) bool { return p.Resize == nil }},
		"an invalid boost annotation": {
			`{metadata: {annotations: {vpaCpuStartupBoost/c: "{"}}, spec: {containers: [{name: c}]}}`,
			func(p *cluster.Pod) bool { return p.Containers[0].Boosted != nil }},
	} {
		t.Run(name, func(t *testing.T) {
			if p := Pod(kubetest.PodFrom(t, tc.pod), nil); !tc.holds(p) {
				t.Errorf("got %+v", p)
			}
		})
	}
}

// FuzzPod projects arbitrary pods. Amounts must be in the valid range.
func FuzzPod(f *testing.F) {
	for _, text := range []string{kubetest.RichPod, `{}`, `spec: {containers: [{name: c, resources: {requests: {cpu: "-1", memory: 9e18}}}]}`} {
		raw, err := json.Marshal(kubetest.PodFrom(f, text))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw, true)
		if raw, err = kubetest.PodFrom(f, text).Marshal(); err != nil {
			f.Fatal(err)
		}
		f.Add(raw, false)
	}
	f.Fuzz(func(t *testing.T, raw []byte, asJSON bool) {
		p := new(corev1.Pod)
		if asJSON {
			if json.Unmarshal(raw, p) != nil {
				return
			}
		} else if p.Unmarshal(raw) != nil {
			return
		}
		got := Pod(p, nil)
		if got.Name != p.Name || got.UID != string(p.UID) || len(got.Containers) > len(p.Spec.Containers)+len(p.Spec.InitContainers) {
			t.Errorf("name, UID or containers differ: %+v", got)
		}
		for _, c := range got.Containers {
			requests, limits := c.Running()
			for _, r := range []cluster.Resources{c.Requests, c.Limits, requests, limits} {
				for _, res := range cluster.All {
					if v, ok := r.Get(res); v < 0 || v > kube.MostAmount || (!ok && v != 0) {
						t.Errorf("%s %s is %d (set: %t)", c.Name, res, v, ok)
					}
				}
			}
		}
	})
}

func BenchmarkPod(b *testing.B) {
	p := kubetest.LargePod(1)
	in := new(Interner)
	b.ReportAllocs()
	for b.Loop() {
		Pod(p, in)
	}
}
