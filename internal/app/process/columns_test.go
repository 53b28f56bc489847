// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package process

import (
	"bytes"
	"testing"
)

func TestColumns_noTerminal_areTheUsualOnes(t *testing.T) {
	if got := Columns(new(bytes.Buffer), 72); got != 72 {
		t.Errorf("got %d, want 72", got)
	}
}
