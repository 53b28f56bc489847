// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package process

import (
	"errors"
	"strings"
	"testing"
)

func TestMatchesNamespace_namesAndPatterns_match(t *testing.T) {
	for _, c := range []struct {
		patterns  string
		namespace string
		want      bool
	}{
		{"shop", "shop", true},
		{"shop", "shopping", false},
		{"kube-*", "kube-system", true},
		{"kube-*", "my-kube-system", false},
		{"other,team-?", "team-a", true},
		{"[", "[", false}, // CheckNamespaces refuses it
		{"*", "shop", true},
	} {
		if got := MatchesNamespace(strings.Split(c.patterns, ","), c.namespace); got != c.want {
			t.Errorf("%s, %s: got %t, want %t", c.patterns, c.namespace, got, c.want)
		}
	}
	if MatchesNamespace(nil, "shop") {
		t.Error("a namespace matches no pattern at all")
	}
}

func TestCheckNamespaces_unusableValues_areNamedWithTheFlag(t *testing.T) {
	err := errors.Join(CheckNamespaces("exclude-namespaces", []string{"shop", "[", "team-*", ""})...)
	want := `--exclude-namespaces must be a name or a pattern such as 'team-*', got "["` + "\n" + `--exclude-namespaces must be a name or a pattern such as 'team-*', got ""`
	if err == nil || err.Error() != want {
		t.Errorf("got error %v, want\n%s", err, want)
	}
}
