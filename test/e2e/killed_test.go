// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"podfit.dev/podfit/test/e2e/bed"
)

// A killing kills an updater with SIGKILL each time the cluster is in a step for the first time, and starts the next one.
type killing struct {
	*place
	component bed.Component
	updater   *bed.Podfit
	step      func(context.Context) (string, error) // the present step; "" if there is none to kill at
	mu        sync.Mutex                            // guards the fields below, updater, and the state of step
	killedAt  map[string]bool
	over      bool // until has returned
}

// atStep kills the updater and starts the next one if the cluster is in a new step.
func (k *killing) atStep(ctx context.Context) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.over {
		return nil
	}
	step, err := k.step(ctx)
	if err != nil || step == "" || k.killedAt[step] {
		return err
	}
	if k.killedAt == nil {
		k.killedAt = map[string]bool{}
	}
	k.killedAt[step] = true
	k.updater.Kill()
	if k.updater, err = k.Cluster.Run(k.Context(), k.binary, k.component); err == nil {
		k.endsWithTest(k.updater)
	}
	return err
}

// afterWrites makes the killing look at the step after each write of the updater to objects of certain resources too, before the updater has
// the response. It starts the first updater.
func (k *killing) afterWrites(resources ...string) {
	k.Helper()
	gate, err := k.NewGate(func(r *http.Request) {
		parts := strings.Split(r.URL.Path, "/")
		i := slices.Index(parts, "namespaces") // …/namespaces/NAMESPACE/RESOURCE/NAME
		if i < 0 || len(parts) < i+3 || parts[i+1] != k.ns || !slices.Contains(resources, parts[i+2]) {
			return
		}
		if err := k.atStep(k.Context()); err != nil && k.Context().Err() == nil {
			k.Errorf("after %s %s: %v", r.Method, r.URL.Path, err)
		}
	})
	if err != nil {
		k.Fatal(err)
	}
	k.Cleanup(gate.Close)
	k.component = k.component.Behind(gate)
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.updater, err = k.Cluster.Run(k.Context(), k.binary, k.component); err != nil {
		k.Fatal(err)
	}
	k.endsWithTest(k.updater)
}

// until observes the steps until done returns nil.
func (k *killing) until(what string, within time.Duration, done func(context.Context) error) {
	k.Helper()
	ctx, cancel := bed.WithPatience(k.Context(), within)
	defer cancel()
	err := bed.Until(ctx, 20*time.Millisecond, func(ctx context.Context) error {
		if err := k.atStep(ctx); err != nil {
			return err
		}
		return done(ctx)
	})
	k.mu.Lock()
	defer k.mu.Unlock()
	k.over = true
	steps := slices.Sorted(maps.Keys(k.killedAt))
	if err != nil {
		k.Fatalf("%s, within %v, killed at %q: %v", what, within, steps, err)
	}
	k.Logf("killed at %q", steps)
}

// TestUpdater_killedAtStepsOfASurge_noReplicaIsLeft kills the updater with SIGKILL after each of its writes for a surge, and while the
// additional pod starts. The pod is replaced once, no pod is missing, and no replica is too many at the end. The workload has one replica,
// because an updater that was killed during a pass changes no other pod of the workload for five minutes.
func TestUpdater_killedAtStepsOfASurge_noReplicaIsLeft(t *testing.T) {
	p := newPlace(t, killedSurges) // the shared updater ignores this namespace
	u := bed.Updater().Named("updater-of-surges").With("--updater-interval=2s", "--vpa-object-namespace="+killedSurges)
	single := steady("single")
	single.Replicas = 1
	a := strings.Replace(single.ownAutoscaler("Recreate"), "metadata: {name: single}", "metadata: {name: single, annotations: {podfit.dev/mover: surge}}", 1)
	p.apply(single.manifest(), a)
	seen := map[types.UID]bool{}
	for _, pod := range p.start("single", 1) {
		seen[pod.UID] = true
	}
	least := p.leastReady("single")
	p.advise("350m", "262144k", "single")
	most := 0
	k := killing{place: p, component: u, step: func(ctx context.Context) (string, error) {
		d, err := p.AppsV1().Deployments(p.ns).Get(ctx, "single", metav1.GetOptions{})
		if err != nil {
			return "", err
		}
		pods, err := p.pods(ctx, "single")
		if err != nil {
			return "", err
		}
		chosen := false
		for i := range pods {
			seen[pods[i].UID] = true
			chosen = chosen || pods[i].Annotations[corev1.PodDeletionCost] != ""
		}
		most = max(most, len(pods))
		if d.Annotations["podfit.dev/surge"] == "" {
			return "", nil
		}
		return fmt.Sprintf("%d replicas, %d pods, old pod chosen: %v", *d.Spec.Replicas, len(pods), chosen), nil
	}}
	k.afterWrites("deployments", "pods")
	k.until("all pods have the target and the surges have ended", 3*time.Minute, func(ctx context.Context) error {
		if err := p.sized("single", 1, advisedSize)(ctx); err != nil {
			return err
		}
		d, err := p.AppsV1().Deployments(p.ns).Get(ctx, "single", metav1.GetOptions{})
		if err == nil && (d.Annotations["podfit.dev/surge"] != "" || *d.Spec.Replicas != 1) {
			err = fmt.Errorf("%d replicas, record %q", *d.Spec.Replicas, d.Annotations["podfit.dev/surge"])
		}
		return err
	})
	if len(k.killedAt) < 3 {
		t.Errorf("the updater was killed at %d steps, want 3 or more", len(k.killedAt))
	}
	if most > 2 || len(seen) != 2 {
		t.Errorf("there were up to %d pods at a time and %d in all, want at most 2 and 2: the pod is replaced once", most, len(seen))
	}
	if n := least(); n < 1 {
		t.Errorf("%d pods were ready, want 1", n)
	}
	p.always("nothing more happens", 8*time.Second, func(ctx context.Context) error {
		pods, err := p.pods(ctx, "single")
		for i := range pods {
			if pods[i].Annotations[corev1.PodDeletionCost] != "" || !seen[pods[i].UID] {
				return fmt.Errorf("pod %s is new, or has a deletion cost", pods[i].Name)
			}
		}
		return err
	})
}

// TestUpdater_killedAtStepsOfAPlaceholder_noPlaceholderIsLeft kills the updater with SIGKILL when a placeholder pod exists, when the pod
// is evicted, and when the placeholder pod is gone. The pod is evicted once, and no placeholder pod is left.
func TestUpdater_killedAtStepsOfAPlaceholder_noPlaceholderIsLeft(t *testing.T) {
	p, old, addNode := withFullNode(t, killedPlaceholders, 1)
	existed, node := false, ""
	k := killing{place: p, component: capacityUpdater(), updater: p.own, step: func(ctx context.Context) (string, error) {
		held, err := p.placeholders(ctx)
		if err != nil {
			return "", err
		}
		evicted := len(p.evictions())
		switch {
		case len(held) == 0 && !existed:
			return "", nil
		case len(held) == 0:
			return fmt.Sprintf("%d evictions, no placeholder pod", evicted), nil
		}
		existed = true
		placed := held[0].Spec.NodeName != ""
		if !placed && node == "" && len(held) == 1 && time.Since(held[0].CreationTimestamp.Time) > 3*time.Second {
			node = addNode()
		}
		return fmt.Sprintf("%d evictions, placeholder pod has a node: %v", evicted, placed), nil
	}}
	k.until("the pod has the new size, and no placeholder pod is left", 10*time.Minute, func(ctx context.Context) error {
		if err := p.sized("steady", 1, "app cpu=3 memory=262144k")(ctx); err != nil {
			return err
		}
		held, err := p.placeholders(ctx)
		if err == nil && len(held) > 0 {
			err = fmt.Errorf("%d placeholder pods are left", len(held))
		}
		return err
	})
	if len(k.killedAt) < 3 {
		t.Errorf("the updater was killed at %d steps, want 3 or more", len(k.killedAt))
	}
	if done := p.evictions(); len(done) != 1 || done[0].Name != old[0].Name {
		t.Errorf("evictions %v, want one of %s", done, old[0].Name)
	}
	p.scheduledAtOnce("steady", node)
}

// TestUpdater_killedAfterTheChangeOfACanary_othersFollow kills the updater with SIGKILL when the canary of a workload was changed and the
// others were not, once by a resize in place and once by an eviction. The canary is not changed again, the others follow after it was watched,
// each once, and nothing is left over.
func TestUpdater_killedAfterTheChangeOfACanary_othersFollow(t *testing.T) {
	p := newPlace(t, killedCanaries) // the shared updater ignores this namespace
	u := bed.Updater().Named("updater-of-canaries").With("--updater-interval=2s", "--vpa-object-namespace="+killedCanaries)
	apps := map[string]string{"resized": "InPlaceOrRecreate", "evicted": "Recreate"} // update modes
	old := map[string][]corev1.Pod{}
	for app, mode := range apps {
		w := steady(app)
		w.Replicas = 3
		p.apply(w.manifest(), annotated(w.ownAutoscaler(mode), "podfit.dev/rollout: canary", "podfit.dev/canary-duration: 1m"))
		old[app] = p.start(app, 3)
	}
	p.advise("350m", "262144k", "resized", "evicted")
	first, err := p.healthy(t.Context(), u)
	if err != nil {
		t.Fatal(err)
	}
	p.endsWithTest(first)
	firsts, followed := map[string]time.Time{}, map[string]time.Time{} // when one pod, and more than one, had the new size
	k := killing{place: p, component: u, updater: first, step: func(ctx context.Context) (string, error) {
		step := ""
		for _, app := range []string{"evicted", "resized"} {
			pods, err := p.pods(ctx, app)
			if err != nil {
				return "", err
			}
			n := 0
			for i := range pods {
				if requests(pods[i]) == advisedSize {
					n++
				}
			}
			if n > 0 && firsts[app].IsZero() {
				firsts[app] = time.Now()
			}
			if n > 1 && followed[app].IsZero() {
				followed[app] = time.Now()
			}
			if n == 1 {
				step += "canary of " + app + " was changed "
			}
		}
		return step, nil
	}}
	k.until("all pods follow their canaries", 12*time.Minute, all(p.sized("resized", 3, advisedSize), p.sized("evicted", 3, advisedSize), p.same("resized", old["resized"])))
	if len(k.killedAt) == 0 {
		t.Error("the updater was not killed")
	}
	for app := range apps {
		if took := followed[app].Sub(firsts[app]); firsts[app].IsZero() || took < 45*time.Second {
			t.Errorf("the others of %s followed after %v, want that the canary is watched for about a minute", app, took)
		}
	}
	check := func(context.Context) error {
		for _, pod := range old["resized"] {
			if n := p.attempts(pod.Name, "resize"); n != 1 {
				return fmt.Errorf("%d resizes of pod %s, want one", n, pod.Name)
			}
		}
		evicted := map[string]int{}
		for _, e := range p.evictions() {
			evicted[e.Name]++
		}
		for _, pod := range old["evicted"] {
			if evicted[pod.Name] != 1 || len(evicted) != 3 {
				return fmt.Errorf("evictions %v, want each of the old pods once", evicted)
			}
		}
		return nil
	}
	if err := check(t.Context()); err != nil {
		t.Error(err)
	}
	for app := range apps {
		// If the updater was killed before it stored the outcome, the announcement of a resize stays for an hour, because a replacement may still
		// show that there was an eviction. It blocks nothing after five minutes.
		p.eventually("no announcement that blocks and no canary of "+app+" is left", 6*time.Minute, func(ctx context.Context) error {
			state, err := p.updateState(ctx, app)
			switch {
			case apierrors.IsNotFound(err):
				return nil
			case err == nil && (state.Status.ActingSince != nil && time.Since(state.Status.ActingSince.Time) < 5*time.Minute ||
				state.Status.Canary != nil && state.Status.Canary.Phase != "Accepted"):
				return fmt.Errorf("acting since %v, canary %+v", state.Status.ActingSince, state.Status.Canary)
			}
			return err
		})
	}
	p.always("nothing more happens", 8*time.Second, check)
}
