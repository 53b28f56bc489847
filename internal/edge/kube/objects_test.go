// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"podfit.dev/podfit/test/kubetest"
)

const profilesPath = "/apis/podfit.dev/v1alpha1/sizingprofiles"

func profileJSON(i int, spec string) string {
	return fmt.Sprintf(`{"apiVersion": "podfit.dev/v1alpha1", "kind": "SizingProfile", "metadata": {"name": "p%04d"}, "spec": %s}`, i, spec)
}

func TestProfiles_list_returnsObjectsUnchanged(t *testing.T) {
	f := kubetest.NewFakeAPI(t)
	c := clientsOf(f)
	const n = PageSize + 3 // more than one page
	for i := range n {
		f.Apply(profilesPath, profileJSON(i, fmt.Sprintf(`{"base": "cost", "unknownField": %d}`, i)))
	}
	all, err := c.SizingProfiles(t.Context())
	if err != nil || len(all) != n {
		t.Fatalf("%d profiles, %v", len(all), err)
	}
	var o struct {
		Kind string
		Spec map[string]any
	}
	if text := string(all[7].JSON); strings.Contains(text, "null") {
		t.Errorf("a field has been added, which is unknown to the reader of profiles: %s", text)
	}
	if err := json.Unmarshal(all[7].JSON, &o); err != nil || all[7].Name != "p0007" || o.Kind != "SizingProfile" || o.Spec["unknownField"] != 7.0 {
		t.Errorf("%+v, %+v, %v", all[7], o, err)
	}
	f.Apply(profilesPath, profileJSON(7, `{"base": "critical"}`))
	again, err := c.SizingProfiles(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for i := range again {
		if changed := again[i].Version != all[i].Version; changed != (i == 7) {
			t.Errorf("%s: version %s, before %s", again[i].Name, again[i].Version, all[i].Version)
		}
	}
}

func TestProfiles_listFails_errorHasReason(t *testing.T) {
	f := kubetest.NewFakeAPI(t)
	c := clientsOf(f)
	const forbidden = `{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Forbidden", "code": 403, "message": "no"}`
	for want, reply := range map[error]struct {
		code int
		body string
	}{
		ErrUnsupported: {http.StatusNotFound, "404 page not found"}, // the CRD is not installed
		ErrForbidden:   {http.StatusForbidden, forbidden},
	} {
		f.Reply("GET "+profilesPath, reply.code, reply.body)
		if _, err := c.SizingProfiles(t.Context()); !errors.Is(err, want) {
			t.Errorf("error %v, want %v", err, want)
		}
	}
	for _, invalid := range []string{"", "[]", `{"items": [7]}`, `{"items": {}}`} {
		f.Reply("GET "+profilesPath, http.StatusOK, invalid)
		if all, err := c.SizingProfiles(t.Context()); err == nil {
			t.Errorf("%q: no error, profiles %v", invalid, all)
		}
	}
}
