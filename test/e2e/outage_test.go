// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	vpav1 "podfit.dev/podfit/api/v1"
	"podfit.dev/podfit/test/e2e/bed"
)

// metricsOutage is the length of the metrics outage. PODFIT_E2E_METRICS_OUTAGE sets a longer one.
func metricsOutage(t *testing.T) time.Duration {
	t.Helper()
	s := os.Getenv("PODFIT_E2E_METRICS_OUTAGE")
	if s == "" {
		return 45 * time.Second
	}
	d, err := time.ParseDuration(s)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// TestRecommender_killed_resumesFromCheckpoints kills the recommender and checks that it continues with the stored history.
func TestRecommender_killed_resumesFromCheckpoints(t *testing.T) {
	p := newPlace(t, "killed-recommender")
	w := steady("steady")
	p.apply(w.manifest(), w.autoscaler("Off"))
	p.eventually("the target is upstream's", measured, p.recommended("steady", steadyTarget))
	var saved *vpav1.VerticalPodAutoscalerCheckpoint
	p.eventually("a checkpoint is written", measured, func(ctx context.Context) (err error) {
		saved, err = p.checkpoint(ctx, "steady-app")
		return err
	})
	before := p.upperCPU("steady")

	p.recommender.Kill()
	again, err := p.healthy(t.Context(), recommender())
	if err != nil {
		t.Fatal(err)
	}
	p.recommender = again
	// Without history the upper bound would start at its maximum. It shrinks as the confidence grows.
	p.always("trust is not lost", 30*time.Second, func(ctx context.Context) error {
		if err := p.recommended("steady", steadyTarget)(ctx); err != nil {
			return err
		}
		if now := p.upperCPU("steady"); now > before+before/10 {
			return fmt.Errorf("the upper bound changed from %dm to %dm CPU", before, now)
		}
		return nil
	})
	p.eventually("new samples are added to the history", measured, func(ctx context.Context) error {
		c, err := p.checkpoint(ctx, "steady-app")
		switch {
		case err != nil:
			return err
		case !c.Status.FirstSampleStart.Equal(&saved.Status.FirstSampleStart):
			t.Fatalf("time of the first sample: was %v, is %v", saved.Status.FirstSampleStart, c.Status.FirstSampleStart)
		case c.Status.TotalSamplesCount <= saved.Status.TotalSamplesCount:
			return fmt.Errorf("%d samples, %d before", c.Status.TotalSamplesCount, saved.Status.TotalSamplesCount)
		}
		return nil
	})
}

// upperCPU returns the upper CPU bound of a VPA's only container, in millicores.
func (p *place) upperCPU(name string) int64 {
	p.Helper()
	a, err := p.Autoscaler(p.Context(), p.ns, name)
	if err != nil {
		p.Fatal(err)
	}
	if a.Status.Recommendation == nil || len(a.Status.Recommendation.ContainerRecommendations) != 1 {
		p.Fatalf("the recommendation of %s is %v", name, a.Status.Recommendation)
	}
	return a.Status.Recommendation.ContainerRecommendations[0].UpperBound.Cpu().MilliValue()
}

// TestPodfit_APIServerDown_recovers stops the API server for half a minute.
func TestPodfit_APIServerDown_recovers(t *testing.T) {
	p := newPlace(t, "no-api-server")
	w := steady("steady")
	p.apply(w.manifest(), w.autoscaler("Recreate"))
	p.eventually("the workload is sized", measured+resized, p.sized("steady", 2, steadyTarget))
	pods := p.start("steady", 2)
	alive := p.remember()

	if err := p.StopPart(t.Context(), bed.APIServer); err != nil {
		t.Fatal(err)
	}
	p.outlast(30*time.Second, alive)
	if err := p.StartPart(t.Context(), bed.APIServer); err != nil {
		t.Fatal(err)
	}
	p.eventually("the API server is ready", time.Minute, func(ctx context.Context) error {
		_, err := p.CoreV1().Namespaces().Get(ctx, p.ns, metav1.GetOptions{})
		return err
	})
	p.recovers()
	p.works(alive)
	if err := p.same("steady", pods)(t.Context()); err != nil {
		t.Errorf("after the outage of the API server: %v", err)
	}
}

// TestPodfit_metricsAPIDown_keepsRecommendations stops metrics-server. Recommendations stay, no recommendation is
// made without data, and no pod is evicted.
func TestPodfit_metricsAPIDown_keepsRecommendations(t *testing.T) {
	p := newPlace(t, "no-metrics")
	known, fresh := steady("known"), steady("fresh")
	// Its requests are far above podfit's minimum, which a recommendation without data would be.
	fresh.Requests = "{cpu: 1, memory: 1Gi}"
	p.apply(known.manifest(), known.autoscaler("Recreate"))
	p.eventually("the workload is sized", measured+resized, p.sized("known", 2, steadyTarget))
	pods := p.start("known", 2)
	alive := p.remember()

	if err := p.StopPart(t.Context(), bed.MetricsServer); err != nil {
		t.Fatal(err)
	}
	p.eventually("the Metrics API is unavailable", 30*time.Second, func(ctx context.Context) error {
		if _, err := p.Metrics.MetricsV1beta1().PodMetricses(p.ns).List(ctx, metav1.ListOptions{}); err == nil {
			return errors.New("the Metrics API still answers")
		}
		return nil
	})
	p.apply(fresh.manifest(), fresh.autoscaler("Recreate"))
	freshPods := p.start("fresh", 2)
	p.outlast(metricsOutage(t), alive)
	if err := p.recommended("known", steadyTarget)(t.Context()); err != nil {
		t.Errorf("the last recommendation is lost: %v", err)
	}
	if err := p.recommended("fresh", "")(t.Context()); err != nil {
		t.Errorf("recommendation without data: %v", err)
	}
	c, err := p.condition(t.Context(), "fresh", vpav1.RecommendationProvided)
	if err != nil || c.Status != corev1.ConditionFalse {
		t.Errorf("RecommendationProvided is %+v, %v", c, err)
	}
	for app, was := range map[string][]corev1.Pod{"known": pods, "fresh": freshPods} {
		if err := p.same(app, was)(t.Context()); err != nil {
			t.Errorf("after the outage of the Metrics API: %v", err)
		}
	}

	if err := p.StartPart(t.Context(), bed.MetricsServer); err != nil {
		t.Fatal(err)
	}
	p.eventually("the new workload has a recommendation", measured+30*time.Second, p.recommended("fresh", steadyTarget))
	p.alive(alive)
}

// TestUpdater_webhookDown_evictsNothing kills the admission controller. New pods keep their own requests, and the updater
// evicts nothing.
func TestUpdater_webhookDown_evictsNothing(t *testing.T) {
	p := newPlace(t, "no-webhook")
	w := steady("steady")
	p.apply(w.manifest(), w.autoscaler("Off"))
	p.eventually("the target is upstream's", measured, p.recommended("steady", steadyTarget))

	p.admission.Kill()
	p.eventually("its lease has expired", time.Minute, func(ctx context.Context) error {
		l, err := p.CoordinationV1().Leases(bed.Namespace).Get(ctx, "vpa-admission-controller", metav1.GetOptions{})
		if err != nil {
			return err
		}
		if age := time.Since(l.Spec.RenewTime.Time); age < 20*time.Second {
			return fmt.Errorf("the last renewal of the lease was %v ago", age)
		}
		return nil
	})
	pods := p.start("steady", 2)
	p.apply(w.autoscaler("Recreate")) // the updater would evict now if the webhook could size the replacement
	p.always("nothing is evicted while the webhook is away", 15*time.Second, p.same("steady", pods))
	p.apply(spec{Name: "newcomer", Requests: "{cpu: 100m, memory: 50Mi}"}.manifest())
	p.start("newcomer", 2)

	component, err := admission()
	if err != nil {
		t.Fatal(err)
	}
	if p.admission, err = p.healthy(t.Context(), component); err != nil {
		t.Fatal(err)
	}
	p.eventually("the updater evicts again", resized, p.sized("steady", 2, steadyTarget))
	p.checkAnnotations("steady")
}

// remember returns the process IDs of the components.
func (p *place) remember() map[string]int {
	out := map[string]int{}
	for _, c := range p.components() {
		out[c.Name] = c.PID()
	}
	return out
}

// alive checks that no component was restarted.
func (p *place) alive(was map[string]int) {
	p.Helper()
	for _, c := range p.components() {
		if !c.Running() || c.PID() != was[c.Name] {
			p.Errorf("%s exited:\n%s", c.Name, c.Tail(40))
		}
	}
}

// outlast waits for the length of an outage, and fails if a component exits.
func (p *place) outlast(outage time.Duration, was map[string]int) {
	p.Helper()
	over := time.NewTimer(outage)
	defer over.Stop()
	select {
	case <-over.C:
	case <-p.recommender.Done():
	case <-p.updater.Done():
	case <-p.admission.Done():
	}
	p.alive(was)
}

// recovers waits until the controllers of the cluster create and replace pods. After an outage, each of their watches restarts
// after a back-off of up to a minute, which does not depend on podfit. A pod may be deleted once the status of the Deployment counts it: the
// ReplicaSet controller that has not seen the creation of a pod before its deletion waits five minutes for it, and creates none meanwhile.
func (p *place) recovers() {
	p.Helper()
	p.apply(spec{Name: "probe", Requests: "{cpu: 10m, memory: 50Mi}"}.manifest())
	var pods []corev1.Pod
	p.eventually("the cluster creates pods again, and its controllers see them", 3*time.Minute, func(ctx context.Context) (err error) {
		d, err := p.AppsV1().Deployments(p.ns).Get(ctx, "probe", metav1.GetOptions{})
		if err != nil {
			return err
		}
		if d.Status.ReadyReplicas != 2 {
			return fmt.Errorf("the status of the Deployment counts %d of 2 ready pods", d.Status.ReadyReplicas)
		}
		pods, err = p.running(ctx, "probe", 2)
		return err
	})
	if err := p.CoreV1().Pods(p.ns).Delete(p.Context(), pods[0].Name, metav1.DeleteOptions{}); err != nil {
		p.Fatal(err)
	}
	p.eventually("the cluster replaces pods again", 7*time.Minute, func(ctx context.Context) error {
		now, err := p.running(ctx, "probe", 2)
		if err == nil && slices.Equal(uids(now), uids(pods)) {
			err = errors.New("the pods are not replaced yet")
		}
		return err
	})
}

// works checks that a new workload is sized, by the same processes.
func (p *place) works(was map[string]int) {
	p.Helper()
	w := steady("after")
	p.apply(w.manifest(), w.autoscaler("Recreate"))
	p.eventually("a new workload has its size", measured+resized, p.sized("after", 2, steadyTarget))
	p.alive(was)
}
