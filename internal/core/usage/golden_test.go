// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package usage

import (
	"bytes"
	"encoding/hex"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
)

var update = flag.Bool("update", false, "write the golden files of new formats")

// sampleExtra has a value of its own in every field that is stored.
func sampleExtra() extra {
	const updated = 1_764_000_000
	at := func(offset int64) int64 { return (updated + offset) * int64(time.Second) }
	return extra{
		updated: updated, memory: seen{first: at(-900), last: at(-10), count: 1234}, oomAt: at(-400), oomBytes: 5e8,
		windows: []window{
			{uid: 1, observed: observed{windowEnd: at(86_400), lastMemory: at(-10), lastCPU: at(-11), lastOOM: at(-12), memoryPeak: 1e8, oomPeak: 2e8}},
			{uid: 0x1234_5678_9abc_def0, observed: observed{lastOOM: at(-300)}},
			{uid: 1<<64 - 1, observed: observed{windowEnd: at(50), lastMemory: at(-20), memoryPeak: 3e8}},
		},
		extension: []byte("model state"),
	}
}

func TestExtra_encodedAndDecoded_keepsTheStoredFormat(t *testing.T) {
	named := sampleExtra()
	named.form = "adaptive/1"
	started := named
	started.starts = someStarts()
	for name, x := range map[string]extra{"extra-1": sampleExtra(), "extra-2": named, "extra-3": started, "extra.empty": {}} {
		path := filepath.Join("testdata", "stored", name+".hex")
		text, err := os.ReadFile(path)
		if os.IsNotExist(err) && *update { // an existing file never changes: clusters hold checkpoints of that format
			text = []byte(hex.EncodeToString(x.encode()) + "\n")
			err = os.WriteFile(path, text, 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
		want, err := hex.DecodeString(strings.TrimSpace(string(text)))
		if err != nil {
			t.Fatal(err)
		}
		if got := x.encode(); !bytes.Equal(got, want) {
			t.Errorf("%s is encoded as\n%x\nwant\n%x", name, got, want)
		}
		got, err := decodeExtra(want)
		if len(got.extension) == 0 {
			got.extension = nil
		}
		if err != nil || !reflect.DeepEqual(got, x) {
			t.Errorf("%s is decoded as\n%+v, %v\nwant\n%+v", name, got, err, x)
		}
		for cut := 1; cut < len(want); cut++ {
			if _, err := decodeExtra(want[:cut]); err == nil {
				t.Errorf("%s, cut off after %d of %d bytes, is accepted", name, cut, len(want))
			}
		}
		if _, err := decodeExtra(append(bytes.Clone(want), 0)); err == nil {
			t.Errorf("%s with a trailing byte is accepted", name)
		}
	}
}

// The file is of the first version of podfit that stored checkpoints.
func TestExtra_ofTheFirstVersion_isReadAndWrittenTheSame(t *testing.T) {
	text, err := os.ReadFile("testdata/stored/extra-1.first.hex")
	if err != nil {
		t.Fatal(err)
	}
	data, err := hex.DecodeString(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	at := func(hour int) int64 { return time.Date(2026, 3, 1, 12+hour, 0, 0, 0, time.UTC).UnixNano() }
	got, err := decodeExtra(data)
	if err != nil || got.updated != at(28)/int64(time.Second) || got.memory != (seen{first: at(0), last: at(26), count: 2}) || got.oomAt != at(27) || got.oomBytes != 600<<20 || len(got.windows) != 1 {
		t.Errorf("decoded as %+v, %v", got, err)
	}
	if again := got.encode(); !bytes.Equal(again, data) {
		t.Errorf("encoded again as\n%x, want\n%x", again, data)
	}
}

func BenchmarkExtra(b *testing.B) {
	x := sampleExtra()
	x.starts = someStarts()
	data := x.encode()
	b.Run("encode", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			x.encode()
		}
	})
	b.Run("decode", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := decodeExtra(data); err != nil {
				b.Fatal(err)
			}
		}
	})
}
