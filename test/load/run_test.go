// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"
	"time"

	"podfit.dev/podfit/test/e2e/bed"
	"podfit.dev/podfit/test/load/apiserver"
	"podfit.dev/podfit/test/load/fleet"
)

func TestMeasure_smallFleet_allVPAsHaveARecommendation(t *testing.T) {
	if testing.Short() {
		t.Skip("runs podfit twice")
	}
	root, err := bed.Root()
	if err != nil {
		t.Fatal(err)
	}
	binary, err := bed.Build(t.Context(), root, t.Output())
	if err != nil {
		t.Fatal(err)
	}
	var results []*Result
	for _, system := range []string{separate, oneProcess} {
		r, err := measure(t.Context(), Setup{
			System: system, Fleet: fleet.Config{Workloads: 25, Pods: 3, Seed: 1, History: 8 * 24 * time.Hour}, QPS: 500,
			Limit: 30 * time.Second, Steady: 3 * time.Second, Webhook: time.Second, Rate: 50, Churn: system == oneProcess, Podfit: binary, Dir: t.TempDir(),
		}, t.Output())
		if err != nil {
			t.Fatal(err)
		}
		if r.Recommended != 25 || r.First <= 0 {
			t.Errorf("%s: %d of 25 VPAs have a recommendation, after %.1f s", system, r.Recommended, r.First)
		}
		if written := statusWrites(r); written < 25 {
			t.Errorf("%s: %d writes of statuses, want at least 25", system, written)
		}
		if w := r.Webhook; w.Reviews != 50 || w.Failed != 0 || w.Patched == 0 || w.P50 <= 0 || w.P99 < w.P50 {
			t.Errorf("%s: webhook %+v", system, w)
		}
		if peak, resident := r.Memory(); resident <= 0 || peak < resident {
			t.Errorf("%s: memory %f, %f", system, peak, resident)
		}
		results = append(results, r)
	}
	var out strings.Builder
	printResults(&out, results)
	for _, want := range []string{"25 VPAs, 75 pods, 90 containers", "| VPAs with a recommendation", separate, oneProcess, "verticalpodautoscalers.autoscaling.k8s.io/status"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not in the output:\n%s", want, out.String())
		}
	}
}

func statusWrites(r *Result) int {
	n := 0
	for _, l := range r.Start {
		if l.Resource == "verticalpodautoscalers.autoscaling.k8s.io/status" && l.Request.Writes() {
			n += l.Requests
		}
	}
	return n
}

func TestTable_valueAboveBudget_isMarked(t *testing.T) {
	r := &Result{
		System: oneProcess, Workloads: 10, Pods: 2, Recommended: 9, First: 50, Window: 60, Recommender: []float64{1, 6}, Processes: []Usage{{Process: "run", Peak: 900, Resident: 600, CPU: 3}},
		Steady: []Line{{apiserver.Request{Client: "podfit/run", Verb: "patch", Resource: "x"}, apiserver.Count{Requests: 1200, Received: 61440}}},
	}
	var out strings.Builder
	measures([]*Result{r}).write(&out)
	for _, want := range []string{"| **50** (missed)", "| **6** (missed)", "| **900** (missed)", "| **1.50** (missed)", "| 20 ", "| 1 "} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not in the table:\n%s", want, out.String())
		}
	}
	if got := len(missed(r)); got != 5 {
		t.Errorf("%d missed budgets: %v", got, missed(r))
	}
	larger := *r
	larger.Workloads, larger.First = 40, 300
	if t4 := growths([]*Result{r, &larger}); len(t4) < 3 || t4[1][5] != "**6.00** (missed)" || t4[2][5] != "1.00" {
		t.Errorf("growth: %v", t4)
	}
}

func TestPercentile_fewValues_returnsOneOfThem(t *testing.T) {
	for share, want := range map[float64]float64{0: 1, 0.5: 3, 0.99: 4, 1: 4} {
		if got := percentile([]float64{4, 1, 3, 2}, share); got != want {
			t.Errorf("percentile %.2f is %.0f, want %.0f", share, got, want)
		}
	}
}
