// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package terminal

import (
	"strings"
	"testing"
)

func TestCommand_quotesAndBlanks_areBrokenOnlyBetweenWords(t *testing.T) {
	for command, want := range map[string]string{
		`podfit explain deploy/cart -n 'team a'`:    `podfit|explain|deploy/cart|-n|'team a'`,
		`patch -p '{"spec": {"updateMode":"Off"}}'`: `patch|-p|'{"spec": {"updateMode":"Off"}}'`,
		`run 'it'\''s a name' "two words" last`:     `run|'it'\''s a name'|"two words"|last`,
		`an ' unpaired quote`:                       `an|'|unpaired|quote`,
	} {
		lines := Command("", command, 0, 1) // each word on a line of its own
		for i := range lines {
			lines[i] = strings.TrimSuffix(lines[i], ` \`)
		}
		if got := strings.Join(lines, "|"); got != want {
			t.Errorf("%s: got %s, want %s", command, got, want)
		}
	}
}
