// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package fragments

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	vpav1 "podfit.dev/podfit/api/v1"
)

// A scene is the workloads of a seed in a namespace.
type scene struct {
	*testing.T
	*world
	namespace string
	random    *rand.Rand
	grown     map[string]int64 // millicores that a VPA gives new pods, by workload
	resized   int              // replacements with these
}

const (
	settling = time.Minute      // of pods that start or end, all at once
	move     = 30 * time.Second // of one pod
)

// TestFragments_randomClusters_schedulerAcceptsEachMove carries out the plans for random clusters. Either each pod is evicted, and its replacement may run
// only where the plan says: the scheduler must accept it there. Or podfit capacity --apply does so, and the scheduler chooses the node of each replacement.
func TestFragments_randomClusters_schedulerAcceptsEachMove(t *testing.T) {
	const seeds = 6
	ran, moves, resized := 0, 0, 0
	for seed := range uint64(seeds) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			ran++
			s := newScene(t, seed)
			if seed%2 == 0 {
				moves += s.apply("")
				moves += s.follow("make room")
			} else {
				moves += s.follow("")
				if p, size := s.plan("make room"); len(p.Moves) > 0 {
					s.wait(size)
					moves += s.apply(size)
				}
			}
			resized += s.resized
		})
	}
	t.Logf("%d moves were made, and %d replacements got another size from a VPA", moves, resized)
	if ran == seeds && (moves < 8 || resized == 0) {
		t.Error("the test shows little")
	}
}

// newScene makes a cluster with free room: the scheduler places many workloads, of which half are deleted.
func newScene(t *testing.T, seed uint64) *scene {
	t.Helper()
	s := &scene{T: t, world: shared(t), namespace: fmt.Sprint("seed-", seed), random: rand.New(rand.NewPCG(seed, 27)), grown: map[string]int64{}}
	t.Cleanup(s.end)
	s.must(s.ApplyYAML(t.Context(), "", "{apiVersion: v1, kind: Namespace, metadata: {name: "+s.namespace+"}}"))
	eventually(t, "the namespace has the service account of pods", settling, func(ctx context.Context) error {
		_, err := s.CoreV1().ServiceAccounts(s.namespace).Get(ctx, "default", metav1.GetOptions{})
		return err
	})
	for i, name := range s.Nodes() {
		taints := "[]"
		switch {
		case i < 2:
			taints = `[{"key": "dedicated", "value": "batch", "effect": "NoSchedule"}]`
		case i == 2:
			taints = `[{"key": "old", "value": "yes", "effect": "PreferNoSchedule"}]`
		}
		disk := [...]string{"ssd", "hdd"}[s.random.IntN(2)]
		s.patchNode(name, fmt.Sprintf(`{"metadata": {"labels": {"zone": %q, "disk": %q, "node-role.kubernetes.io/worker": ""}}, "spec": {"taints": %s, "unschedulable": null}}`, string("abc"[i%3]), disk, taints))
	}
	s.must(s.ApplyYAML(t.Context(), s.namespace, agent))
	all := append([]workload{hermit()}, randomWorkloads(s.random, 36)...)
	for i := range all {
		s.must(s.ApplyYAML(t.Context(), s.namespace, all[i].manifest()))
	}
	var lost []string
	eventually(t, "the pods run, or find no node", settling, func(ctx context.Context) error {
		s.open(ctx, "")
		lost = nil
		pods, err := s.pods(ctx)
		for i := range pods {
			p := &pods[i]
			switch {
			case isUnschedulable(p):
				lost = append(lost, p.Labels["app"])
			case !isReady(p):
				return fmt.Errorf("pod %s does not run yet", p.Name)
			}
		}
		if want := wanted(all) + nodeCount; err == nil && len(pods) != want {
			err = fmt.Errorf("%d pods, want %d", len(pods), want)
		}
		return err
	})
	left := slices.DeleteFunc(all, func(w workload) bool {
		gone := slices.Contains(lost, w.name) || s.random.IntN(2) == 0
		if gone {
			s.must(s.AppsV1().Deployments(s.namespace).Delete(t.Context(), w.name, metav1.DeleteOptions{}))
		}
		return gone
	})
	s.settle(wanted(left) + nodeCount)
	for i := range left {
		if w := &left[i]; s.random.IntN(3) == 0 {
			manifest, status := w.autoscaler()
			s.must(s.ApplyYAML(t.Context(), s.namespace, manifest))
			_, err := s.Dynamic.Resource(vpav1.GroupVersion().WithResource(vpav1.ResourceAutoscalers)).Namespace(s.namespace).Patch(t.Context(), w.name, types.MergePatchType, []byte(status), metav1.PatchOptions{}, "status")
			s.must(err)
			s.grown[w.name] = int64(w.grown())
		}
	}
	return s
}

func wanted(all []workload) (n int) {
	for i := range all {
		n += all[i].replicas
	}
	return n
}

// end deletes the workloads, and uncordons the nodes.
func (s *scene) end() {
	ctx, cancel := context.WithTimeout(context.Background(), 4*settling)
	defer cancel()
	if s.Failed() {
		s.dump(ctx)
	}
	s.must(s.CoreV1().Namespaces().Delete(ctx, s.namespace, metav1.DeleteOptions{}))
	for {
		_, err := s.CoreV1().Namespaces().Get(ctx, s.namespace, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return
		}
		select {
		case <-ctx.Done():
			s.Fatalf("the namespace is not deleted: %v", err)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// dump logs where the pods run.
func (s *scene) dump(ctx context.Context) {
	pods, err := s.pods(ctx)
	if err != nil {
		s.Log(err)
	}
	for i := range pods {
		p := &pods[i]
		if r := p.Spec.Containers[0].Resources.Requests; p.Labels["app"] != "agent" {
			s.Logf("%s on %q, %s, cpu %s, memory %s, selector %v, affinity %v", p.Name, p.Spec.NodeName, p.Status.Phase, r.Cpu(), r.Memory(), p.Spec.NodeSelector, p.Spec.Affinity)
		}
	}
}

func (s *scene) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

func (s *scene) patchNode(name, patch string) {
	s.Helper()
	_, err := s.CoreV1().Nodes().Patch(s.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	s.must(err)
}

func (s *scene) cordon(name string, cordoned bool) {
	s.Helper()
	s.patchNode(name, fmt.Sprintf(`{"spec": {"unschedulable": %t}}`, cordoned))
}

func (s *scene) pods(ctx context.Context) ([]corev1.Pod, error) {
	l, err := s.CoreV1().Pods(s.namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	return l.Items, nil
}

func isReady(p *corev1.Pod) bool {
	return p.DeletionTimestamp == nil && slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue })
}

func isUnschedulable(p *corev1.Pod) bool {
	return p.Spec.NodeName == "" && slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodScheduled && c.Reason == corev1.PodReasonUnschedulable
	})
}

// open removes the gates of new pods. With a node, they may run only there.
func (s *scene) open(ctx context.Context, on string) {
	s.Helper()
	pods, err := s.pods(ctx)
	s.must(err)
	for i := range pods {
		p := &pods[i]
		if len(p.Spec.SchedulingGates) == 0 || p.DeletionTimestamp != nil {
			continue
		}
		patch := `{"spec": {"schedulingGates": []}}`
		if on != "" {
			patch = fmt.Sprintf(`{"spec": {"schedulingGates": [], "nodeSelector": {%q: %q}}}`, node, on)
		}
		_, err := s.CoreV1().Pods(s.namespace).Patch(ctx, p.Name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
		if !apierrors.IsNotFound(err) {
			s.must(err)
		}
	}
}

// settle waits until as many pods are ready, and the status of each PodDisruptionBudget counts them.
func (s *scene) settle(pods int) {
	s.Helper()
	eventually(s.T, "the pods are ready, and the PodDisruptionBudgets count them", settling, func(ctx context.Context) error {
		all, err := s.pods(ctx)
		if err != nil {
			return err
		}
		ready := map[string]int32{}
		for i := range all {
			if !isReady(&all[i]) && all[i].Name != "large" {
				return fmt.Errorf("pod %s is not ready", all[i].Name)
			}
			ready[all[i].Labels["app"]]++
		}
		if len(all) != pods {
			return fmt.Errorf("%d pods, want %d", len(all), pods)
		}
		budgets, err := s.PolicyV1().PodDisruptionBudgets(s.namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		for i := range budgets.Items {
			b := &budgets.Items[i]
			app := b.Spec.Selector.MatchLabels["app"]
			others := slices.ContainsFunc(budgets.Items, func(o policyv1.PodDisruptionBudget) bool {
				return o.Name != b.Name && o.Spec.Selector.MatchLabels["app"] == app
			})
			if others { // the controller counts pods for one of them only
				continue
			}
			if b.Status.ObservedGeneration != b.Generation || b.Status.CurrentHealthy != ready[app] {
				return fmt.Errorf("PodDisruptionBudget %s counts %d pods", b.Name, b.Status.CurrentHealthy)
			}
		}
		return nil
	})
}

// evict evicts a pod, waits until its replacement is ready, and returns the replacement. With a node, the replacement may run only there.
func (s *scene) evict(name, on string) *corev1.Pod {
	s.Helper()
	_, name, _ = strings.Cut(name, "/")
	before, err := s.pods(s.Context())
	s.must(err)
	s.must(s.PolicyV1().Evictions(s.namespace).Evict(s.Context(), &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: s.namespace}}))
	eventually(s.T, "a replacement exists, and the pod is gone", move, func(ctx context.Context) error {
		after, err := s.pods(ctx)
		switch {
		case err != nil:
			return err
		case slices.ContainsFunc(after, func(p corev1.Pod) bool { return p.Name == name }):
			return errors.New("the pod still exists")
		case len(after) != len(before):
			return fmt.Errorf("%d pods, before %d", len(after), len(before))
		}
		return nil
	})
	s.open(s.Context(), on)
	var last *corev1.Pod
	eventually(s.T, "the replacement of "+name+" is ready", move, func(ctx context.Context) error {
		after, err := s.pods(ctx)
		for i := range after {
			p := &after[i]
			if slices.ContainsFunc(before, func(o corev1.Pod) bool { return o.Name == p.Name }) {
				continue
			}
			last = p
			if isUnschedulable(p) {
				s.Fatalf("the scheduler has no node for the replacement of %s, on %q: %+v", name, on, p.Status.Conditions)
			}
			if !isReady(p) {
				return fmt.Errorf("%s is %s on %q", p.Name, p.Status.Phase, p.Spec.NodeName)
			}
		}
		return err
	})
	s.settle(len(before))
	if want := s.grown[last.Labels["app"]]; want > 0 {
		s.resized++
		if got := last.Spec.Containers[0].Resources.Requests.Cpu().MilliValue(); got != want {
			s.Errorf("replacement %s requests %dm, its VPA sets %dm", last.Name, got, want)
		}
	}
	return last
}

// isFree reports whether a node has only pods of the DaemonSet.
func (s *scene) isFree(name string) bool {
	pods, err := s.pods(s.Context())
	s.must(err)
	return !slices.ContainsFunc(pods, func(p corev1.Pod) bool { return p.Spec.NodeName == name && p.Labels["app"] != "agent" })
}

// follow carries out the plan that frees a node or makes room, with each replacement on the node that the plan names, and returns its number of moves.
func (s *scene) follow(aim string) int {
	s.Helper()
	p, size := s.plan(aim)
	s.Logf("%s %s: %v", aim, size, p)
	if len(p.Moves) == 0 {
		return 0
	}
	s.cordon(p.Node, true)
	if aim != "" {
		s.wait(size)
	}
	for _, m := range p.Moves {
		if got := s.evict(m.Pod, m.To).Spec.NodeName; got != m.To {
			s.Errorf("%s runs on %s, want %s", m.Pod, got, m.To)
		}
	}
	if aim == "" { // the node is removed: it stays cordoned
		if !s.isFree(p.Node) {
			s.Errorf("%s still runs pods", p.Node)
		}
		return len(p.Moves)
	}
	s.cordon(p.Node, false)
	s.fits(p.Node)
	return len(p.Moves)
}

// plan returns a plan. Room is made for the largest pod for which moves are necessary and possible.
func (s *scene) plan(aim string) (p *plan, size string) {
	s.Helper()
	if aim == "" {
		p, _ = s.plans(s.T, "")
		return p, ""
	}
	for cpu := 7750; cpu > 1000; cpu -= 250 {
		size = fmt.Sprintf("cpu=%dm,memory=4Gi", cpu)
		if _, p = s.plans(s.T, size); len(p.Moves) > 0 {
			break
		}
	}
	return p, size
}

// wait creates the pod for which room is made, which fits on no node.
func (s *scene) wait(size string) {
	s.Helper()
	requests := strings.NewReplacer("=", ": ", ",", ", ").Replace(size)
	s.must(s.ApplyYAML(s.Context(), s.namespace, fmt.Sprintf(`{apiVersion: v1, kind: Pod, metadata: {name: large}, spec: {terminationGracePeriodSeconds: 0,
		containers: [{name: app, image: test/app, resources: {requests: {%s}}}]}}`, requests)))
	eventually(s.T, "the scheduler finds no node for the large pod", move, func(ctx context.Context) error {
		p, err := s.CoreV1().Pods(s.namespace).Get(ctx, "large", metav1.GetOptions{})
		if err == nil && !isUnschedulable(p) {
			err = fmt.Errorf("%s on %q", p.Status.Phase, p.Spec.NodeName)
		}
		return err
	})
}

// fits checks that the large pod gets a node.
func (s *scene) fits(on string) {
	s.Helper()
	eventually(s.T, "the large pod is ready on "+on, move, func(ctx context.Context) error {
		p, err := s.CoreV1().Pods(s.namespace).Get(ctx, "large", metav1.GetOptions{})
		if err == nil && (!isReady(p) || p.Spec.NodeName != on) {
			err = fmt.Errorf("%s on %q: %+v", p.Status.Phase, p.Spec.NodeName, p.Status.Conditions)
		}
		return err
	})
	s.must(s.CoreV1().Pods(s.namespace).Delete(s.Context(), "large", metav1.DeleteOptions{}))
	eventually(s.T, "the large pod is gone", move, func(ctx context.Context) error {
		_, err := s.CoreV1().Pods(s.namespace).Get(ctx, "large", metav1.GetOptions{})
		if !apierrors.IsNotFound(err) {
			return fmt.Errorf("pod large exists: %w", err)
		}
		return nil
	})
}

// apply frees a node or makes room with the command, as its user does: the scheduler chooses the node of each replacement. It may choose so that there is no
// plan for the node any more; then the node takes pods again.
func (s *scene) apply(size string) (moves int) {
	s.Helper()
	for _, name := range s.Nodes() {
		if size == "" && s.isFree(name) {
			s.cordon(name, true)
		}
	}
	before, err := s.pods(s.Context())
	s.must(err)
	used := s.used()
	ctx, cancel := context.WithTimeout(s.Context(), 10*move)
	defer cancel()
	args := []string{"capacity", "--kubeconfig=" + s.mover, "--apply", "--yes", "-o", "json"}
	if size != "" {
		args = append(args, "--for", size)
	}
	var out, errs bytes.Buffer
	cmd := exec.CommandContext(ctx, s.binary, args...)
	cmd.Stdout, cmd.Stderr = &out, &errs
	s.must(cmd.Start())
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	for ended != nil {
		select {
		case err = <-ended:
			ended = nil
		case <-time.After(100 * time.Millisecond):
			s.open(ctx, "")
		}
	}
	s.Logf("%s%s", errs.String(), out.String())
	var done struct {
		Node    string
		Made    []struct{ Pod, Replacement, Node string }
		Reached bool
		Stopped string
	}
	if unreadable := json.Unmarshal(out.Bytes(), &done); unreadable != nil || (err != nil) != (done.Stopped != "") {
		s.Fatalf("it ended with %v and %v", err, unreadable)
	}
	if done.Node != "" {
		o, err := s.CoreV1().Nodes().Get(s.Context(), done.Node, metav1.GetOptions{})
		s.must(err)
		freed := size == "" && done.Reached
		if o.Spec.Unschedulable != freed || size == "" && freed != s.isFree(done.Node) {
			s.Errorf("node %s is cordoned: %t, and free: %t", done.Node, o.Spec.Unschedulable, s.isFree(done.Node))
		}
		if now := s.used(); size == "" && now > used || freed && now != used-1 {
			s.Errorf("%d nodes run pods, before %d", now, used)
		}
	}
	switch {
	case size != "" && done.Reached:
		s.fits(done.Node)
		s.settle(len(before) - 1)
	default:
		s.settle(len(before)) // no pod is lost
	}
	return len(done.Made)
}

// used returns how many nodes run pods other than those of the DaemonSet.
func (s *scene) used() (n int) {
	for _, name := range s.Nodes() {
		if !s.isFree(name) {
			n++
		}
	}
	return n
}
