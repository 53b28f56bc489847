// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"podfit.dev/podfit/test/e2e/bed"
	"podfit.dev/podfit/test/e2e/invariant"
)

// A randomState is a workload in a random state.
type randomState struct {
	spec
	in                   *place
	lower, target, upper int64    // the CPU recommendation in millicores
	memory               string   // the memory recommendation
	manifests            []string // the workload, its VPA, and what else it has
	pods                 []corev1.Pod

	deaths       []death // of the container of each pod
	ready, loops bool    // the pods are ready; they are killed again and again
}

// A death lets the container of a pod end: with an exit code, or because it uses more memory than its limit.
type death struct {
	annotation, value string
	times             int32
}

const memoryUsage = "sim.podfit.dev/app.memory"

// quickOOM is the value of --evict-after-oom-threshold. Containers that use too much memory at once are killed earlier, others later. It is longer
// than the back-off of the simulated kubelet, so that a pod that is killed again and again is down all the time.
const quickOOM = 20 * time.Second

// drawDeaths draws how the containers of a workload end. Its recommendation has more memory, or as much as its pods have.
func (s *randomState) drawDeaths(random *rand.Rand) {
	kill := death{memoryUsage, "300Mi", 1 + random.Int32N(4)}
	switch random.IntN(4) {
	case 0:
		kill.value, kill.times = "ramp(40Mi, 300Mi, 90s)", 1
	case 1:
		s.deaths = append(s.deaths, death{"sim.podfit.dev/app.exit", "after=1s,code=1", 1})
	}
	s.deaths = append(s.deaths, kill)
	s.Limits = "{memory: 128Mi}"
	s.memory = []string{"64Mi", "200Mi", "200Mi", "200Mi"}[random.IntN(4)]
	s.ready = random.IntN(3) > 0
	s.loops = !s.ready
}

// drawState draws the state of a workload. Some of its pods have been OOM-killed.
func drawState(random *rand.Rand, name string, killed bool) randomState {
	pick := func(of ...string) string { return of[random.IntN(len(of))] }
	s := randomState{
		spec:   spec{Name: name, Replicas: 1 + random.IntN(3), CPU: "10m", Memory: "40Mi", Requests: "{cpu: 20m, memory: 64Mi}"},
		memory: "64Mi", ready: true,
	}
	if killed {
		s.drawDeaths(random)
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
	workload := s.manifest()
	if !s.ready {
		workload = strings.Replace(workload, "image: test/app,", "image: test/app, readinessProbe: {exec: {command: [ready]}, periodSeconds: 1},", 1)
		workload = strings.Replace(workload, "annotations:", "annotations:\n        sim.podfit.dev/app.ready: after=10h", 1)
	}
	s.manifests = append([]string{workload}, append(s.manifests, vpa)...)
	return s
}

// settled returns the pods of the state if they run, and are ready unless they never are.
func (s *randomState) settled(ctx context.Context) ([]corev1.Pod, error) {
	if s.ready {
		return s.in.running(ctx, s.Name, s.Replicas)
	}
	pods, err := s.in.pods(ctx, s.Name)
	if err != nil || len(pods) != s.Replicas {
		return nil, fmt.Errorf("%d of %d pods of %s exist: %w", len(pods), s.Replicas, s.Name, err)
	}
	for _, pod := range pods {
		if pod.Status.Phase != corev1.PodRunning || ready(&pod) {
			return nil, fmt.Errorf("pod %s: %s, ready %v", pod.Name, pod.Status.Phase, ready(&pod))
		}
	}
	return pods, nil
}

// die lets the containers of the pods end as drawn, and waits until they have settled.
func (s *randomState) die(ctx context.Context, pods []corev1.Pod) error {
	of := s.in.CoreV1().Pods(s.in.ns)
	annotate := func(pod, annotation string, value any) error {
		patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]any{annotation: value}}})
		if err != nil {
			return err
		}
		_, err = of.Patch(ctx, pod, types.MergePatchType, patch, metav1.PatchOptions{})
		return err
	}
	restarts := int32(0)
	for i, d := range s.deaths {
		restarts += d.times
		for _, pod := range pods {
			if err := annotate(pod.Name, d.annotation, d.value); err != nil {
				return err
			}
		}
		var after any // nil removes the annotation
		if d.annotation == memoryUsage {
			after = s.Memory
		}
		for _, pod := range pods {
			if err := bed.Until(ctx, 250*time.Millisecond, func(ctx context.Context) error {
				now, err := of.Get(ctx, pod.Name, metav1.GetOptions{})
				if err == nil && now.Status.ContainerStatuses[0].RestartCount < restarts {
					err = fmt.Errorf("pod %s: %d restarts, want %d", pod.Name, now.Status.ContainerStatuses[0].RestartCount, restarts)
				}
				return err
			}); err != nil {
				return err
			}
			if s.loops && i == len(s.deaths)-1 {
				continue
			}
			if err := annotate(pod.Name, d.annotation, after); err != nil {
				return err
			}
		}
	}
	return bed.Until(ctx, 250*time.Millisecond, func(ctx context.Context) error {
		pods, err := s.settled(ctx)
		for i := range pods {
			// A kill of a pod that is ready counts as a quick one for a time. It must not end between NEXT and the pass of the updater.
			if died := pods[i].Status.ContainerStatuses[0].LastTerminationState.Terminated; s.ready && died != nil && time.Since(died.FinishedAt.Time) < quickOOM {
				err = fmt.Errorf("pod %s was killed less than %v ago", pods[i].Name, quickOOM)
			}
		}
		return err
	})
}

// adviseCPU writes a recommendation with bounds, as the service account of the recommender. The memory is that of the pods' requests.
func (p *place) adviseCPU(name string, lower, target, upper int64) {
	p.Helper()
	p.adviseBoth(name, lower, target, upper, "64Mi")
}

// adviseBoth writes a recommendation for CPU and memory.
func (p *place) adviseBoth(name string, lower, target, upper int64, memory string) {
	p.Helper()
	size := func(millicores int64) map[string]string {
		return map[string]string{"cpu": fmt.Sprintf("%dm", millicores), "memory": memory}
	}
	p.adviseContainers(name, map[string]any{"containerName": "app", "lowerBound": size(lower), "target": size(target), "upperBound": size(upper)})
}

// A quotaRoom is what a ResourceQuota leaves when the pods of a namespace run.
type quotaRoom struct{ namespace, cpu, memory string }

// quotaRooms are the namespaces of random states: without a quota, and with quotas that leave much, leave enough for one pod or two, and are
// exceeded by each pod that grows.
var quotaRooms = []quotaRoom{{"random-states", "", ""}, {"random-states-ample", "50", "50Gi"}, {"random-states-scarce", "50m", "300Mi"}, {"random-states-full", "1m", "1Mi"}}

// bound creates a ResourceQuota that leaves the room, and waits until it is in effect.
func (r *quotaRoom) bound(p *place) {
	p.Helper()
	if r.cpu == "" {
		return
	}
	pods, err := p.pods(p.Context(), "")
	if err != nil {
		p.Fatal(err)
	}
	cpu, memory := resource.MustParse(r.cpu), resource.MustParse(r.memory)
	for _, pod := range pods {
		of := pod.Spec.Containers[0].Resources.Requests
		cpu.Add(*of.Cpu())
		memory.Add(*of.Memory())
	}
	p.apply(fmt.Sprintf("{apiVersion: v1, kind: ResourceQuota, metadata: {name: bound}, spec: {hard: {requests.cpu: %q, requests.memory: %q}}}", &cpu, &memory))
	p.eventually("the quota is in effect", time.Minute, func(ctx context.Context) error {
		q, err := p.CoreV1().ResourceQuotas(p.ns).Get(ctx, "bound", metav1.GetOptions{})
		if err == nil && q.Status.Used.Name("requests.cpu", resource.DecimalSI).IsZero() {
			err = fmt.Errorf("its status is %+v", q.Status)
		}
		return err
	})
}

// TestExplain_hundredRandomStates_updaterDoesWhatNextSays explains 100 workloads in random states while no updater runs, and then starts it.
// What it first does with each pod is what NEXT said of it, for the same reason. A pod that waits may be changed later. 30 of the workloads
// have OOM-killed pods, and a third of all are in a namespace with a ResourceQuota.
func TestExplain_hundredRandomStates_updaterDoesWhatNextSays(t *testing.T) {
	const count = 100
	p := newPlace(t, quotaRooms[0].namespace)
	places := []*place{p}
	for _, r := range quotaRooms[1:] {
		at := newPlace(t, r.namespace)
		at.allow(invariant.Admitted, "a quota that is used up refuses each replacement until the evicted pod is gone")
		places = append(places, at)
	}
	p.apply(reader)
	kubeconfig, err := p.Identity(t.Context(), "explain-reader")
	if err != nil {
		t.Fatal(err)
	}
	p.updater.Kill()
	t.Cleanup(func() {
		p.updater.Kill()
		if p.updater, err = p.healthy(context.Background(), updater()); err != nil {
			t.Fatal(err)
		}
	})
	states := p.createStates(count, places)
	before := p.killed(states)
	next := p.explainAll(kubeconfig, states)
	after := p.killed(states)
	for _, s := range states {
		p.compareKills(s.Name, next[s.Name].Now, before[s.Name], after[s.Name])
	}

	logged, err := os.Stat(p.updater.Log)
	if err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	if p.updater, err = p.healthy(t.Context(), updater().With("--evict-after-oom-threshold="+quickOOM.String())); err != nil {
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
	for _, at := range places {
		autoscalers, err := p.Autoscalers(t.Context(), at.ns)
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range autoscalers { // of a recommender that podfit does not run
			if len(a.Status.Conditions) > 0 {
				t.Errorf("VPA %s has conditions: %+v", a.Name, a.Status.Conditions)
			}
		}
	}
	reasons := p.firstReasons(logged.Size())
	did := map[string]int{}
	for _, s := range states {
		p.compare(&s, next[s.Name], first, reasons, did)
	}
	t.Logf("NEXT said, and the updater did: %v", did)
	for _, what := range []string{"evict", "resize", "leave", "wait", "OutOfMemory", "OverQuota"} {
		if did[what] < 10 {
			t.Errorf("%d pods with %q, want at least 10", did[what], what)
		}
	}
}

// createStates creates workloads in random states.
func (p *place) createStates(count int, places []*place) []randomState {
	p.Helper()
	random := rand.New(rand.NewPCG(1, 2))
	states := make([]randomState, count)
	for i := range states {
		s := drawState(random, fmt.Sprintf("w%02d", i), i%10 < 3)
		s.in = places[0]
		if i%3 == 1 {
			s.in = places[1+i/3%3]
		}
		s.in.apply(s.manifests...)
		states[i] = s
	}
	ctx, cancel := bed.WithPatience(p.Context(), 5*time.Minute)
	defer cancel()
	var wait sync.WaitGroup
	for i := range states {
		s := &states[i]
		p.eventually(s.Name+" runs", 3*time.Minute, func(ctx context.Context) (err error) {
			s.pods, err = s.settled(ctx)
			return err
		})
		if len(s.deaths) == 0 {
			continue
		}
		wait.Go(func() {
			if err := s.die(ctx, s.pods); err != nil {
				p.Error(err)
			}
		})
	}
	wait.Wait()
	for i := range quotaRooms {
		quotaRooms[i].bound(places[i])
	}
	for _, s := range states {
		s.in.adviseBoth(s.Name, s.lower, s.target, s.upper, s.memory)
	}
	return states
}

// kills are what the pods of a workload show of OOM kills.
type kills struct{ pods, restarts int }

// killed returns what the pods of workloads show, by the name of the workload.
func (p *place) killed(states []randomState) map[string]kills {
	p.Helper()
	out := map[string]kills{}
	for _, s := range states {
		pods, err := s.in.pods(p.Context(), s.Name)
		if err != nil {
			p.Fatal(err)
		}
		k := kills{}
		for _, pod := range pods {
			c := pod.Status.ContainerStatuses[0]
			t := cmp.Or(c.State.Terminated, c.LastTerminationState.Terminated)
			if t != nil && t.Reason == "OOMKilled" {
				k.pods++
				k.restarts += int(c.RestartCount)
			}
		}
		out[s.Name] = k
	}
	return out
}

var killText = regexp.MustCompile(`^app was OOM-killed at least (once|\d+ times) in (\d+) pods?(?: with (\d+) restarts?)?, last at `)

// compareKills compares what NOW says about OOM kills with what the pods showed before and after. A pod shows one kill, and its restarts.
func (p *place) compareKills(name string, now []string, before, after kills) {
	p.Helper()
	said := kills{}
	for _, text := range now {
		if m := killText.FindStringSubmatch(text); m != nil {
			times := 1
			if m[1] != "once" {
				fmt.Sscan(m[1], &times)
			}
			fmt.Sscan(m[2], &said.pods)
			said.restarts = times // no more than that
			if m[3] != "" {
				fmt.Sscan(m[3], &said.restarts)
			}
			if times != said.pods {
				p.Errorf("%s: NOW counts %d kills in %d pods: %s", name, times, said.pods, text)
			}
		}
	}
	if said.pods != before.pods || said.restarts > max(after.restarts, said.pods) || said.restarts < before.restarts {
		p.Errorf("%s: NOW counts %+v, and the pods had %+v before and %+v after: %q", name, said, before, after, now)
	}
}

// A statement is the reason of a decision, and when it was made.
type statement struct {
	reason string
	at     time.Time
}

// firstReasons returns the reason in the first line about each pod in the log of the updater, after the first bytes of the log. The updater
// logs nothing about pods that need no change.
func (p *place) firstReasons(after int64) map[string]statement {
	p.Helper()
	text, err := os.ReadFile(p.updater.Log)
	if err != nil {
		p.Fatal(err)
	}
	out := map[string]statement{}
	for _, m := range loggedReason.FindAllStringSubmatch(string(text[after:]), -1) {
		if _, known := out[m[2]]; known {
			continue
		}
		s := statement{reason: m[3]}
		if unquoted, err := strconv.Unquote(m[3]); err == nil {
			s.reason = unquoted
		}
		if s.at, err = time.Parse(time.RFC3339, m[1]); err != nil {
			p.Fatal(err)
		}
		out[m[2]] = s
	}
	return out
}

var (
	loggedReason = regexp.MustCompile(`time=(\S+) .*action=\w+ pod=[\w-]+/([\w.-]+) .*reason=("(?:[^"\\]|\\.)*"|\S+)`)
	timestamp    = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ`)
	lifetime     = regexp.MustCompile(`OOM-killed (less than )?\d+s after`)
)

// differs returns how a reason that was logged differs from that of NEXT. What lasts from the pass on ends as much later as the pass was.
func (s *randomState) differs(next, logged statement) string {
	a, b := timestamp.ReplaceAllString(next.reason, "T"), timestamp.ReplaceAllString(logged.reason, "T")
	if s.loops { // it was killed again
		a, b = lifetime.ReplaceAllString(a, "OOM-killed after"), lifetime.ReplaceAllString(b, "OOM-killed after")
	}
	if a != b {
		return "another reason"
	}
	times := timestamp.FindAllString(logged.reason, -1)
	for i, text := range timestamp.FindAllString(next.reason, -1) {
		said, err := time.Parse(time.RFC3339, text)
		is, other := time.Parse(time.RFC3339, times[i])
		if later := is.Sub(said); err != nil || other != nil || later < 0 || later > logged.at.Sub(next.at)+time.Second {
			return fmt.Sprintf("%v later, although the pass was %v later", later, logged.at.Sub(next.at))
		}
	}
	return ""
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
			e, err := s.in.explain(p.Context(), kubeconfig, "deploy/"+s.Name, "--evict-after-oom-threshold="+quickOOM.String())
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
		if strings.Contains(line, "/"+workload) {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines[max(0, len(lines)-10):], "")
}

// firstActions returns the first eviction or resize of each pod with a random state since a time, also if it was refused, by the name of the pod.
func (p *place) firstActions(since time.Time) map[string]invariant.Write {
	p.Helper()
	log, err := p.witness.Log(p.Context())
	if err != nil {
		p.Fatal(err)
	}
	out := map[string]invariant.Write{}
	slices.SortFunc(log.Writes, func(a, b invariant.Write) int { return a.At.Compare(b.At) })
	for _, w := range log.Writes {
		if !strings.HasPrefix(w.Namespace, p.ns) || w.User != "vpa-updater" || w.DryRun || w.At.Before(since) || w.Subresource != "eviction" && w.Subresource != "resize" {
			continue
		}
		if _, known := out[w.Name]; !known {
			out[w.Name] = w
		}
	}
	return out
}

// compare compares what NEXT said of a workload with the first actions on its pods and the reasons in the log, and counts what agrees.
func (p *place) compare(s *randomState, said explained, first map[string]invariant.Write, reasons map[string]statement, did map[string]int) {
	p.Helper()
	earliest := time.Time{} // action on a pod of the workload
	refused := false        // the updater tries the next pod in the same pass
	for _, pod := range s.pods {
		if w, acted := first[pod.Name]; acted {
			refused = refused || w.Code >= 300
			if earliest.IsZero() || w.At.Before(earliest) {
				earliest = w.At
			}
		}
	}
	for _, step := range said.Next {
		for _, pod := range step.Pods {
			w, acted := first[pod]
			got := cmp.Or(map[string]string{"eviction": "evict", "resize": "resize"}[w.Subresource], "leave")
			reason, logged := reasons[pod]
			difference := ""
			if logged && !refused {
				difference = s.differs(statement{step.Reason, said.At}, reason)
			}
			switch {
			case difference != "":
				p.Errorf("%s, pod %s: NEXT says %s (%s): %s\nthe updater logged: %s\n%s", s.Name, pod, step.Action, step.Code, step.Reason, reason.reason, difference)
			case acted && w.At.Before(step.NotBefore):
				p.Errorf("%s, pod %s: NEXT says %s (%s) not before %v, and the updater did %s at %v", s.Name, pod, step.Action, step.Code, step.NotBefore, got, w.At)
			case step.Action == got && !step.Waits:
				did[got]++
				did[step.Code]++
			case step.Waits && logged, step.Waits && (!acted || w.At.After(earliest)):
				did["wait"]++
				did[step.Code]++
			default:
				p.Errorf("%s, pod %s: NEXT says %s (%s, waits %v), and the updater did %s (%d %s)", s.Name, pod, step.Action, step.Code, step.Waits, got, w.Code, w.Message)
			}
		}
	}
}
