// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package inspection

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"podfit.dev/podfit/internal/core/overview"
	"podfit.dev/podfit/internal/edge/kube"
	"podfit.dev/podfit/test/kubetest"
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
		got, ok, err := (&Rights{clientsOf(f).Core}).Authenticate(t.Context(), "secret")
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
		got, err := (&Rights{clientsOf(f).Core}).MayList(t.Context(), &overview.User{Name: "ann", Groups: []string{"dev"}, Extra: map[string][]string{"a": {"b"}}}, "shop")
		if got != c.want || (err != nil) != c.fails {
			t.Errorf("%s: %v, error %v", name, got, err)
		}
		if n := len(f.Requests()); (n == 2) != c.want {
			t.Errorf("%s: %d reviews, want one of VPAs and one of pods if the first allows it", name, n)
		}
	}
}

// clientsOf returns clients of a fake API.
func clientsOf(f *kubetest.FakeAPI) *kube.Clients {
	cs, err := kube.ClientsFor(f.Config())
	if err != nil {
		panic(err)
	}
	return cs
}
