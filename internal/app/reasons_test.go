// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"slices"
	"strings"
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

// Each condition of a VPA appears in an explanation while it reports a problem, or is known from another part of it.
func TestExplanation_conditions_areShownOrKnownFromAnotherPart(t *testing.T) {
	elsewhere := map[string]string{
		"HorizontalPodAutoscaler": "a situation", "TargetConflict": "a situation", "Updating": "the decisions of the next pass",
	}
	for _, m := range conditionMessages {
		name := string(m.Type)
		if elsewhere[name] != "" {
			continue
		}
		shown := false
		for _, value := range []bool{true, false} {
			out := core.Explain(&core.Input{Conditions: []core.Condition{{Type: name, True: value, Message: "a problem"}}})
			shown = shown || slices.ContainsFunc(out.Now, func(line string) bool { return strings.Contains(line, name+"=") })
		}
		if !shown {
			t.Errorf("no value of condition %s is shown", name)
		}
	}
}
