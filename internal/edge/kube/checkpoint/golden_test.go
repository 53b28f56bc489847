// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package checkpoint

import (
	"bytes"
	"encoding/json"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"podfit.dev/podfit/internal/core/changelog"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/ledger"
	"podfit.dev/podfit/internal/core/runs"
	"podfit.dev/podfit/internal/core/usage"
	"podfit.dev/podfit/test/kubetest"
)

// fullCheckpoint returns a checkpoint with everything that is stored.
func fullCheckpoint() usage.Checkpoint {
	c := someCheckpoint(7)
	c.Memory.Reference = noon.Add(-2 * time.Hour)
	c.Workload = deployment("web")
	c.Profile, c.Node = "cost", "4-16Gi"
	c.Changes = &changelog.Log{Settings: 7, Changes: []changelog.Change{{At: noon.Unix(), To: 250, Resource: cluster.CPU}}}
	log := new(runs.Log)
	log.Of(7, noon.Unix(), false).Observe(noon.Unix()+60, 100, 1<<20)
	c.Runs = log.Encode()
	return c
}

func TestCheckpoint_storedObject_isReadAndWrittenTheSame(t *testing.T) {
	const path = "/apis/autoscaling.k8s.io/v1/namespaces/shop/verticalpodautoscalercheckpoints"
	f := kubetest.NewFakeAPI(t)
	want, key := fullCheckpoint(), checkpointKey("web", "app")
	if err := NewCheckpoints(clientsOf(f), StorageOptions{}).Write(t.Context(), key, want); err != nil {
		t.Fatal(err)
	}
	golden := kubetest.Stored(t, "checkpoint.json", []byte(f.Body("POST "+path)))

	next := kubetest.NewFakeAPI(t)
	next.Apply(kubetest.CheckpointsPath, string(golden))
	for name, status := range map[string]string{ // each loses only itself
		"cut-off": `"x"`, "not-a-number": `{"cpuHistogram":{"totalWeight":"NaN"}}`, "negative": `{"cpuHistogram":{"bucketWeights":{"1":-1}}}`,
	} {
		next.Apply(kubetest.CheckpointsPath, `{"metadata":{"namespace":"shop","name":"`+name+`"},"spec":{"vpaObjectName":"`+name+`","containerName":"app"},"status":`+status+`}`)
	}
	next.Apply(kubetest.CheckpointsPath, `{"metadata":{"namespace":"shop","name":"unknown"},"spec":{"vpaObjectName":"unknown","containerName":"app","more":1},"status":{"version":"v9","more":{}},"more":[]}`)
	got := loadAll(t, NewCheckpoints(clientsOf(next), StorageOptions{}))
	if diff := cmp.Diff(map[Key]usage.Checkpoint{key: want, checkpointKey("unknown", "app"): {Version: "v9", Extra: []byte{}}}, got, sameCheckpoint); diff != "" {
		t.Errorf("read (-want +got):\n%s", diff)
	}
}

func TestUsageHistory_storedObject_isReadAndWrittenTheSame(t *testing.T) {
	f := kubetest.NewFakeAPI(t)
	web := deployment("web")
	want := []usage.History{historyFrom("app", 10, "\x00\xff second"), {Container: "proxy", Updated: noon, Form: "busy-hours/2", Data: []byte("third")}}
	mustWrite(t, newHistories(t, f, StorageOptions{}), web, want...)
	golden := kubetest.Stored(t, "usagehistory.json", []byte(f.Body("POST "+historiesOfOne)))

	next := kubetest.NewFakeAPI(t)
	next.Apply(historiesPath, string(golden))
	damaged := bytes.Replace(golden, []byte(`"name":"deployment-web"`), []byte(`"name":"deployment-damaged"`), 1)
	damaged = bytes.Replace(damaged, []byte(`"name":"web"`), []byte(`"name":"damaged"`), 1)
	damaged = bytes.Replace(damaged, []byte(`"container":"proxy"`), []byte(`"container":7`), 1)
	next.Apply(historiesPath, string(damaged))
	got := loadHistories(t, newHistories(t, next, StorageOptions{}))
	if diff := cmp.Diff(map[cluster.Workload][]usage.History{web: want, deployment("damaged"): want[:1]}, got); diff != "" {
		t.Errorf("read (-want +got):\n%s", diff)
	}
}

// What former versions stored is read without what they did not store. Of what is not stored any more, nothing is read.
func TestUpdateState_ofFormerVersions_isRead(t *testing.T) {
	first := fullState()
	first.ActingNewest, first.Waiting, first.Capacity, first.Deletion, first.Rounds, first.Shortages = time.Time{}, nil, nil, nil, nil, nil
	first.Pods = first.Pods[1:] // deletions were not stored
	failed := *first.Pods[2].Failed
	failed.OverQuotaTotal = cluster.PodResources{}
	first.Pods[2].Failed = &failed
	acting := everyField()
	acting.Canary.Before[0].MemoryLimit = 0
	for file, want := range map[string]ledger.State{
		"updatestate.first.json":   first,
		"updatestate.unshown.json": fullState(), // "unshown" was the name of unknownEffect for some hours
		"updatestate.acting.json":  acting,      // "actingOn" named other workloads on which the updater was acting
	} {
		status, err := os.ReadFile("testdata/stored/" + file)
		if err != nil {
			t.Fatal(err)
		}
		o := updateStateObject{targetObject{storedObject[json.RawMessage]{Status: status}}}
		o.Metadata.Namespace = "shop"
		got, err := o.state(want.Workload)
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%s: error %v, read (-want +got):\n%s", file, err, diff)
		}
	}
}

// A status that is cut off is an error, and nothing of it is read. Fields of later versions have no effect.
func TestUpdateState_cutOffOrFromLaterVersion_isAnErrorOrIsRead(t *testing.T) {
	state := everyField()
	_, raw := bounded(&state)
	read := func(status []byte) (ledger.State, error) {
		o := updateStateObject{targetObject{storedObject[json.RawMessage]{Status: status}}}
		o.Metadata.Namespace = "shop"
		return o.state(state.Workload)
	}
	for cut := 1; cut < len(raw); cut++ {
		if got, err := read(raw[:cut]); err == nil || !reflect.DeepEqual(got, ledger.State{Workload: state.Workload}) {
			t.Fatalf("cut off after %d of %d bytes: %+v, error %v", cut, len(raw), got, err)
		}
	}
	later := strings.ReplaceAll(string(raw), `{"`, `{"later":{"x":[1]},"`)
	got, err := read([]byte(later))
	if diff := cmp.Diff(state, got); err != nil || diff != "" {
		t.Errorf("with more fields: error %v (-want +got):\n%s", err, diff)
	}
}

// A new field that is stored needs a value in everyField, and so a place in the golden file.
func TestUpdateState_everyStoredField_hasAValueInTheGoldenFile(t *testing.T) {
	set := map[string]bool{}
	var visit func(v reflect.Value)
	visit = func(v reflect.Value) {
		switch v.Kind() {
		case reflect.Pointer:
			if !v.IsNil() {
				visit(v.Elem())
			}
		case reflect.Slice:
			for i := range v.Len() {
				visit(v.Index(i))
			}
		case reflect.Struct:
			for _, f := range fieldsOf(v.Type()) {
				name := v.Type().String() + "." + v.Type().Field(f.index).Name
				set[name] = set[name] || !v.Field(f.index).IsZero()
				visit(v.Field(f.index))
			}
		}
	}
	state := everyField()
	visit(reflect.ValueOf(&state))
	for name, isSet := range set {
		if !isSet {
			t.Errorf("%s has no value in everyField", name)
		}
	}
	if len(set) < 70 {
		t.Errorf("only %d fields were visited", len(set))
	}
}
