// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"podfit.dev/podfit/api/podfit/v1alpha1"
	"podfit.dev/podfit/test/e2e/bed"
)

// TestCapacityPlan_historyAndRestart_planHasDates checks that the recommender creates the CapacityPlan with its own rights, that it has no date
// without a history, and that a recommender that starts with a stored history of 60 days has one.
func TestCapacityPlan_historyAndRestart_planHasDates(t *testing.T) {
	p := newPlace(t, "capacity-plan")
	w := steady("steady")
	p.apply(w.manifest(), autoscaler("steady", "", "steady", "Off", ""))
	plans := p.Dynamic.Resource(v1alpha1.GroupVersion().WithResource(v1alpha1.ResourceCapacityPlans))
	read := func(ctx context.Context) (*v1alpha1.CapacityPlan, error) {
		o, err := plans.Get(ctx, v1alpha1.CapacityPlanName, metav1.GetOptions{})
		if err != nil {
			return nil, err
		}
		plan := new(v1alpha1.CapacityPlan)
		return plan, runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, plan)
	}
	p.start("steady", 2)
	p.recommender.Kill()
	p.recommendBy(ofAllNamespaces()) // there is no plan if some are not watched
	t.Cleanup(func() {
		p.recommender.Kill()
		p.recommendBy(recommender())
	})
	// The status of an earlier test may be recent, and is then kept for ten minutes. A deleted plan is created again by the next pass.
	if err := plans.Delete(p.Context(), v1alpha1.CapacityPlanName, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
		p.Fatal(err)
	}
	var pool string
	p.eventually("the plan has the nodes, and no date without a history", 2*time.Minute, func(ctx context.Context) error {
		plan, err := read(ctx)
		if err != nil {
			return err
		}
		if len(plan.Status.Pools) != 1 || !meta.IsStatusConditionFalse(plan.Status.Conditions, v1alpha1.PlanForecast) {
			return fmt.Errorf("status %+v", plan.Status)
		}
		s := &plan.Status.Pools[0]
		pool = s.Name
		if s.Nodes != 3 || s.CPU.Requested.IsZero() || s.CPU.Capacity.MilliValue() != 48_000 || s.CPU.Advice != "NoForecast" {
			return fmt.Errorf("pool %+v", s)
		}
		return nil
	})
	if out := p.capacity(); !strings.Contains(out, "not enough history: a forecast needs 14 days") || !strings.Contains(out, pool) {
		t.Errorf("output\n%s", out)
	}

	p.recommender.Kill()
	p.storeGrowth(read)
	p.recommendBy(ofAllNamespaces())
	p.eventually("the plan has a date after a restart with a history", 2*time.Minute, func(ctx context.Context) error {
		plan, err := read(ctx)
		if err != nil {
			return err
		}
		if !meta.IsStatusConditionTrue(plan.Status.Conditions, v1alpha1.PlanForecast) {
			return fmt.Errorf("conditions %+v", plan.Status.Conditions)
		}
		full := plan.Status.Pools[0].CPU.Thresholds
		if i := slices.IndexFunc(full, func(x v1alpha1.CapacityThreshold) bool { return x.Percent == 100 }); i < 0 || full[i].State != "Ahead" || full[i].Earliest == "" {
			return fmt.Errorf("thresholds %+v", full)
		}
		return nil
	})
	if out := p.capacity(); !strings.Contains(out, "history of the CapacityPlan") || !strings.Contains(out, "order ") {
		t.Errorf("output\n%s", out)
	}
}

// storeGrowth writes 60 days into the history of the plan: requested CPU grows by half a core per day up to 40 of 48 cores.
func (p *place) storeGrowth(read func(context.Context) (*v1alpha1.CapacityPlan, error)) {
	p.Helper()
	plan, err := read(p.Context())
	if err != nil {
		p.Fatal(err)
	}
	var h v1alpha1.CapacityHistory
	today := time.Now().UTC().Truncate(24 * time.Hour)
	for i := range 60 {
		h.Days = append(h.Days, today.AddDate(0, 0, i-60).Format(time.DateOnly))
		h.CPU.Requested, h.CPU.Capacity = append(h.CPU.Requested, int64(10_500+500*i+i%3*50)), append(h.CPU.Capacity, 48_000)
		h.Memory.Requested, h.Memory.Capacity = append(h.Memory.Requested, 8192), append(h.Memory.Capacity, 49_152)
	}
	plan.Status.Pools[0].History = h
	body, err := json.Marshal(map[string]any{"status": map[string]any{"pools": plan.Status.Pools}})
	if err != nil {
		p.Fatal(err)
	}
	plans := p.Dynamic.Resource(v1alpha1.GroupVersion().WithResource(v1alpha1.ResourceCapacityPlans))
	if _, err := plans.Patch(p.Context(), v1alpha1.CapacityPlanName, types.MergePatchType, body, metav1.PatchOptions{}, "status"); err != nil {
		p.Fatal(err)
	}
}

// capacity runs podfit capacity.
func (p *place) capacity() string {
	p.Helper()
	ctx, cancel := bed.WithPatience(p.Context(), time.Minute)
	defer cancel()
	var out, errs bytes.Buffer
	cmd := exec.CommandContext(ctx, p.binary, "capacity", "--kubeconfig", p.Kubeconfig)
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		p.Fatalf("podfit capacity: %v: %s", err, errs.String())
	}
	return out.String()
}
