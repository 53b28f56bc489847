// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package reading

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"podfit.dev/podfit/test/e2e/bed"
)

var autoscalers = schema.GroupVersionResource{Group: "autoscaling.k8s.io", Version: "v1", Resource: "verticalpodautoscalers"}

// The number of random states: rounds of a pass of the updater, each with several workloads.
const (
	rounds    = 4
	perRound  = 25
	seed      = 20261122 // STATES_SEED has another one
	namespace = "states"
)

// A state is a workload with a VPA.
type state struct {
	name      string
	replicas  int
	mode      string
	cpu       string // recommended
	memory    string
	policy    string // more fields of the VPA
	template  string // more fields of the container
	pods      string // more fields of the annotations of pods
	budget    bool   // a PodDisruptionBudget allows no eviction
	second    bool   // an older VPA governs
	isPending bool   // the pods never run
}

func pick[T any](r *rand.Rand, of ...T) T { return of[r.IntN(len(of))] }

// randomState returns a state in which one of the many conditions for a change of the pods may hold.
func randomState(r *rand.Rand, name string) state {
	s := state{
		name: name, replicas: 1 + r.IntN(3), mode: pick(r, "Off", "Initial", "Recreate", "Recreate", "InPlaceOrRecreate", "InPlaceOrRecreate", "InPlaceOrRecreate", "Auto"),
		cpu: pick(r, "50m", "100m", "105m", "200m", "300m"), memory: pick(r, "40Mi", "64Mi", "66Mi", "128Mi"),
	}
	switch r.IntN(12) {
	case 0:
		s.policy = "  resourcePolicy: {containerPolicies: [{containerName: app, mode: \"Off\"}]}\n"
	case 1:
		s.policy = "  resourcePolicy: {containerPolicies: [{containerName: app, controlledResources: [memory]}]}\n"
	case 2:
		s.policy = "  resourcePolicy: {containerPolicies: [{containerName: app, maxAllowed: {cpu: 120m, memory: 70Mi}}]}\n"
	case 3:
		s.cpu = "40" // more than a node has
	case 4:
		s.template = ", resizePolicy: [{resourceName: memory, restartPolicy: RestartContainer}]"
	case 5:
		s.pods = "        sim.podfit.dev/app.ready: after=10h\n"
	case 6:
		s.budget = true
	case 7:
		s.second = true
	case 8:
		s.isPending = true
	}
	return s
}

// updatePolicy returns the update policy of a VPA. Half of the workloads may be changed although they have one replica.
func (s *state) updatePolicy(r *rand.Rand) string {
	minimum := ""
	if r.IntN(2) == 0 {
		minimum = ", minReplicas: 1"
	}
	return fmt.Sprintf("{updateMode: %q%s}", s.mode, minimum)
}

// manifests returns the objects of the state.
func (s *state) manifests(r *rand.Rand) string {
	image := "test/app"
	if s.isPending {
		image = "missing/app"
	}
	out := fmt.Sprintf(`apiVersion: apps/v1
kind: Deployment
metadata: {name: %[1]s}
spec:
  replicas: %[2]d
  selector: {matchLabels: {app: %[1]s}}
  template:
    metadata:
      labels: {app: %[1]s}
      annotations:
        sim.podfit.dev/app.cpu: 10m
        sim.podfit.dev/app.memory: 20Mi
%[3]s    spec:
      terminationGracePeriodSeconds: 1
      containers:
      - {name: app, image: %[4]s, resources: {requests: {cpu: 100m, memory: 64Mi}}%[5]s}
---
apiVersion: autoscaling.k8s.io/v1
kind: VerticalPodAutoscaler
metadata: {name: %[1]s}
spec:
  targetRef: {apiVersion: apps/v1, kind: Deployment, name: %[1]s}
  recommenders: [{name: vendor}]
  updatePolicy: %[6]s
%[7]s`, s.name, s.replicas, s.pods, image, s.template, s.updatePolicy(r), s.policy)
	if s.budget {
		out += fmt.Sprintf("---\napiVersion: policy/v1\nkind: PodDisruptionBudget\nmetadata: {name: %[1]s}\nspec: {minAvailable: 100%%, selector: {matchLabels: {app: %[1]s}}}\n", s.name)
	}
	return out
}

// An expectation is what explain says about a pod.
type expectation struct {
	state        *state
	action, code string
	reason       string
	refused      bool // by the API server, because of a PodDisruptionBudget
	uid          types.UID
	requests     string
}

// A record is the first line about a pod in the log of the updater, which is about its first pass: later passes follow when pods change.
type record struct{ action, reason string }

var line = regexp.MustCompile(`action=(\w+) pod=[\w-]+/([\w.-]+) .*reason=("(?:[^"\\]|\\.)*"|\S+)`)

// records returns the first line about each pod.
func records(t *testing.T, path string) map[string]record {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]record{}
	for _, m := range line.FindAllStringSubmatch(string(text), -1) {
		reason, err := strconv.Unquote(m[3])
		if err != nil {
			reason = m[3]
		}
		if _, known := out[m[2]]; !known {
			out[m[2]] = record{m[1], reason}
		}
	}
	return out
}

// TestExplain_randomStates_nextIsWhatTheNextPassDoes compares NEXT of a hundred random states with the next pass of a real updater: each pod that
// it plans to change is changed in that way, and no other.
func TestExplain_randomStates_nextIsWhatTheNextPassDoes(t *testing.T) {
	w := shared(t)
	start := uint64(seed)
	if text := os.Getenv("STATES_SEED"); text != "" {
		n, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		start = n
	}
	r := rand.New(rand.NewPCG(start, 1))
	counts := map[string]int{}
	for round := range rounds {
		ns := fmt.Sprintf("%s-%d", namespace, round)
		states := w.create(t, r, ns)
		expected := w.explainAll(t, ns, states)
		for _, e := range expected {
			counts[e.action+" "+e.code]++
		}
		w.onePass(t, ns, expected)
		if err := w.CoreV1().Namespaces().Delete(t.Context(), ns, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	}
	t.Logf("%d states: %v", rounds*perRound, counts)
	for _, action := range []string{"resize", "evict", "leave"} {
		if !slices.ContainsFunc(slicesOf(counts), func(s string) bool { return strings.HasPrefix(s, action) }) {
			t.Errorf("no state leads to %s: %v", action, counts)
		}
	}
}

func slicesOf(m map[string]int) (keys []string) {
	for k := range m {
		keys = append(keys, k)
	}
	return keys
}

// create creates random states and waits until their pods have settled.
func (w *world) create(t *testing.T, r *rand.Rand, ns string) []state {
	t.Helper()
	if err := w.ApplyYAML(t.Context(), "", "{apiVersion: v1, kind: Namespace, metadata: {name: "+ns+"}}"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the namespace has the service account of pods", time.Minute, func(ctx context.Context) error {
		_, err := w.CoreV1().ServiceAccounts(ns).Get(ctx, "default", metav1.GetOptions{})
		return err
	})
	var states []state
	wanted := 0
	for i := range perRound {
		s := randomState(r, fmt.Sprintf("w%d", i))
		if s.second {
			older := fmt.Sprintf("apiVersion: autoscaling.k8s.io/v1\nkind: VerticalPodAutoscaler\nmetadata: {name: a-%[1]s}\nspec:\n  targetRef: {apiVersion: apps/v1, kind: Deployment, name: %[1]s}\n  updatePolicy: {updateMode: Initial}\n", s.name)
			if err := w.ApplyYAML(t.Context(), ns, older); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.ApplyYAML(t.Context(), ns, s.manifests(r)); err != nil {
			t.Fatal(err)
		}
		states = append(states, s)
		wanted += s.replicas
	}
	eventually(t, "the pods have settled", 2*time.Minute, func(ctx context.Context) error {
		l, err := w.CoreV1().Pods(ns).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		settled := 0
		for i := range l.Items {
			p := &l.Items[i]
			at := slices.IndexFunc(states, func(s state) bool { return s.name == p.Labels["app"] })
			if states[at].isPending || p.Status.Phase == corev1.PodRunning && (states[at].pods != "" || isReady(p)) {
				settled++
			}
		}
		if settled != wanted {
			return fmt.Errorf("%d of %d pods", settled, wanted)
		}
		return nil
	})
	for i := range states { // after the pods were created, so that their requests are those of the template
		s := &states[i]
		target := fmt.Sprintf(`{"cpu":%q,"memory":%q}`, s.cpu, s.memory)
		body := fmt.Sprintf(`{"status":{"recommendation":{"containerRecommendations":[{"containerName":"app","target":%[1]s,"lowerBound":%[1]s,"upperBound":%[1]s}]}}}`, target)
		if _, err := w.Dynamic.Resource(autoscalers).Namespace(ns).Patch(t.Context(), s.name, types.MergePatchType, []byte(body), metav1.PatchOptions{}, "status"); err != nil {
			t.Fatal(err)
		}
	}
	return states
}

func isReady(p *corev1.Pod) bool {
	return slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue })
}

// explainAll returns what explain says about each pod, by name.
func (w *world) explainAll(t *testing.T, ns string, states []state) map[string]*expectation {
	t.Helper()
	out := map[string]*expectation{}
	l, err := w.CoreV1().Pods(ns).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range states {
		r := w.podfit(t.Context(), "explain", "deploy/"+states[i].name, "-n", ns, "-o", "json")
		var e struct {
			Next []struct {
				Pods         []string
				Action, Code string
				Reason       string
				Refused      string
			}
		}
		if err := json.Unmarshal([]byte(r.out), &e); err != nil || r.code != 0 {
			t.Fatalf("explain %s: exit code %d, %v, %s", states[i].name, r.code, err, r.errs)
		}
		for _, next := range e.Next {
			for _, name := range next.Pods {
				out[name] = &expectation{state: &states[i], action: next.Action, code: next.Code, reason: next.Reason, refused: next.Refused != ""}
			}
		}
	}
	for i := range l.Items {
		p := &l.Items[i]
		e := out[p.Name]
		if e == nil {
			t.Errorf("NEXT of %s does not contain pod %s", p.Labels["app"], p.Name)
			continue
		}
		e.uid, e.requests = p.UID, requestsOf(p)
	}
	return out
}

// requestsOf returns the requests in the spec of a pod.
func requestsOf(p *corev1.Pod) string {
	r := p.Spec.Containers[0].Resources.Requests
	return r.Cpu().String() + " " + r.Memory().String()
}

// settledFor is how long the pods stay as they are after a pass.
const settledFor = 8 * time.Second

// onePass runs an updater for one pass and compares what it does with the expectations.
func (w *world) onePass(t *testing.T, ns string, expected map[string]*expectation) {
	t.Helper()
	updater, err := w.Run(t.Context(), w.binary, bed.Updater().With("--updater-interval=1h", "--vpa-object-namespace="+ns, "--admission-controller-status-lease-timeout=1m"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := updater.Stop(); err != nil {
			t.Error(err)
		}
	}()
	var last map[string]string
	since := time.Now()
	eventually(t, "the pass has ended", 2*time.Minute, func(ctx context.Context) error {
		now, err := w.changes(ctx, ns, expected)
		if err != nil {
			return err
		}
		if fmt.Sprint(now) != fmt.Sprint(last) {
			last, since = now, time.Now()
		}
		for name, e := range expected {
			if e.action != "leave" && !e.refused && now[name] != e.action && time.Since(since) < 5*settledFor {
				return fmt.Errorf("%s: %s is not done", name, e.action)
			}
		}
		if time.Since(since) < settledFor {
			return fmt.Errorf("it is quiet for %v only", time.Since(since))
		}
		return nil
	})
	first := records(t, updater.Log)
	tried := map[string]bool{} // workloads with a refused eviction: the updater tries the next pod in the same pass
	for _, e := range expected {
		tried[e.state.name] = tried[e.state.name] || e.refused
	}
	for name, e := range expected {
		if tried[e.state.name] {
			if last[name] != "leave" {
				t.Errorf("%s: NEXT is that the API server refuses the eviction, and the pass did %s", name, last[name])
			}
			continue
		}
		did, logged := first[name]
		if !logged { // the updater does not log pods that need no change
			did = record{"leave", e.reason}
		}
		if did.action != e.action || did.reason != e.reason || e.action != "leave" && last[name] != e.action {
			t.Errorf("%s of %+v:\nNEXT is %s (%s): %s\nthe pass did %s: %s\nnow: %s", name, *e.state, e.action, e.code, e.reason, did.action, did.reason, last[name])
		}
	}
}

// changes returns what has happened to each pod.
func (w *world) changes(ctx context.Context, ns string, expected map[string]*expectation) (map[string]string, error) {
	l, err := w.CoreV1().Pods(ns).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	out := map[string]string{}
	for name := range expected {
		out[name] = "evict"
	}
	for i := range l.Items {
		p := &l.Items[i]
		e := expected[p.Name]
		switch {
		case e == nil || e.uid != p.UID || p.DeletionTimestamp != nil:
		case requestsOf(p) != e.requests:
			out[p.Name] = "resize"
		default:
			out[p.Name] = "leave"
		}
	}
	return out, nil
}
