// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package changelog

import (
	"bytes"
	"encoding/hex"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"podfit.dev/podfit/internal/core/cluster"
)

// The golden file never changes, because checkpoints in clusters hold logs of that format. It has each cause and each resource.
func TestLog_storedFormat_isReadAndWrittenTheSame(t *testing.T) {
	want := &Log{Settings: 0x0123_4567_89ab_cdef}
	for cause := First; cause <= Bounds; cause++ {
		at := 1_764_000_000 + int64(cause)
		want.Changes = append(want.Changes, Change{At: at, To: 100 + int64(cause), Resource: cluster.CPU, Cause: cause},
			Change{At: at, To: 1<<30 + int64(cause), Resource: cluster.Memory, Cause: cause})
	}
	text, err := os.ReadFile("testdata/stored/changes-1.hex")
	if err != nil {
		t.Fatal(err)
	}
	data, err := hex.DecodeString(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	if got := want.Encode(); !bytes.Equal(got, data) {
		t.Errorf("encoded as\n%x, want\n%x", got, data)
	}
	got, err := Decode(data)
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("error %v (-want +got):\n%s", err, diff)
	}
	for cut := 1; cut < len(data); cut++ {
		if _, err := Decode(data[:cut]); err == nil {
			t.Errorf("cut off after %d of %d bytes, it is accepted", cut, len(data))
		}
	}
	for name, broken := range map[string][]byte{"another version": append([]byte{2}, data[1:]...), "more": append(bytes.Clone(data), 0)} {
		if log, err := Decode(broken); err == nil || log != nil {
			t.Errorf("%s: %v, error %v", name, log, err)
		}
	}
}
