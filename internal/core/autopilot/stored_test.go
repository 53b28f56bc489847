// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package autopilot

import (
	"bytes"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"podfit.dev/podfit/internal/core/usage"
)

// sampleHour is the first hour of the model states below.
const sampleHour = 490_000

func sampleMixture(offset int64) mixture {
	x := mixture{
		base: 100, hour: sampleHour + offset, top: 120, chosen: 4, level: 0.5, raised: 0.75, until: 1_764_000_000 + offset,
	}
	for i := range x.samples {
		x.samples[i] = uint16(i * 300)
	}
	for d := range x.weights {
		x.bound[d] = int32(110 + d)
		for i := d; i < buckets; i += 3 + d {
			x.weights[d][i] = float32(i+1) / 64
		}
	}
	for m := range models {
		x.limit[m], x.cost[m] = float32(m)+0.5, float32(m)+0.25
	}
	return x
}

// sampleModels returns model state in which every field that is stored has a value of its own.
func sampleModels() *Models {
	return &Models{since: sampleHour, cpu: sampleMixture(1), memory: sampleMixture(2)}
}

func stateBytes(t *testing.T, e usage.Extension) []byte {
	t.Helper()
	data, err := e.AppendBinary(nil)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// golden returns the bytes in a golden file, which never changes, because clusters hold model state of that format.
func golden(t *testing.T, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "stored", name+".hex"))
	if err != nil {
		t.Fatal(err)
	}
	data, err := hex.DecodeString(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestModels_encodedAndDecoded_keepTheStoredFormat(t *testing.T) {
	for name, state := range map[string]*Models{"autopilot-1": sampleModels(), "autopilot-1.empty": {}} {
		want := golden(t, name)
		if got := stateBytes(t, state); !bytes.Equal(got, want) {
			t.Errorf("%s is encoded as\n%x\nwant\n%x", name, got, want)
		}
		var decoded Models
		if err := decoded.UnmarshalBinary(want); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if got := stateBytes(t, &decoded); !bytes.Equal(got, want) {
			t.Errorf("%s, decoded and encoded again, is\n%x\nwant\n%x", name, got, want)
		}
		for cut := range want {
			if cut > 0 && new(Models).UnmarshalBinary(want[:cut]) == nil {
				t.Errorf("%s, cut off after %d of %d bytes, is accepted", name, cut, len(want))
			}
		}
		if err := new(Models).UnmarshalBinary(append(bytes.Clone(want), 0)); err == nil {
			t.Errorf("%s with a trailing byte is accepted", name)
		}
	}
}

// Version 2 has no time of the first sample.
func TestModels_version2_isRead(t *testing.T) {
	var got Models
	if err := got.UnmarshalBinary(golden(t, "autopilot-1.v2")); err != nil {
		t.Fatal(err)
	}
	want := sampleModels()
	want.since = 0
	if !bytes.Equal(stateBytes(t, &got), stateBytes(t, want)) || !got.Since().IsZero() {
		t.Errorf("%+v since %v, want %+v", got, got.Since(), want)
	}
}

func BenchmarkModels(b *testing.B) {
	state := sampleModels()
	data, _ := state.AppendBinary(nil)
	b.Run("encode", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			data, _ = state.AppendBinary(data[:0])
		}
	})
	b.Run("decode", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if err := state.UnmarshalBinary(data); err != nil {
				b.Fatal(err)
			}
		}
	})
}
