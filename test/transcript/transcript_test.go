// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package transcript

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

// echo prints its fields, or fails.
func echo(fields []string, out *strings.Builder) error {
	if fields[0] == "fail" {
		return errors.New("failed")
	}
	fmt.Fprintln(out, strings.Join(fields, "+"))
	return nil
}

func TestReplay_outdatedOutput_isReplaced(t *testing.T) {
	got, err := replay("# comment\na  b\nc\n----\noutdated\noutput\n\nd\n----\n", echo)
	const want = "# comment\na  b\nc\n----\na+b\nc\n\nd\n----\nd\n"
	if err != nil || got != want {
		t.Errorf("got %q, %v, want %q", got, err, want)
	}
	if again, err := replay(got, echo); err != nil || again != want {
		t.Errorf("the second time: got %q, %v, want %q", again, err, want)
	}
}

func TestReplay_commandFails_errorContainsLine(t *testing.T) {
	_, err := replay("a\n----\na\n\nfail\n----\n", echo)
	if err == nil || err.Error() != "line 5: failed" {
		t.Errorf("got the error %v, want line 5: failed", err)
	}
}
