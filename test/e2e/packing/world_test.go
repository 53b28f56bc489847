// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package packing

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"podfit.dev/podfit/api/podfit/v1alpha1"
	vpav1 "podfit.dev/podfit/api/v1"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/edge/kube"
	"podfit.dev/podfit/internal/edge/kube/projection"
	"podfit.dev/podfit/test/e2e/bed"
	"podfit.dev/podfit/test/e2e/invariant"
)

// namespace is the namespace of the workloads.
const namespace = "machines"

// A world is a cluster whose pods are sized by one rule.
type world struct {
	*testing.T
	*bed.Cluster
	*scene
	rule     rule
	deploy   string // folder with podfit's manifests
	witness  *bed.Witness
	updater  *bed.Podfit
	advisor  *bed.Kube // with the service account of the recommender
	nodes    pool
	observed observer
	hour     float64 // of the time that is played
}

// newWorld starts a cluster with podfit's updater and admission controller, with the rights for all that moves pods, and their default flags. The
// test writes the recommendations.
func newWorld(t *testing.T, s *scene, r rule, root, binary, tool string) *world {
	t.Helper()
	w := &world{T: t, scene: s, rule: r, deploy: filepath.Join(root, "deploy"), observed: newObserver()}
	var err error
	w.Cluster, err = bed.Up(t.Context(), bed.Options{
		Root: root, Tool: tool, Nodes: nodeCount, NodeCPU: nodeCores, NodeMemory: fmt.Sprint(nodeMemory), Metrics: 5 * time.Second, Audit: true, Progress: os.Stderr,
		Rights: []string{"node-guard", "oom-rescue", "placeholders", "surges"},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.Down(); err != nil {
			t.Error(err)
		}
	})
	w.must(w.Install(t.Context(), w.deploy))
	w.witness, err = w.Witness(t.Context())
	w.must(err)
	serving, err := bed.Serving()
	w.must(err)
	w.run(binary, bed.Admission().With(serving...))
	w.updater = w.run(binary, bed.Updater())
	w.eventually("the webhook is registered", time.Minute, w.Registered)
	account, err := w.Identity(t.Context(), "vpa-recommender")
	w.must(err)
	w.advisor, err = bed.NewKube(account)
	w.must(err)
	w.must(w.ApplyYAML(t.Context(), namespace, "{apiVersion: v1, kind: Namespace, metadata: {name: "+namespace+"}}"))
	w.eventually("the namespace has the service account of pods", time.Minute, func(ctx context.Context) error {
		_, err := w.CoreV1().ServiceAccounts(namespace).Get(ctx, "default", metav1.GetOptions{})
		return err
	})
	w.checkNodes()
	return w
}

// must fails the test for an error.
func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// run starts a component of podfit and waits until it is healthy.
func (w *world) run(binary string, c bed.Component) *bed.Podfit {
	w.Helper()
	p, err := w.Cluster.Run(w.Context(), binary, c)
	w.must(err)
	w.Cleanup(func() {
		if w.Failed() {
			w.Logf("%s\n%s", c.Name, p.Tail(60))
		}
		if err := p.Stop(); err != nil {
			w.Error(err)
		}
	})
	w.eventually(c.Name+" is healthy", time.Minute, p.Healthy)
	return p
}

// eventually polls until check returns nil.
func (w *world) eventually(what string, within time.Duration, check func(context.Context) error) {
	w.Helper()
	ctx, cancel := bed.WithPatience(w.Context(), within)
	defer cancel()
	if err := bed.Until(ctx, 250*time.Millisecond, check); err != nil {
		w.Fatalf("%s, within %v: %v", what, within, err)
	}
}

// checkNodes checks that the nodes have the size for which the workloads were chosen, and cordons them.
func (w *world) checkNodes() {
	w.Helper()
	for _, name := range w.Nodes() {
		n, err := w.CoreV1().Nodes().Get(w.Context(), name, metav1.GetOptions{})
		w.must(err)
		if got := n.Status.Allocatable; got.Cpu().MilliValue() != allocatableCPU || got.Memory().Value() != allocatableMemory {
			w.Fatalf("node %s has %s cores and %s of memory, want %d millicores and %d bytes", name, got.Cpu(), got.Memory(), allocatableCPU, allocatableMemory)
		}
		w.must(w.schedulable(name, false))
	}
	w.nodes.closed = w.Nodes()
}

// start starts the workloads, those with the largest requests first, each when the one before has a node. So a node is opened when those before are full. Then it
// creates the VPAs with the recommendations at the start of the day.
func (w *world) start() {
	w.Helper()
	w.must(w.Play(w.Context(), w.demands(0)))
	type started struct {
		*machine
		size
	}
	var order []started
	var sum cluster.Resources
	for i := range w.machines {
		m := &w.machines[i]
		s := started{m, w.rule.size(&m.Workload, w.from)}
		if s.request.Has != cluster.Both || s.limit == 0 {
			w.Fatalf("workload %s: request %+v, memory limit %d", m.Key.Name, s.request, s.limit)
		}
		sum = cluster.Amounts(sum.CPU+s.request.CPU, sum.Memory+s.request.Memory)
		order = append(order, s)
	}
	slices.SortStableFunc(order, func(a, b started) int { return cmp.Compare(share(b.request, 1), share(a.request, 1)) })
	w.observed.requested = share(sum, 1)
	w.must(w.open())
	for _, s := range order {
		w.must(w.ApplyYAML(w.Context(), namespace, s.deployment(&s.size)))
		w.eventually("workload "+s.Key.Name+" has a pod with a node", time.Minute, func(ctx context.Context) error { return w.placed(ctx, s.Key.Name) })
	}
	w.eventually("all pods with a node run", time.Minute, w.allRun)
	for _, s := range order {
		w.must(w.ApplyYAML(w.Context(), namespace, s.autoscaler(&w.rule)))
		w.advise(s.machine, &s.size)
	}
}

// placed returns an error until the pod of a workload has a node, or does not fit on any.
func (w *world) placed(ctx context.Context, name string) error {
	pods, err := w.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: "app=" + name})
	if err != nil {
		return err
	}
	for i := range pods.Items {
		p := &pods.Items[i]
		if p.Spec.NodeName != "" || isUnschedulable(p) && len(w.nodes.closed) == 0 {
			return nil
		}
		if w.nodes.isShort(time.Now(), pods.Items) {
			if err := w.open(); err != nil {
				return err
			}
		}
	}
	return fmt.Errorf("the pod of %s has no node", name)
}

// allRun returns an error unless all pods that have a node are ready.
func (w *world) allRun(ctx context.Context) error {
	pods, err := w.pods(ctx)
	if err != nil {
		return err
	}
	if len(pods) != workloadCount {
		return fmt.Errorf("%d of %d pods exist", len(pods), workloadCount)
	}
	for i := range pods {
		if p := &pods[i]; p.Spec.NodeName != "" && p.Status.Phase != corev1.PodRunning {
			return fmt.Errorf("pod %s is %s", p.Name, p.Status.Phase)
		}
	}
	return nil
}

func (w *world) pods(ctx context.Context) ([]corev1.Pod, error) {
	l, err := w.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{ResourceVersion: "0"})
	if err != nil {
		return nil, err
	}
	return l.Items, nil
}

// deployment returns the Deployment of a workload, with the request and the memory limit of a size.
func (m *machine) deployment(s *size) string {
	return fmt.Sprintf(`apiVersion: apps/v1
kind: Deployment
metadata: {name: %[1]s}
spec:
  replicas: 1
  selector: {matchLabels: {app: %[1]s}}
  template:
    metadata: {labels: {app: %[1]s}}
    spec:
      terminationGracePeriodSeconds: 1
      containers:
      - {name: %[2]s, image: test/app, resources: {requests: {cpu: %[3]dm, memory: %[4]d}, limits: {memory: %[5]d}}}
`, m.Key.Name, m.Containers[0], s.request.CPU, s.request.Memory, s.limit)
}

// autoscaler returns the VPA of a workload, in the update mode of the profile in a backtest.
func (m *machine) autoscaler(r *rule) string {
	return fmt.Sprintf(`apiVersion: autoscaling.k8s.io/v1
kind: VerticalPodAutoscaler
metadata: {name: %[1]s}
spec:
  targetRef: {apiVersion: apps/v1, kind: Deployment, name: %[1]s}
  updatePolicy: {updateMode: %[2]s, minReplicas: 1}
  recommenders: [{name: %[3]s}]
`, m.Key.Name, r.profile.Mode, r.name)
}

// advise writes the recommendation of a workload, as the recommender.
func (w *world) advise(m *machine, s *size) {
	w.Helper()
	of := vpav1.RecommendedContainerResources{
		ContainerName: m.Containers[0], Target: kube.Quantities(s.advice.Target), LowerBound: kube.Quantities(s.advice.Lower),
		UpperBound: kube.Quantities(s.advice.Upper), UncappedTarget: kube.Quantities(s.advice.Uncapped),
	}
	if w.rule.peaks {
		of.UncappedTarget = projection.WithMemory(of.UncappedTarget, v1alpha1.MemoryLimit, s.limit)
		of.UncappedTarget = projection.WithMemory(of.UncappedTarget, v1alpha1.MemoryPeak, s.peak)
	}
	status := vpav1.VerticalPodAutoscalerStatus{Recommendation: &vpav1.RecommendedPodResources{ContainerRecommendations: []vpav1.RecommendedContainerResources{of}}}
	patch, err := json.Marshal(map[string]any{"status": status})
	w.must(err)
	vpas := w.advisor.Dynamic.Resource(vpav1.GroupVersion().WithResource(vpav1.ResourceAutoscalers)).Namespace(namespace)
	_, err = vpas.Patch(w.Context(), m.Key.Name, types.MergePatchType, patch, metav1.PatchOptions{}, "status")
	w.must(err)
}

// demands returns the usage in an interval as a scenario of the local cluster.
func (w *world) demands(at int) bed.Scenario {
	var out bed.Scenario
	for i := range w.machines {
		m := &w.machines[i]
		use := m.usage[at]
		out.Rules = append(out.Rules, bed.Demand{
			Namespace: namespace, Owner: m.Key.Name, Container: m.Containers[0],
			CPU: fmt.Sprintf("%dm", int64(math.Round(use.cpu*1000))), Memory: fmt.Sprint(int64(use.memory)),
		})
	}
	return out
}

// checkInvariants fails the test for violations of invariants, and for requests that were refused because a right is missing. It permits what podfit does on
// full nodes: a pod with the recommended size moves if the node is nearly out of memory, and see isTowardsTarget.
func (w *world) checkInvariants(moved map[string]bool) {
	ctx, cancel := bed.WithPatience(context.Background(), time.Minute)
	defer cancel()
	log, err := w.witness.Log(ctx)
	if err != nil {
		w.Error(err)
		return
	}
	for _, v := range invariant.Judge(log, invariant.DefaultLimits()) {
		if _, pod, _ := strings.Cut(v.Object, namespace+"/"); v.Rule == invariant.Advised && (moved[pod] || strings.HasPrefix(v.Object, "pods/resize ") && isTowardsTarget(&log, pod)) {
			continue
		}
		w.Errorf("invariant violated:\n%v", v)
	}
	rights, err := w.Rights(w.deploy)
	for _, refused := range slices.Sorted(maps.Keys(rights.Refused)) {
		err = errors.Join(err, fmt.Errorf("%d requests were refused: deploy/ does not grant %s", rights.Refused[refused], refused))
	}
	if err != nil {
		w.Error(err)
	}
}

// isTowardsTarget reports whether all resizes of a pod request amounts between the targets that its VPA has had: it shrinks to its target to make room for
// other pods, or has a part of its increase until there is room for the rest.
func isTowardsTarget(log *invariant.Log, pod string) bool {
	least, most := map[string]int64{}, map[string]int64{}
	for i := range log.Autoscalers {
		a := &log.Autoscalers[i]
		if !strings.HasPrefix(pod, a.Name+"-") || len(a.Ranges) == 0 {
			continue
		}
		for res, target := range a.Ranges[0].Target {
			if before, known := least[res]; !known || target < before {
				least[res] = target
			}
			most[res] = max(most[res], target)
		}
	}
	return !slices.ContainsFunc(log.Writes, func(w invariant.Write) bool {
		if w.Name != pod || w.Subresource != "resize" || !w.OK() {
			return false
		}
		for _, requests := range w.Requests {
			for res, amount := range requests {
				if amount < least[res] || amount > most[res] {
					return true
				}
			}
		}
		return false
	})
}
