// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	vpav1 "podfit.dev/podfit/api/v1"
	"podfit.dev/podfit/test/e2e/invariant"
)

// A randomState is a workload in a random state.
type randomState struct {
	spec
	lower, target, upper int64    // the CPU recommendation in millicores
	manifests            []string // the workload, its VPA, and what else it has
}

// drawState draws the state of a workload.
func drawState(random *rand.Rand, name string) randomState {
	pick := func(of ...string) string { return of[random.IntN(len(of))] }
	s := randomState{
		spec: spec{Name: name, Replicas: 1 + random.IntN(3), CPU: "10m", Memory: "40Mi", Requests: "{cpu: 20m, memory: 64Mi}"},
	}
	mode := pick("Off", "Initial", "Recreate", "Recreate", "Recreate", "InPlaceOrRecreate", "InPlaceOrRecreate", "InPlaceOrRecreate")
	switch random.IntN(8) {
	case 0: // the present size
		s.lower, s.target, s.upper = 20, 20, 20
	case 1: // within the bounds
		s.lower, s.target, s.upper = 10, 30, 60
	case 2: // larger than each node
		s.lower, s.target, s.upper = 90_000, 90_000, 90_000
	case 3: // smaller
		s.lower, s.target, s.upper = 11, 11, 11
	default:
		s.target = 25 + random.Int64N(40)
		s.lower, s.upper = s.target, s.target
	}
	switch random.IntN(5) {
	case 0:
		s.manifests = append(s.manifests, budget(name, "maxUnavailable: 0"))
	case 1:
		s.manifests = append(s.manifests, budget(name, "maxUnavailable: 1"))
	}
	vpa := s.othersAutoscaler(mode)
	if random.IntN(6) == 0 {
		vpa = annotated(vpa, pick(`podfit.dev/freeze: "true"`, "podfit.dev/rollout: canary"))
	}
	if random.IntN(4) == 0 {
		vpa = strings.Replace(vpa, "updatePolicy: {", fmt.Sprintf("updatePolicy: {minReplicas: %d, ", 1+random.IntN(3)), 1)
	}
	s.manifests = append([]string{s.manifest()}, append(s.manifests, vpa)...)
	return s
}

// adviseCPU writes a recommendation with bounds, as the service account of the recommender. The memory is that of the pods' requests.
func (p *place) adviseCPU(name string, lower, target, upper int64) {
	p.Helper()
	size := func(millicores int64) map[string]string {
		return map[string]string{"cpu": fmt.Sprintf("%dm", millicores), "memory": "64Mi"}
	}
	patch, err := json.Marshal(map[string]any{"status": map[string]any{"recommendation": map[string]any{"containerRecommendations": []any{
		map[string]any{"containerName": "app", "lowerBound": size(lower), "target": size(target), "upperBound": size(upper)},
	}}}})
	if err != nil {
		p.Fatal(err)
	}
	vpas := p.as("vpa-recommender").Dynamic.Resource(vpav1.GroupVersion().WithResource(vpav1.ResourceAutoscalers)).Namespace(p.ns)
	if _, err := vpas.Patch(p.Context(), name, types.MergePatchType, patch, metav1.PatchOptions{}, "status"); err != nil {
		p.Fatal(err)
	}
}

// TestExplain_hundredRandomStates_updaterDoesWhatNextSays explains 100 workloads in random states while no updater runs, and then starts it.
// What it first does with each pod is what NEXT said of it. A pod that waits may be changed after another one of its workload.
func TestExplain_hundredRandomStates_updaterDoesWhatNextSays(t *testing.T) {
	const count = 100
	p := newPlace(t, "random-states")
	p.apply(reader)
	kubeconfig, err := p.Identity(t.Context(), "explain-reader")
	if err != nil {
		t.Fatal(err)
	}
	p.updater.Kill()
	t.Cleanup(func() {
		if !p.updater.Running() {
			if p.updater, err = p.healthy(context.Background(), updater()); err != nil {
				t.Fatal(err)
			}
		}
	})
	random := rand.New(rand.NewPCG(1, 2))
	states := make([]randomState, count)
	pods := map[string]string{} // the workload of a pod, by the UID and name of the pod
	for i := range states {
		states[i] = drawState(random, fmt.Sprintf("w%02d", i))
		p.apply(states[i].manifests...)
	}
	for _, s := range states {
		p.eventually(s.Name+" runs", 3*time.Minute, func(ctx context.Context) error {
			running, err := p.running(ctx, s.Name, s.Replicas)
			for _, pod := range running {
				pods[pod.Name] = s.Name
			}
			return err
		})
		p.adviseCPU(s.Name, s.lower, s.target, s.upper)
	}
	next := p.explainAll(kubeconfig, states)

	begin := time.Now()
	if p.updater, err = p.healthy(t.Context(), updater()); err != nil {
		t.Fatal(err)
	}
	first := map[string]invariant.Write{} // the first eviction or resize of a pod, by its name
	p.eventually("the updater has done what NEXT says", 3*time.Minute, func(context.Context) error {
		first = p.firstActions(begin)
		for name, e := range next {
			for _, step := range e.Next {
				for _, pod := range step.Pods {
					if _, done := first[pod]; !done && (step.Action == "evict" || step.Action == "resize") {
						return fmt.Errorf("%s of %s of %s (%s) is not done; the updater logged\n%s", step.Action, pod, name, step.Code, p.loggedOf(name))
					}
				}
			}
		}
		return nil
	})
	p.always("the others are left", 12*time.Second, func(context.Context) error {
		first = p.firstActions(begin)
		return nil
	})
	autoscalers, err := p.Autoscalers(t.Context(), p.ns)
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range autoscalers { // of a recommender that podfit does not run
		if len(a.Status.Conditions) > 0 {
			t.Errorf("VPA %s has conditions: %+v", a.Name, a.Status.Conditions)
		}
	}
	did := map[string]int{}
	for _, name := range slices.Sorted(maps.Keys(next)) {
		p.compare(next[name], pods, name, first, did)
	}
	t.Logf("NEXT said, and the updater did: %v", did)
	for _, what := range []string{"evict", "resize", "leave", "wait"} {
		if did[what] < 10 {
			t.Errorf("%d pods with %q, want at least 10", did[what], what)
		}
	}
}

// explainAll runs podfit explain for each workload, a few at a time.
func (p *place) explainAll(kubeconfig string, states []randomState) map[string]explained {
	p.Helper()
	out := map[string]explained{}
	var mu sync.Mutex
	var wait sync.WaitGroup
	turns := make(chan struct{}, 4)
	for _, s := range states {
		wait.Go(func() {
			turns <- struct{}{}
			defer func() { <-turns }()
			e, err := p.explain(p.Context(), kubeconfig, "deploy/"+s.Name)
			if err != nil {
				p.Errorf("explain %s: %v", s.Name, err)
			}
			mu.Lock()
			defer mu.Unlock()
			out[s.Name] = e
		})
	}
	wait.Wait()
	return out
}

// loggedOf returns the last lines that the updater has logged about a workload.
func (p *place) loggedOf(workload string) string {
	var lines []string
	for line := range strings.Lines(p.updater.Tail(2000)) {
		if strings.Contains(line, p.ns+"/"+workload) {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines[max(0, len(lines)-10):], "")
}

// firstActions returns the first eviction or resize of each pod of the namespace since a time, also if it was refused, by the name of the pod.
func (p *place) firstActions(since time.Time) map[string]invariant.Write {
	p.Helper()
	log, err := p.witness.Log(p.Context())
	if err != nil {
		p.Fatal(err)
	}
	out := map[string]invariant.Write{}
	slices.SortFunc(log.Writes, func(a, b invariant.Write) int { return a.At.Compare(b.At) })
	for _, w := range log.Writes {
		if w.Namespace != p.ns || w.User != "vpa-updater" || w.DryRun || w.At.Before(since) || w.Subresource != "eviction" && w.Subresource != "resize" {
			continue
		}
		if _, known := out[w.Name]; !known {
			out[w.Name] = w
		}
	}
	return out
}

// compare compares what NEXT said of a workload with the first actions on its pods, and counts what agrees.
func (p *place) compare(said explained, pods map[string]string, name string, first map[string]invariant.Write, did map[string]int) {
	p.Helper()
	earliest := time.Time{} // action on a pod of the workload
	for pod, w := range first {
		if pods[pod] == name && (earliest.IsZero() || w.At.Before(earliest)) {
			earliest = w.At
		}
	}
	for _, step := range said.Next {
		for _, pod := range step.Pods {
			w, acted := first[pod]
			got := cmp.Or(map[string]string{"eviction": "evict", "resize": "resize"}[w.Subresource], "leave")
			switch {
			case step.Action == got && !step.Waits:
				did[got]++
			case step.Waits && (!acted || w.At.After(earliest)):
				did["wait"]++
			default:
				p.Errorf("%s, pod %s: NEXT says %s (%s, waits %v), and the updater did %s (%d %s)", name, pod, step.Action, step.Code, step.Waits, got, w.Code, w.Message)
			}
		}
	}
}
