// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"slices"
	"testing"

	core "podfit.dev/podfit/internal/core/explanation"
)

// Explanations show the events that podfit writes, and no others.
func TestExplanation_reasonsOfEvents_areThoseThatPodfitWrites(t *testing.T) {
	var written []string
	for _, m := range events() {
		written = append(written, m.Reason)
	}
	if written = slices.Compact(slices.Sorted(slices.Values(written))); !slices.Equal(core.Reasons, written) {
		t.Errorf("explanation.Reasons are %v, and the jobs write %v", core.Reasons, written)
	}
}
