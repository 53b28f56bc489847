// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"errors"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestAnswer_largeText_isTruncatedBetweenCharacters(t *testing.T) {
	if got := Answer(errors.New(strings.Repeat("ü", 1<<20))); len(got) > maxAnswer+3 || !utf8.ValidString(got) {
		t.Errorf("%d bytes, valid: %t", len(got), utf8.ValidString(got))
	}
	if got := Answer(errors.New("x" + strings.Repeat("ü", 1<<20))); len(got) > maxAnswer+3 || !utf8.ValidString(got) {
		t.Errorf("%d bytes, valid: %t", len(got), utf8.ValidString(got))
	}
}
