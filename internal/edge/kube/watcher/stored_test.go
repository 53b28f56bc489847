// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package watcher

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"podfit.dev/podfit/api/podfit/v1alpha1"
	v1 "podfit.dev/podfit/api/v1"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/decision"
	"podfit.dev/podfit/internal/edge/kube/projection"
	"podfit.dev/podfit/test/kubetest"
)

// What the status of a VPA has besides upstream's fields is in uncappedTarget, and in conditions that podfit reads again.
func TestStatus_storedObject_isReadAndWrittenTheSame(t *testing.T) {
	at := kubetest.At(t, "2026-03-01T12:00:00Z")
	want := []cluster.Advice{{
		Container: "app", Estimate: cluster.Estimate{Lower: cluster.Amounts(25, 250<<20), Target: cluster.Amounts(1500, 262144000), Upper: cluster.Amounts(3000, 1<<30)},
		Uncapped: cluster.Amounts(1600, 262144001), Learnt: cluster.LearntBoost{Percent: 250, Starts: 7, Duration: 90 * time.Second},
		Groups: []cluster.GroupSize{{Role: cluster.Quiet, Target: cluster.Amounts(300, 100<<20), Pods: "uid-1,uid-2"}, {Role: "replica", Target: cluster.Amounts(500, 200<<20)}},
		Shared: cluster.Amounts(700, 128<<20), MemoryLimit: 2 << 30, MemoryPeak: 1 << 30,
	}, {Container: "log", Estimate: cluster.Estimate{Target: cluster.Resources{}.Set(cluster.CPU, 100)}}}
	status := nextStatus(&v1.VerticalPodAutoscalerStatus{}, 4, want, at, []Condition{
		{Type: v1.RecommendationProvided, Status: True}, {Type: v1.FetchingHistory, Status: True},
		{Type: v1alpha1.ConditionSizingProfileUsable, Status: False, Reason: v1alpha1.ReasonInvalid, Message: "spec.base: unknown"},
		{Type: v1alpha1.ConditionUpdating, Status: True, Reason: decision.Frozen.String(), Message: "Changes are frozen."},
	})
	data, err := json.Marshal(status)
	if err != nil {
		t.Fatal(err)
	}
	read := func(status []byte) *cluster.Autoscaler {
		t.Helper()
		var o v1.VerticalPodAutoscaler
		if err := json.Unmarshal(status, &o.Status); err != nil {
			t.Fatal(err)
		}
		return projection.Autoscaler(&o)
	}
	a := read(kubetest.Stored(t, "vpa-status.json", data))
	if diff := cmp.Diff(want, a.Advice); diff != "" {
		t.Errorf("recommendation (-want +got):\n%s", diff)
	}
	if a.ProfileProblem != v1alpha1.ReasonInvalid || !a.Frozen || !a.FetchingHistory || !a.Remarked || !a.AdvisedSince.Equal(at) {
		t.Errorf("read %+v", a)
	}
	// Each invalid value loses only itself. The API server rejects those that are no quantities.
	broken := read([]byte(`{"recommendation":{"containerRecommendations":[{"containerName":"app","target":{"cpu":"1"},"uncappedTarget":{"cpu":"1",
		"podfit.dev/startup-boost-percent":"50","podfit.dev/startup-boost-starts":"3","cpu.role.podfit.dev/replica":"-1","memory.role.podfit.dev/replica":"1Mi",
		"podfit.dev/shared-cpu":"-1","podfit.dev/shared-memory":"1Mi","podfit.dev/memory-limit":"-5","podfit.dev/unknown":"7"}}]}}`))
	one := []cluster.Advice{{
		Container: "app", Estimate: cluster.Estimate{Target: cluster.Resources{}.Set(cluster.CPU, 1000)}, Uncapped: cluster.Resources{}.Set(cluster.CPU, 1000),
		Groups: []cluster.GroupSize{{Role: "replica", Target: cluster.Resources{}.Set(cluster.Memory, 1<<20)}}, Shared: cluster.Resources{}.Set(cluster.Memory, 1<<20),
	}}
	if diff := cmp.Diff(one, broken.Advice); diff != "" {
		t.Errorf("with invalid values (-want +got):\n%s", diff)
	}
}
