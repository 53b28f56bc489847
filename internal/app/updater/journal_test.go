// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package updater

import (
	"testing"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/decision"
)

// The journal gets the decisions as they were carried out, in each pass that decides.
func TestUpdater_journal_getsDecisionsOfEachPass(t *testing.T) {
	u := newTestUpdater(newFakeCluster(cluster.Recreate))
	var passes [][]decision.Decision
	u.config.Journal = func(_ time.Time, decisions []decision.Decision) { passes = append(passes, decisions) }
	for range 2 {
		want := u.update(t.Context(), time.Now())
		if got := passes[len(passes)-1]; len(want) == 0 || len(got) != len(want) || got[0].Pod != want[0].Pod || got[0].Do != want[0].Do {
			t.Errorf("the journal got %d decisions of %d", len(got), len(want))
		}
	}
	if len(passes) != 2 {
		t.Errorf("%d passes in the journal, want 2", len(passes))
	}
}
