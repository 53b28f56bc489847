// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"os"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"
)

// The service account of the all-in-one manifest is bound to every role to which the accounts of the three components are bound.
func TestAllInOneManifest_roles_areThoseOfTheThreeJobs(t *testing.T) {
	var want []string
	for _, b := range only[*rbacv1.ClusterRoleBinding](manifests(t)) {
		want = append(want, b.RoleRef.Name)
	}
	slices.Sort(want)
	text, err := os.ReadFile("../../deploy/all-in-one/podfit.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var have []string
	for doc := range strings.SplitSeq(string(text), "\n---\n") {
		var b rbacv1.ClusterRoleBinding
		if err := yaml.Unmarshal([]byte(doc), &b); err != nil {
			t.Fatal(err)
		}
		if b.Kind != "ClusterRoleBinding" {
			continue
		}
		if len(b.Subjects) != 1 || b.Subjects[0].Name != "podfit" {
			t.Errorf("%s binds %v", b.Name, b.Subjects)
		}
		have = append(have, b.RoleRef.Name)
	}
	slices.Sort(have)
	if !slices.Equal(want, have) {
		t.Errorf("bound to %q, the three to %q", have, want)
	}
}
