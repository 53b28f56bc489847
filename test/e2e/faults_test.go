// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	vpav1 "podfit.dev/podfit/api/v1"
	"podfit.dev/podfit/test/e2e/bed"
	"podfit.dev/podfit/test/e2e/invariant"
)

// withFaults is the name of the environment variable that enables TestFaults (make faults): 1 for the short list, which takes 40 minutes, or long for all faults.
const (
	withFaults = "PODFIT_FAULTS"
	longFaults = "long"
)

// A fault is something that fails while podfit runs.
type fault struct {
	name  string
	kind  string        // what several faults have in common; "" for the name
	lasts time.Duration // after it began
	begin func(*faulty) // fails the test if it cannot
	end   func(*faulty) // nil: nothing

	kills   bool // a component ends and is started again
	long    bool // only in the long list
	forgets bool // what podfit has stored is destroyed

	allowed invariant.Rule // may be broken
}

// A result is a line of the table.
type result struct {
	fault      string
	took       time.Duration // until podfit worked again; 0: it did not
	violations int
}

func (r result) String() string {
	took := "not recovered"
	if r.took > 0 {
		took = fmt.Sprintf("%.1f s", r.took.Seconds())
	}
	return fmt.Sprintf("| %s | %s | %d |", r.fault, took, r.violations)
}

// recoversWithin is how long after a fault all of podfit must work again.
const recoversWithin = 90 * time.Second

// TestFaults injects one fault after the other. After each, the recommender must recommend, the updater must resize a pod, and the admission controller
// must size a new one, within recoversWithin. A watcher of the audit log checks the invariants all the time, and after each fault what podfit has learnt.
func TestFaults_anyOne_podfitRecovers(t *testing.T) {
	if os.Getenv(withFaults) == "" {
		t.Skip("takes 40 minutes: make faults")
	}
	f := startFaulty(t)
	f.recover(t, "at the start", time.Now())
	for _, w := range f.judgeKnowledge(t.Context(), true) {
		t.Error(w)
	}
	var table []result
	rows := faults(f.root)
	for _, one := range rows {
		if one.long && os.Getenv(withFaults) != longFaults {
			continue
		}
		t.Run(strings.NewReplacer(" ", "-", "/", "_").Replace(one.name), func(t *testing.T) {
			r := result{fault: one.name}
			defer func() {
				table = append(table, r)
				fmt.Println(r)
			}()
			f.T = t
			f.inject(t, one, &r)
		})
	}
	f.T = t
	fmt.Print(faultTable(table))
	if len(table) == len(rows) && os.Getenv(writesFaults) != "" {
		writeFaults(t, table)
	}
}

// inject injects a fault and judges how podfit recovers.
func (f *faulty) inject(t *testing.T, one fault, r *result) {
	t.Helper()
	defer f.undo()
	begun := time.Now()
	alive := f.remember()
	one.begin(f)
	f.wait(one.lasts)
	if one.end != nil {
		one.end(f)
	}
	took := f.recover(t, one.name, time.Now())
	if !t.Failed() {
		r.took = took
	}
	if one.kills {
		alive = f.remember()
	}
	f.alive(alive)
	wrong := f.judgeKnowledge(t.Context(), one.forgets)
	for _, w := range wrong {
		t.Errorf("after %s: %s", one.name, w)
	}
	if one.allowed != "" {
		f.mu.Lock()
		f.allowed = append(f.allowed, allowance{rule: one.allowed, from: begun, to: time.Now(), because: one.name})
		f.mu.Unlock()
	}
	found, excused, err := f.news(t.Context(), func(invariant.Violation) bool { return true })
	if err != nil {
		t.Error(err)
	}
	for _, v := range excused {
		t.Log(v)
	}
	for _, v := range found {
		t.Errorf("invariant violated:\n%v", v)
		r.violations += v.Times
	}
	r.violations += len(wrong) + f.panics(t, one.name)
}

// faulty is a cluster whose API server answers podfit through gates.
type faulty struct {
	*place
	answer  atomic.Pointer[func(*http.Response) error] // what happens to answers of the API server; nil: nothing
	refuse  atomic.Pointer[func(*http.Request) int]    // the status with which requests are answered without the API server, 0 if they are not
	doors   map[string]*door                           // by component
	serving bed.Component                              // the admission controller
	env     []string                                   // of components that are started
	cpu     int                                        // millicores that were last recommended for pulse or beat
	raised  time.Time                                  // when that was
	known   knowledge
	panicky map[string]int // number of panics in each log

	prometheus *brokenPrometheus
}

// The workloads: podfit recommends for learnt with the default profile, for kept with another one and for team with a SizingProfile. The recommendations
// of the others are written by the test: pulse shows that podfit has recovered, fresh is sized as new pods are, and beat changes during faults. An updater that
// is killed while it changes a workload leaves that workload alone for five minutes.
const (
	learntSpace = "faults-learnt"
	pulseSpace  = "faults-pulse"

	teamProfile = "faults-team"
)

// learning are the workloads for which podfit recommends.
var learning = []string{"learnt", "kept", "team"}

// componentNames are the three components of podfit.
var componentNames = []string{"recommender", "updater", "admission-controller"}

func startFaulty(t *testing.T) *faulty {
	t.Helper()
	w := &world{root: shared.root}
	var err error
	if w.binary, err = bed.Build(t.Context(), w.root, os.Stderr); err != nil {
		t.Fatal(err)
	}
	rights, err := bed.Components(filepath.Join(w.root, "deploy")) // each of them is taken away
	if err != nil {
		t.Fatal(err)
	}
	w.Cluster, err = bed.Up(t.Context(), bed.Options{
		Root: w.root, Nodes: 3, NodeCPU: 8, NodeMemory: "16Gi", Metrics: 5 * time.Second, Audit: true, Prometheus: true, Rights: rights, Progress: os.Stderr,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.Down(); err != nil {
			t.Error(err)
		}
	})
	if err := w.Install(t.Context(), filepath.Join(w.root, "deploy")); err != nil {
		t.Fatal(err)
	}
	witness, err := w.Witness(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	w.checker = &checker{witness: witness, limits: freshLimits()}
	f := &faulty{doors: map[string]*door{}, panicky: map[string]int{}, cpu: 200}
	f.place = newPlaceIn(t, w, pulseSpace)
	for _, name := range componentNames {
		f.openDoor(name)
		f.openDoor(secondOf(name))
	}
	if f.serving, err = admission(); err != nil {
		t.Fatal(err)
	}
	f.prometheus = f.breakPrometheus()
	f.apply("{apiVersion: v1, kind: Namespace, metadata: {name: " + learntSpace + "}}")
	f.startComponents(componentNames...)
	f.applyProfile()
	learnt, kept, team := steady("learnt"), steady("kept"), steady("team")
	kept.Replicas, team.Replicas = 1, 1
	for _, manifest := range []string{
		learnt.manifest(), autoscaler("learnt", "", "learnt", "InPlaceOrRecreate", ""), kept.manifest(), autoscaler("kept", "", "kept", "Off", withProfile("balanced")),
		team.manifest(), autoscaler("team", "", "team", "Off", withProfile(teamProfile)),
	} {
		f.must(f.ApplyYAML(t.Context(), learntSpace, manifest))
	}
	byTest := withProfile("faults-test") // a recommender that does not exist; if a namespace were ignored, podfit would not keep the CapacityPlan
	for _, name := range []string{"pulse", "beat"} {
		f.apply(spec{Name: name, Requests: "{cpu: 200m, memory: 100Mi}", CPU: "50m", Memory: "50Mi"}.manifest(), autoscaler(name, "", name, "InPlaceOrRecreate", byTest))
		f.start(name, 2)
	}
	f.apply(spec{Name: "fresh", Requests: "{cpu: 100m, memory: 100Mi}", CPU: "50m", Memory: "50Mi"}.manifest(), autoscaler("fresh", "", "fresh", "Initial", byTest))
	f.start("fresh", 2)
	f.recommend("fresh", "250m", "250m", "260m")
	for _, name := range learning {
		f.eventually(name+" has a recommendation", measured+resized, f.isRecommended(name))
	}
	return f
}

// applyProfile creates the SizingProfile of team.
func (f *faulty) applyProfile() {
	f.Helper()
	f.must(f.ApplyYAML(f.Context(), "", sizingProfile(teamProfile, double)))
}

// component returns a component, behind its gate. A name that begins with second- is a second one.
func (f *faulty) component(name string) bed.Component {
	c := f.serving
	switch strings.TrimPrefix(name, secondOf("")) {
	case "recommender":
		c = bed.Recommender().With("--recommender-interval=5s")
	case "updater":
		c = bed.Updater().With("--updater-interval=5s", "--admission-controller-status-lease-timeout=15s")
	}
	return c.Named(name).Behind(f.doors[name].Gate).WithEnv(f.env...)
}

// secondOf returns the name of a second process of a component.
func secondOf(name string) string { return "second-" + name }

// startComponents starts components, in place of former ones.
func (f *faulty) startComponents(names ...string) {
	f.Helper()
	for _, name := range names {
		f.startAs(name, f.component(name))
	}
}

// startAs starts a component with other flags.
func (f *faulty) startAs(name string, c bed.Component) {
	f.Helper()
	p, err := f.healthy(f.Context(), c)
	f.must(err)
	*f.process(name) = p
}

// settled is after which time the updater has stored the outcome of its last action: a pass, and saveDelay in internal/app/updater/updatestate.
const settled = 18 * time.Second

// killComponents kills components. An updater that is killed before it has stored an outcome changes pods of that workload only after five minutes. Therefore
// it is given the time for it, if it is not killed on purpose while it acts.
func (f *faulty) killComponents(names ...string) {
	if slices.Contains(names, "updater") && (*f.process("updater")).Running() {
		f.wait(settled - time.Since(f.raised))
	}
	f.killAtOnce(names...)
}

func (f *faulty) killAtOnce(names ...string) {
	for _, name := range names {
		(*f.process(name)).Kill()
	}
}

func (f *faulty) process(name string) **bed.Podfit {
	return map[string]**bed.Podfit{"recommender": &f.recommender, "updater": &f.updater, "admission-controller": &f.admission}[name]
}

func (f *faulty) must(err error) {
	f.Helper()
	if err != nil {
		f.Fatal(err)
	}
}

// wait waits for the length of a fault.
func (f *faulty) wait(d time.Duration) {
	over := time.NewTimer(d)
	defer over.Stop()
	select {
	case <-over.C:
	case <-f.Context().Done():
	}
}

// answers sets what happens to the answers of the API server.
func (f *faulty) answers(change func(*http.Response) error) { f.answer.Store(&change) }

// undo ends the faults of the connections to the API server and to Prometheus.
func (f *faulty) undo() {
	f.answer.Store(nil)
	f.refuse.Store(nil)
	f.prometheus.fault.Store(nil)
	for _, d := range f.doors {
		d.hangs.Store(false)
	}
}

// isRecommended returns a check that podfit recommends for a workload.
func (f *faulty) isRecommended(name string) func(context.Context) error {
	return func(ctx context.Context) error {
		a, err := f.Autoscaler(ctx, learntSpace, name)
		if err != nil {
			return err
		}
		if a.Status.Recommendation == nil || len(a.Status.Recommendation.ContainerRecommendations) != 1 {
			return errors.New("there is no recommendation")
		}
		return nil
	}
}

// provoke gives the recommender and the updater something to do during a fault: recommendations are missing, and the pods of beat do not have theirs.
func (f *faulty) provoke(ctx context.Context) error {
	_, err := f.raise(ctx, "beat")
	return errors.Join(err, f.removeRecommendations(ctx))
}

// raise recommends more CPU for a workload, and returns the size that its pods must get.
func (f *faulty) raise(ctx context.Context, workload string) (string, error) {
	f.cpu += 5
	f.raised = time.Now()
	cpu := fmt.Sprintf("%dm", f.cpu)
	size := map[string]string{"cpu": cpu, "memory": "100Mi"}
	return "app cpu=" + cpu + " memory=104857600", f.patchStatus(ctx, f.as("vpa-recommender"), pulseSpace, workload, map[string]any{"containerRecommendations": []any{
		map[string]any{"containerName": "app", "lowerBound": size, "target": size, "upperBound": size},
	}})
}

// removeRecommendations removes the recommendations that podfit makes, which it must make again.
func (f *faulty) removeRecommendations(ctx context.Context) (err error) {
	for _, name := range learning {
		err = errors.Join(err, f.patchStatus(ctx, f.Kube, learntSpace, name, nil))
	}
	return err
}

// recover returns how long after a time all of podfit works again: it recommends, resizes a pod, and sizes a new one.
func (f *faulty) recover(t *testing.T, after string, since time.Time) time.Duration {
	t.Helper()
	f.undo()
	ctx, cancel := bed.WithPatience(t.Context(), recoversWithin)
	defer cancel()
	check := func(what string, ok func(context.Context) error) {
		t.Helper()
		if err := bed.Until(ctx, 200*time.Millisecond, ok); err != nil {
			t.Errorf("%s: %s, within %v: %v", after, what, recoversWithin, err)
			f.report()
		}
	}
	size := ""
	check("the API server accepts recommendations", func(ctx context.Context) (err error) {
		size, err = f.raise(ctx, "pulse")
		return errors.Join(err, f.removeRecommendations(ctx))
	})
	var old []corev1.Pod
	check("a pod can be deleted", func(ctx context.Context) (err error) {
		if old, err = f.running(ctx, "fresh", 2); err != nil {
			return err
		}
		return f.CoreV1().Pods(f.ns).Delete(ctx, old[0].Name, metav1.DeleteOptions{})
	})
	for _, name := range learning {
		check("podfit recommends for "+name, f.isRecommended(name))
	}
	check("the updater resizes pods", f.sized("pulse", 2, size))
	f.raised = time.Now()
	check("a new pod has the recommendation", func(ctx context.Context) error {
		pods, err := f.running(ctx, "fresh", 2)
		if err != nil {
			return err
		}
		for _, pod := range pods {
			if !slices.ContainsFunc(old, func(o corev1.Pod) bool { return o.UID == pod.UID }) {
				if got := requests(pod); got == "app cpu=250m memory=104857600" {
					return nil
				}
				// It was created before the webhook worked again.
				old = append(old, pod)
				return errors.Join(fmt.Errorf("pod %s has %q", pod.Name, requests(pod)), f.CoreV1().Pods(f.ns).Delete(ctx, pod.Name, metav1.DeleteOptions{}))
			}
		}
		return errors.New("the deleted pod is not replaced")
	})
	return time.Since(since)
}

func (f *faulty) patchStatus(ctx context.Context, by *bed.Kube, ns, name string, recommendation any) error {
	patch, err := json.Marshal(map[string]any{"status": map[string]any{"recommendation": recommendation}})
	if err != nil {
		return err
	}
	vpas := by.Dynamic.Resource(vpav1.GroupVersion().WithResource(vpav1.ResourceAutoscalers)).Namespace(ns)
	_, err = vpas.Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{}, "status")
	return err
}

// panicking matches a panic in the log of a process.
var panicking = regexp.MustCompile(`(?i)\bpanic|fatal error:`)

// panics fails the test for panics that were not reported before, in the logs of all processes, also of those that have ended. It returns their number.
func (f *faulty) panics(t *testing.T, after string) (n int) {
	t.Helper()
	for name := range f.doors {
		path := filepath.Join(f.Dir, name+".log") // all processes of a component append to it
		text, err := os.ReadFile(path)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		f.must(err)
		all := panicking.FindAllIndex(text, -1)
		if before := f.panicky[path]; len(all) > before {
			from := all[before][0]
			t.Errorf("after %s: the log of %s has a panic:\n%s", after, name, text[from:min(len(text), from+4000)])
			n += len(all) - before
		}
		f.panicky[path] = len(all)
	}
	return n
}

// faults returns all faults in order.
func faults(root string) []fault {
	return slices.Concat(faultsOfAnswers(), faultsOfMetrics(), faultsOfPrometheus(), faultsOfParts(), faultsOfProcesses(), faultsOfObjects(), faultsOfCertificates(),
		faultsOfCRDs(), faultsOfStoredState(), faultsOfManyObjects(), faultsOfRights(root))
}
