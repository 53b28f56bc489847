// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package overview

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/decision"
	"podfit.dev/podfit/internal/core/ledger"
	"podfit.dev/podfit/internal/core/policy"
)

// at returns a time some hours before now.
func at(hours int) time.Time { return now.Add(-time.Duration(hours) * time.Hour) }

func TestRequestSteps_podsAndResizes_areTheChangesThatAreKnown(t *testing.T) {
	w := deployment("shop", "web")
	created := func(name string, hours int, r cluster.Resources) *cluster.Pod {
		p := pod(w, name, r)
		p.Created = at(hours)
		return p
	}
	small, large := cluster.Amounts(100, 100*mi), cluster.Amounts(200, 300*mi)
	gone := created("gone", 99, cluster.Amounts(7, 7))
	gone.Phase = cluster.Succeeded
	pods := []*cluster.Pod{created("new", 10, large), created("resized", 90, large), created("old", 80, small), created("same", 70, small), gone}
	resize := ledger.PodState{UID: pods[1].UID, Do: decision.Resize, At: at(20), With: []policy.Fitted{{Container: "app", Requests: cluster.Resources{}.Set(cluster.Memory, 300*mi)}}}
	refused := ledger.PodState{UID: pods[2].UID, Do: decision.Resize, At: at(5), With: []policy.Fitted{{Container: "app", Requests: cluster.Amounts(9, 9)}}, Failed: &ledger.FailedState{}}
	got := RequestSteps(pods, &ledger.State{Pods: []ledger.PodState{refused, resize}})
	want := []RequestStep{
		{at(80), "app", small},
		{at(20), "app", cluster.Resources{}.Set(cluster.Memory, 300*mi)},
		{at(10), "app", large},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	// If records were left out, a pod may have been resized after its creation.
	if got := RequestSteps(pods, &ledger.State{Omitted: 1, Pods: []ledger.PodState{resize}}); len(got) != 1 || !got[0].At.Equal(at(20)) {
		t.Errorf("with omitted records: %+v", got)
	}
	if got := RequestSteps(nil, &ledger.State{}); got != nil {
		t.Errorf("of nothing: %+v", got)
	}
}

func TestRequestSteps_manyChanges_areBoundedAndTheNewestAreKept(t *testing.T) {
	w := deployment("shop", "web")
	var pods []*cluster.Pod
	for i := range 3 * maxSteps {
		p := pod(w, fmt.Sprint(i), cluster.Amounts(int64(100+i), mi))
		p.Created = at(3*maxSteps - i)
		pods = append(pods, p)
	}
	got := RequestSteps(pods, &ledger.State{})
	if len(got) != maxSteps || got[len(got)-1].Requests.CPU != 100+3*maxSteps-1 {
		t.Errorf("%d steps, the last %+v", len(got), got[len(got)-1])
	}
}
