// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"bytes"
	"strings"
	"testing"
)

func TestExplain_arguments_messageOrObject(t *testing.T) {
	for args, want := range map[string]bool{
		"": false, "BudgetSpent": true, "Pod was evicted by VPA Updater": true, "lost the lease on kube-system/podfit": true,
		"deploy": false, "Pods": false, "deploy/cart": false, "rollout/cart": false, "deploy|cart": false, "rollout|cart": false,
	} {
		if got := asksForMessage(strings.Split(args, "|")); got != want {
			t.Errorf("%q is a message: %t, want %t", args, got, want)
		}
	}
}

func TestExplain_message_textAndJSON(t *testing.T) {
	for _, c := range []struct{ what, format, want, err string }{
		{"BudgetSpent", "text", "Reason `BudgetSpent`\n  Example of the text: ", ""},
		{"BudgetSpent", "json", "[\n  {\n    \"kind\": \"Reason\",\n    \"name\": \"`BudgetSpent`\",", ""},
		{"BudgetSpent", "html", "", "--output=html needs an object as KIND/NAME"},
		{"BudgetSpend", "text", "", "(did you mean BudgetSpent?)"},
		{"crt", "text", "", "give one object as KIND/NAME, for example deploy/cart, or the name or text of a message, as in docs/messages.md; got \"crt\""},
	} {
		var out bytes.Buffer
		err := writeMessages(&out, c.what, c.format)
		if !strings.HasPrefix(out.String(), c.want) || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s as %s: %q, %v", c.what, c.format, out.String(), err)
		}
		for line := range strings.Lines(out.String()) {
			if c.format == "text" && len(line) > columns+1 {
				t.Errorf("a long line: %s", line)
			}
		}
	}
}
