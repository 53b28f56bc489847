// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"podfit.dev/podfit/api/podfit/v1alpha1"
)

const plansPath = "/apis/podfit.dev/v1alpha1/capacityplans"

// recommend runs podfit recommender with flags until the API server has a CapacityPlan with pools or, if none is expected, has all usage of
// two passes.
func (s *shop) recommend(wantPlan bool, flags ...string) (plan map[string]any) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), time.Minute)
	defer cancel()
	ended := make(chan int, 1)
	args := append([]string{"podfit", "recommender", "--kubeconfig=" + s.kubeconfig(), "--address=127.0.0.1:0", "--recommender-interval=100ms"}, flags...)
	go func() { ended <- Main(ctx, args, Streams{In: strings.NewReader(""), Out: io.Discard, Err: io.Discard}) }()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for ctx.Err() == nil {
		<-tick.C
		plan = s.api.Object(plansPath, "/"+v1alpha1.CapacityPlanName)
		status, _ := plan["status"].(map[string]any)
		if pools, _ := status["pools"].([]any); wantPlan && len(pools) > 0 || !wantPlan && s.passes() > 2 {
			break
		}
	}
	cancel()
	if code := <-ended; code != exitOK {
		s.t.Fatalf("exit code %d", code)
	}
	return plan
}

// passes returns how often the usage of pods was read.
func (s *shop) passes() int {
	n := 0
	for _, r := range s.sent() {
		if strings.Contains(r, "metrics.k8s.io") {
			n++
		}
	}
	return n
}

func TestCapacityPlan_recommenderRuns_planIsWrittenAndReported(t *testing.T) {
	s := newShop(t, 3)
	plan := s.recommend(true)
	if got := fmt.Sprint(plan["status"]); !strings.Contains(got, "requested:1200m") || !strings.Contains(got, "name:other") {
		t.Errorf("status %s", got)
	}
	stdout, stderr, code := call(t, "podfit", "capacity", "--kubeconfig="+s.kubeconfig())
	if code != exitOK || !strings.Contains(stdout, "1.2 of 8 (15 %)") || !strings.Contains(stdout, "not enough history: a forecast needs 14 days") {
		t.Errorf("exit code %d, %s\n%s", code, stderr, stdout)
	}
}

// A plan must not be written from a part of the cluster, nor by two recommenders.
func TestFlags_capacityPlan_isOffWhereItCannotBeRight(t *testing.T) {
	for _, flags := range [][]string{
		{"--capacity-plan=false"}, {"--vpa-object-namespace=shop"}, {"--ignored-vpa-object-namespaces=kube-system"}, {"--recommender-name=other"},
	} {
		s := newShop(t, 1)
		if plan := s.recommend(false, flags...); plan != nil {
			t.Errorf("%v: a plan is written: %v", flags, plan)
		}
	}
}

// docs/capacity.md describes all conditions and metrics of the plan.
func TestCapacityPage_conditionsAndMetrics_areDescribed(t *testing.T) {
	data, err := os.ReadFile(filepath.Join("..", "..", "docs", "capacity.md"))
	if err != nil {
		t.Fatal(err)
	}
	page := string(data)
	metrics, err := os.ReadFile(filepath.Join("..", "..", "docs", "metrics.md"))
	if err != nil {
		t.Fatal(err)
	}
	names := []string{v1alpha1.PlanAboveThreshold, v1alpha1.PlanOrderNow, v1alpha1.PlanCanLoseANode, v1alpha1.PlanForecast}
	for line := range strings.SplitSeq(string(metrics), "\n") {
		if name, _, ok := strings.Cut(strings.TrimPrefix(line, "| `"), "`"); ok && strings.HasPrefix(name, "podfit_capacity_") {
			names = append(names, name)
		}
	}
	if len(names) < 13 {
		t.Errorf("only %d names are known: %v", len(names), names)
	}
	for _, name := range names {
		if !strings.Contains(page, "`"+name+"`") {
			t.Errorf("docs/capacity.md does not describe %s", name)
		}
	}
}
