// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package decision

import (
	"strings"
	"testing"
)

// A reason that may need attention leaves a pod as it is, and its remedy is more than to wait.
func TestNeedsAttention_reasons_leaveAPodAndHaveARemedy(t *testing.T) {
	n := 0
	for _, m := range Messages() {
		if !m.Code.NeedsAttention() {
			continue
		}
		n++
		if m.Code < ModeOff {
			t.Errorf("%s is a reason to change a pod", m.Code)
		}
		if m.Remedy == "" || m.Remedy == "No action is required." || strings.HasPrefix(m.Remedy, "Wait.") {
			t.Errorf("%s has the remedy %q", m.Code, m.Remedy)
		}
	}
	if n != len(needsAttention) {
		t.Errorf("%d reasons, want %d", n, len(needsAttention))
	}
}
