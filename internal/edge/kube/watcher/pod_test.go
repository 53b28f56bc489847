// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package watcher

import (
	"encoding/json"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/edge/kube"
	"podfit.dev/podfit/internal/edge/kube/kubetest"
)

func podFrom(t testing.TB, text string) *corev1.Pod {
	t.Helper()
	p := new(corev1.Pod)
	if err := yaml.Unmarshal([]byte(text), p); err != nil {
		t.Fatal(err)
	}
	return p
}

const richPod = `
metadata:
  namespace: shop
  name: web-1-x
  uid: 5d1c2c0e-7d1b-4f0e-9a51-1f5a3f1f8c11
  creationTimestamp: "2026-03-01T10:00:00Z"
  deletionTimestamp: "2026-03-01T13:00:00Z"
  annotations:
    vpaObservedContainers: app, log
    vpaCpuStartupBoost/app: '{"requests":{"cpu":"100m","memory":"1Gi"},"limits":{"cpu":"1"}}'
  ownerReferences:
  - {apiVersion: v1, kind: ConfigMap, name: other, uid: a}
  - {apiVersion: extensions/v1beta1, kind: ReplicaSet, name: web-1, uid: b, controller: true}
spec:
  nodeName: n1
  containers:
  - name: app
    resources: {requests: {cpu: 1500u, memory: 1Gi}, limits: {cpu: "2"}}
    resizePolicy:
    - {resourceName: cpu, restartPolicy: NotRequired}
    - {resourceName: memory, restartPolicy: RestartContainer}
  - name: log
    resources: {requests: {cpu: 10m}}
  initContainers:
  - name: setup
  - name: mesh
    restartPolicy: Always
status:
  phase: Running
  qosClass: Burstable
  startTime: "2026-03-01T10:00:05Z"
  conditions:
  - {type: Ready, status: "True", lastTransitionTime: "2026-03-01T10:01:00Z"}
  - {type: PodResizeInProgress, status: "True", lastTransitionTime: "2026-03-01T11:00:00Z"}
  - {type: PodResizePending, status: "True", reason: Deferred, message: no room, lastTransitionTime: "2026-03-01T12:00:00Z"}
  containerStatuses:
  - name: log
    restartCount: 0
    resources: {requests: {cpu: 10m}}
  - name: app
    restartCount: 3
    resources: {requests: {cpu: 1m, memory: 1Gi}, limits: {cpu: "2"}}
    state: {running: {startedAt: "2026-03-01T12:30:00Z"}}
    lastState: {terminated: {reason: OOMKilled, exitCode: 137, startedAt: "2026-03-01T12:00:00Z", finishedAt: "2026-03-01T12:29:00Z"}}
  initContainerStatuses:
  - name: setup
    state: {terminated: {reason: Completed, exitCode: 0, startedAt: "2026-03-01T10:00:06Z", finishedAt: "2026-03-01T10:00:07Z"}}
  - name: mesh
    restartCount: 1
    state: {terminated: {reason: OOMKilled, exitCode: 137, finishedAt: "2026-03-01T10:00:09Z"}}
`

func TestEveryFieldOfAPodThatMattersIsKept(t *testing.T) {
	got := ProjectPod(podFrom(t, richPod), new(Interner))
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
		Resize:     &cluster.Resize{State: cluster.ResizeDeferred, Since: kubetest.At(t, "2026-03-01T12:00:00Z"), Message: "no room"},
		Observed:   "app, log",
		Containers: []cluster.Container{
			{
				Name: "app", Index: 0, Reported: true,
				Requests: cluster.Amounts(2, 1<<30), // 1.5 millicores, rounded up
				Limits:   cluster.Resources{}.Set(cluster.CPU, 2000),
				Applied:  &cluster.Applied{Requests: cluster.Amounts(1, 1<<30), Limits: cluster.Resources{}.Set(cluster.CPU, 2000)},
				Restarts: 3,
				Exit: &cluster.Exit{OOM: true, Code: 137,
					Started: kubetest.At(t, "2026-03-01T12:00:00Z"), Finished: kubetest.At(t, "2026-03-01T12:29:00Z")},
				Restart: cluster.Of(cluster.Memory),
				Boosted: &cluster.Applied{Requests: cluster.Amounts(100, 1<<30), Limits: cluster.Resources{}.Set(cluster.CPU, 1000)},
			},
			{Name: "log", Index: 1, Reported: true, Requests: cluster.Resources{}.Set(cluster.CPU, 10)},
			{Name: "setup", Role: cluster.Init, Index: 0, Exit: &cluster.Exit{
				Started: kubetest.At(t, "2026-03-01T10:00:06Z"), Finished: kubetest.At(t, "2026-03-01T10:00:07Z"), Now: true}},
			{Name: "mesh", Role: cluster.Sidecar, Index: 1, Restarts: 1, Exit: &cluster.Exit{
				OOM: true, Code: 137, Finished: kubetest.At(t, "2026-03-01T10:00:09Z"), Now: true}},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestPodsThatSayLittleOrNonsense(t *testing.T) {
	for name, tc := range map[string]struct {
		pod   string
		holds func(*cluster.Pod) bool
	}{
		"empty": {`{}`, func(p *cluster.Pod) bool {
			return p.Controller.IsZero() && p.Created.IsZero() && len(p.Containers) == 0 && p.Resize == nil
		}},
		"an owner without the field controller (W-21)": {
			`metadata: {ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: r}]}`,
			func(p *cluster.Pod) bool { return p.Controller.IsZero() }},
		"an owner that is not the controller": {
			`metadata: {ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: r, controller: false}]}`,
			func(p *cluster.Pod) bool { return p.Controller.IsZero() }},
		"a static pod": {
			`metadata: {ownerReferences: [{apiVersion: v1, kind: Node, name: n, controller: true}]}`,
			func(p *cluster.Pod) bool { return p.Controller.IsZero() }},
		"a foreign StatefulSet (W-22)": {
			`metadata: {namespace: shop, ownerReferences: [{apiVersion: apps.kruise.io/v1beta1, kind: StatefulSet, name: s, controller: true}]}`,
			func(p *cluster.Pod) bool {
				return p.Controller == cluster.Workload{Group: "apps.kruise.io", Kind: "StatefulSet", Namespace: "shop", Name: "s"}
			}},
		"negative and absurd amounts": {
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
		"a status of no container": {
			`status: {containerStatuses: [{name: ghost, restartCount: 1}]}`,
			func(p *cluster.Pod) bool { return len(p.Containers) == 0 }},
		"unschedulable (W-15)": {
			`status: {phase: Pending, conditions: [{type: PodScheduled, status: "False", reason: Unschedulable}]}`,
			func(p *cluster.Pod) bool { return p.Unschedulable && p.Phase == cluster.Pending }},
		"held back by a scheduling gate": {
			`status: {conditions: [{type: PodScheduled, status: "False", reason: SchedulingGated}]}`,
			func(p *cluster.Pod) bool { return !p.Unschedulable }},
		"infeasible": {
			`status: {conditions: [{type: PodResizePending, status: "True", reason: Infeasible}]}`,
			func(p *cluster.Pod) bool { return p.Resize.State == cluster.ResizeInfeasible }},
		"pending for a new reason": {
			`status: {conditions: [{type: PodResizePending, status: "True", reason: Tuesday}]}`,
			func(p *cluster.Pod) bool { return p.Resize.State == cluster.ResizeUnknown }},
		"in progress": {
			`status: {conditions: [{type: PodResizeInProgress, status: "True"}]}`,
			func(p *cluster.Pod) bool { return p.Resize.State == cluster.ResizeInProgress }},
		"failed": {
			`status: {conditions: [{type: PodResizeInProgress, status: "True", reason: Error, message: m}]}`,
			func(p *cluster.Pod) bool { return p.Resize.State == cluster.ResizeError && p.Resize.Message == "m" }},
		"failed, because the memory is in use": {
			`status: {conditions: [{type: PodResizeInProgress, status: "True", reason: Error, message: cannot decrease memory limits}]}`,
			func(p *cluster.Pod) bool {
				return p.Resize.State == cluster.ResizeError && p.Resize.Problem == cluster.MemoryInUse
			}},
		"failed, because a pod-level limit is below the usage": {
			`status: {conditions: [{type: PodResizeInProgress, status: "True", reason: Error, message: pod memory limit below current usage}]}`,
			func(p *cluster.Pod) bool { return p.Resize.Problem == cluster.MemoryInUse }},
		"failed for another cause": {
			`status: {conditions: [{type: PodResizeInProgress, status: "True", reason: Error, message: cgroup not found}]}`,
			func(p *cluster.Pod) bool {
				return p.Resize.State == cluster.ResizeError && p.Resize.Problem == cluster.OtherProblem
			}},
		"a resize that is over": {
			`status: {conditions: [{type: PodResizeInProgress, status: "False"}]}`,
			func(p *cluster.Pod) bool { return p.Resize == nil }},
		"a boost nobody can read": {
			`{metadata: {annotations: {vpaCpuStartupBoost/c: "{"}}, spec: {containers: [{name: c}]}}`,
			func(p *cluster.Pod) bool { return p.Containers[0].Boosted != nil }},
	} {
		t.Run(name, func(t *testing.T) {
			if p := ProjectPod(podFrom(t, tc.pod), nil); !tc.holds(p) {
				t.Errorf("got %+v", p)
			}
		})
	}
}

func FuzzProjectPodIsTotal(f *testing.F) {
	for _, text := range []string{richPod, `{}`, `spec: {containers: [{name: c, resources: {requests: {cpu: "-1", memory: 9e18}}}]}`} {
		raw, err := json.Marshal(podFrom(f, text))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw, true)
		if raw, err = podFrom(f, text).Marshal(); err != nil {
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
		got := ProjectPod(p, nil)
		if got.Name != p.Name || got.UID != string(p.UID) || len(got.Containers) > len(p.Spec.Containers)+len(p.Spec.InitContainers) {
			t.Errorf("not the pod: %+v", got)
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

// largePod is a pod as large clusters have them: what podfit does not need is most of it.
func largePod(i int) *corev1.Pod {
	set := fmt.Sprintf("service-%d-7d4b9c6f5d", i/5)
	yes := true
	created := metav1.NewTime(time.Date(2026, 3, 1, 12, 0, i%3600, 0, time.UTC))
	amounts := corev1.ResourceRequirements{
		Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("250m"), corev1.ResourceMemory: resource.MustParse("512Mi")},
		Limits:   corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("1Gi")},
	}
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: fmt.Sprintf("team-%d", i/5%200), Name: fmt.Sprintf("%s-x%04d", set, i%5),
			UID:               types.UID(fmt.Sprintf("%08d-7d1b-4f0e-9a51-1f5a3f1f8c11", i)),
			CreationTimestamp: created,
			Labels:            map[string]string{"app": "service", "pod-template-hash": "7d4b9c6f5d"},
			Annotations:       map[string]string{"vpaObservedContainers": "app", "vpaUpdates": "Pod resources updated by service"},
			OwnerReferences:   []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: set, UID: "u", Controller: &yes}},
		},
		Spec: corev1.PodSpec{
			NodeName:   fmt.Sprintf("node-%d.example.com", i%1000),
			Containers: []corev1.Container{{Name: "app", Image: "registry.example.com/service:v1", Resources: amounts}},
		},
		Status: corev1.PodStatus{
			Phase: corev1.PodRunning, QOSClass: corev1.PodQOSBurstable, StartTime: &created,
			Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: created}},
			ContainerStatuses: []corev1.ContainerStatus{{
				Name: "app", Ready: true, Image: "registry.example.com/service:v1", Resources: &amounts,
			}},
		},
	}
	for j := range 30 {
		p.Spec.Containers[0].Env = append(p.Spec.Containers[0].Env, corev1.EnvVar{Name: fmt.Sprintf("VARIABLE_%d", j), Value: "value"})
	}
	return p
}

// The budget of a cached pod is 600 bytes, with its part of the store, of the index of names and of the interner.
func TestACachedPodTakesAtMost600Bytes(t *testing.T) {
	const pods, budget = 50_000, 600
	w := NewWorld(clientsOf(kubetest.NewFakeAPI(t)), Options{Pods: AllPods})
	before := heapBytes()
	for i := range pods {
		raw, err := largePod(i).Marshal()
		if err != nil {
			t.Fatal(err)
		}
		decoded := new(corev1.Pod)
		if err := decoded.Unmarshal(raw); err != nil {
			t.Fatal(err)
		}
		p := ProjectPod(decoded, w.in)
		w.pods.put(p.Key, p)
	}
	perPod := float64(heapBytes()-before) / pods
	if w.pods.size != pods {
		t.Fatalf("%d pods in the store, want %d", w.pods.size, pods)
	}
	t.Logf("%.0f bytes per pod", perPod)
	if perPod > budget {
		t.Errorf("%.0f bytes per pod, want at most %d", perPod, budget)
	}
	runtime.KeepAlive(w)
}

func heapBytes() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

func TestTheInternerForgetsButStaysRight(t *testing.T) {
	in := new(Interner)
	first := in.String("keep")
	for i := range 3 * internGeneration {
		s := fmt.Sprint(i)
		if in.String(s) != s {
			t.Fatal("another string came back")
		}
		in.String("keep")
	}
	if in.String("keep") != first || len(in.young)+len(in.old) > 2*internGeneration {
		t.Errorf("%d strings held", len(in.young)+len(in.old))
	}
	var none *Interner
	if none.String("x") != "x" {
		t.Error("no interner, no string")
	}
}

func BenchmarkProjectPod(b *testing.B) {
	p, in := largePod(1), new(Interner)
	b.ReportAllocs()
	for b.Loop() {
		ProjectPod(p, in)
	}
}

func BenchmarkSnapshot(b *testing.B) {
	const pods = 100_000
	w := largeWorld(b, pods)
	b.ResetTimer()
	for b.Loop() {
		if s := w.Snapshot(); len(s.Pods) != pods {
			b.Fatal("incomplete")
		}
	}
}

// largeWorld returns a world with many pods, of a replica set each.
func largeWorld(t testing.TB, pods int) *World {
	w := NewWorld(clientsOf(kubetest.NewFakeAPI(t)), Options{})
	w.owners.synced = func(groupKind) bool { return true }
	sets := &store[controller]{mu: &w.mu}
	w.owners.known = map[groupKind]*store[controller]{
		{"apps", "ReplicaSet"}: sets,
		{"apps", "Deployment"}: {mu: &w.mu},
	}
	for i := range pods {
		p := ProjectPod(largePod(i), w.in)
		w.pods.put(p.Key, p)
		sets.put(cluster.Key{Namespace: p.Controller.Namespace, Name: p.Controller.Name}, controller{})
	}
	return w
}
