// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"podfit.dev/podfit/test/e2e/bed"
)

// TestRecommender_runsWithoutSamples_areMeasuredByKubelets has runs of 10 seconds of a CronJob while there is no Metrics API. Without --kubelet-usage
// they are not measured.
func TestRecommender_runsWithoutSamples_areMeasuredByKubelets(t *testing.T) {
	p := newPlace(t, "short-runs")
	if err := p.StopPart(t.Context(), bed.MetricsServer); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.restartRecommender()
		if err := p.StartPart(context.Background(), bed.MetricsServer); err != nil {
			t.Error(err)
		}
	})
	w := spec{Kind: "CronJob", Name: "report", Memory: "400Mi", Requests: "{cpu: 100m, memory: 50Mi}"}
	p.apply(strings.NewReplacer("after=20s", "after=10s", `schedule: "* * * * *"`, "schedule: 0 0 1 1 *\n  suspend: true").Replace(w.manifest()), w.autoscaler("Off"))
	p.runThree("first")
	p.always("the runs are not measured", 11*time.Second, p.recommended("report", ""))

	p.restartRecommender("--kubelet-usage")
	p.always("the recommender reads no runs of the past", 6*time.Second, p.recommended("report", ""))
	p.runThree("second")
	p.eventually("there is a target of the runs", 30*time.Second, func(ctx context.Context) error {
		a, err := p.Autoscaler(ctx, p.ns, "report")
		if err != nil || a.Status.Recommendation == nil {
			return fmt.Errorf("no recommendation, error %w", err)
		}
		target := a.Status.Recommendation.ContainerRecommendations[0].Target
		if cpu, memory := target.Cpu().MilliValue(), target.Memory().Value(); cpu < 250 || cpu > 350 || memory != 460<<20 {
			return fmt.Errorf("the target is %s and %s, want 345m and 460Mi or a little less CPU", target.Cpu(), target.Memory())
		}
		return nil
	})
	p.eventually("the runs are stored", 30*time.Second, func(ctx context.Context) error {
		e, err := p.explain(ctx, p.Kubeconfig, "cronjob/report")
		if err != nil {
			return err
		}
		if len(e.Runs) != 6 || e.Runs[0].Memory != 400<<20 || e.Runs[5].Memory != 0 {
			return fmt.Errorf("runs %+v", e.Runs)
		}
		return nil
	})
	if log := p.recommender.Tail(1000); strings.Contains(log, "Cannot read usage from the kubelet") {
		t.Errorf("kubelets could not be read:\n%s", log)
	}
}

// runThree starts three Jobs of the CronJob report at once, as the CronJob controller does, and waits until they have ended.
func (p *place) runThree(name string) {
	p.Helper()
	cron, err := p.BatchV1().CronJobs(p.ns).Get(p.Context(), "report", metav1.GetOptions{})
	if err != nil {
		p.Fatal(err)
	}
	for i := range 3 {
		job := &batchv1.Job{Spec: cron.Spec.JobTemplate.Spec, ObjectMeta: metav1.ObjectMeta{
			Name: fmt.Sprintf("report-%s-%d", name, i), OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(cron, batchv1.SchemeGroupVersion.WithKind("CronJob"))},
		}}
		if _, err := p.BatchV1().Jobs(p.ns).Create(p.Context(), job, metav1.CreateOptions{}); err != nil {
			p.Fatal(err)
		}
	}
	p.eventually("the runs have ended", time.Minute, func(ctx context.Context) error {
		pods, err := p.pods(ctx, "report")
		if err != nil {
			return err
		}
		ended := slices.DeleteFunc(pods, func(pod corev1.Pod) bool {
			return !strings.HasPrefix(pod.Name, "report-"+name) || pod.Status.Phase != corev1.PodSucceeded
		})
		if len(ended) != 3 {
			return fmt.Errorf("%d runs have ended", len(ended))
		}
		return nil
	})
}
