// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package checkpoint

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"podfit.dev/podfit/api/podfit/v1alpha1"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/decision"
	"podfit.dev/podfit/internal/core/headroom"
	"podfit.dev/podfit/internal/core/ledger"
	"podfit.dev/podfit/internal/core/plan"
	"podfit.dev/podfit/internal/core/policy"
	"podfit.dev/podfit/internal/edge/kube"
	"podfit.dev/podfit/test/kubetest"
)

const (
	statesPath  = "/apis/podfit.dev/v1alpha1/updatestates"
	statesOfOne = "/apis/podfit.dev/v1alpha1/namespaces/shop/updatestates"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func newStates(t testing.TB, f *kubetest.FakeAPI, o StorageOptions) *States {
	t.Helper()
	s := NewStates(clientsOf(f), o, "updater-1")
	return s
}

func loadStates(t testing.TB, s *States) map[cluster.Workload]ledger.State {
	t.Helper()
	all := map[cluster.Workload]ledger.State{}
	states, err := s.Load(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, state := range states {
		all[state.Workload] = state
	}
	return all
}

func mustStore(t testing.TB, s *States, state ledger.State) bool {
	t.Helper()
	wrote, err := s.Write(t.Context(), noon, &state)
	if err != nil {
		t.Fatal(err)
	}
	return wrote
}

// fullState returns a state with every field.
func fullState() ledger.State {
	with := []policy.Fitted{
		{Container: "app", Requests: cluster.Amounts(1250, 256<<20), Limits: cluster.Amounts(2000, 512<<20)},
		{Container: "log", Requests: cluster.Resources{}.Set(cluster.CPU, 7), Inserted: true},
	}
	web := deployment("web")
	rs := cluster.Workload{Group: "apps", Kind: "ReplicaSet", Namespace: "shop", Name: "web-1"}
	return ledger.State{
		Waiting:  []ledger.WaitingState{{Reason: "BackingOff", Pods: 3, First: "web-1", NotBefore: noon.Add(time.Hour)}, {Reason: "TooFewReplicas", Pods: 1, First: "web-2"}},
		Workload: web, ActingSince: noon, ActingNewest: noon.Add(-time.Hour), LastEviction: noon.Add(-time.Minute), Omitted: 3,
		Capacity: &headroom.State{
			UID: "uid-4", Pod: "web-1-d", Requested: noon, Failures: 2, Failed: noon.Add(-time.Hour), Text: "exceeded quota: compute",
		},
		Eviction: &ledger.EvictionState{
			At: noon, Newest: noon.Add(-time.Hour), With: with, Ineffective: 2, Judged: true, Uncertain: "uid-1",
			Before: &ledger.EvictionState{At: noon.Add(-2 * time.Hour), Newest: noon.Add(-3 * time.Hour), With: with, Ineffective: 1, Judged: true},
		},
		Replacements: []ledger.PendingState{{
			Controller: rs, Autoscaler: cluster.Key{Namespace: "shop", Name: "web"}, Evicted: []ledger.EvictedPod{{UID: "uid-1", At: noon}},
		}},
		Deletion: &ledger.DeletionState{At: noon, Newest: noon.Add(-time.Hour), UID: "uid-1", Memory: 512 << 20, Again: 2},
		Rounds:   &ledger.RoundsState{At: noon, Newest: noon.Add(-time.Hour), Count: 3},
		Shortages: []ledger.ShortageState{
			{UID: "uid-2", Name: "web-1-b", Since: noon, With: with, Parts: 2, Moves: 1},
			{UID: "uid-3", Name: "web-1-c", Since: noon.Add(-time.Hour), Moves: 1},
		},
		Pods: []ledger.PodState{
			{UID: "uid-4", Name: "web-1-d", Do: decision.Delete, At: noon, Attempts: 1, Failed: &ledger.FailedState{Refusal: decision.Refusal{Kind: decision.Denied}}},
			{UID: "uid-1", Name: "web-1-a", Do: decision.Evict, At: noon},
			{UID: "uid-2", Name: "web-1-b", Do: decision.Resize, At: noon, Attempts: 4, With: with},
			{UID: "uid-3", Name: "web-1-c", Do: decision.Evict, At: noon.Add(123456 * time.Microsecond), Next: noon.Add(time.Hour), Attempts: 7, With: with,
				Failed: &ledger.FailedState{
					Refusal: decision.Refusal{Kind: decision.OutcomeIsUnknown, Text: "connection <reset> \x00"}, Transient: 2, Lost: noon, LostSince: noon.Add(-time.Minute),
					Ready: 3, OverQuota: with, OverQuotaAt: noon.Add(-time.Hour),
					OverQuotaTotal: cluster.PodResources{Requests: cluster.Amounts(2500, 3<<30), Limits: cluster.Resources{}.Set(cluster.Memory, 4<<30)},
				}},
		},
	}
}

func TestStates_written_areLoadedEqual(t *testing.T) {
	f := kubetest.NewFakeAPI(t)
	want := fullState()
	s := newStates(t, f, StorageOptions{})
	if !mustStore(t, s, want) || mustStore(t, s, want) {
		t.Error("the first write is not the only one")
	}
	next := newStates(t, f, StorageOptions{})
	got := loadStates(t, next)
	if diff := cmp.Diff(map[cluster.Workload]ledger.State{want.Workload: want}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if mustStore(t, next, want) {
		t.Error("an unchanged state is written again after a restart")
	}
	o := f.Object(statesPath, "shop/deployment-web")
	for path, want := range map[string]any{"updated": "2026-03-01T12:00:00Z", "writer": "updater-1", "actingSince": "2026-03-01T12:00:00.000000Z", "omittedPods": 3.0} {
		if got := o["status"].(map[string]any)[path]; got != want {
			t.Errorf("status.%s is %v, want %v", path, got, want)
		}
	}
	pod, err := json.Marshal(o["status"].(map[string]any)["pods"].([]any)[3])
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{`"action":"Evict"`, `"outcome":"NoAnswer"`, `"attempts":7`, `"nextTime":"2026-03-01T13:00:00Z"`, `"requests":{"cpu":"1250m","memory":"256Mi"}`} {
		if !strings.Contains(string(pod), part) {
			t.Errorf("%s is not in %s", part, pod)
		}
	}
}

// mostOf returns the maximum number of items of a list of a state.
func mostOf(name string) int {
	for _, f := range fieldsOf(reflect.TypeFor[ledger.State]()) {
		if f.name == name {
			return f.most
		}
	}
	return 0
}

func TestStates_everyRefusalKind_hasAName(t *testing.T) {
	seen := map[string]bool{"Done": true}
	for kind := decision.Denied; kind <= decision.NotReadyInTime; kind++ {
		if name := names[kind]; name == "" || seen[name] {
			t.Errorf("kind %d has the name %q", kind, name)
		}
		seen[names[kind]] = true
	}
}

func TestStates_noState_isDeleted(t *testing.T) {
	f := kubetest.NewFakeAPI(t)
	s := newStates(t, f, StorageOptions{})
	web := deployment("web")
	mustStore(t, s, fullState())
	for range 2 {
		if err := s.Delete(t.Context(), web); err != nil {
			t.Fatal(err)
		}
	}
	if keys := f.Keys(statesPath); len(keys)+len(s.Stored()) != 0 {
		t.Errorf("objects %v, stored %v, want none", keys, s.Stored())
	}
	mustStore(t, s, fullState())
	f.Apply(statesPath, changed(t, f, "shop/deployment-web"))
	if err := s.Delete(t.Context(), web); err != nil || len(f.Keys(statesPath)) != 1 {
		t.Errorf("an object that changed meanwhile: %v, objects %v", err, f.Keys(statesPath))
	}
	if err := s.Delete(t.Context(), web); err != nil || len(f.Keys(statesPath)) != 0 {
		t.Errorf("the second time: %v, objects %v", err, f.Keys(statesPath))
	}
}

// changed returns an object with another resource version.
func changed(t *testing.T, f *kubetest.FakeAPI, key string) string {
	t.Helper()
	raw, err := json.Marshal(f.Object(statesPath, key))
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

func TestStates_objectChangedOrDeletedByOthers_isWritten(t *testing.T) {
	f := kubetest.NewFakeAPI(t)
	s := newStates(t, f, StorageOptions{})
	state := fullState()
	mustStore(t, s, state)
	f.Apply(statesPath, changed(t, f, "shop/deployment-web"))
	state.ActingSince = time.Time{}
	if !mustStore(t, s, state) {
		t.Error("not written over a change")
	}
	f.Delete(statesPath, "shop/deployment-web")
	state.LastEviction = noon
	if !mustStore(t, s, state) || len(f.Keys(statesPath)) != 1 {
		t.Error("not written after a deletion")
	}
	// A new updater that has not listed the object.
	if !mustStore(t, newStates(t, f, StorageOptions{}), fullState()) {
		t.Error("not written over an unknown object")
	}
}

// A pod entry is ignored if it is wrong, and the other entries are read.
func TestStates_hostileObjects_areIgnoredAndLogged(t *testing.T) {
	f := kubetest.NewFakeAPI(t)
	object := func(name, spec, status string) {
		f.Apply(statesPath, fmt.Sprintf(`{"metadata":{"namespace":"shop","name":%q},"spec":%s,"status":%s}`, name, spec, status))
	}
	target := func(name string) string {
		return fmt.Sprintf(`{"target":{"group":"apps","kind":"Deployment","name":%q}}`, name)
	}
	good := `{"uid":"u","name":"p","action":"Evict","outcome":"Done","lastTime":"2026-03-01T12:00:00.000000Z"}`
	object("deployment-good", target("good"), `{"pods":[`+good+`]}`)
	bad := map[string]string{
		"number":    `{"pods":[7,` + good + `]}`,
		"action":    `{"pods":[` + strings.Replace(good, "Evict", "Explode", 1) + `,` + good + `]}`,
		"outcome":   `{"pods":[` + strings.Replace(good, "Done", "Undone", 1) + `,` + good + `]}`,
		"time":      `{"pods":[` + strings.Replace(good, "2026", "never", 1) + `,` + good + `]}`,
		"quantity":  `{"pods":[` + strings.Replace(good, `"u"`, `"x","requested":[{"container":"c","requests":{"cpu":"NaN"}}]`, 1) + `,` + good + `]}`,
		"negative":  `{"pods":[` + strings.Replace(good, `"u"`, `"x","requested":[{"container":"c","limits":{"memory":"-5"}}]`, 1) + `,` + good + `]}`,
		"uid":       `{"pods":[` + strings.Replace(good, `"u"`, `""`, 1) + `,` + good + `]}`,
		"acting":    `{"actingSince":{"now":true},"pods":[` + good + `]}`,
		"evictions": `{"evictions":[1],"missingReplacements":["x"],"pods":[` + good + `]}`,
		"deletion":  `{"lastDeletion":{"lastTime":"never"},"pods":[` + good + `]}`,
		"shortages": `{"roomShortages":[{"uid":"x"},{"since":"2026-03-01T12:00:00.000000Z"},7],"pods":[` + good + `]}`,
		"memory":    `{"lastDeletion":{"lastTime":"2026-03-01T12:00:00.000000Z","memory":"NaN"},"pods":[` + good + `]}`,
		"many":      `{"pods":[` + strings.Repeat(good+",", 60) + good + `]}`,
	}
	for name, status := range bad {
		object("deployment-"+name, target(name), status)
	}
	unreadable := map[string]string{
		"status": `"x"`, "list": `{"pods":"x"}`, "huge": `{"pods":[` + strings.Repeat(good+",", 10000) + good + `]}`,
	}
	for name, status := range unreadable {
		object("deployment-"+name, target(name), status)
	}
	object("nothing", `{"target":{"kind":"","name":""}}`, `{}`)
	object("wrong", `[]`, `{}`)
	object("second", target("good"), `{"pods":[`+good+`,`+good+`]}`)
	f.Apply(statesPath, `{"metadata":{"namespace":"ignored","name":"deployment-x"},"spec":`+target("x")+`,"status":{"pods":[`+good+`]}}`)

	var text bytes.Buffer
	s := newStates(t, f, StorageOptions{Ignored: []string{"ignored"}, Log: slog.New(slog.NewTextHandler(&text, nil))})
	got := loadStates(t, s)
	for name := range bad {
		if n := len(got[deployment(name)].Pods); n == 0 || n > mostOf("pods") {
			t.Errorf("%s: %d pods are read", name, n)
		}
	}
	for name := range unreadable {
		if n := len(got[deployment(name)].Pods); n != 0 {
			t.Errorf("%s: %d pods are read, want none", name, n)
		}
	}
	if len(got) != len(bad)+len(unreadable)+1 || len(got[deployment("good")].Pods) != 1 {
		t.Errorf("%d states, want %d", len(got), len(bad)+len(unreadable)+1)
	}
	for name := range bad {
		if n := strings.Count(text.String(), "object=shop/deployment-"+name+" "); n != 1 {
			t.Errorf("%s is logged %d times, want once:\n%s", name, n, text.String())
		}
	}
	for _, name := range []string{"nothing", "wrong", "second"} {
		if want := `remedy="kubectl -n shop delete updatestate ` + name; !strings.Contains(text.String(), want) {
			t.Errorf("%q is not logged:\n%s", want, text.String())
		}
	}
	if strings.Contains(text.String(), "deployment-good") {
		t.Errorf("the valid object is logged:\n%s", text.String())
	}
	// An object with ignored parts is overwritten, even if the state is the same.
	if !mustStore(t, s, got[deployment("number")]) {
		t.Error("an object with ignored parts is kept")
	}
}

func TestStates_manyLargeRecords_objectIsBounded(t *testing.T) {
	f := kubetest.NewFakeAPI(t)
	s := newStates(t, f, StorageOptions{})
	state := fullState()
	long := strings.Repeat("x", 253)
	state.Workload.Name, state.Replacements = long, nil
	var with []policy.Fitted
	for i := range 32 {
		with = append(with, policy.Fitted{Container: fmt.Sprintf("%063d", i), Requests: cluster.Amounts(123456, 1<<40+1), Limits: cluster.Amounts(1234567, 1<<50+1)})
	}
	for i := range mostOf("missingReplacements") {
		r := ledger.PendingState{Controller: cluster.Workload{Group: long, Kind: long, Namespace: "shop", Name: fmt.Sprint(long[:250], i)}, Autoscaler: cluster.Key{Namespace: "shop", Name: long}}
		for range 30 {
			r.Evicted = append(r.Evicted, ledger.EvictedPod{UID: long[:36], At: noon})
		}
		state.Replacements = append(state.Replacements, r)
	}
	state.Eviction.With, state.Eviction.Before.With = with, with
	state.Pods, state.Shortages = nil, nil
	for i := range mostOf("roomShortages") {
		state.Shortages = append(state.Shortages, ledger.ShortageState{UID: fmt.Sprint("uid-", i), Name: long, Since: noon, With: with})
	}
	for i := range mostOf("pods") {
		state.Pods = append(state.Pods, ledger.PodState{
			UID: fmt.Sprint("uid-", i), Name: long, Do: decision.Evict, At: noon, With: with,
			Failed: &ledger.FailedState{Refusal: decision.Refusal{Text: strings.Repeat("\x01", 300)}, OverQuota: with},
		})
	}
	for name, change := range map[string]func(*ledger.State){
		"all":          func(*ledger.State) {},
		"small pods":   func(s *ledger.State) { s.Pods = smaller(s.Pods) },
		"no evictions": func(s *ledger.State) { s.Eviction, s.Shortages = nil, nil },
		"shortages":    func(s *ledger.State) { s.Eviction, s.Pods, s.Replacements = nil, nil, nil },
	} {
		state := state
		change(&state)
		mustStore(t, s, state)
		o := f.Object(statesPath, f.Keys(statesPath)[0])
		raw, err := json.Marshal(map[string]any{"spec": o["spec"], "status": o["status"]})
		if err != nil {
			t.Fatal(err)
		}
		if len(raw) > v1alpha1.MaxUpdateStateSize {
			t.Errorf("%s: the object has %d bytes, want at most %d", name, len(raw), v1alpha1.MaxUpdateStateSize)
		}
		if name == "no evictions" && o["status"].(map[string]any)["pods"] == nil {
			t.Errorf("%s: no pod is stored", name)
		}
		got := loadStates(t, newStates(t, f, StorageOptions{}))
		if len(got) != 1 {
			t.Errorf("%s: %d states, want 1", name, len(got))
		}
	}
}

// The first containers and shortages of a state are stored, up to the limits of the CRD.
func TestStates_moreRecordsThanAllowed_firstAreStored(t *testing.T) {
	var with []policy.Fitted
	for i := range 2 * 32 {
		with = append(with, policy.Fitted{Container: fmt.Sprint("c", i)})
	}
	state := ledger.State{Workload: deployment("web"), Eviction: &ledger.EvictionState{At: noon, With: with, Superseded: with, Previous: with}}
	for i := range 2 * mostOf("roomShortages") {
		state.Shortages = append(state.Shortages, ledger.ShortageState{UID: fmt.Sprint("uid-", i), Since: noon, With: with})
	}
	state.Pods = []ledger.PodState{{UID: "uid", Do: decision.Resize, At: noon, With: with, Failed: &ledger.FailedState{Refusal: decision.Refusal{Kind: decision.DeniedByQuota}, OverQuota: with}}}
	f := kubetest.NewFakeAPI(t)
	mustStore(t, newStates(t, f, StorageOptions{}), state)
	got := loadStates(t, newStates(t, f, StorageOptions{}))[state.Workload]
	stored := with[:32]
	for _, sizes := range []*[]policy.Fitted{&state.Eviction.With, &state.Eviction.Superseded, &state.Eviction.Previous, &state.Pods[0].With, &state.Pods[0].Failed.OverQuota} {
		*sizes = stored
	}
	state.Shortages = state.Shortages[:mostOf("roomShortages")]
	for i := range state.Shortages {
		state.Shortages[i].With = stored
	}
	if diff := cmp.Diff(state, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// smaller returns pods with one container.
func smaller(pods []ledger.PodState) (out []ledger.PodState) {
	for _, p := range pods {
		p.With, p.Failed = p.With[:1], &ledger.FailedState{}
		out = append(out, p)
	}
	return out
}

func TestStates_crdOrRightMissing_errorNamesIt(t *testing.T) {
	f := kubetest.NewFakeAPI(t)
	s := newStates(t, f, StorageOptions{})
	f.Reply("GET "+statesPath, http.StatusNotFound, "404 page not found")
	f.Reply("GET /apis/podfit.dev/v1alpha1", http.StatusNotFound, "404 page not found")
	f.Reply("GET /apis", http.StatusOK, `{"kind":"APIGroupList","groups":[{"name":"apps","versions":[{"version":"v1"}]}]}`)
	if _, err := s.Load(t.Context()); !errors.Is(err, kube.ErrUnsupported) {
		t.Errorf("without the CRD: %v", err)
	}
	f.Reply("GET "+statesPath, http.StatusForbidden, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403,"message":"no"}`)
	if _, err := s.Load(t.Context()); !errors.Is(err, kube.ErrForbidden) {
		t.Errorf("without the right: %v", err)
	}
	f.Reply("POST "+statesOfOne, http.StatusNotFound, "404 page not found")
	state := fullState()
	if _, err := s.Write(t.Context(), noon, &state); !errors.Is(err, kube.ErrUnsupported) {
		t.Errorf("write without the CRD: %v", err)
	}
}

// A proxy in front of the API server has no backend for a moment, or answers for paths that it does not know. That is no missing CRD, because
// the updater would go on without announcements for ten minutes.
func TestStates_notFoundIsNotOfTheAPIServer_isNoMissingCRD(t *testing.T) {
	const status404 = `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404,"message":"no"}`
	for name, c := range map[string]struct {
		answer, resources, groups string // bodies; without "kind", the code is 404
		missing                   bool
	}{
		"proxy without a backend":      {"404 page not found", "404 page not found", "404 page not found", false},
		"page of a load balancer":      {"<html>404</html>", "<html>404</html>", "<html>404</html>", false},
		"page of a portal":             {"<html>404</html>", `{"kind":"Portal"}`, "", false},
		"temporary":                    {"404 page not found", `{"kind":"APIResourceList","resources":[{"name":"updatestates"}]}`, "", false},
		"temporary, group is there":    {"404 page not found", "404 page not found", `{"kind":"APIGroupList","groups":[{"name":"podfit.dev","versions":[{"version":"v1alpha1"}]}]}`, false},
		"other CRDs are installed":     {"404 page not found", `{"kind":"APIResourceList","resources":[{"name":"sizingprofiles"}]}`, "", true},
		"no CRD is installed":          {"404 page not found", "404 page not found", `{"kind":"APIGroupList","groups":[{"name":"apps"}]}`, true},
		"status of the API server":     {status404, "<html>404</html>", "<html>404</html>", true},
		"discovery is not allowed":     {"404 page not found", `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403}`, "", true},
		"older version of the CRD set": {"404 page not found", "404 page not found", `{"kind":"APIGroupList","groups":[{"name":"podfit.dev","versions":[{"version":"v1"}]}]}`, true},
	} {
		t.Run(name, func(t *testing.T) {
			f := kubetest.NewFakeAPI(t)
			s := newStates(t, f, StorageOptions{})
			for path, body := range map[string]string{
				"GET " + statesPath: c.answer, "POST " + statesOfOne: c.answer, "GET /apis/podfit.dev/v1alpha1": c.resources, "GET /apis": c.groups,
			} {
				code := http.StatusOK
				switch {
				case strings.Contains(body, `"code":403`):
					code = http.StatusForbidden
				case body == status404 || !strings.Contains(body, "kind"):
					code = http.StatusNotFound
				}
				f.Reply(path, code, body)
			}
			_, err := s.Load(t.Context())
			if err == nil || errors.Is(err, kube.ErrUnsupported) != c.missing {
				t.Errorf("load: %v, want a missing CRD: %t", err, c.missing)
			}
			state := fullState()
			if _, err := s.Write(t.Context(), noon, &state); err == nil || errors.Is(err, kube.ErrUnsupported) != c.missing {
				t.Errorf("write: %v, want a missing CRD: %t", err, c.missing)
			}
		})
	}
}

func TestStates_manyObjects_areListedInPages(t *testing.T) {
	f := kubetest.NewFakeAPI(t)
	s := newStates(t, f, StorageOptions{})
	for i := range 120 {
		state := fullState()
		state.Workload = deployment(fmt.Sprint("web-", i))
		mustStore(t, s, state)
	}
	if n := len(loadStates(t, newStates(t, f, StorageOptions{}))); n != 120 {
		t.Errorf("%d states, want 120", n)
	}
	if pages, _ := f.Lists(statesPath); pages != 3 {
		t.Errorf("%d pages, want 3", pages)
	}
}

// Two kinds of the same name have different objects.
func TestStates_nameIsTakenByOtherWorkload_alternateNameIsUsed(t *testing.T) {
	f := kubetest.NewFakeAPI(t)
	f.Apply(statesPath, `{"metadata":{"namespace":"shop","name":"deployment-web"},"spec":{"target":{"kind":"Deployment","group":"other","name":"web"}},"status":{}}`)
	s := newStates(t, f, StorageOptions{})
	mustStore(t, s, fullState())
	if got := loadStates(t, newStates(t, f, StorageOptions{})); len(got) != 2 {
		t.Errorf("%d states, want 2: %v", len(got), f.Keys(statesPath))
	}
}

// Two updaters never write at the same time: the fence of the one that does not lead is closed.
func TestStates_fenceIsClosed_sendsNothing(t *testing.T) {
	f := kubetest.NewFakeAPI(t)
	s := newStates(t, f, StorageOptions{})
	mustStore(t, s, fullState())
	fence := kube.NewFence()
	fence.Extend(time.Now().Add(time.Minute))
	ctx, cancel := fence.Guard(t.Context())
	defer cancel()
	fence.Close()
	sent := len(f.Requests())
	changed := ledger.State{Workload: deployment("web"), ActingSince: noon}
	if _, err := s.Write(ctx, noon, &changed); err == nil {
		t.Error("a write behind a closed fence has no error")
	}
	if err := s.Delete(ctx, deployment("web")); err == nil {
		t.Error("no error for a deletion after the fence was closed")
	}
	if n := len(f.Requests()); n != sent {
		t.Errorf("%d requests were sent", n-sent)
	}
}

func FuzzUpdateState(f *testing.F) {
	_, raw := bounded(new(fullState()))
	f.Add(raw)
	_, raw = bounded(new(everyField()))
	f.Add(raw)
	f.Add([]byte(`{"pods":[{"uid":"u","action":"Resize","outcome":"Quota","lastTime":"2026-03-01T12:00:00.000000Z","attempts":-1}]}`))
	for _, at := range []string{"9999-12-31T23:59:59.000000-01:00", "0000-01-01T00:00:00.000000+01:00"} { // in UTC, their years have no JSON form
		f.Add([]byte(`{"pods":[{"uid":"u","action":"Resize","outcome":"Quota","lastTime":"` + at + `","failingSince":"` + at + `"}],"canary":{"phase":"Watching","pod":"p","uid":"u","since":"` + at + `"}}`))
		f.Add([]byte(`{"pods":[{"uid":"u","action":"Resize","outcome":"Quota","lastTime":"2026-03-01T12:00:00.000000Z","nextTime":"` + at + `"}],
			"changes":[{"time":"` + at + `"}],"waitingPods":[{"reason":"Young","pods":1,"notBefore":"` + at + `"}]}`))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		o := updateStateObject{targetObject{storedObject[json.RawMessage]{Status: raw}}}
		first, _ := o.state(deployment("web"))
		// What is accepted is stored and loaded again without an error, and is within the limits.
		_, stored := bounded(&first)
		if !json.Valid(stored) {
			t.Fatalf("stored is no JSON: %s", stored)
		}
		if len(stored) > v1alpha1.MaxUpdateStateSize {
			t.Fatalf("%d bytes", len(stored))
		}
		again := updateStateObject{targetObject{storedObject[json.RawMessage]{Status: stored}}}
		if _, err := again.state(deployment("web")); err != nil {
			t.Fatal(err)
		}
		l := ledger.New()
		l.Restore(noon, []ledger.State{first})
		l.Export(plan.DefaultBudget().Delays)
	})
}

func BenchmarkUpdateState(b *testing.B) {
	state := fullState()
	_, raw := bounded(&state)
	b.Run("store", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			bounded(&state)
		}
	})
	b.Run("load", func(b *testing.B) {
		b.ReportAllocs()
		o := updateStateObject{targetObject{storedObject[json.RawMessage]{Status: raw}}}
		for b.Loop() {
			if _, err := o.state(state.Workload); err != nil {
				b.Fatal(err)
			}
		}
	})
}
