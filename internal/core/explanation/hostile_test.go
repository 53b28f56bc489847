// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package explanation

import (
	"strings"
	"testing"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/decision"
)

func TestYou_hostileNames_areQuotedInCommands(t *testing.T) {
	const hostile = `a'; rm -rf "$HOME" #`
	in := quietInput("cart-0", hostile)
	in.Autoscaler.Namespace, in.Autoscaler.Name = hostile, hostile
	in.Subject.Workload.Namespace, in.Subject.Command = hostile, "deploy/"+hostile
	in.oomKilled(1, 1, minutesAgo(5))
	in.protect(1, 2)
	in.Pods[0].Node = hostile
	in.leave(0, noRoom)
	java("openjdk", nil, nil)(in)
	edits(limitCPU(100, 10), scaledBy(cluster.CPU, ""))(in)
	in.Pods[0].Containers[0].Name = hostile
	commands := 0
	for _, a := range you(in, situations(in), next(in)) {
		if a.Command == "" {
			continue
		}
		commands++
		if rest := outsideQuotes(a.Command); strings.ContainsAny(rest, `;$"#`) || !strings.Contains(a.Command, `'\''`) {
			t.Errorf("the name is not quoted: %s", a.Command)
		}
	}
	if commands < 5 {
		t.Errorf("%d commands, want at least 5", commands)
	}
}

// outsideQuotes returns the characters of a command that a shell interprets.
func outsideQuotes(command string) string {
	var out strings.Builder
	isQuoted, isEscaped := false, false
	for _, r := range command {
		switch {
		case isEscaped:
			isEscaped = false
		case r == '\'':
			isQuoted = !isQuoted
		case isQuoted:
		case r == '\\':
			isEscaped = true
		default:
			out.WriteRune(r)
		}
	}
	return out.String()
}

// The reason of a decision may say what a person must do.
func TestYou_reasonNeedsAttention_doesNotSayThatNothingIsToDo(t *testing.T) {
	for code, want := range map[decision.ReasonCode]bool{decision.NodeSizeUnknown: false, decision.SameSize: false, decision.BudgetSpent: true, decision.NoAdvice: true} {
		in := quietInput("cart-0", "cart-1")
		in.leave(1, decision.Reason{Code: code})
		nothing := cluster.Find(Explain(in).You, func(a *Advice) bool { return a.Text == "Nothing to do." }) != nil
		if nothing != want {
			t.Errorf("%s: says that there is nothing to do: %t", code, nothing)
		}
	}
}
