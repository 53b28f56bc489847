// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"podfit.dev/podfit/internal/core/overview"
	"podfit.dev/podfit/internal/edge/kube/kubetest"
)

const (
	tokenReviews  = "POST /apis/authentication.k8s.io/v1/tokenreviews"
	accessReviews = "POST /apis/authorization.k8s.io/v1/subjectaccessreviews"
)

func TestRights_authenticate_onlyAuthenticatedUserCounts(t *testing.T) {
	for name, c := range map[string]struct {
		code  int
		reply string
		want  overview.User
		ok    bool
		fails bool
	}{
		"authenticated": {201, `{"kind":"TokenReview","apiVersion":"authentication.k8s.io/v1","status":{"authenticated":true,"user":{"username":"ann","uid":"7","groups":["dev"],"extra":{"scopes":["a","b"]}}}}`,
			overview.User{Name: "ann", UID: "7", Groups: []string{"dev"}, Extra: map[string][]string{"scopes": {"a", "b"}}}, true, false},
		"refused":      {201, `{"kind":"TokenReview","apiVersion":"authentication.k8s.io/v1","status":{"error":"expired","user":{"username":"ann"}}}`, overview.User{}, false, false},
		"without name": {201, `{"kind":"TokenReview","apiVersion":"authentication.k8s.io/v1","status":{"authenticated":true}}`, overview.User{}, false, false},
		"forbidden":    {403, `{"kind":"Status","apiVersion":"v1","reason":"Forbidden","message":"no","code":403}`, overview.User{}, false, true},
	} {
		f := kubetest.NewFakeAPI(t)
		f.Reply(tokenReviews, c.code, c.reply)
		got, ok, err := NewRights(clientsOf(f)).Authenticate(t.Context(), "secret")
		if ok != c.ok || (err != nil) != c.fails {
			t.Errorf("%s: %v, error %v", name, ok, err)
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		if err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: the error contains the token: %v", name, err)
		}
	}
}

func TestRights_mayList_onlyAllowedCounts(t *testing.T) {
	for name, c := range map[string]struct {
		code        int
		status      string
		want, fails bool
	}{
		"allowed": {201, `{"allowed":true}`, true, false}, "no opinion": {201, `{"allowed":false}`, false, false},
		"denied": {201, `{"allowed":true,"denied":true}`, false, false}, "unavailable": {503, `{}`, false, true},
	} {
		f := kubetest.NewFakeAPI(t)
		f.Reply(accessReviews, c.code, `{"kind":"SubjectAccessReview","apiVersion":"authorization.k8s.io/v1","status":`+c.status+`}`)
		got, err := NewRights(clientsOf(f)).MayList(t.Context(), &overview.User{Name: "ann", Groups: []string{"dev"}, Extra: map[string][]string{"a": {"b"}}}, "shop")
		if got != c.want || (err != nil) != c.fails {
			t.Errorf("%s: %v, error %v", name, got, err)
		}
	}
}

// A dry run may ask the API server about users, and nothing else that is not a GET.
func TestClients_readOnly_reviewsAreSent(t *testing.T) {
	f := kubetest.NewFakeAPI(t)
	f.Reply(tokenReviews, http.StatusCreated, `{"kind":"TokenReview","apiVersion":"authentication.k8s.io/v1","status":{"authenticated":true,"user":{"username":"ann"}}}`)
	f.Reply(accessReviews, http.StatusCreated, `{"kind":"SubjectAccessReview","apiVersion":"authorization.k8s.io/v1","status":{"allowed":true}}`)
	config := f.Config()
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return readOnly{next} })
	clients, err := ClientsFor(config)
	if err != nil {
		t.Fatal(err)
	}
	rights := NewRights(clients)
	if _, ok, err := rights.Authenticate(t.Context(), "x"); !ok || err != nil {
		t.Errorf("TokenReview: %v, %v", ok, err)
	}
	if ok, err := rights.MayList(t.Context(), &overview.User{Name: "ann"}, ""); !ok || err != nil {
		t.Errorf("SubjectAccessReview: %v, %v", ok, err)
	}
}

func TestRecentEvents_eventsOfUpdater_areEntriesNewestFirst(t *testing.T) {
	event := func(name, reason, last, first string) map[string]any {
		e := map[string]any{"metadata": map[string]any{"name": name, "namespace": "shop"}, "involvedObject": map[string]any{"kind": "Pod", "namespace": "shop", "name": name}, "reason": reason, "message": " text "}
		if last != "" {
			e["lastTimestamp"] = last
		}
		if first != "" {
			e["firstTimestamp"] = first
		}
		return e
	}
	items, err := json.Marshal(map[string]any{"kind": "EventList", "apiVersion": "v1", "items": []any{
		event("a", "EvictedByVPA", "2026-03-01T12:00:00Z", ""), event("b", "InPlaceResizedByVPA", "", "2026-03-01T13:00:00Z"), event("c", "UpdateHeld", "2026-03-01T11:00:00Z", ""),
	}})
	if err != nil {
		t.Fatal(err)
	}
	f := kubetest.NewFakeAPI(t)
	f.Reply("GET /api/v1/events", http.StatusOK, string(items))
	got, err := RecentEvents(t.Context(), clientsOf(f), "")
	if err != nil {
		t.Fatal(err)
	}
	text := ""
	for _, e := range got {
		text += e.Pod.String() + " " + e.Act + " " + e.Reason + " " + e.At.Format("15:04") + " " + e.Text + "\n"
	}
	if want := "shop/b resize InPlaceResizedByVPA 13:00 text\nshop/a evict EvictedByVPA 12:00 text\nshop/c leave UpdateHeld 11:00 text\n"; text != want {
		t.Errorf("got %q, want %q", text, want)
	}
}
