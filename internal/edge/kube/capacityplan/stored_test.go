// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package capacityplan

import (
	"encoding/json"
	"errors"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"podfit.dev/podfit/api/podfit/v1alpha1"
	"podfit.dev/podfit/internal/core/capacity"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/test/kubetest"
)

// fullPlan returns a plan and a history with everything that is stored, and each name of a state and of a cause.
func fullPlan() (*capacity.Plan, *capacity.History) {
	today := capacity.DayOf(now)
	h := historyOf(3, 4, 8)
	h.Partial = true
	resource := func(res cluster.Resource, unit int64, advice capacity.Advice, last capacity.State) capacity.ResourcePlan {
		return capacity.ResourcePlan{
			Resource: res, Capacity: 100 * unit, WithoutLargest: 60 * unit, Requested: 70 * unit, Used: 30 * unit, UsedKnown: true, Recoverable: 20 * unit, GiveBack: 3,
			Fit: capacity.Room{Node: "node-1", Free: cluster.Amounts(2500, 3<<30)},
			Outlook: capacity.Outlook{Slope: 2.5 * float64(unit), Reach: 28, OrderBy: today + 5, Crossings: []capacity.Crossing{
				{Threshold: 0.7, State: capacity.Above, Since: today - 3},
				{Threshold: 0.85, State: capacity.Ahead, Earliest: today + 2, Expected: today + 4, Latest: today + 9}, {Threshold: 1, State: last},
			}},
			Grew: capacity.Growth{
				New: cluster.Amounts(unit, unit), Gone: cluster.Amounts(-2*unit, -2*unit), Replicas: cluster.Amounts(3*unit, 3*unit), PerPod: cluster.Amounts(4*unit, 4*unit),
			},
			GrewTotal: 6 * unit, GrewDays: 20, Advice: advice,
		}
	}
	return &capacity.Plan{
		Now: now, Unplaced: capacity.Unplaced{Pods: 2, Requests: cluster.Amounts(40_000, 1<<40), Example: cluster.Key{Namespace: "shop", Name: "huge-1"}},
		Pools: []capacity.PoolPlan{{
			Pool: capacity.Pool{Name: "worker", Nodes: 5, Schedulable: 4, Pods: 50, Pending: 3, Unadvised: 7}, LeadTime: 14,
			Resources: [2]capacity.ResourcePlan{
				resource(cluster.CPU, 1000, capacity.OrderLater, capacity.NotWithin), resource(cluster.Memory, 1<<30, capacity.GiveBack, capacity.Unknown),
			},
			Changes: h.Changes,
		}},
	}, h
}

// sameHistory compares what is read with what was stored.
func sameHistory(t *testing.T, name string, want, got *capacity.History) {
	t.Helper()
	want.Changes = capacity.LargestChanges(want.Changes, 100)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-stored +read)\n%s", name, diff)
	}
}

func TestCapacityPlan_storedObject_isReadAndWrittenTheSame(t *testing.T) {
	p, h := fullPlan()
	status := Status(p, map[string]*capacity.History{"worker": h}, nil)
	updated := metav1.NewTime(now)
	status.Updated, status.ObservedGeneration = &updated, 3 // as the recommender does
	written, err := json.Marshal(map[string]any{"metadata": map[string]any{"name": "cluster", "resourceVersion": "7"}, "status": status})
	if err != nil {
		t.Fatal(err)
	}
	golden := kubetest.Stored(t, "capacityplan.json", written)
	plan, err := decode(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(status, plan.Status); diff != "" {
		t.Errorf("status (-stored +read)\n%s", diff)
	}
	sameHistory(t, "history", h, Histories(&plan.Status)["worker"])

	for cut := 1; cut < len(golden); cut++ {
		if plan, err := decode(golden[:cut]); err == nil || plan != nil {
			t.Fatalf("cut off after %d of %d bytes: %v, error %v", cut, len(golden), plan, err)
		}
	}
	for name, change := range map[string][2]string{"number that is text": {`"nodes":5`, `"nodes":"NaN"`}, "invalid quantity": {`"capacity":"100"`, `"capacity":"x"`}} {
		broken := strings.Replace(string(golden), change[0], change[1], 1)
		if _, err := decode([]byte(broken)); !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), "status: ") {
			t.Errorf("%s: error %v", name, err)
		}
	}
	later, err := decode([]byte(strings.ReplaceAll(string(golden), `{"`, `{"later":[{}],"`)))
	if err != nil || !reflect.DeepEqual(later.Status, plan.Status) {
		t.Errorf("with more fields: error %v\n%s", err, cmp.Diff(plan.Status, later.Status))
	}
}

// The file is of the first version of podfit that stored capacity plans.
func TestCapacityPlan_ofTheFirstVersion_isRead(t *testing.T) {
	data, err := os.ReadFile("testdata/stored/capacityplan.first.json")
	if err != nil {
		t.Fatal(err)
	}
	var status v1alpha1.CapacityPlanStatus
	if err := json.Unmarshal(data, &status); err != nil {
		t.Fatal(err)
	}
	_, h := fullPlan()
	sameHistory(t, "history", h, Histories(&status)["pool-00"])
}
