// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package runs

import (
	"bytes"
	"encoding/hex"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The golden files never change, because checkpoints in clusters hold logs of these formats.
func TestLog_storedFormats_areReadAndWrittenTheSame(t *testing.T) {
	const at = 1_764_000_000
	all := []Run{
		{Pod: 1<<64 - 1, Started: at, Last: at + 90, Ended: true, CPU: 250, Memory: 1 << 30},
		{Pod: 7, Started: at + 100, Last: at + 100, CPU: 1},
		{Pod: 1, Started: at + 200, Last: at + 86_400, Ended: true, Memory: 3},
	}
	for file, want := range map[string]*Log{"runs-1": {runs: all}, "runs-2": {runs: all, init: true}} {
		text, err := os.ReadFile("testdata/stored/" + file + ".hex")
		if err != nil {
			t.Fatal(err)
		}
		data, err := hex.DecodeString(strings.TrimSpace(string(text)))
		if err != nil {
			t.Fatal(err)
		}
		if got := want.Encode(); !bytes.Equal(got, data) {
			t.Errorf("%s: encoded as\n%x, want\n%x", file, got, data)
		}
		got, err := Decode(data)
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(Log{}, Run{})); err != nil || diff != "" {
			t.Errorf("%s: error %v (-want +got):\n%s", file, err, diff)
		}
		for cut := 1; cut < len(data); cut++ {
			if _, err := Decode(data[:cut]); err == nil {
				t.Errorf("%s: cut off after %d of %d bytes, it is accepted", file, cut, len(data))
			}
		}
		for name, broken := range map[string][]byte{"another version": append([]byte{3}, data[1:]...), "more": append(bytes.Clone(data), 0)} {
			if log, err := Decode(broken); err == nil || log != nil {
				t.Errorf("%s, %s: %v, error %v", file, name, log, err)
			}
		}
	}
}
