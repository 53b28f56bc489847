// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package recommend

import (
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"podfit.dev/podfit/test/kubetest"
)

const cronJobs = "/apis/batch/v1/cronjobs"

// applyTemplate gives a Deployment a pod template with one container.
func applyTemplate(f *kubetest.FakeAPI, namespace, name string, replicas int, container, requests, limits string) {
	f.Apply(deployments, fmt.Sprintf(`{"metadata":{"namespace":%q,"name":%q},"spec":{"replicas":%d,"template":{"spec":{"containers":[{"name":%q,"resources":{"requests":%s,"limits":%s}}]}}}}`,
		namespace, name, replicas, container, requests, limits))
}

func TestRecommend_workloadsWithoutPods_areNamedWithTheCause(t *testing.T) {
	f := shop(t)
	for i := range 7 {
		applyTemplate(f, "shop", fmt.Sprintf("asleep-%d", i), 0, "app", `{"cpu":"1"}`, `{}`)
	}
	applyTemplate(f, "web", "starting", 2, "app", `{}`, `{}`)
	f.Apply(cronJobs, `{"metadata":{"namespace":"pay","name":"report"},"spec":{"schedule":"0 3 * * *"}}`)
	f.Apply(cronJobs, `{"metadata":{"namespace":"pay","name":"old"},"spec":{"schedule":"0 3 * * *","suspend":true}}`)
	args := []string{"--kubeconfig", kubeconfig(t, f.URL()), "--source", "cluster"}
	r := runCommand(t.Context(), args...)
	for _, want := range []string{
		"7 workloads are not in this report (0 replicas): shop/deploy/asleep-0, shop/deploy/asleep-1, shop/deploy/asleep-2, shop/deploy/asleep-3, shop/deploy/asleep-4 and 2 more.",
		"1 workload is not in this report (no live pods): web/deploy/starting.",
		"1 workload is not in this report (no Job runs now, and the usage of earlier ones is not known): pay/cj/report.",
		"1 workload is not in this report (suspended): pay/cj/old.",
	} {
		if !strings.Contains(r.out, want) || r.code != 0 {
			t.Errorf("%q is missing in exit code %d\n%s", want, r.code, r.out)
		}
	}
	r = runCommand(t.Context(), append(args, "-n", "web")...)
	if strings.Contains(r.out, "asleep") || !strings.Contains(r.out, "starting") {
		t.Errorf("-n web: got\n%s", r.out)
	}
	r = runCommand(t.Context(), append(args, "-l", "app=front")...)
	if strings.Contains(r.out, "not in this report") {
		t.Errorf("a selector of pods selects no workload without pods: got\n%s", r.out)
	}
	r = runCommand(t.Context(), append(args, "deploy/asleep-3")...)
	if r.code != 1 || !strings.Contains(r.errs, "it exists and has none: 0 replicas") {
		t.Errorf("a named workload: got exit code %d and error %s", r.code, r.errs)
	}
}

func TestRecommend_cronJobWithoutARun_isReviewedByItsTemplate(t *testing.T) {
	f := shop(t)
	f.Apply(cronJobs, `{"metadata":{"namespace":"pay","name":"report"},"spec":{"schedule":"0 3 * * *","jobTemplate":{"spec":{"template":{"spec":{"containers":[
		{"name":"app","resources":{"requests":{"cpu":"2","memory":"4Gi"}}},{"name":"log","resources":{"requests":{"cpu":"10m"}}}]}}}}}}`)
	f.Apply(kubetest.AutoscalersPath, `{"metadata":{"namespace":"pay","name":"report","uid":"v-report","creationTimestamp":"2026-10-01T00:00:00Z"},
		"spec":{"recommenders":[{"name":"balanced"}],"targetRef":{"apiVersion":"batch/v1","kind":"CronJob","name":"report"}},
		"status":{"recommendation":{"containerRecommendations":[{"containerName":"app","target":{"cpu":"300m","memory":"1Gi"},
		"lowerBound":{"cpu":"300m","memory":"1Gi"},"upperBound":{"cpu":"300m","memory":"1Gi"}}]}}}`)
	args := []string{"--kubeconfig", kubeconfig(t, f.URL()), "--source", "cluster"}
	r := runCommand(t.Context(), args...)
	if !regexp.MustCompile(`pay/cj/report +– +app +2 → 300m +4\.0Gi → 1\.0Gi +– `).MatchString(r.out) || strings.Contains(r.out, "no Job runs now") {
		t.Errorf("got\n%s", r.out)
	}
	r = runCommand(t.Context(), append(args, "-o", "json", "cronjob/report")...)
	for _, want := range []string{`"replicas": 0`, `"kind": "CronJob"`, `"newRequest": "300m"`} {
		if !strings.Contains(r.out, want) || r.code != 0 {
			t.Errorf("%s is missing in exit code %d\n%s%s", want, r.code, r.out, r.errs)
		}
	}
	r = runCommand(t.Context(), append(args, "-o", "patch", "cronjob/report")...)
	if !strings.Contains(r.out, "300m") || !strings.Contains(r.out, "jobTemplate") {
		t.Errorf("patch: got\n%s%s", r.out, r.errs)
	}
}

// Git has the pod template, and not what a VPA did to the pods.
func TestRecommend_podsDifferFromTheTemplate_manifestChangesTheTemplate(t *testing.T) {
	f := kubetest.NewFakeAPI(t)
	const sized = `{"cpu":"250m","memory":"512Mi"}`
	deployment{"shop", "cart", 2, sized, `{"memory":"1Gi"}`, "", 0}.apply(f)
	applyTemplate(f, "shop", "cart", 2, "app", `{"cpu":"1","memory":"1Gi"}`, `{"memory":"2Gi"}`)
	applyVPA(f, "shop", "cart", "250m", "512Mi") // the pods have it already
	deployment{"shop", "same", 2, sized, `{}`, "", 0}.apply(f)
	applyTemplate(f, "shop", "same", 2, "app", sized, `{}`)
	applyVPA(f, "shop", "same", "250m", "512Mi")
	deployment{"shop", "meshed", 2, sized, `{}`, "", 0}.apply(f)
	applyTemplate(f, "shop", "meshed", 2, "main", sized, `{}`) // a webhook adds the container app
	applyVPA(f, "shop", "meshed", "100m", "256Mi")
	run := func(format string) string {
		r := runCommand(t.Context(), "--kubeconfig", kubeconfig(t, f.URL()), "--source", "cluster", "-o", format, "--sort", "name", "--limits", "proportional")
		if r.code != 0 {
			t.Fatalf("exit code %d and error %s", r.code, r.errs)
		}
		return r.out
	}
	for format, wants := range map[string][]string{
		"wide": {"The pods of 1 workload have other requests or limits than the pod template", "1, 1.0Gi", "same"},
		"json": {`"differs": true`, `"differs": false`},
		"kustomize": {
			"name: cart\n      namespace: shop\n", "cpu: 250m", "memory: 512Mi", "limits:\n                memory: 1Gi",
			"# left out: shop/deploy/meshed, container app: the pod template does not have it",
		},
		"helm-values": {"# shop/deploy/cart\nresources:\n  limits:\n    memory: 1Gi\n  requests:\n    cpu: 250m\n    memory: 512Mi\n"},
		"patch":       {"kubectl patch deployment -n shop cart"},
	} {
		out := run(format)
		for _, want := range wants {
			if !strings.Contains(out, want) {
				t.Errorf("%s: %q is missing in\n%s", format, want, out)
			}
		}
		if manifest := format != "wide" && format != "json"; manifest && (strings.Contains(out, "name: same") || strings.Contains(out, "shop same") || strings.Contains(out, "name: meshed")) {
			t.Errorf("%s: a template that is right, or without the container, is changed in\n%s", format, out)
		}
	}
}

func TestRecommend_templatesCannotBeRead_isReportedAndPodsAreCompared(t *testing.T) {
	f := shop(t)
	refuse(f, func(r *http.Request) bool { // the metadata can be read
		return strings.HasSuffix(r.URL.Path, "/cronjobs") && !strings.Contains(r.Header.Get("Accept"), "PartialObjectMetadata")
	})
	r := runCommand(t.Context(), "--kubeconfig", kubeconfig(t, f.URL()), "--source", "cluster")
	if r.code != exitPartial || !strings.Contains(r.out, "Incomplete: pod templates of cronjobs: list cronjobs") || !strings.Contains(r.out, "shop/deploy/cart") {
		t.Errorf("got exit code %d, error %s and report\n%s", r.code, r.errs, r.out)
	}
}
