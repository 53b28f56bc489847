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

// metricsOutage is how long metrics are away: shorter than one would like, unless PODFIT_E2E_METRICS_OUTAGE says otherwise.
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

// TestRecommenderGoesOnWhereItWasKilled kills the recommender without warning, and looks for what it had learnt.
func TestRecommenderGoesOnWhereItWasKilled(t *testing.T) {
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
	// With a history of nothing the upper bound would start from the largest number there is. It only shrinks as trust grows.
	p.always("trust is not lost", 30*time.Second, func(ctx context.Context) error {
		if err := p.recommended("steady", steadyTarget)(ctx); err != nil {
			return err
		}
		if now := p.upperCPU("steady"); now > before+before/10 {
			return fmt.Errorf("the upper bound was %dm CPU, and is %dm", before, now)
		}
		return nil
	})
	p.eventually("what is learnt now comes on top", measured, func(ctx context.Context) error {
		c, err := p.checkpoint(ctx, "steady-app")
		switch {
		case err != nil:
			return err
		case !c.Status.FirstSampleStart.Equal(&saved.Status.FirstSampleStart):
			t.Fatalf("the first sample was of %v, and is of %v", saved.Status.FirstSampleStart, c.Status.FirstSampleStart)
		case c.Status.TotalSamplesCount <= saved.Status.TotalSamplesCount:
			return fmt.Errorf("%d samples, %d before", c.Status.TotalSamplesCount, saved.Status.TotalSamplesCount)
		}
		return nil
	})
}

// upperCPU is the upper bound of an autoscaler's only container, in millicores.
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

// TestAPIServerIsAway stops the API server for half a minute.
func TestAPIServerIsAway(t *testing.T) {
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
	p.eventually("the API server answers", time.Minute, func(ctx context.Context) error {
		_, err := p.CoreV1().Namespaces().Get(ctx, p.ns, metav1.GetOptions{})
		return err
	})
	p.recovers()
	p.works(alive)
	if err := p.same("steady", pods)(t.Context()); err != nil {
		t.Errorf("because the API server was away: %v", err)
	}
}

// TestMetricsAreAway stops metrics-server. What was recommended stays, nothing is guessed, and nobody is evicted.
func TestMetricsAreAway(t *testing.T) {
	p := newPlace(t, "no-metrics")
	known, fresh := steady("known"), steady("fresh")
	// It asks for much more than podfit's least recommendation, which is what a guess from nothing would be.
	fresh.Requests = "{cpu: 1, memory: 1Gi}"
	p.apply(known.manifest(), known.autoscaler("Recreate"))
	p.eventually("the workload is sized", measured+resized, p.sized("known", 2, steadyTarget))
	pods := p.start("known", 2)
	alive := p.remember()

	if err := p.StopPart(t.Context(), bed.MetricsServer); err != nil {
		t.Fatal(err)
	}
	p.eventually("metrics are away", 30*time.Second, func(ctx context.Context) error {
		if _, err := p.Metrics.MetricsV1beta1().PodMetricses(p.ns).List(ctx, metav1.ListOptions{}); err == nil {
			return errors.New("they are still there")
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
		t.Errorf("without data: %v", err)
	}
	c, err := p.condition(t.Context(), "fresh", vpav1.RecommendationProvided)
	if err != nil || c.Status != corev1.ConditionFalse {
		t.Errorf("RecommendationProvided is %+v, %v", c, err)
	}
	for app, was := range map[string][]corev1.Pod{"known": pods, "fresh": freshPods} {
		if err := p.same(app, was)(t.Context()); err != nil {
			t.Errorf("because metrics were away: %v", err)
		}
	}

	if err := p.StartPart(t.Context(), bed.MetricsServer); err != nil {
		t.Fatal(err)
	}
	p.eventually("the fresh workload gets a recommendation", measured+30*time.Second, p.recommended("fresh", steadyTarget))
	p.alive(alive)
}

// TestWebhookIsAway kills the admission controller. Pods are created as they are written, and the updater waits.
func TestWebhookIsAway(t *testing.T) {
	p := newPlace(t, "no-webhook")
	w := steady("steady")
	p.apply(w.manifest(), w.autoscaler("Off"))
	p.eventually("the target is upstream's", measured, p.recommended("steady", steadyTarget))

	p.admission.Kill()
	p.eventually("its lease is not renewed any more", time.Minute, func(ctx context.Context) error {
		l, err := p.CoordinationV1().Leases(bed.Namespace).Get(ctx, "vpa-admission-controller", metav1.GetOptions{})
		if err != nil {
			return err
		}
		if age := time.Since(l.Spec.RenewTime.Time); age < 20*time.Second {
			return fmt.Errorf("it is %v old", age)
		}
		return nil
	})
	pods := p.start("steady", 2)
	p.apply(w.autoscaler("Recreate")) // now the updater would evict, if a replacement were any better
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
	p.eventually("the updater goes on", resized, p.sized("steady", 2, steadyTarget))
	p.wearsAnnotations("steady")
}

// remember returns the process numbers of the components.
func (p *place) remember() map[string]int {
	out := map[string]int{}
	for _, c := range p.components() {
		out[c.Name] = c.PID()
	}
	return out
}

// alive checks that the components are still the processes they were.
func (p *place) alive(was map[string]int) {
	p.Helper()
	for _, c := range p.components() {
		if !c.Running() || c.PID() != was[c.Name] {
			p.Errorf("%s did not survive:\n%s", c.Name, c.Tail(40))
		}
	}
}

// outlast lets an outage last, unless a component dies of it.
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

// recovers waits until the cluster's own controllers create pods and replace them. After an outage each watch of theirs
// begins again when its back-off is over, which takes up to a minute; podfit is not to be judged by that.
func (p *place) recovers() {
	p.Helper()
	p.apply(spec{Name: "probe", Requests: "{cpu: 10m, memory: 50Mi}"}.manifest())
	var pods []corev1.Pod
	p.eventually("the cluster creates pods again", 3*time.Minute, func(ctx context.Context) (err error) {
		pods, err = p.running(ctx, "probe", 2)
		return err
	})
	if err := p.CoreV1().Pods(p.ns).Delete(p.Context(), pods[0].Name, metav1.DeleteOptions{}); err != nil {
		p.Fatal(err)
	}
	p.eventually("the cluster replaces pods again", 3*time.Minute, func(ctx context.Context) error {
		now, err := p.running(ctx, "probe", 2)
		if err == nil && slices.Equal(uids(now), uids(pods)) {
			err = errors.New("the pods are the old ones")
		}
		return err
	})
}

// works checks that the whole loop works, with the same processes.
func (p *place) works(was map[string]int) {
	p.Helper()
	w := steady("after")
	p.apply(w.manifest(), w.autoscaler("Recreate"))
	p.eventually("a new workload is sized", measured+resized, p.sized("after", 2, steadyTarget))
	p.alive(was)
}
