// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	vpav1 "podfit.dev/podfit/api/v1"
	"podfit.dev/podfit/test/e2e/bed"
	"podfit.dev/podfit/test/e2e/invariant"
)

// TestRecommender_runsWithoutSamples_areMeasuredByKubelets has runs of 10 seconds of a CronJob while there is no Metrics API. Without --kubelet-usage
// they are not measured.
func TestRecommender_runsWithoutSamples_areMeasuredByKubelets(t *testing.T) {
	p := newPlace(t, "short-runs")
	p.reportWithoutMetrics()
	p.runThree("first")
	p.always("the runs are not measured", 11*time.Second, p.recommended("report", ""))

	p.restartRecommender("--kubelet-usage")
	p.always("the recommender reads no runs of the past", 6*time.Second, p.recommended("report", ""))
	p.runThree("second")
	p.eventually("there is a target of the runs", 30*time.Second, p.sizedByRuns("report", "app"))
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

// TestRecommender_rightForKubeletsMissing_remedyHelps has kubelets that ask the API server whether the recommender may read them. Without
// the right, no run is measured, and the warning names the file that grants it.
func TestRecommender_rightForKubeletsMissing_remedyHelps(t *testing.T) {
	p := newPlace(t, "kubelet-rights")
	p.reportWithoutMetrics()
	const file = "deploy/rights/kubelet-metrics/kubelet-metrics.yaml"
	manifest, err := os.ReadFile(filepath.Join(p.root, file))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.ApplyYAML(context.Background(), bed.Namespace, string(manifest)); err != nil {
			t.Error(err)
		}
	})
	if err := p.RbacV1().ClusterRoleBindings().Delete(t.Context(), "podfit:kubelet-metrics", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	p.restartRecommender("--kubelet-usage")
	p.runThree("first")
	p.eventually("a warning has the remedy", 10*time.Second, func(context.Context) error {
		log := p.recommender.Tail(1000)
		for _, part := range []string{"Cannot read usage from the kubelet", "403 Forbidden", file} {
			if !strings.Contains(log, part) {
				return fmt.Errorf("the log has no %q", part)
			}
		}
		return nil
	})
	p.always("the runs are not measured", 11*time.Second, p.recommended("report", ""))

	if err := p.ApplyYAML(t.Context(), bed.Namespace, string(manifest)); err != nil {
		t.Fatal(err)
	}
	round := 0
	p.eventually("the runs are measured a minute later", 3*time.Minute, func(ctx context.Context) error {
		err := p.sizedByRuns("report", "app")(ctx)
		if err != nil {
			round++
			p.runThree(fmt.Sprint("again-", round))
		}
		return err
	})
}

// reportWithoutMetrics applies a CronJob with runs of 10 seconds that the test starts, and its VPA, and stops metrics-server until the test ends.
func (p *place) reportWithoutMetrics() {
	p.Helper()
	if err := p.StopPart(p.Context(), bed.MetricsServer); err != nil {
		p.Fatal(err)
	}
	p.Cleanup(func() {
		p.restartRecommender()
		if err := p.StartPart(context.Background(), bed.MetricsServer); err != nil {
			p.Error(err)
		}
	})
	w := spec{Kind: "CronJob", Name: "report", Memory: "400Mi", Requests: "{cpu: 100m, memory: 50Mi}"}
	p.apply(strings.NewReplacer("after=20s", "after=10s", `schedule: "* * * * *"`, "schedule: 0 0 1 1 *\n  suspend: true").Replace(w.manifest()), w.autoscaler("Off"))
}

// sizedByRuns returns a check that a VPA has one target, that of runs with 300m and 400 MiB.
func (p *place) sizedByRuns(name, container string) func(context.Context) error {
	return func(ctx context.Context) error {
		a, err := p.Autoscaler(ctx, p.ns, name)
		if err != nil {
			return err
		}
		if a.Status.Recommendation != nil && len(a.Status.Recommendation.ContainerRecommendations) == 1 {
			r := a.Status.Recommendation.ContainerRecommendations[0]
			if cpu := r.Target.Cpu().MilliValue(); r.ContainerName == container && cpu >= 250 && cpu <= 350 && r.Target.Memory().Value() == 460<<20 {
				return nil
			}
		}
		return fmt.Errorf("the targets are %q, want %s with 345m and 460Mi, or a little less CPU", targets(a), container)
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

// The namespaces of recommenders that read kubelets.
const (
	initRuns         = "init-container-runs"
	initRunsUpstream = "init-container-runs-upstream"
)

// initContainerRunsAreMeasured has a workload whose init container runs for 10 seconds. Its pod is pending meanwhile, so metrics-server does not measure
// it. Kubelets do, and after three runs it has a target. New pods get the target, at most the sum of their other containers. If a quota refuses that, the
// init container keeps its own amounts. With --compatibility=upstream it always does.
func initContainerRunsAreMeasured(t *testing.T, name string) {
	p, upstream := newPlace(t, name), newPlace(t, initRunsUpstream)
	p.allow(invariant.Admitted, "the quota refuses each new pod until the deleted one is gone")
	const own, capped = "20m, 230Mi, limit 460Mi", "by run, 300Mi, limit 920Mi" // the limit is twice the target
	w := steady("steady")
	w.Replicas, w.Requests, w.Limits = 3, "{cpu: 1, memory: 300Mi}", "{memory: 300Mi}"
	manifest := strings.NewReplacer(
		"  annotations:\n", "  annotations:\n        sim.podfit.dev/setup.exit: after=10s\n"+
			"        sim.podfit.dev/setup.cpu: 300m\n        sim.podfit.dev/setup.memory: 400Mi\n",
		"      containers:\n", "      initContainers:\n"+
			"      - {name: setup, image: test/app, resources: {requests: {cpu: 20m, memory: 230Mi}, limits: {memory: 460Mi}}}\n      containers:\n",
	).Replace(w.manifest())
	for _, in := range []*place{p, upstream} {
		c := bed.Recommender().Named("recommender-"+in.ns).With("--recommender-interval=5s", "--kubelet-usage", "--vpa-object-namespace="+in.ns)
		if in == upstream {
			c = c.With("--compatibility=upstream")
		}
		r, err := in.healthy(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		in.endsWithTest(r)
		in.apply(strings.Replace(manifest, "replicas: 3", "replicas: 0", 1),
			autoscaler("steady", "", "steady", "Initial", `  resourcePolicy: {containerPolicies: [{containerName: app, mode: "Off"}]}`))
		in.eventually("the recommender knows the VPA", 30*time.Second, func(ctx context.Context) error {
			_, err := in.condition(ctx, "steady", vpav1.RecommendationProvided)
			return err
		})
		in.apply(manifest)
	}
	for _, pod := range append(p.start("steady", 3), upstream.start("steady", 3)...) {
		if got := setupOf(&pod); got != own {
			t.Errorf("the init container of %s has %s before there is a target", pod.Name, got)
		}
	}

	// A kubelet that does not answer within three seconds, on a busy machine, is asked again a minute later: then another run is needed.
	p.eventually("the init container has a target of its runs", 3*time.Minute, func(ctx context.Context) error {
		err := p.sizedByRuns("steady", "setup")(ctx)
		if newest := p.newest(); err != nil && time.Since(newest.CreationTimestamp.Time) > 40*time.Second {
			err = errors.Join(err, p.CoreV1().Pods(p.ns).Delete(ctx, newest.Name, metav1.DeleteOptions{}))
		}
		return err
	})
	p.replaceOne("a new pod has the target within the sum of the others", capped)
	upstream.replaceOne("with --compatibility=upstream, a new pod has its own amounts", own)
	if a, err := upstream.Autoscaler(t.Context(), upstream.ns, "steady"); err != nil || targets(a) != "" {
		t.Errorf("with --compatibility=upstream, the targets are %q, error %v", targets(a), err)
	}

	quota := func(memory string) {
		p.apply("{apiVersion: v1, kind: ResourceQuota, metadata: {name: memory}, spec: {hard: {limits.memory: " + memory + "}}}")
		p.eventually("the quota counts the pods", resized, func(ctx context.Context) error {
			q, err := p.CoreV1().ResourceQuotas(p.ns).Get(ctx, "memory", metav1.GetOptions{})
			if err != nil {
				return err
			}
			hard, used := q.Status.Hard["limits.memory"], q.Status.Used["limits.memory"]
			if hard.String() != memory || used.IsZero() {
				err = fmt.Errorf("the status is %v", q.Status)
			}
			return err
		})
	}
	quota("1840Mi") // one pod with a limit of 920 MiB and two with 460 MiB
	p.replaceOne("the quota has room for the target", capped)
	quota("1400Mi")
	p.replaceOne("the quota has no room for the target", own)
}

// replaceOne deletes the newest pod, and waits until the one that replaces it runs. Its init container must have these amounts.
func (p *place) replaceOne(what, want string) {
	p.Helper()
	old := p.start("steady", 3)
	if err := p.CoreV1().Pods(p.ns).Delete(p.Context(), p.newest().Name, metav1.DeleteOptions{}); err != nil {
		p.Fatal(err)
	}
	p.eventually(what, resized, func(ctx context.Context) error {
		pods, err := p.running(ctx, "steady", 3)
		if err != nil {
			return err
		}
		before := uids(old)
		i := slices.IndexFunc(pods, func(pod corev1.Pod) bool { return !slices.Contains(before, pod.UID) })
		if i < 0 {
			return errors.New("no pod is new")
		}
		if got := setupOf(&pods[i]); got != want {
			p.Fatalf("%s: the init container of %s has %s, want %s", what, pods[i].Name, got, want)
		}
		return nil
	})
}

// newest waits until the three pods run, and returns the newest one.
func (p *place) newest() corev1.Pod {
	p.Helper()
	return slices.MaxFunc(p.start("steady", 3), func(a, b corev1.Pod) int { return a.CreationTimestamp.Compare(b.CreationTimestamp.Time) })
}

// setupOf formats the amounts of a pod's init container. The CPU of its runs is 345m, or a little less.
func setupOf(pod *corev1.Pod) string {
	r := pod.Spec.InitContainers[0].Resources
	cpu := r.Requests.Cpu().String()
	if v := r.Requests.Cpu().MilliValue(); v >= 250 && v <= 350 {
		cpu = "by run"
	}
	return fmt.Sprintf("%s, %dMi, limit %dMi", cpu, r.Requests.Memory().Value()>>20, r.Limits.Memory().Value()>>20)
}
