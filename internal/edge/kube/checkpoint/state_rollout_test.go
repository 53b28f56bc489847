// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package checkpoint

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/ledger"
	"podfit.dev/podfit/internal/core/rollout"
)

func TestUpdateState_canaryAndChanges_areStoredAndLoaded(t *testing.T) {
	noon := time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)
	w := cluster.Workload{Group: "apps", Kind: "Deployment", Namespace: "shop", Name: "web"}
	for phase := rollout.Idle; phase <= rollout.Held; phase++ {
		want := ledger.State{
			Workload: w, Changes: []rollout.Change{{At: noon, Requests: cluster.Amounts(1500, 1<<30)}},
			Canary: &rollout.State{
				Phase: phase, Pod: "web-1", UID: "1", Controller: cluster.Workload{Group: "apps", Kind: "ReplicaSet", Namespace: "shop", Name: "web-7"},
				Since: noon, Until: noon.Add(time.Hour), Before: []rollout.Size{{Container: "app", Requests: cluster.Amounts(1000, 1<<30)}},
				After: []rollout.Size{{Container: "app", Requests: cluster.Amounts(100, 1<<20)}}, Restarts: 2, Cause: rollout.Throttled, Reverts: 3,
				Comparison: rollout.Comparison(phase), Throttled: 45, ThrottledBefore: 3,
			},
		}
		_, status := bounded(&want)
		o := updateStateObject{targetObject{storedObject[json.RawMessage]{Status: status}}}
		o.Metadata.Namespace = "shop"
		got, err := o.state(w)
		if diff := gocmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("phase %d: error %v (-want +got):\n%s", phase, err, diff)
		}
	}
}

func TestUpdateState_invalidCanary_isIgnoredAndReported(t *testing.T) {
	for name, c := range map[string]struct{ status, problem string }{
		"unknown phase":   {`{"canary":{"phase":"Dancing"}}`, `decode canary: phase: unknown value "Dancing"`},
		"unknown cause":   {`{"canary":{"phase":"Held","cause":"Moon"}}`, `decode canary: cause: unknown value "Moon"`},
		"negative amount": {`{"canary":{"phase":"Held","before":[{"container":"app","requests":{"cpu":"-1"}}]}}`, "decode canary: before: [0]: requests: the value is negative"},
		"negative limit":  {`{"canary":{"phase":"Held","before":[{"container":"app","memoryLimit":"-1Gi"}]}}`, "decode canary: before: [0]: memoryLimit: the value is negative"},
		"not an object":   {`{"canary":7}`, "decode canary"},
		"changes":         {`{"changes":[7,{"time":"2026-03-02T12:00:00Z","requests":{"cpu":"-1"}}]}`, "decode changes[1]: requests: the value is negative"},
		"null":            {`{"canary":null,"changes":null}`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			o := updateStateObject{targetObject{storedObject[json.RawMessage]{Status: []byte(c.status)}}}
			got, err := o.state(cluster.Workload{Kind: "Deployment", Namespace: "shop", Name: "web"})
			if got.Canary != nil || len(got.Changes) > 0 || (err == nil) != (c.problem == "") || err != nil && !strings.Contains(err.Error(), c.problem) {
				t.Errorf("state %+v, error %v", got, err)
			}
		})
	}
}

// Earlier releases did not store the memory limit before the change.
func TestUpdateState_canaryOfEarlierRelease_isLoadedWithoutLimit(t *testing.T) {
	const status = `{"canary":{"phase":"Held","cause":"Restarted","reverts":1,"before":[{"container":"app","requests":{"cpu":"1","memory":"1Gi"}}],
		"after":[{"container":"app","requests":{"cpu":"100m","memory":"1Mi"}}]}}`
	want := &rollout.State{
		Phase: rollout.Held, Cause: rollout.Restarted, Reverts: 1, Before: []rollout.Size{{Container: "app", Requests: cluster.Amounts(1000, 1<<30)}},
		After: []rollout.Size{{Container: "app", Requests: cluster.Amounts(100, 1<<20)}},
	}
	o := updateStateObject{targetObject{storedObject[json.RawMessage]{Status: []byte(status)}}}
	got, err := o.state(cluster.Workload{Kind: "Deployment", Namespace: "shop", Name: "web"})
	if diff := gocmp.Diff(want, got.Canary); err != nil || diff != "" {
		t.Errorf("error %v (-want +got):\n%s", err, diff)
	}
}
