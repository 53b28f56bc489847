// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	vpav1 "podfit.dev/podfit/api/v1"
	"podfit.dev/podfit/test/e2e/bed"
	"podfit.dev/podfit/test/e2e/invariant"
)

// ownAutoscaler returns the VPA of a workload in a namespace of adviseThemselves: the test writes its recommendation itself.
func (s spec) ownAutoscaler(mode string) string {
	return autoscaler(s.Name, s.Kind, s.Name, mode, "")
}

// othersAutoscaler returns a VPA of another recommender. The test writes its recommendation, and podfit writes nothing to it.
func (s spec) othersAutoscaler(mode string) string {
	return autoscaler(s.Name, s.Kind, s.Name, mode, "  recommenders: [{name: of-the-test}]")
}

// advise writes the recommendation for the container app of VPAs, with equal bounds, as the service account of the recommender.
func (p *place) advise(cpu, memory string, names ...string) {
	p.Helper()
	size := map[string]string{"cpu": cpu, "memory": memory}
	for _, name := range names {
		p.adviseContainers(name, map[string]any{"containerName": "app", "lowerBound": size, "target": size, "upperBound": size})
	}
}

// adviseContainers writes the recommendations for the containers of a VPA as the service account of the recommender. No other recommender may
// serve the VPA: both would write its status alternately.
func (p *place) adviseContainers(name string, containers ...any) {
	p.Helper()
	a, err := p.Autoscaler(p.Context(), p.ns, name)
	if err != nil {
		p.Fatal(err)
	}
	if len(a.Spec.Recommenders) == 0 && p.world == shared && !slices.Contains(adviseThemselves, p.ns) {
		p.Fatalf("VPA %s is served by the recommender of all tests: use othersAutoscaler, or add namespace %s to adviseThemselves", name, p.ns)
	}
	patch, err := json.Marshal(map[string]any{"status": map[string]any{"recommendation": map[string]any{"containerRecommendations": containers}}})
	if err != nil {
		p.Fatal(err)
	}
	vpas := p.as("vpa-recommender").Dynamic.Resource(vpav1.GroupVersion().WithResource(vpav1.ResourceAutoscalers)).Namespace(p.ns)
	if _, err := vpas.Patch(p.Context(), name, types.MergePatchType, patch, metav1.PatchOptions{}, "status"); err != nil {
		p.Fatal(err)
	}
}

// annotate sets annotations of an object; a value of nil removes one.
func annotate(values map[string]any) []byte {
	patch, _ := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": values}}) // maps of strings cannot fail
	return patch
}

func (p *place) annotateAutoscaler(name string, values map[string]any) {
	p.Helper()
	vpas := p.Dynamic.Resource(vpav1.GroupVersion().WithResource(vpav1.ResourceAutoscalers)).Namespace(p.ns)
	if _, err := vpas.Patch(p.Context(), name, types.MergePatchType, annotate(values), metav1.PatchOptions{}); err != nil {
		p.Fatal(err)
	}
}

func (p *place) annotateNamespace(values map[string]any) {
	p.Helper()
	if _, err := p.CoreV1().Namespaces().Patch(p.Context(), p.ns, types.MergePatchType, annotate(values), metav1.PatchOptions{}); err != nil {
		p.Fatal(err)
	}
}

const (
	freeze       = "podfit.dev/freeze"
	changeWindow = "podfit.dev/change-window"

	advisedSize = "app cpu=350m memory=262144k"
	smallSize   = "app cpu=100m memory=52428800"
)

// freezeAndWindows has three workloads in a frozen namespace. None of them is changed. When the namespace is not frozen any more, the first
// is changed; the second follows when its VPA is not frozen any more, and the third when its change window is open.
func freezeAndWindows(t *testing.T, name string) {
	p := newPlace(t, name)
	p.annotateNamespace(map[string]any{freeze: "true"})
	free, frozen, closed := steady("free"), steady("frozen"), steady("closed")
	p.apply(free.manifest(), frozen.manifest(), closed.manifest(), free.ownAutoscaler("Recreate"),
		annotated(frozen.ownAutoscaler("InPlaceOrRecreate"), freeze+`: "true"`),
		annotated(closed.ownAutoscaler("InPlaceOrRecreate"), changeWindow+`: "0 0 29 2 *; 1m; Europe/Berlin"`))
	old := map[string][]corev1.Pod{}
	for _, w := range []spec{free, frozen, closed} {
		old[w.Name] = p.start(w.Name, 2)
	}
	p.advise("350m", "262144k", "free", "frozen", "closed")
	for _, w := range []spec{free, frozen, closed} {
		p.eventually("the condition of "+w.Name+" names the freeze", resized, p.says(w.Name, updatingCondition, "Frozen", "annotation podfit.dev/freeze of namespace "+p.ns))
	}
	unchanged := func(w spec) func(context.Context) error {
		return all(p.same(w.Name, old[w.Name]), p.sized(w.Name, 2, smallSize))
	}
	p.always("no pod is changed during the freeze of the namespace", 8*time.Second, all(unchanged(free), unchanged(frozen), unchanged(closed)))
	p.eventually("an event names the freeze", resized, p.eventOf("UpdateHeld"))

	p.annotateNamespace(map[string]any{freeze: nil})
	p.eventually("the first workload has its size", resized, p.sized("free", 2, advisedSize))
	p.eventually("the condition names the freeze of the VPA", resized, p.says("frozen", updatingCondition, "Frozen", "annotation podfit.dev/freeze of VPA "+p.ns+"/frozen"))
	p.eventually("the condition names the change window", resized, p.says("closed", updatingCondition, "ChangeWindow", "No change window is open"))
	if err := all(unchanged(frozen), unchanged(closed))(t.Context()); err != nil {
		t.Error(err)
	}

	p.annotateAutoscaler("frozen", map[string]any{freeze: "false"})
	p.annotateAutoscaler("closed", map[string]any{changeWindow: "* * * * *; 2m"})
	p.eventually("the second workload has its size", resized, all(p.sized("frozen", 2, advisedSize), p.same("frozen", old["frozen"])))
	p.eventually("the third workload has its size", resized, all(p.sized("closed", 2, advisedSize), p.same("closed", old["closed"])))
}

// canaries has workloads that change one pod first.
//
//	good    the canary runs well, so the other pods follow
//	killed  the canary is OOM-killed with its new size, so its replacement gets the previous size, and no other pod changes
//	crash   a container of the canary crashes, so it is resized to the previous size, and no other pod changes
func canaries(t *testing.T, name string) {
	p := newPlace(t, name)
	p.allow(invariant.Advised, "a canary that fails gets the previous size, although the recommendation in the status is another one")
	good, killed, crash := steady("good"), steady("killed"), steady("crash")
	for _, w := range []*spec{&good, &killed, &crash} {
		w.Replicas = 3
	}
	killed.Requests, killed.Limits = "{cpu: 100m, memory: 300Mi}", "{memory: 400Mi}"
	watched := map[string]string{"good": "1m", "killed": "1m", "crash": "3m"} // on a busy machine the test needs more than a minute to make it crash
	old := map[string][]corev1.Pod{}
	for w, mode := range map[*spec]string{&good: "InPlaceOrRecreate", &killed: "Recreate", &crash: "InPlaceOrRecreate"} {
		p.apply(w.manifest(), annotated(w.ownAutoscaler(mode), "podfit.dev/rollout: canary", "podfit.dev/canary-duration: "+watched[w.Name]))
		old[w.Name] = p.start(w.Name, 3)
	}
	p.advise("350m", "262144k", "good", "crash")
	p.advise("100m", "60Mi", "killed") // with a limit of 80Mi, and 200Mi are used
	began := time.Now()

	p.eventually("one pod of crash has the new size", resized, p.changed("crash", advisedSize, 1))
	canary := p.ofSize("crash", advisedSize)[0]
	crashes := annotate(map[string]any{"sim.podfit.dev/app.exit": "after=1s,code=1"})
	if _, err := p.CoreV1().Pods(p.ns).Patch(t.Context(), canary.Name, types.MergePatchType, crashes, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	p.eventually("one pod of good has the new size", resized, p.changed("good", advisedSize, 1))

	reverted := vpav1.VerticalPodAutoscalerConditionType("Reverted")
	p.eventually("the condition has the cause", resized, p.says("killed", reverted, "OOMKilled", "was OOM-killed"))
	p.eventually("the condition has the cause", resized, p.says("crash", reverted, "Restarted", "pod "+canary.Name+", or of its replacement, restarted"))
	p.eventually("the canary that crashes has the previous size", resized, p.changed("crash", advisedSize, 0))
	p.eventually("all pods of killed run with the previous size", resized, p.sized("killed", 3, "app cpu=100m memory=314572800"))
	p.eventually("an event says so", resized, p.eventOf("RecommendationReverted"))
	now := uids(p.start("killed", 3))
	kept := 0
	for _, uid := range uids(old["killed"]) {
		if slices.Contains(now, uid) {
			kept++
		}
	}
	if kept != 2 {
		t.Errorf("%d pods of killed were never replaced, want 2", kept)
	}

	if since := time.Since(began); since < 45*time.Second {
		p.always("the others wait for the canary", 45*time.Second-since, p.changed("good", advisedSize, 1))
	}
	p.eventually("the others follow the canary that runs well", resized, all(p.sized("good", 3, advisedSize), p.same("good", old["good"])))
	if err := all(p.same("crash", old["crash"]), p.changed("crash", advisedSize, 0), p.sized("killed", 3, "app cpu=100m memory=314572800"))(t.Context()); err != nil {
		t.Error(err)
	}
	for _, pod := range old["crash"] {
		if n := p.attempts(pod.Name, "resize"); pod.Name != canary.Name && n > 0 {
			t.Errorf("%d resizes of pod %s, which is not the canary", n, pod.Name)
		}
	}
}

// ofSize returns the pods of a workload with these requests.
func (p *place) ofSize(app, size string) []corev1.Pod {
	p.Helper()
	pods, err := p.pods(p.Context(), app)
	if err != nil {
		p.Fatal(err)
	}
	return slices.DeleteFunc(pods, func(pod corev1.Pod) bool { return requests(pod) != size })
}

// changed returns a check that a number of pods of a workload have these requests.
func (p *place) changed(app, size string, want int) func(context.Context) error {
	return func(ctx context.Context) error {
		pods, err := p.pods(ctx, app)
		if err != nil {
			return err
		}
		n := 0
		for _, pod := range pods {
			if requests(pod) == size {
				n++
			}
		}
		if n != want {
			return fmt.Errorf("%d pods of %s have %s, want %d", n, app, size, want)
		}
		return nil
	}
}

// TestUpdater_clusterIsFrozenDuringManyEvictions_stopsWithinASecond sets the switch of the cluster while the pods of many workloads are
// evicted. All evictions stop within a second, and go on when the switch is removed.
func TestUpdater_clusterIsFrozenDuringManyEvictions_stopsWithinASecond(t *testing.T) {
	p := newPlace(t, "frozen-cluster")
	p.restartUpdater("--eviction-rate-limit=4", "--eviction-rate-burst=1")
	const workloads = 20
	var names []string
	for i := range workloads {
		w := steady(fmt.Sprintf("web-%d", i))
		w.Requests = "{cpu: 10m, memory: 50Mi}"
		p.apply(w.manifest(), w.ownAutoscaler("Recreate"))
		names = append(names, w.Name)
	}
	for _, name := range names {
		p.start(name, 2)
	}
	p.advise("50m", "262144k", names...)
	p.eventually("some pods are evicted", resized, p.evicted(5))

	freezeMap := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "podfit-freeze"}, Data: map[string]string{"freeze": "true", "reason": "the test"}}
	if _, err := p.CoreV1().ConfigMaps(bed.Namespace).Create(t.Context(), freezeMap, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	frozenAt := time.Now()
	t.Cleanup(func() {
		_ = p.CoreV1().ConfigMaps(bed.Namespace).Delete(context.Background(), freezeMap.Name, metav1.DeleteOptions{})
	}) // after a failure
	p.always("the cluster is frozen", 10*time.Second, func(context.Context) error { return nil })
	last := time.Time{}
	done := p.evictions()
	for _, w := range done {
		if w.At.After(last) {
			last = w.At
		}
	}
	if len(done) >= 2*workloads {
		t.Fatalf("%d pods were evicted before the freeze, want fewer to see that it stops the others", len(done))
	}
	t.Logf("%d pods were evicted, the last one %v after the freeze", len(done), last.Sub(frozenAt).Round(time.Millisecond))
	if late := last.Sub(frozenAt); late > time.Second {
		t.Errorf("a pod was evicted %v after the freeze", late)
	}
	p.eventually("a condition names the freeze", resized, func(ctx context.Context) error {
		var errs []error
		for _, name := range names {
			err := p.says(name, updatingCondition, "Frozen", "ConfigMap kube-system/podfit-freeze (the test)")(ctx)
			if err == nil {
				return nil
			}
			errs = append(errs, err)
		}
		return errors.Join(errs...)
	})
	if err := p.CoreV1().ConfigMaps(bed.Namespace).Delete(t.Context(), freezeMap.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	p.eventually("evictions go on", 15*time.Second, p.evicted(len(done)+3))
}

// restartUpdater replaces the updater by one with additional arguments until the test ends.
func (p *place) restartUpdater(args ...string) {
	p.Helper()
	start := func(ctx context.Context, c bed.Component) {
		p.updater.Kill()
		again, err := p.healthy(ctx, c)
		if err != nil {
			p.Fatal(err)
		}
		p.updater = again
	}
	start(p.Context(), updater().With(args...))
	p.Cleanup(func() { start(context.Background(), updater()) })
}

// evictions returns the evictions by the updater in the namespace that the API server carried out.
func (p *place) evictions() (out []invariant.Write) {
	p.Helper()
	log, err := p.witness.Log(p.Context())
	if err != nil {
		p.Fatal(err)
	}
	for _, w := range log.Writes {
		if w.Namespace == p.ns && w.User == "vpa-updater" && w.Subresource == "eviction" && w.OK() {
			out = append(out, w)
		}
	}
	return out
}

// evicted returns a check that the updater has evicted a number of pods.
func (p *place) evicted(least int) func(context.Context) error {
	return func(context.Context) error {
		if n := len(p.evictions()); n < least {
			return fmt.Errorf("%d pods were evicted, want %d", n, least)
		}
		return nil
	}
}
