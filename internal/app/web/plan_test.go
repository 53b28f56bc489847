// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package web

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"podfit.dev/podfit/api/podfit/v1alpha1"
	"podfit.dev/podfit/internal/edge/kube"
	"podfit.dev/podfit/test/kubetest"
)

// plans has a CapacityPlan.
type plans struct {
	plan  *v1alpha1.CapacityPlan
	err   error
	delay time.Duration
	reads atomic.Int32
}

func (p *plans) Read(ctx context.Context) (*v1alpha1.CapacityPlan, error) {
	p.reads.Add(1)
	select {
	case <-time.After(p.delay):
		return p.plan, p.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func TestState_capacityPlan_isShownOrWhyNot(t *testing.T) {
	stored := &v1alpha1.CapacityPlan{Status: v1alpha1.CapacityPlanStatus{Pools: []v1alpha1.CapacityPoolStatus{{Name: "worker"}}}}
	for name, c := range map[string]struct {
		plans   *plans
		shown   bool
		problem string
	}{
		"stored":      {&plans{plan: stored}, true, ""},
		"none":        {&plans{err: fmt.Errorf("read: %w", kube.ErrNotFound)}, false, ""},
		"no CRD":      {&plans{err: fmt.Errorf("read: %w", kube.ErrUnsupported)}, false, ""},
		"no right":    {&plans{err: fmt.Errorf("read: %w", kube.ErrForbidden)}, false, "It needs the right to get capacityplans.podfit.dev"},
		"other error": {&plans{err: errors.New("read the capacity plan: connection refused")}, false, "connection refused"},
		"hangs":       {&plans{delay: time.Hour}, false, "deadline"},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := sourceOf(new(fake))
			s.plans = c.plans.Read
			began := time.Now()
			s.State(t.Context())
			if waited := time.Since(began); waited > 5*time.Second {
				t.Errorf("%s: the first page waits %v", name, waited)
			}
			time.Sleep(readTimeout + freshState.age) // a page that is opened later
			s.State(t.Context())
			synctest.Wait()
			time.Sleep(freshState.age)
			s.State(t.Context())
			synctest.Wait()
			state := s.State(t.Context())
			if (state.Plan != nil) != c.shown || (state.PlanProblem == "") != (c.problem == "") || !strings.Contains(state.PlanProblem, c.problem) {
				t.Errorf("%s: plan %v, problem %q", name, state.Plan, state.PlanProblem)
			}
			for range 60 {
				s.State(t.Context())
				time.Sleep(time.Second)
			}
			if n := c.plans.reads.Load(); n > 3 {
				t.Errorf("%s: %d reads in about a minute", name, n)
			}
			time.Sleep(time.Minute) // until all readings have ended
		})
	}
}

// The page shows the plan that the recommender stores. Its pools have the names and the capacity of the plan.
func TestCommand_capacityPlan_isOnThePageOfNodes(t *testing.T) {
	api := kubetest.NewFakeAPI(t)
	api.ApplyShop()
	api.Apply("/api/v1/nodes", `{"metadata":{"name":"n1","labels":{"team":"red"}},"status":{"capacity":{"cpu":"192","memory":"768Gi"},"allocatable":{"cpu":"190","memory":"760Gi"},"conditions":[{"type":"Ready","status":"True"}]}}`)
	api.Apply("/apis/podfit.dev/v1alpha1/capacityplans", `{"apiVersion":"podfit.dev/v1alpha1","kind":"CapacityPlan","metadata":{"name":"cluster","resourceVersion":"7"},"spec":{"pools":[{"name":"worker","nodeLabels":{"team":"red"}}]},"status":{"pools":[
				{"name":"worker","cpu":{"capacity":"192","requested":"154","advice":"OrderNow","orderBy":"2026-11-22","forecastDays":90},"memory":{"capacity":"768Gi","requested":"384Gi","advice":"Wait"}}]}}`)
	root, _ := start(t, "--kubeconfig="+kubetest.Kubeconfig(t, api.URL()))
	kubetest.Eventually(t, "the page of nodes shows the forecast", func() bool {
		text := read(t, root+"nodes")
		return strings.Contains(text, "154 of 192 (80 %)") && strings.Contains(text, "2026-11-22: now") &&
			strings.Contains(text, `aria-label="Pool worker"`) && strings.Contains(text, "<b>192 cores</b>")
	})
}
