// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package recommend

import (
	"bytes"
	"encoding/hex"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"podfit.dev/podfit/internal/core/codec"
	"podfit.dev/podfit/internal/core/hourly"
	"podfit.dev/podfit/internal/core/trend"
	"podfit.dev/podfit/internal/core/usage"
)

var update = flag.Bool("update", false, "write the golden files of new formats")

// sampleHour is the first hour of the model states below.
const sampleHour = 490_000

func samplePeaks(hours int) hourly.Peaks {
	p := hourly.NewPeaks(hours)
	for i := range 40 {
		if i%7 != 3 {
			p.Observe(sampleHour+i, 1e6*float64(1+i*i%13))
		}
	}
	return p
}

func sampleWeights() hourly.Weights {
	var w hourly.Weights
	for i := range 30 {
		w.Observe(sampleHour+i, 0.01*float64(1+i%9), 12)
	}
	return w
}

func sampleHeld(offset int64) held {
	base := offset * 1000
	return held{
		level: float64(offset) + 0.5, low: float64(offset) + 0.25, bump: float64(offset) + 0.125, adjust: 0.01 * float64(offset),
		banned: base + 1, changed: base + 2, decided: base + 3, planned: base + 4, bumped: base + 5, day: base + 6,
		inLow: offset%2 == 0, above: offset%2 == 1, hours: lowHours{from: uint8(offset), length: 5, base: 1234.5 + float32(offset)},
	}
}

func sampleChoice(offset int32) choice {
	c := choice{arm: uint8(offset % arms), samples: 7 + offset, period: 20_000 + offset}
	for i := range arms {
		c.cost[i], c.level[i], c.charged[i] = float32(i)+0.5, float32(i)+10.25, float32(i)+100.125
	}
	return c
}

func sampleLeak() trend.Leak {
	return trend.Leak{Since: 1_764_000_000, Seen: 1_764_000_001, Last: 1_764_000_002, From: 1_763_000_000, Bound: 5e8, PerDay: 1e7, Peak: 3e8}
}

func sampleMemo() Memo {
	return Memo{
		CPU: samplePeaks(96), Memory: samplePeaks(14 * 24), cpu: sampleHeld(1), memory: sampleHeld(2),
		leak: sampleLeak(), regime: regime{since: sampleHour, until: sampleHour + 1, old: 4e8},
		shortfall: shortfall{used: 12.5, over: 0.25}, cpuChoice: sampleChoice(1), memoryChoice: sampleChoice(2),
	}
}

// sampleStates are model states in which every field that is stored has a value of its own.
func sampleStates() map[string]usage.Extension {
	memo := sampleMemo()
	starting := sampleWeights()
	busy := &Busy{Memo: sampleMemo(), cpu: sampleWeights(), starting: &starting, day: 20_000, busy: HoursBetween(8, 18, 0)}
	for h := range busy.load {
		busy.load[h] = float32(h) + 0.5
	}
	return map[string]usage.Extension{
		"adaptive-1":   &memo,
		"busy-hours-2": busy,
	}
}

// emptyStates are model states as they are before the first sample, of the same parameters as sampleStates.
func emptyStates() map[string]usage.Extension {
	memo := Memo{CPU: hourly.NewPeaks(96), Memory: hourly.NewPeaks(14 * 24)}
	return map[string]usage.Extension{
		"adaptive-1": &memo, "busy-hours-2": &Busy{Memo: memo},
	}
}

func stateBytes(t *testing.T, e usage.Extension) []byte {
	t.Helper()
	data, err := e.AppendBinary(nil)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// golden returns the bytes in a golden file. With -update a file that does not exist is written; an existing one never
// changes, because clusters hold model state of that format.
func golden(t *testing.T, name string, current []byte) []byte {
	t.Helper()
	path := filepath.Join("testdata", "stored", name+".hex")
	text, err := os.ReadFile(path)
	if os.IsNotExist(err) && *update {
		text = []byte(hex.EncodeToString(current) + "\n")
		err = os.WriteFile(path, text, 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
	data, err := hex.DecodeString(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestModelState_encodedAndDecoded_keepsTheStoredFormat(t *testing.T) {
	for suffix, states := range map[string]map[string]usage.Extension{"": sampleStates(), ".empty": emptyStates()} {
		for name, state := range states {
			want := golden(t, name+suffix, stateBytes(t, state))
			if got := stateBytes(t, state); !bytes.Equal(got, want) {
				t.Errorf("%s%s is encoded as\n%x\nwant\n%x", name, suffix, got, want)
			}
			decoded := emptyStates()[name]
			if err := decoded.UnmarshalBinary(want); err != nil {
				t.Errorf("%s%s: %v", name, suffix, err)
			}
			if got := stateBytes(t, decoded); !bytes.Equal(got, want) {
				t.Errorf("%s%s, decoded and encoded again, is\n%x\nwant\n%x", name, suffix, got, want)
			}
			for cut := range want {
				if cut > 0 && emptyStates()[name].UnmarshalBinary(want[:cut]) == nil && !completeWithoutLeak(want, cut) {
					t.Errorf("%s%s, cut off after %d of %d bytes, is accepted", name, suffix, cut, len(want))
				}
			}
			if err := emptyStates()[name].UnmarshalBinary(append(bytes.Clone(want), 0)); err == nil {
				t.Errorf("%s%s with a trailing byte is accepted", name, suffix)
			}
		}
	}
}

func encodedSize(code func(*codec.Coder)) int {
	c := codec.NewEncoder(nil)
	code(c)
	return len(c.Data())
}

// completeWithoutLeak reports whether a state ends before its leak, which is not stored where there is none.
func completeWithoutLeak(data []byte, cut int) bool {
	l := sampleLeak()
	return cut == len(data)-encodedSize(l.Code)
}

// What former versions stored lacks what they did not know of.
func TestModelState_ofFormerVersions_isRead(t *testing.T) {
	v1, v2 := sampleMemo(), sampleMemo()
	v1.cpuChoice, v1.memoryChoice, v1.shortfall, v1.regime, v1.leak.Bound = choice{}, choice{}, shortfall{}, regime{}, 0
	v2.regime, v2.leak.Bound = regime{}, 0
	busy := sampleStates()["busy-hours-2"].(*Busy)
	busy.starting = nil
	for file, tt := range map[string]struct{ read, want usage.Extension }{
		"busy-hours-2.v1":       {emptyStates()["busy-hours-2"], busy},
		"busy-hours-2.v1.empty": {emptyStates()["busy-hours-2"], emptyStates()["busy-hours-2"]},
		"adaptive-1.v1":         {emptyStates()["adaptive-1"], &v1},
		"adaptive-1.v2":         {emptyStates()["adaptive-1"], &v2},
	} {
		if err := tt.read.UnmarshalBinary(golden(t, file, nil)); err != nil {
			t.Errorf("%s: %v", file, err)
			continue
		}
		if got, want := stateBytes(t, tt.read), stateBytes(t, tt.want); !bytes.Equal(got, want) {
			t.Errorf("%s is read as\n%x\nwant\n%x", file, got, want)
		}
	}
}

func BenchmarkModelState(b *testing.B) {
	for name, state := range sampleStates() {
		data, _ := state.AppendBinary(nil)
		b.Run(name+"/encode", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				data, _ = state.AppendBinary(data[:0])
			}
		})
		b.Run(name+"/decode", func(b *testing.B) {
			to := emptyStates()[name]
			b.ReportAllocs()
			for b.Loop() {
				if err := to.UnmarshalBinary(data); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
