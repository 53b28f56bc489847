// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package packaging

import (
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// The value of the chart and the component of kustomize give each Deployment of podfit the switch. Without them, none has it.
func TestCompatibility_eachWayToInstall_setsTheSwitchOfAllComponents(t *testing.T) {
	const component = "resources: [DEPLOY]\ncomponents: [DEPLOY/compatibility]\n"
	for name, c := range map[string]struct {
		all         objects
		deployments int
		switched    bool
	}{
		"chart":                  {render(t), 3, false},
		"chart, upstream":        {render(t, "compatibility=upstream"), 3, true},
		"chart, single":          {render(t, "mode=single", "compatibility=upstream"), 1, true},
		"kustomize":              {build(t, root+"/deploy"), 3, false},
		"kustomize, upstream":    {build(t, overlay(t, component)), 3, true},
		"kustomize, all in one":  {build(t, overlay(t, "resources: [DEPLOY]\ncomponents: [DEPLOY/all-in-one, DEPLOY/compatibility]\n")), 1, true},
		"chart, podfit is given": {render(t, "compatibility=podfit"), 3, false},
	} {
		found := 0
		for _, o := range c.all {
			if o.GetKind() != "Deployment" {
				continue
			}
			found++
			containers, _, err := unstructured.NestedSlice(o.Object, "spec", "template", "spec", "containers")
			if err != nil {
				t.Fatal(err)
			}
			args, _, err := unstructured.NestedStringSlice(containers[0].(map[string]any), "args")
			if err != nil {
				t.Fatal(err)
			}
			if got := slices.Contains(args, "--compatibility=upstream"); got != c.switched {
				t.Errorf("%s: %s has the switch: %v, want %v; arguments %v", name, o.GetName(), got, c.switched, args)
			}
		}
		if found != c.deployments {
			t.Errorf("%s: %d Deployments, want %d", name, found, c.deployments)
		}
	}
}
