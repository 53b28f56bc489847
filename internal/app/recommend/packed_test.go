// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package recommend

import (
	"encoding/json"
	"strings"
	"testing"

	"podfit.dev/podfit/test/kubetest"
)

// With the profile for full nodes, the report says how many nodes there are before and after, how many of them may be short, and which containers are
// sized in another way and why.
func TestRecommend_packed_printsNodesRiskAndAllThatIsLeftOut(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	f := kubetest.NewFakeAPI(t)
	applyNodes(f, 3)
	deployment{"shop", "cart", 3, `{"cpu":"500m","memory":"2Gi"}`, `{}`, "", 3}.apply(f)
	deployment{"ml", "feature-store", 2, `{"cpu":"3","memory":"8Gi"}`, `{}`, "", 3}.apply(f)
	deployment{"web", "front", 1, `{"cpu":"1500m","memory":"128Mi"}`, `{}`, "", 3}.apply(f)
	deployment{"web", "other", 1, `{"cpu":"10m","memory":"128Mi"}`, `{}`, "", 3}.apply(f)
	source := &prometheus{
		pods: append(recordedPods(), "web other-7d4b9c6f5d-x2k9b"), idle: true,
		memory: map[string][2]int{"ml": {1000, 8000}, "web": {500, 9000}}, // of nodes with 16 GiB
	}
	args := []string{"--kubeconfig", kubeconfig(t, f.URL()), "--prometheus", serve(t, source), "--output"}
	report := func(profile, output string) string {
		r := runCommand(t.Context(), append(args, output, "--profile", profile)...)
		if r.code != 0 {
			t.Fatalf("%s, %s: exit code %d, error %s", profile, output, r.code, r.errs)
		}
		return r.out
	}
	const (
		nodes   = "Nodes: 3 now, 2 with these requests. As far as usage is known, at most 1 of them would be short of memory"
		leftOut = "Not for full nodes, but as by profile balanced: 2 containers, app of web/deploy/front, app of web/deploy/other: its highest usage is more than half"
		example = "2 containers, such as app of web/deploy/front: its highest"
	)
	for output, want := range map[string][]string{"wide": {nodes, leftOut}, "html": {nodes, leftOut}, "table": {nodes, example}} {
		if text := report("packed", output); !strings.Contains(text, want[0]) || !strings.Contains(text, want[1]) {
			t.Errorf("%s does not contain %q:\n%s", output, want, text)
		}
	}
	if text := report("balanced", "wide"); strings.Contains(text, "Nodes: ") {
		t.Errorf("another profile:\n%s", text)
	}
	for profile, want := range map[string]*int{"packed": new(1), "balanced": nil} {
		var got struct {
			Summary struct {
				Gone   int  `json:"nodesThatCouldGo"`
				Before int  `json:"nodesThatCouldGoWithPresentRequests"`
				Short  *int `json:"nodesThatMayBeShortOfMemory"`
			}
		}
		if err := json.Unmarshal([]byte(report(profile, "json")), &got); err != nil {
			t.Fatal(err)
		}
		if s := got.Summary; s.Before != 0 || (s.Short == nil) != (want == nil) || want != nil && (*s.Short != *want || s.Gone != 1) {
			t.Errorf("%s: got %+v, want %v", profile, s, want)
		}
	}
}
