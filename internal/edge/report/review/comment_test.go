// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package review

import (
	"fmt"
	"strings"
	"testing"

	"podfit.dev/podfit/internal/core/cluster"
	core "podfit.dev/podfit/internal/core/review"
)

// raised returns a report of workloads that need more.
func raised(n int) *core.Report {
	var all []core.Subject
	for i := range n {
		all = append(all, subject(deploy("shop", fmt.Sprint("workload-", i)), "app", 2, cluster.Amounts(100, 100*mib), cluster.Resources{}, cluster.Amounts(900, 900*mib)))
	}
	return core.New(core.Config{Cluster: "c", Source: "x", Profiles: []string{"balanced"}, Now: now}, all)
}

// A comment fits what a forge accepts, whatever the number of workloads, and says what it leaves out.
func TestComment_manyWorkloads_fitsTheForge(t *testing.T) {
	const tooLong, cut = "The patch is too long for a comment", "The rest is left out"
	for _, tt := range []struct {
		workloads                int
		hasPatch, isLong, isRest bool
	}{{1, true, false, false}, {180, false, true, false}, {2000, false, true, true}} {
		got := written(t, "github", raised(tt.workloads), Options{})
		if len(got) > mostGitHub {
			t.Errorf("%d workloads: a comment of %d characters", tt.workloads, len(got))
		}
		if strings.Contains(got, "<details><summary>Patch</summary>\n\n```yaml\n") != tt.hasPatch || strings.Contains(got, tooLong) != tt.isLong || strings.Contains(got, cut) != tt.isRest {
			t.Errorf("%d workloads: %d characters, begins\n%.300s\n and ends\n%s", tt.workloads, len(got), got, got[max(0, len(got)-300):])
		}
	}
	if got := written(t, "gitlab", raised(400), Options{}); len(got) < mostGitHub || !strings.HasSuffix(got, "```\n\n</details>\n") {
		t.Errorf("GitLab has room for all, but gets %d characters", len(got))
	}
	if got := written(t, "github", raised(0), Options{}); strings.Contains(got, "Patch") || strings.Contains(got, "patch") {
		t.Errorf("there is nothing to patch:\n%s", got)
	}
}

// Names and texts of others cannot end the code block of the patch.
func TestComment_backticksInNotes_stayInTheBlock(t *testing.T) {
	r := raised(1)
	r.Notes = []string{"````\n</details><script>"}
	_, block, _ := strings.Cut(written(t, "github", r, Options{}), "<details><summary>Patch</summary>\n\n")
	fence, _, _ := strings.Cut(block, "yaml\n")
	if fence != "`````" || strings.Count(block, fence) != 2 {
		t.Errorf("the block has the fence %q:\n%s", fence, block)
	}
}
