// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package checkpoint

import (
	"encoding/json"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/decision"
	"podfit.dev/podfit/internal/core/ledger"
	"podfit.dev/podfit/internal/core/policy"
	"podfit.dev/podfit/internal/core/rollout"
)

// everyField returns a state with every field that is stored.
func everyField() ledger.State {
	s := fullState()
	at := noon.Add(123456789 * time.Nanosecond).Truncate(time.Microsecond)
	sized := []policy.Fitted{{Container: "app", Requests: cluster.Amounts(1, 1000), Limits: cluster.Amounts(999999, 5<<40+1)}, {Container: "empty"}}
	s.Eviction.Superseded, s.Eviction.Previous, s.Eviction.UnknownEffect, s.Eviction.Before.UnknownEffect = sized, sized[:1], 2, 1
	s.Replacements[0].Complete, s.Replacements[0].Replaced, s.Replacements[0].Most = at, 2, 5
	s.Replacements[0].Evicted = append(s.Replacements[0].Evicted, ledger.EvictedPod{UID: "uid-2", At: at, Newest: noon.Add(-time.Hour)})
	s.Changes = []rollout.Change{{At: noon, Requests: cluster.Amounts(1500, 1<<30)}, {At: noon.Add(time.Minute)}}
	s.Canary = &rollout.State{
		Phase: rollout.Held, Pod: "web-1", UID: "1", Controller: cluster.Workload{Group: "apps", Kind: "ReplicaSet", Namespace: "shop", Name: "web-7"},
		Since: at, Until: noon.Add(time.Hour), Before: []rollout.Size{{Container: "app", Requests: cluster.Amounts(1000, 1<<30), MemoryLimit: 3 << 29}},
		After: []rollout.Size{{Container: "app", Requests: cluster.Amounts(100, 1<<20)}}, Restarts: 2, Cause: rollout.Throttled, Reverts: 3,
		Comparison: rollout.Compared, Throttled: 45, ThrottledBefore: 3,
	}
	failed := func(do decision.Act, kind decision.RefusalKind) {
		s.Pods = append(s.Pods, ledger.PodState{
			UID: "uid-5", Do: do, At: at, Failed: &ledger.FailedState{Refusal: decision.Refusal{Kind: kind}, Failing: at},
		})
	}
	for kind := decision.Denied; kind <= decision.NotReadyInTime; kind++ {
		failed(decision.Resize, kind)
	}
	failed(decision.Surge, decision.Denied)
	return s
}

// TestUpdateState_storedObject_isReadAndWrittenTheSame compares the stored form with an object that an earlier version has written.
func TestUpdateState_storedObject_isReadAndWrittenTheSame(t *testing.T) {
	const file = "testdata/stored/updatestate.json"
	state := everyField()
	_, raw := bounded(&state)
	var got any
	if err := json.Unmarshal(raw, &got); err != nil {
		t.Fatal(err)
	}
	golden, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var want any
	if err := json.Unmarshal(golden, &want); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("written (-want +got):\n%s", diff)
	}
	o := updateStateObject{targetObject{storedObject[json.RawMessage]{Status: golden}}}
	o.Metadata.Namespace = "shop"
	read, err := o.state(state.Workload)
	if diff := cmp.Diff(state, read); err != nil || diff != "" {
		t.Errorf("error %v, read (-want +got):\n%s", err, diff)
	}
}

// A user of the namespace has changed the object. Nothing but the changed record is lost, and nothing of other namespaces is read.
func TestUpdateState_hostileValues_onlyTheirRecordIsIgnored(t *testing.T) {
	const at = `"2026-03-01T12:00:00.000000Z"`
	long := `"` + strings.Repeat("x", longestText+1) + `"`
	deep := strings.Repeat(`{"lastTime":`+at+`,"before":`, 1000) + `{}` + strings.Repeat(`}`, 1000)
	for name, c := range map[string]struct{ status, problem string }{
		"negative count":            {`"lastDeletion":{"lastTime":` + at + `,"ineffective":-1}`, "decode lastDeletion: ineffective: the value is negative"},
		"count that is too large":   {`"evictionRounds":{"lastTime":` + at + `,"count":1e12}`, "decode evictionRounds: count: "},
		"fraction":                  {`"evictionRounds":{"lastTime":` + at + `,"count":1.5}`, "decode evictionRounds: count: "},
		"negative memory":           {`"lastDeletion":{"lastTime":` + at + `,"memory":"-1Gi"}`, "decode lastDeletion: memory: the value is negative"},
		"negative limit in a list":  {`"evictions":{"lastTime":` + at + `,"requested":[{"container":"c"},{"container":"d","limits":{"cpu":"-1"}}]}`, "decode evictions: requested: [1]: limits: the value is negative"},
		"pod without an outcome":    {`"pods":[{"uid":"u","action":"Evict","outcome":"Done","lastTime":` + at + `},{"uid":"v","action":"Evict","lastTime":` + at + `}]`, "decode pods[1]: outcome: the value is missing"},
		"record without a time":     {`"evictions":{"ineffective":1}`, "decode evictions: lastTime: the value is missing"},
		"year without a JSON form":  {`"evictions":{"lastTime":"9999-12-31T23:59:59.000000-01:00"}`, "decode evictions: lastTime: the value is missing"},
		"long text":                 {`"capacity":{"message":` + long + `}`, "decode capacity: message: the value has more than 512 bytes"},
		"long name":                 {`"missingReplacements":[{"controller":{"kind":"ReplicaSet","name":` + long + `},"verticalPodAutoscaler":"x"}]`, "decode missingReplacements[0]: controller: name: "},
		"size without a container":  {`"roomShortages":[{"uid":"u","since":` + at + `,"requested":[{}]}]`, "decode roomShortages[0]: requested: [0]: container: the value is missing"},
		"controller without a kind": {`"missingReplacements":[{"controller":{"name":"x"},"verticalPodAutoscaler":"x"}]`, "decode missingReplacements[0]: controller: kind: the value is missing"},
		"other type of the list":    {`"changes":{}`, "decode changes: "},
		"text for a truth value":    {`"evictions":{"lastTime":` + at + `,"judged":"yes"}`, "decode evictions: judged: "},
		"too many items":            {`"waitingPods":[` + strings.Repeat(`{"reason":"Young","pods":1},`, 10) + `{"reason":"Young","pods":1}]`, "waitingPods has 11 entries; the first 10 are read"},
		"nested records":            {`"evictions":` + deep, ""},
		"another namespace": {`"missingReplacements":[{"controller":{"kind":"ReplicaSet","namespace":"bank","Namespace":"bank","name":"x"},"verticalPodAutoscaler":"x","evicted":[{"uid":"u","time":` + at + `}]}],
			"workload":{"namespace":"bank"},"Workload":{"namespace":"bank"}`, ""},
	} {
		o := updateStateObject{targetObject{storedObject[json.RawMessage]{Status: []byte(`{"pods":[{"uid":"u","action":"Evict","outcome":"Done","lastTime":` + at + `}],` + c.status + `}`)}}}
		o.Metadata.Namespace = "shop"
		got, err := o.state(deployment("web"))
		if (err == nil) != (c.problem == "") || err != nil && !strings.Contains(err.Error(), c.problem) {
			t.Errorf("%s: error %v, want %q", name, err, c.problem)
		}
		if len(got.Pods) != 1 || got.Workload != deployment("web") {
			t.Errorf("%s: got %+v, want the record of the pod", name, got)
		}
		if e := got.Eviction; (e != nil) != (name == "nested records") || e != nil && (e.Before == nil || e.Before.Before != nil) {
			t.Errorf("%s: eviction %+v", name, e)
		}
		for _, r := range got.Replacements {
			if r.Controller.Namespace != "shop" || r.Autoscaler.Namespace != "shop" {
				t.Errorf("%s: missing replacements of %v, %v", name, r.Controller, r.Autoscaler)
			}
		}
	}
}

// Every list has a bound, so that no object makes the updater keep more. The API server does not check that.
func TestUpdateState_everyList_hasABound(t *testing.T) {
	seen := map[reflect.Type]bool{}
	var visit func(reflect.Type)
	visit = func(record reflect.Type) {
		if seen[record] || record.Kind() != reflect.Struct {
			return
		}
		seen[record] = true
		for _, f := range fieldsOf(record) {
			field := record.Field(f.index)
			if field.Type.Kind() == reflect.Slice && f.most == 0 {
				t.Errorf("%s.%s has no bound", record, field.Name)
			}
			if field.Type.Kind() == reflect.Slice || field.Type.Kind() == reflect.Pointer {
				visit(field.Type.Elem())
			} else {
				visit(field.Type)
			}
		}
	}
	visit(reflect.TypeFor[storedState]())
	if len(seen) < 15 {
		t.Errorf("only %d types were visited", len(seen))
	}
}
