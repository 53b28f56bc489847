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
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/validation"

	"podfit.dev/podfit/api/podfit/v1alpha1"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/usage"
	"podfit.dev/podfit/internal/edge/kube"
	"podfit.dev/podfit/test/kubetest"
)

const (
	historiesPath  = "/apis/podfit.dev/v1alpha1/usagehistories"
	historiesOfOne = "/apis/podfit.dev/v1alpha1/namespaces/shop/usagehistories"
)

func deployment(name string) cluster.Workload {
	return cluster.Workload{Group: "apps", Kind: "Deployment", Namespace: "shop", Name: name}
}

// historyFrom returns a history of a container. minute is the time of its update, in minutes after noon.
func historyFrom(container string, minute int, data string) usage.History {
	at := time.Date(2026, 3, 1, 12, minute, 0, 0, time.UTC)
	return usage.History{Container: container, Updated: at, LastSample: at.Add(-time.Second), Form: "adaptive/1", Data: []byte(data)}
}

func newHistories(t testing.TB, f *kubetest.FakeAPI, o StorageOptions) *Histories {
	t.Helper()
	h := NewHistories(clientsOf(f), o)
	return h
}

func loadHistories(t testing.TB, h *Histories) map[cluster.Workload][]usage.History {
	t.Helper()
	all, err := h.Load(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func mustWrite(t testing.TB, h *Histories, w cluster.Workload, hs ...usage.History) bool {
	t.Helper()
	wrote, err := h.Write(t.Context(), w, hs)
	if err != nil {
		t.Fatal(err)
	}
	return wrote
}

func TestHistories_written_areLoadedEqual(t *testing.T) {
	f := kubetest.NewFakeAPI(t)
	h := newHistories(t, f, StorageOptions{})
	web := deployment("web")
	mustWrite(t, h, web, historyFrom("app", 0, "first"))
	want := []usage.History{historyFrom("app", 10, "\x00\xff second"), historyFrom("proxy", 10, "third")}
	mustWrite(t, h, web, want...)
	got := loadHistories(t, newHistories(t, f, StorageOptions{}))
	if diff := cmp.Diff(map[cluster.Workload][]usage.History{web: want}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	o := f.Object(historiesPath, "shop/deployment-web")
	text, err := json.Marshal(map[string]any{"spec": o["spec"], "status": o["status"]})
	if err != nil {
		t.Fatal(err)
	}
	wantText := `{"spec":{"target":{"group":"apps","kind":"Deployment","name":"web"}},"status":{"containers":2,"histories":[` +
		`{"container":"app","data":"AP8gc2Vjb25k","format":"adaptive/1","lastSample":"2026-03-01T12:09:59Z","updated":"2026-03-01T12:10:00Z"},` +
		`{"container":"proxy","data":"dGhpcmQ=","format":"adaptive/1","lastSample":"2026-03-01T12:09:59Z","updated":"2026-03-01T12:10:00Z"}],` +
		`"size":14,"updated":"2026-03-01T12:10:00Z"}}`
	if string(text) != wantText {
		t.Errorf("stored is\n%s, want\n%s", text, wantText)
	}
	if diff := cmp.Diff([]string{"POST " + historiesOfOne, "PATCH " + historiesOfOne + "/deployment-web"}, f.Requests()); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
}

func TestHistories_unchanged_areNotWritten(t *testing.T) {
	f := kubetest.NewFakeAPI(t)
	h := newHistories(t, f, StorageOptions{})
	web := deployment("web")
	steps := []struct {
		what  string
		hs    []usage.History
		wrote bool
	}{
		{"no history", nil, false},
		{"first write", []usage.History{historyFrom("app", 0, "a")}, true},
		{"same data, later", []usage.History{historyFrom("app", 10, "a")}, false},
		{"another container", []usage.History{historyFrom("app", 20, "a"), historyFrom("proxy", 20, "a")}, true},
		{"other data", []usage.History{historyFrom("app", 30, "b"), historyFrom("proxy", 30, "a")}, true},
		{"one container less", []usage.History{historyFrom("app", 40, "b")}, true},
	}
	for _, s := range steps {
		if got := mustWrite(t, h, web, s.hs...); got != s.wrote {
			t.Errorf("%s: wrote %t, want %t", s.what, got, s.wrote)
		}
	}
	fresh := newHistories(t, f, StorageOptions{})
	loadHistories(t, fresh)
	if mustWrite(t, fresh, web, historyFrom("app", 50, "b")) {
		t.Error("after a restart, the same data was written again")
	}
}

// W-24: two recommenders during a fail-over.
func TestHistories_storedIsNewer_isNotOverwritten(t *testing.T) {
	f := kubetest.NewFakeAPI(t)
	web := deployment("web")
	old := newHistories(t, f, StorageOptions{})
	leader := newHistories(t, f, StorageOptions{})
	mustWrite(t, old, web, historyFrom("app", 0, "a"), historyFrom("proxy", 0, "a"))
	loadHistories(t, leader)
	mustWrite(t, leader, web, historyFrom("app", 10, "newer"), historyFrom("proxy", 10, "newer"))

	if wrote, err := old.Write(t.Context(), web, []usage.History{historyFrom("app", 5, "late"), historyFrom("proxy", 5, "late")}); wrote || !errors.Is(err, kube.ErrConflict) {
		t.Errorf("wrote %v, error %v", wrote, err)
	}
	got := loadHistories(t, leader)[web]
	if string(got[0].Data) != "newer" || string(got[1].Data) != "newer" {
		t.Errorf("the stored histories are %+v", got)
	}
	mustWrite(t, leader, web, historyFrom("app", 20, "newest"), historyFrom("proxy", 11, "newest"))
	mustWrite(t, old, web, historyFrom("app", 15, "late"), historyFrom("proxy", 15, "late")) // only proxy is newer
	got = loadHistories(t, leader)[web]
	if string(got[0].Data) != "newest" || string(got[1].Data) != "late" {
		t.Errorf("the stored histories are %+v", got)
	}
	another := newHistories(t, f, StorageOptions{}) // has not loaded the stored histories
	if _, err := another.Write(t.Context(), web, []usage.History{historyFrom("app", 1, "x")}); !errors.Is(err, kube.ErrConflict) {
		t.Errorf("error %v", err)
	}
}

func TestHistories_crdMissing_listIsRetriedLater(t *testing.T) {
	f := kubetest.NewFakeAPI(t)
	web := deployment("web")
	var log bytes.Buffer
	h := newHistories(t, f, StorageOptions{Log: slog.New(slog.NewTextHandler(&log, nil))})
	f.Reply("GET "+historiesPath, http.StatusNotFound, "404 page not found")
	f.Reply("POST "+historiesOfOne, http.StatusNotFound, "404 page not found")
	f.Reply("GET /apis", http.StatusOK, `{"kind":"APIGroupList","groups":[{"name":"apps","versions":[{"version":"v1"}]}]}`)
	if all := loadHistories(t, h); len(all) != 0 || log.Len() != 0 {
		t.Errorf("loaded %v, log: %s", all, &log) // no warning if no history must be stored
	}
	for range 3 {
		if _, err := h.Write(t.Context(), web, []usage.History{historyFrom("app", 0, "a")}); !errors.Is(err, kube.ErrUnsupported) {
			t.Fatalf("error %v", err)
		}
	}
	if n := strings.Count(log.String(), "level=WARN"); n != 1 || !strings.Contains(log.String(), "podfit crds | kubectl apply --server-side --force-conflicts -f -") {
		t.Errorf("%d warnings: %s", n, &log)
	}
	if seen := f.Requests(); len(seen) != 0 {
		t.Errorf("requests were sent although the CRD is missing: %v", seen)
	}
	f.ForgetReply("GET " + historiesPath)
	f.ForgetReply("POST " + historiesOfOne)
	loadHistories(t, h)
	if !mustWrite(t, h, web, historyFrom("app", 0, "a")) || !strings.Contains(log.String(), "can be stored again") {
		t.Errorf("not written; log: %s", &log)
	}
	f.Delete(historiesPath, "shop/deployment-web")
	f.Reply("PATCH "+historiesOfOne+"/deployment-web", http.StatusNotFound, "404 page not found") // the CRD is removed
	if _, err := h.Write(t.Context(), web, []usage.History{historyFrom("app", 1, "b")}); !errors.Is(err, kube.ErrUnsupported) {
		t.Errorf("error %v", err)
	}
	if n := strings.Count(log.String(), "level=WARN"); n != 2 {
		t.Errorf("%d warnings: %s", n, &log)
	}
}

func TestHistories_forbidden_logsRightsAsRemedy(t *testing.T) {
	f := kubetest.NewFakeAPI(t)
	var log bytes.Buffer
	h := newHistories(t, f, StorageOptions{Log: slog.New(slog.NewTextHandler(&log, nil))})
	f.Reply("GET "+historiesPath, http.StatusForbidden, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403}`)
	loadHistories(t, h)
	if _, err := h.Write(t.Context(), deployment("web"), []usage.History{historyFrom("app", 0, "a")}); !errors.Is(err, kube.ErrForbidden) {
		t.Errorf("error %v", err)
	}
	if !strings.Contains(log.String(), "deploy/10-rbac.yaml") {
		t.Errorf("log: %s", &log)
	}
}

// A namespace that is being deleted, or a quota, affects one namespace and not the others.
func TestHistories_writeForbidden_otherNamespacesAreWritten(t *testing.T) {
	f := kubetest.NewFakeAPI(t)
	h := newHistories(t, f, StorageOptions{})
	f.Reply("POST "+historiesOfOne, http.StatusForbidden, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403}`)
	if _, err := h.Write(t.Context(), deployment("web"), []usage.History{historyFrom("app", 0, "a")}); !errors.Is(err, kube.ErrForbidden) {
		t.Errorf("error %v", err)
	}
	other := deployment("web")
	other.Namespace = "lab"
	mustWrite(t, h, other, historyFrom("app", 0, "a"))
}

func TestHistories_invalidObjects_othersAreLoaded(t *testing.T) {
	f := kubetest.NewFakeAPI(t)
	const spec = `"spec":{"target":{"group":"apps","kind":"Deployment","name":%q}}`
	put := func(name, target, rest string) {
		f.Apply(historiesPath, fmt.Sprintf(`{"metadata":{"namespace":"shop","name":%q},%s%s}`, name, fmt.Sprintf(spec, target), rest))
	}
	good := `{"container":"app","format":"adaptive/1","updated":"2026-03-01T12:00:00Z","lastSample":"2026-03-01T11:59:59Z","data":"YQ=="}`
	put("deployment-good", "good", `,"status":{"histories":[`+good+`]}`)
	put("deployment-half", "half", `,"status":{"histories":[{"container":"x","updated":7},{"data":"YQ=="},"no",`+good+`]}`)
	put("deployment-bad", "bad", `,"status":{"histories":{"app":1}}`)
	put("deployment-worse", "worse", `,"status":[]`)
	put("deployment-empty", "empty", ``)
	put("another-name", "renamed", `,"status":{"histories":[`+good+`]}`)
	f.Apply(historiesPath, `{"metadata":{"namespace":"shop","name":"invalid-spec"},"spec":7,"status":{}}`)
	f.Apply(historiesPath, `{"metadata":{"namespace":"shop","name":"empty-target"},"spec":{"target":{}}}`)
	put("deployment-hidden", "hidden", `,"status":{"histories":[`+good+`]}`)
	f.Apply(historiesPath, `{"metadata":{"namespace":"lab","name":"deployment-good"},`+fmt.Sprintf(spec, "good")+`,"status":{"histories":[`+good+`]}}`)

	var log bytes.Buffer
	h := newHistories(t, f, StorageOptions{Ignored: []string{"lab"}, Log: slog.New(slog.NewTextHandler(&log, nil))})
	all := loadHistories(t, h)
	var names []string
	for w, hs := range all {
		names = append(names, w.Name)
		if diff := cmp.Diff([]usage.History{historyFrom("app", 0, "a")}, hs); diff != "" {
			t.Errorf("%s (-want +got):\n%s", w, diff)
		}
	}
	slices.Sort(names)
	if diff := cmp.Diff([]string{"good", "half", "hidden", "renamed"}, names); diff != "" {
		t.Errorf("loaded (-want +got):\n%s", diff)
	}
	if n := strings.Count(log.String(), "level=WARN"); n != 5 {
		t.Errorf("%d warnings:\n%s", n, &log)
	}
	for _, name := range []string{"half", "bad", "worse", "empty"} { // the next write replaces them
		mustWrite(t, h, deployment(name), historyFrom("app", 10, "b"))
	}
	again := loadHistories(t, newHistories(t, f, StorageOptions{}))
	for _, name := range []string{"half", "bad", "worse", "empty"} {
		if diff := cmp.Diff([]usage.History{historyFrom("app", 10, "b")}, again[deployment(name)]); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestHistories_nameInUse_hashedNameIsUsed(t *testing.T) {
	f := kubetest.NewFakeAPI(t)
	f.Apply(historiesPath, `{"metadata":{"namespace":"shop","name":"deployment-web"},"spec":{"target":{"group":"apps","kind":"Deployment","name":"other"}}}`)
	web := deployment("web")
	mustWrite(t, newHistories(t, f, StorageOptions{}), web, historyFrom("app", 0, "a"))
	h := newHistories(t, f, StorageOptions{})
	if all := loadHistories(t, h); len(all[web]) != 1 {
		t.Errorf("loaded %+v", all)
	}
	mustWrite(t, h, web, historyFrom("app", 1, "b"))
	if f.Object(historiesPath, "shop/"+hashedHistoryName(web)) == nil {
		t.Error("the object with the hashed name does not exist")
	}
}

func TestHistories_collect_deletesOnlyOrphans(t *testing.T) {
	f := kubetest.NewFakeAPI(t)
	h := newHistories(t, f, StorageOptions{Ignored: []string{"lab"}})
	for _, name := range []string{"web", "gone"} {
		mustWrite(t, h, deployment(name), historyFrom("app", 0, "a"))
	}
	duplicate := `{"metadata":{"namespace":"shop","name":"second"},"spec":{"target":{"group":"apps","kind":"Deployment","name":"web"}}}`
	f.Apply(historiesPath, duplicate)
	f.Apply(historiesPath, strings.Replace(duplicate, "shop", "lab", 1))
	f.Apply(historiesPath, `{"metadata":{"namespace":"shop","name":"invalid"},"spec":7}`)
	n, err := h.Collect(t.Context(), Needed{Workloads: map[cluster.Workload]bool{deployment("web"): true}})
	if n != 2 || err != nil {
		t.Errorf("collected %d, error %v", n, err)
	}
	for name, want := range map[string]bool{"shop/deployment-web": true, "shop/deployment-gone": false, "shop/second": false, "lab/second": true, "shop/invalid": true} {
		if got := f.Object(historiesPath, name) != nil; got != want {
			t.Errorf("%s exists: %t, want %t", name, got, want)
		}
	}
	if body := f.Body("DELETE " + historiesOfOne + "/deployment-gone"); !strings.Contains(body, `"resourceVersion"`) || !strings.Contains(body, `"uid"`) {
		t.Errorf("no preconditions in %s", body)
	}
	mustWrite(t, h, deployment("gone"), historyFrom("app", 1, "a")) // needed again

	f.Delete(historiesPath, "shop/deployment-web") // a user deletes it
	if mustWrite(t, h, deployment("web"), historyFrom("app", 2, "a")) {
		t.Error("written, although podfit has not listed the objects since the deletion")
	}
	if _, err := h.Collect(t.Context(), Needed{Namespaces: map[string]bool{"shop": true}}); err != nil {
		t.Fatal(err)
	}
	if !mustWrite(t, h, deployment("web"), historyFrom("app", 3, "a")) {
		t.Error("the object that a user deleted is not written again")
	}
	f.Reply("GET "+historiesPath, http.StatusNotFound, "404 page not found") // the CRD is removed
	f.Reply("GET /apis", http.StatusOK, `{"kind":"APIGroupList","groups":[{"name":"apps","versions":[{"version":"v1"}]}]}`)
	if _, err := h.Collect(t.Context(), Needed{Namespaces: map[string]bool{"shop": true}}); err != nil {
		t.Fatal(err)
	}
	if _, err := h.Write(t.Context(), deployment("web"), []usage.History{historyFrom("app", 4, "a")}); !errors.Is(err, kube.ErrUnsupported) {
		t.Errorf("error %v", err)
	}
}

// A CRD without bounds, or an older one, admits objects up to what the API server stores.
func TestHistories_objectTooLarge_isSkippedAndLogged(t *testing.T) {
	f := kubetest.NewFakeAPI(t)
	const object = `{"metadata":{"namespace":"shop","name":"deployment-%[1]s"},"spec":{"target":{"group":"apps","kind":"Deployment","name":"%[1]s"}},` +
		`"status":{"histories":[{"container":"app","format":"adaptive/1","updated":"2026-03-01T12:00:00Z","data":%[2]q}]}}`
	f.Apply(historiesPath, fmt.Sprintf(object, "huge", strings.Repeat("YWFh", 1<<18)))
	f.Apply(historiesPath, fmt.Sprintf(object, "web", "YQ=="))
	var log bytes.Buffer
	h := newHistories(t, f, StorageOptions{Log: slog.New(slog.NewTextHandler(&log, nil))})
	all := loadHistories(t, h)
	if len(all) != 1 || len(all[deployment("web")]) != 1 {
		t.Errorf("%d workloads are loaded: %v", len(all), all[deployment("web")])
	}
	if !strings.Contains(log.String(), "kubectl delete usagehistory -n shop deployment-huge") {
		t.Errorf("log: %s", &log)
	}
	mustWrite(t, h, deployment("huge"), historyFrom("app", 1, "b")) // replaces the large object
	if all := loadHistories(t, newHistories(t, f, StorageOptions{})); len(all) != 2 {
		t.Errorf("%d workloads are loaded after the write", len(all))
	}
}

func TestHistories_list_readsSmallPages(t *testing.T) {
	f := kubetest.NewFakeAPI(t)
	for i := range 120 {
		f.Apply(historiesPath, fmt.Sprintf(`{"metadata":{"namespace":"shop","name":"deployment-%[1]d"},"spec":{"target":{"group":"apps","kind":"Deployment","name":"%[1]d"}},
			"status":{"histories":[{"container":"app","format":"adaptive/1","updated":"2026-03-01T12:00:00Z","data":"YQ=="}]}}`, i))
	}
	if n := len(loadHistories(t, newHistories(t, f, StorageOptions{}))); n != 120 {
		t.Errorf("%d histories are loaded, want 120", n)
	}
	if n, _ := f.Lists(historiesPath); n != 3 {
		t.Errorf("%d pages were read, want 3 of at most 50 objects", n)
	}
}

func TestHistories_moreContainersThanFit_keepsTheMostRecent(t *testing.T) {
	f := kubetest.NewFakeAPI(t)
	h := newHistories(t, f, StorageOptions{})
	var hs []usage.History
	for i := range v1alpha1.MaxContainerHistories + 10 {
		hs = append(hs, historyFrom(fmt.Sprintf("app-%02d", i), i, "a"))
	}
	if !mustWrite(t, h, deployment("web"), hs...) || mustWrite(t, h, deployment("web"), hs...) {
		t.Error("the first write was skipped, or the same data was written twice")
	}
	got := loadHistories(t, newHistories(t, f, StorageOptions{}))[deployment("web")]
	if diff := cmp.Diff(hs[10:], got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestHistories_tooManyEntries_restIsNotLoaded(t *testing.T) {
	f := kubetest.NewFakeAPI(t)
	var hs []usage.History
	for i := range 1000 {
		hs = append(hs, historyFrom(fmt.Sprint("app-", i), 0, "a"))
	}
	status, err := json.Marshal(historyStatus(hs))
	if err != nil {
		t.Fatal(err)
	}
	f.Apply(historiesPath, fmt.Sprintf(`{"metadata":{"namespace":"shop","name":"deployment-web"},"spec":{"target":{"group":"apps","kind":"Deployment","name":"web"}},"status":%s}`, status))
	if got := loadHistories(t, newHistories(t, f, StorageOptions{}))[deployment("web")]; len(got) != v1alpha1.MaxContainerHistories {
		t.Errorf("%d entries are loaded, want %d", len(got), v1alpha1.MaxContainerHistories)
	}
}

func TestHistoryName_longNames_areValidAndDifferent(t *testing.T) {
	long := strings.Repeat("x", 240)
	names := map[string]cluster.Workload{}
	for _, w := range []cluster.Workload{
		deployment("web"), deployment("web.example"), deployment(long), deployment(long + "yyyyyy"),
		{Group: "argoproj.io", Kind: "Rollout", Namespace: "shop", Name: "web"},
		{Group: "example.com", Kind: "Rollout", Namespace: "shop", Name: "web"},
		{Group: "example.com", Kind: "Deployment", Namespace: "shop", Name: "web"},
		{Group: "", Kind: "ReplicationController", Namespace: "shop", Name: "web"},
		{Group: "example.com", Kind: "Odd-Kind", Namespace: "shop", Name: "Odd..name."},
		{Group: "example.com", Kind: "Odd", Namespace: "shop", Name: "kind-Odd..name."},
		{Group: "example.com", Kind: "Ö", Namespace: "shop", Name: "-"},
		{Group: "batch", Kind: "CronJob", Namespace: "shop", Name: "web"},
	} {
		for _, name := range []string{historyName(w), hashedHistoryName(w)} {
			if errs := validation.IsDNS1123Subdomain(name); len(errs) > 0 {
				t.Errorf("%q of %v: %v", name, w, errs)
			}
			if other, taken := names[name]; taken && other != w {
				t.Errorf("%v and %v have the name %s", w, other, name)
			}
			names[name] = w
		}
	}
	if got := historyName(deployment("web")); got != "deployment-web" {
		t.Errorf("the name is %s, want deployment-web", got)
	}
}

// FuzzDecodeHistory decodes arbitrary UsageHistories. podfit must not panic, and what it accepts must stay the same when it is written
// and decoded again.
func FuzzDecodeHistory(f *testing.F) {
	status, err := json.Marshal(historyStatus([]usage.History{historyFrom("app", 0, "a"), historyFrom("proxy", 7, "\x00")}))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(fmt.Appendf(nil, `{"metadata":{"namespace":"shop","name":"x"},"spec":{"target":{"kind":"Job","name":"y"}},"status":%s}`, status))
	f.Add([]byte(`{"spec":{"target":{"kind":"Job","name":"y"}},"status":{"histories":[{"container":"a","updated":"9999-12-31T23:59:59Z","lastSample":null,"data":null},{"container":"a","updated":null}]}}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		var o historyObject
		if json.Unmarshal(raw, &o) != nil {
			return
		}
		if w, err := o.key(); err == nil && len(validation.IsDNS1123Subdomain(historyName(w))) > 0 {
			t.Errorf("%v has the name %s", w, historyName(w))
		}
		hs, _ := o.histories()
		again, err := json.Marshal(historyStatus(hs))
		if err != nil {
			return // JSON cannot represent such a time
		}
		back := historyObject{targetObject{storedObject[json.RawMessage]{Status: again}}}
		got, err := back.histories()
		if err != nil {
			t.Fatal(err)
		}
		if historySum(got) != historySum(hs) || len(got) != len(hs) {
			t.Errorf("wrote %+v, decoded %+v", hs, got)
		}
	})
}
