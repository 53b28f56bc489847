// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestSizingProfileCRD_scope_isCluster(t *testing.T) {
	d := definitions(t)["sizingprofiles.podfit.dev"]
	n := d.Spec.Names
	if d.Spec.Group != "podfit.dev" || d.Spec.Scope != "Cluster" || n.Kind != "SizingProfile" || n.ListKind != "SizingProfileList" ||
		n.Plural != "sizingprofiles" || n.Singular != "sizingprofile" || !slices.Equal(n.ShortNames, []string{"szp"}) {
		t.Errorf("group %q, scope %q, names %+v", d.Spec.Group, d.Spec.Scope, n)
	}
	if len(d.Spec.Versions) != 1 {
		t.Fatalf("%d versions", len(d.Spec.Versions))
	}
	v := d.Spec.Versions[0]
	if v.Name != "v1alpha1" || !v.Served || !v.Storage {
		t.Errorf("version %+v", v)
	}
	if diff := cmp.Diff([]column{
		{"Base", "string", ".spec.base", 0},
		{"About", "string", ".spec.about", 0},
		{"OOM Budget", "number", ".spec.memory.oomBudget", 0},
		{"Age", "date", ".metadata.creationTimestamp", 0},
	}, v.AdditionalPrinterColumns); diff != "" {
		t.Errorf("columns (-want +got)\n%s", diff)
	}
}
