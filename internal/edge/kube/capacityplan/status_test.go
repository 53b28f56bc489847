// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package capacityplan

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"podfit.dev/podfit/api/podfit/v1alpha1"
	"podfit.dev/podfit/internal/core/capacity"
	"podfit.dev/podfit/internal/core/cluster"
)

var now = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

// historyOf returns a history with values on each day, many changes and workloads with long names.
func historyOf(days, workloads, nameLength int) *capacity.History {
	h := &capacity.History{}
	today := capacity.DayOf(now)
	for i := range days {
		r := capacity.Record{
			Day: today - capacity.Day(days-1-i), Requested: cluster.Amounts(int64(1e9+i), int64(i+1)<<40), Capacity: cluster.Amounts(2e9, 1<<50), Used: cluster.Amounts(int64(5e8+i), 1<<40),
		}
		r.Growth.New, r.Growth.PerPod = cluster.Amounts(int64(i), int64(i)<<20), cluster.Amounts(int64(-i), 0)
		r.Growth.Gone, r.Growth.Replicas = cluster.Amounts(0, 0), cluster.Amounts(0, 0)
		if i < days-capacity.GrowthDays {
			r.Growth = capacity.Growth{}
		}
		h.Days = append(h.Days, r)
	}
	for i := range workloads {
		w := cluster.Workload{Group: "apps", Kind: "Deployment", Namespace: strings.Repeat("n", min(nameLength, 63)), Name: fmt.Sprintf("%0*d", nameLength, i)}
		h.Loads = append(h.Loads, capacity.Load{Workload: w, Pods: 3, Requests: cluster.Amounts(int64(1000+i), int64(i+1)<<20)})
		if i < capacity.MostChanges {
			h.Changes = append(h.Changes, capacity.Change{Day: today, Workload: w, Cause: capacity.Causes[i%4], Amount: cluster.Amounts(int64(100+i), 1<<30)})
		}
	}
	return h
}

func statusOf(pools int, h func() *capacity.History) v1alpha1.CapacityPlanStatus {
	histories := map[string]*capacity.History{}
	var all []capacity.Pool
	for i := range pools {
		name := fmt.Sprintf("pool-%02d", i)
		histories[name] = h()
		all = append(all, capacity.Pool{Name: name, Nodes: 1})
	}
	plan := capacity.Assess(now, all, capacity.Unplaced{}, histories, capacity.Defaults())
	return Status(&plan, histories, nil)
}

func TestStatus_histories_areReadAgain(t *testing.T) {
	h := historyOf(40, 10, 8)
	s := statusOf(1, func() *capacity.History { return h })
	data, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	var stored v1alpha1.CapacityPlanStatus
	if err := json.Unmarshal(data, &stored); err != nil {
		t.Fatal(err)
	}
	got := Histories(&stored)["pool-00"]
	if diff := cmp.Diff(h.Days, got.Days); diff != "" {
		t.Errorf("days (-stored +read)\n%s", diff)
	}
	if diff := cmp.Diff(h.Loads, got.Loads); diff != "" {
		t.Errorf("loads (-stored +read)\n%s", diff)
	}
	if diff := cmp.Diff(capacity.LargestChanges(h.Changes, 100), got.Changes); diff != "" {
		t.Errorf("changes (-stored +read)\n%s", diff)
	}
}

func TestStatus_largestCluster_isWithinItsSize(t *testing.T) {
	for name, c := range map[string]struct {
		nameLength, wantDays int
	}{"usual names": {30, 90}, "longest names": {253, 90}} {
		s := statusOf(capacity.MostPools, func() *capacity.History { return historyOf(90, 1000, c.nameLength) })
		if size := sizeOf(&s); size > v1alpha1.MaxCapacityPlanSize {
			t.Errorf("%s: %d bytes", name, size)
		}
		for i := range s.Pools {
			p := &s.Pools[i]
			n := len(p.History.Days)
			if n < c.wantDays {
				t.Errorf("%s: %d days are kept, want %d", name, n, c.wantDays)
			}
			if len(p.History.CPU.Requested) != n || len(p.History.Memory.Capacity) != n || len(p.History.CPU.New) > min(n, 28) {
				t.Errorf("%s: the lists have different lengths", name)
			}
			if len(p.Changes) > v1alpha1.MaxCapacityChanges || len(p.History.Workloads) > v1alpha1.MaxCapacityWorkloads {
				t.Errorf("%s: %d changes, %d workloads", name, len(p.Changes), len(p.History.Workloads))
			}
			if !p.History.WorkloadsOmitted {
				t.Errorf("%s: it is not recorded that workloads are left out", name)
			}
		}
	}
}

func TestStatus_futureDays_areNotStored(t *testing.T) {
	h := historyOf(20, 0, 1)
	h.Days = append(h.Days, capacity.Record{Day: capacity.DayOf(now) + 300, Requested: cluster.Amounts(1, 1)})
	s := statusOf(1, func() *capacity.History { return h })
	if n := len(s.Pools[0].History.Days); n != 20 {
		t.Errorf("%d days", n)
	}
}

func TestStatus_conditionThatStays_keepsItsTime(t *testing.T) {
	plan := capacity.Assess(now, nil, capacity.Unplaced{}, nil, capacity.Defaults())
	before := Status(&plan, nil, nil).Conditions
	plan.Now = now.Add(time.Hour)
	after := Status(&plan, nil, before).Conditions
	if diff := cmp.Diff(before, after); diff != "" || len(after) != 4 {
		t.Errorf("%d conditions, %s", len(after), diff)
	}
}

// The day of the order-by date is the first on which the condition is True.
func TestStatus_orderByDate_setsCapacityOrderNow(t *testing.T) {
	today := capacity.DayOf(now)
	for name, c := range map[string]struct {
		orderBy capacity.Day
		status  metav1.ConditionStatus
		reason  string
	}{
		"no date":   {0, metav1.ConditionFalse, "NoOrderDue"},
		"tomorrow":  {today + 1, metav1.ConditionFalse, "NoOrderDue"},
		"today":     {today, metav1.ConditionTrue, "OrderDateReached"},
		"last week": {today - 7, metav1.ConditionTrue, "OrderDateReached"},
	} {
		plan := capacity.Plan{Now: now, Pools: []capacity.PoolPlan{{Pool: capacity.Pool{Name: "worker"}}}}
		for i, res := range cluster.All {
			plan.Pools[0].Resources[i].Resource = res
		}
		plan.Pools[0].Resources[0].Outlook.OrderBy = c.orderBy
		got := meta.FindStatusCondition(Status(&plan, nil, nil).Conditions, v1alpha1.PlanOrderNow)
		if got == nil || got.Status != c.status || got.Reason != c.reason || strings.HasPrefix(got.Message, "worker cpu: ") != (c.status == metav1.ConditionTrue) {
			t.Errorf("%s: got %+v, want %s with reason %s", name, got, c.status, c.reason)
		}
	}
}

func TestHistories_damagedStatus_validPartsAreRead(t *testing.T) {
	s := v1alpha1.CapacityPlanStatus{Pools: []v1alpha1.CapacityPoolStatus{{
		Name: "a",
		History: v1alpha1.CapacityHistory{
			Days: []string{"2026-11-20", "yesterday", "2026-11-19", "2026-11-20"},
			CPU:  v1alpha1.CapacitySeries{Requested: []int64{5, 6, -1, 7}, Capacity: []int64{9}, New: []int64{1, 2, 3, 4, 5, 6}},
		},
		Changes: []v1alpha1.CapacityChange{{Day: "2026-11-20", Cause: "Exploded"}, {Day: "x", Cause: "Left"}},
	}}}
	h := Histories(&s)["a"]
	if len(h.Days) != 2 || h.Days[0].Requested.Has.Has(cluster.CPU) || h.Days[1].Requested.CPU != 5 || h.Days[1].Capacity.CPU != 9 || len(h.Changes) != 0 {
		t.Errorf("%+v", h)
	}
}

func TestSettings_values_areUsedOrReplacedByDefaults(t *testing.T) {
	days := int32(21)
	spec := &v1alpha1.CapacityPlanSpec{
		LeadTimeDays: &days, Thresholds: []v1alpha1.CapacityPercent{85, 70, 0, 200, 70}, Base: v1alpha1.CapacityBaseAllocatable, PoolLabel: "pool",
		Pools: []v1alpha1.CapacityPool{{Name: "gpu", NodeLabels: map[string]string{"b": "2", "a": "1"}, LeadTimeDays: 60}, {Name: "x", LeadTimeDays: 100_000}},
	}
	s, allocatable := Settings(spec)
	want := capacity.Settings{LeadTime: 21, Thresholds: []float64{0.7, 0.85, 1}, Rules: capacity.Rules{
		PoolLabel: "pool", Pools: []capacity.Rule{{Pool: "gpu", Labels: []string{"a=1", "b=2"}, LeadTime: 60}, {Pool: "x"}},
	}}
	if diff := cmp.Diff(want, s); diff != "" || !allocatable {
		t.Errorf("%t, %s", allocatable, diff)
	}
	negative := int32(-3)
	if s, allocatable := Settings(&v1alpha1.CapacityPlanSpec{LeadTimeDays: &negative}); s.LeadTime != 14 || allocatable {
		t.Errorf("%+v, %t", s, allocatable)
	}
}

// Whatever is stored, reading it does not panic, and an object that cannot be decoded is reported as invalid.
func FuzzDecode_anyObject_isReadOrInvalid(f *testing.F) {
	s := statusOf(2, func() *capacity.History { return historyOf(3, 2, 5) })
	valid, err := json.Marshal(v1alpha1.CapacityPlan{Status: s})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(valid)
	f.Add([]byte(`{"metadata":{"name":"cluster"},"spec":{"pools":1},"status":{"pools":[{"name":"a","history":{"days":["2026-01-01"],"cpu":{"new":[1,2,3]}}}]}}`))
	f.Add([]byte(`{"status":{"pools":[{"cpu":{"capacity":"99999999999999999999999"}}]}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		plan, err := decode(data)
		if err != nil && plan != nil && !errors.Is(err, ErrInvalid) {
			t.Errorf("error %v", err)
		}
		if plan == nil {
			return
		}
		settings, _ := Settings(&plan.Spec)
		histories := Histories(&plan.Status)
		var pools []capacity.Pool
		for name, h := range histories {
			h.Record(now, &capacity.Pool{Name: name})
			pools = append(pools, capacity.Pool{Name: name})
		}
		p := capacity.Assess(now, pools, capacity.Unplaced{}, histories, settings)
		out := Status(&p, histories, plan.Status.Conditions)
		if size := sizeOf(&out); size == 0 {
			t.Error("the status cannot be encoded")
		}
	})
}
