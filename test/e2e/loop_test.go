// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	vpav1 "podfit.dev/podfit/api/v1"
	"podfit.dev/podfit/test/e2e/bed"
)

// Most of the time is spent on metrics: the first usage sample needs two scrapes.
const (
	measured = 100 * time.Second // until a new workload has a recommendation
	resized  = 60 * time.Second  // until all of its pods have it
)

// undisturbedCases are the cases of TestPodfit_undisturbedCluster_sizesPods.
var undisturbedCases = map[string]func(*testing.T, string){
	"recommends-what-upstream-does":     recommendsWhatUpstreamDoes,
	"recreate-replaces-pods":            recreateReplacesPods,
	"in-place-keeps-pods":               inPlaceKeepsPods,
	"initial-sizes-new-pods":            initialSizesNewPods,
	"daemonset":                         daemonSet,
	"cronjob":                           cronJob,
	"custom-resource":                   customResource,
	"statefulset-with-budget":           statefulSetWithBudget,
	"closed-budget":                     closedBudget,
	"out-of-memory":                     outOfMemory,
	"leader-election":                   leaderElection,
	"invalid-autoscalers":               invalidAutoscalers,
	"bad-objects-beside-good":           badObjectsBesideGood,
	"container-without-requests":        containerWithoutRequests,
	"limits-keep-their-proportion":      limitsKeepTheirProportion,
	"cpu-limits-removed":                cpuLimitsRemoved,
	"heap-of-a-jvm":                     heapOfJVM,
	"native-sidecar":                    nativeSidecar,
	"autoscaler-without-running-target": autoscalerWithoutPods,
	"broken-invariants":                 brokenInvariants,
	"primary-protected":                 primaryProtected,
	"resize-denied-by-policy":           resizeDeniedByPolicy,
	"resize-denied-by-webhook":          resizeDeniedByWebhook,
	"resize-webhook-fails":              resizeWebhookFails,
	"eviction-denied":                   evictionDenied,
	"quota-in-place":                    quotaInPlace,
	"quota-recreate":                    quotaRecreate,
	"oom-kill-loops":                    oomLoops,
	notCalled:                           rescueWithoutWebhook,
	"pauses-between-pods":               pausesBetweenPods,
	"resize-restarts-containers":        resizeRestarts,
	"memory-decrease-refused":           memoryDecreaseRefused,
	"surge":                             surgeReplacesPods,
	"memory-limits-by-peaks":            memoryLimitsByPeaks,
	"pod-level-resources":               podLevelResources,
	sharedHeadroom:                      headroomIsShared,
	"init-container":                    initContainerIsSized,
	initRuns:                            initContainerRunsAreMeasured,
	"beside-hpa":                        besideHPA,
	"freeze-and-windows":                freezeAndWindows,
	"do-not-disrupt":                    doNotDisrupt,
	"leader-and-followers":              leaderAndFollowers,
	"canaries":                          canaries,
	"requests-reset":                    requestsReset,
	withoutRoom:                         replacementMayNotFit,
}

// TestPodfit_undisturbedCluster_sizesPods runs, in parallel on one cluster, the tests that stop no part of it.
func TestPodfit_undisturbedCluster_sizesPods(t *testing.T) {
	for name, test := range undisturbedCases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, name)
		})
	}
}

func recommendsWhatUpstreamDoes(t *testing.T, name string) {
	p := newPlace(t, name)
	w := steady("steady")
	p.apply(w.manifest(), w.autoscaler("Off"))
	pods := p.start("steady", 2)
	p.eventually("the target equals upstream's", measured, p.recommended("steady", steadyTarget))

	a, err := p.Autoscaler(t.Context(), p.ns, "steady")
	if err != nil {
		t.Fatal(err)
	}
	r := a.Status.Recommendation.ContainerRecommendations[0]
	for _, res := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
		low, target, high := r.LowerBound[res], r.Target[res], r.UpperBound[res]
		if low.Cmp(target) > 0 || target.Cmp(high) > 0 {
			t.Errorf("%s: lower %s, target %s, upper %s are not in ascending order", res, &low, &target, &high)
		}
	}
	if got := r.UncappedTarget.Cpu().String(); got != "350m" {
		t.Errorf("uncapped target is %s", got)
	}
	c, err := p.condition(t.Context(), "steady", vpav1.RecommendationProvided)
	if err != nil || c.Status != corev1.ConditionTrue {
		t.Errorf("RecommendationProvided is %+v, %v", c, err)
	}
	p.eventually("a checkpoint is written", measured, func(ctx context.Context) error {
		_, err := p.checkpoint(ctx, "steady-app")
		return err
	})
	if err := p.same("steady", pods)(t.Context()); err != nil {
		t.Errorf("in mode Off: %v", err)
	}
}

// checkpoint returns a checkpoint that has all fields that upstream reads.
func (p *place) checkpoint(ctx context.Context, name string) (*vpav1.VerticalPodAutoscalerCheckpoint, error) {
	cs, err := p.Checkpoints(ctx, p.ns)
	if err != nil {
		return nil, err
	}
	for _, c := range cs {
		if c.Name != name {
			continue
		}
		s := c.Status
		if s.Version != "v3" || s.TotalSamplesCount == 0 || s.FirstSampleStart.IsZero() || s.CPUHistogram.TotalWeight == 0 {
			return nil, fmt.Errorf("checkpoint %s is %+v", name, s)
		}
		return c, nil
	}
	return nil, fmt.Errorf("no checkpoint %s among %d", name, len(cs))
}

func recreateReplacesPods(t *testing.T, name string) {
	p := newPlace(t, name)
	w := steady("steady")
	p.apply(w.manifest())
	old := p.start("steady", 2)
	p.apply(w.autoscaler("Recreate"))
	p.eventually("new pods have the target", measured+resized, p.sized("steady", 2, steadyTarget))
	p.checkAnnotations("steady")
	p.eventually("the pod's event", 10*time.Second,
		p.event("Pod", old[0].Name, "EvictedByVPA", "Pod was evicted by VPA Updater to apply resource recommendation."))
	p.eventually("the VPA's event", 10*time.Second,
		p.event("VerticalPodAutoscaler", "steady", "EvictedPod", "VPA Updater evicted Pod "+old[0].Name+" to apply resource recommendation."))
	now, err := p.running(t.Context(), "steady", 2)
	if err != nil {
		t.Fatal(err)
	}
	p.always("pods of the right size stay", 15*time.Second, p.same("steady", now))
	p.checkObservations()
}

// checkAnnotations checks the webhook's annotations on the pods of a workload with one container.
func (p *place) checkAnnotations(app string) {
	p.Helper()
	pods, err := p.pods(p.Context(), app)
	if err != nil {
		p.Fatal(err)
	}
	for _, pod := range pods {
		want := "Pod resources updated by " + app + ": container 0: cpu request, memory request"
		if got := pod.Annotations["vpaUpdates"]; got != want {
			p.Errorf("%s: vpaUpdates is %q, want %q", pod.Name, got, want)
		}
		if got := pod.Annotations["vpaObservedContainers"]; got != "app" {
			p.Errorf("%s: vpaObservedContainers is %q", pod.Name, got)
		}
	}
}

func inPlaceKeepsPods(t *testing.T, name string) {
	p := newPlace(t, name)
	w := steady("steady")
	p.apply(w.manifest(), w.autoscaler("InPlaceOrRecreate"))
	old := p.start("steady", 2)
	p.eventually("the pods have the target", measured+resized, p.sized("steady", 2, steadyTarget))
	if err := p.same("steady", old)(t.Context()); err != nil {
		t.Error(err)
	}
	p.eventually("the pod's event", 10*time.Second,
		p.event("Pod", old[0].Name, "InPlaceResizedByVPA", "Pod was resized in place by VPA Updater."))
	pods, err := p.pods(t.Context(), "steady")
	if err != nil {
		t.Fatal(err)
	}
	for _, pod := range pods {
		if n := pod.Status.ContainerStatuses[0].RestartCount; n != 0 {
			t.Errorf("%s: restarted %d times", pod.Name, n)
		}
		if got := pod.Annotations["vpaInPlaceUpdated"]; got != "true" {
			t.Errorf("%s: vpaInPlaceUpdated is %q", pod.Name, got)
		}
	}
}

func initialSizesNewPods(t *testing.T, name string) {
	p := newPlace(t, name)
	w := steady("steady")
	p.apply(w.manifest(), w.autoscaler("Initial"))
	old := p.start("steady", 2)
	p.eventually("the target equals upstream's", measured, p.recommended("steady", steadyTarget))
	p.always("mode Initial leaves running pods alone", 15*time.Second, p.same("steady", old))
	for _, pod := range old {
		if err := p.CoreV1().Pods(p.ns).Delete(t.Context(), pod.Name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	p.eventually("new pods have the target", resized, p.sized("steady", 2, steadyTarget))
	p.checkAnnotations("steady")
}

func daemonSet(t *testing.T, name string) {
	p := newPlace(t, name)
	w := steady("steady")
	w.Kind = "DaemonSet"
	p.apply(w.manifest(), w.autoscaler("Recreate"))
	p.start("steady", 3)
	p.eventually("a pod of the right size on every node", measured+resized, p.sized("steady", 3, steadyTarget))
}

func cronJob(t *testing.T, name string) {
	p := newPlace(t, name)
	w := steady("steady")
	w.Kind = "CronJob"
	p.apply(w.manifest(), w.autoscaler("Initial"))
	p.eventually("a later run has the target", 4*time.Minute, func(ctx context.Context) error {
		pods, err := p.pods(ctx, "steady")
		if err != nil {
			return err
		}
		if slices.ContainsFunc(pods, func(pod corev1.Pod) bool { return requests(pod) == steadyTarget }) {
			return nil
		}
		return fmt.Errorf("none of %d pods has the target", len(pods))
	})
	p.eventually("the target is that of the runs, which last 20 seconds", 5*time.Minute, func(ctx context.Context) error {
		e, err := p.explain(ctx, p.Kubeconfig, "cronjob/steady")
		if err != nil {
			return err
		}
		if why, _ := json.Marshal(e.Why); !strings.Contains(string(why), "highest of ") || !strings.Contains(strings.Join(e.History, " "), "runs of") {
			return fmt.Errorf("HISTORY is %q, WHY is %s", e.History, why)
		}
		return nil
	})
	p.eventually("it is in the report while no Job runs", 2*time.Minute, func(context.Context) error {
		report, code := p.ran(p.Kubeconfig, "recommend", "-n", p.ns, "--source=cluster", "-o", "json")
		if code != 0 || !strings.Contains(report, `"kind": "CronJob"`) || !strings.Contains(report, `"replicas": 0`) || !strings.Contains(report, `"confidence": "low"`) {
			return fmt.Errorf("exit code %d, the report is\n%s", code, report)
		}
		return nil
	})
}

func statefulSetWithBudget(t *testing.T, name string) {
	p := newPlace(t, name)
	w := steady("steady")
	w.Kind, w.Replicas = "StatefulSet", 3
	p.apply(w.manifest(), budget("steady", "minAvailable: 2"), w.autoscaler("Recreate"))
	p.start("steady", 3)
	least := p.leastReady("steady")
	p.eventually("all pods have the target", measured+2*resized, p.sized("steady", 3, steadyTarget))
	if n := least(); n < 2 {
		t.Errorf("at one time only %d pods were ready, the PodDisruptionBudget requires 2", n)
	}
}

func budget(app, rule string) string {
	return fmt.Sprintf("apiVersion: policy/v1\nkind: PodDisruptionBudget\nmetadata: {name: %s}\nspec:\n  %s\n  selector: {matchLabels: {app: %s}}\n", app, rule, app)
}

// leastReady watches the pods of a workload. The returned function ends the watch and returns the minimum of ready pods.
func (p *place) leastReady(app string) func() int {
	p.Helper()
	ctx, cancel := context.WithCancel(p.Context())
	selector := metav1.ListOptions{LabelSelector: "app=" + app}
	l, err := p.CoreV1().Pods(p.ns).List(ctx, selector)
	if err != nil {
		p.Fatal(err)
	}
	isReady := map[string]bool{}
	for _, pod := range l.Items {
		isReady[string(pod.UID)] = ready(&pod) && pod.DeletionTimestamp == nil
	}
	count := func() (n int) {
		for _, r := range isReady {
			if r {
				n++
			}
		}
		return n
	}
	selector.ResourceVersion = l.ResourceVersion
	w, err := p.CoreV1().Pods(p.ns).Watch(ctx, selector)
	if err != nil {
		p.Fatal(err)
	}
	least := make(chan int)
	go func() {
		n := count()
		for e := range w.ResultChan() {
			if pod, ok := e.Object.(*corev1.Pod); ok {
				isReady[string(pod.UID)] = e.Type != watch.Deleted && ready(pod) && pod.DeletionTimestamp == nil
				n = min(n, count())
			}
		}
		least <- n
	}()
	return func() int {
		w.Stop()
		cancel()
		return <-least
	}
}

func closedBudget(t *testing.T, name string) {
	p := newPlace(t, name)
	w := steady("steady")
	p.apply(w.manifest(), budget("steady", "maxUnavailable: 0"), w.autoscaler("Recreate"))
	old := p.start("steady", 2)
	p.eventually("the target equals upstream's", measured, p.recommended("steady", steadyTarget))
	p.eventually("the eviction is refused", resized, func(ctx context.Context) error {
		return p.counted(ctx, p.updater, "vpa_updater_failed_eviction_attempts_total", `vpa_namespace="`+p.ns+`"`)
	})
	p.always("nothing is evicted against the budget", 15*time.Second, p.same("steady", old))
}

// counted returns an error if a component has no metric above 0 with this name and label.
func (p *place) counted(ctx context.Context, c *bed.Podfit, metric, label string) error {
	page, err := c.Get(ctx, "/metrics")
	if err != nil {
		return err
	}
	for line := range strings.SplitSeq(page, "\n") {
		if strings.HasPrefix(line, metric+"{") && strings.Contains(line, label) && !strings.HasSuffix(line, " 0") {
			return nil
		}
	}
	return fmt.Errorf("%s has no metric %s with %s above 0", c.Name, metric, label)
}

func outOfMemory(t *testing.T, name string) {
	p := newPlace(t, name)
	w := spec{Name: "hungry", Memory: "ramp(40Mi, 300Mi, 15s)", Requests: "{cpu: 100m, memory: 64Mi}", Limits: "{memory: 128Mi}"}
	p.apply(w.manifest(), w.autoscaler("Recreate"))
	p.eventually("a container is OOM killed", measured, func(ctx context.Context) error {
		pods, err := p.pods(ctx, "hungry")
		if err != nil {
			return err
		}
		for _, pod := range pods {
			for _, c := range pod.Status.ContainerStatuses {
				if t := c.LastTerminationState.Terminated; t != nil && t.Reason == "OOMKilled" {
					return nil
				}
			}
		}
		return errors.New("no container was OOM-killed")
	})
	p.eventually("the pods have enough memory and run", measured+2*resized, func(ctx context.Context) error {
		pods, err := p.running(ctx, "hungry", 2)
		if err != nil {
			return err
		}
		for _, pod := range pods {
			c := pod.Status.ContainerStatuses[0]
			if c.RestartCount > 0 || c.State.Running == nil || time.Since(c.State.Running.StartedAt.Time) < 20*time.Second {
				return fmt.Errorf("%s: %s, restarted %d times", pod.Name, requests(pod), c.RestartCount)
			}
		}
		return nil
	})
}

func limitsKeepTheirProportion(t *testing.T, name string) {
	p := newPlace(t, name)
	w := steady("steady")
	w.Requests, w.Limits = "{cpu: 100m, memory: 250Mi}", "{cpu: 500m, memory: 500Mi}"
	p.apply(w.manifest(), autoscaler("steady", "", "steady", "Initial",
		"  resourcePolicy: {containerPolicies: [{containerName: app, minAllowed: {memory: 500Mi}, maxAllowed: {cpu: 200m}}]}"))
	old := p.start("steady", 2)
	p.eventually("the target is capped", measured, p.recommended("steady", "app cpu=200m memory=524288k"))
	for _, pod := range old {
		if err := p.CoreV1().Pods(p.ns).Delete(t.Context(), pod.Name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	p.eventually("new pods have the target", resized, p.sized("steady", 2, "app cpu=200m memory=524288k"))
	pods, err := p.pods(t.Context(), "steady")
	if err != nil {
		t.Fatal(err)
	}
	for _, pod := range pods {
		l := pod.Spec.Containers[0].Resources.Limits
		if l.Cpu().String() != "1" || l.Memory().String() != "1000Mi" {
			t.Errorf("%s: limits are cpu=%s memory=%s, want 5 and 2 times the requests", pod.Name, l.Cpu(), l.Memory())
		}
	}
}
