// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package codec

import (
	"bytes"
	"math"
	"testing"
)

// encoded returns one value of each kind.
func encoded() []byte {
	e := NewEncoder([]byte{9})
	e.Byte(7)
	e.Uvarint(300)
	e.Varint(-5)
	e.Uint64(1 << 63)
	e.Float32(0.5)
	e.Float64(-2.25)
	e.Bytes([]byte{1, 2, 3})
	e.String("adaptive/1")
	return e.Data()[1:]
}

type values struct {
	small    byte
	unsigned uint64
	signed   int64
	wide     uint64
	single   float32
	double   float64
	raw      []byte
	text     string
}

func decoded(data []byte) (values, *Decoder) {
	d := NewDecoder(data)
	return values{
		small: d.Byte("small", 7), unsigned: d.Uvarint("unsigned", 300), signed: d.Varint("signed", -5, 5), wide: d.Uint64("wide"),
		single: d.Float32("single", 0, 1), double: d.Float64("double", -3, 3), raw: d.Bytes("raw", 3), text: d.String("text", 64),
	}, d
}

func TestDecoder_encodedValues_returnsThem(t *testing.T) {
	got, d := decoded(encoded())
	if err := d.Finish("sample"); err != nil {
		t.Fatal(err)
	}
	want := values{7, 300, -5, 1 << 63, 0.5, -2.25, []byte{1, 2, 3}, "adaptive/1"}
	if !bytes.Equal(got.raw, want.raw) {
		t.Errorf("bytes are %v, want %v", got.raw, want.raw)
	}
	got.raw, want.raw = nil, nil
	if got.small != want.small || got.unsigned != want.unsigned || got.signed != want.signed || got.wide != want.wide ||
		got.single != want.single || got.double != want.double || got.text != want.text {
		t.Errorf("decoded %+v, want %+v", got, want)
	}
}

func TestDecoder_truncatedData_reportsAnError(t *testing.T) {
	all := encoded()
	for n := range all {
		if _, d := decoded(all[:n]); d.Err() == nil {
			t.Errorf("%d of %d bytes are accepted", n, len(all))
		}
	}
}

func TestDecoder_trailingBytes_reportsAnError(t *testing.T) {
	_, d := decoded(append(encoded(), 0))
	if err := d.Finish("sample"); err == nil || err.Error() != "trailing bytes after sample" {
		t.Errorf("error %v", err)
	}
}

func TestDecoder_valueOutOfRange_reportsItsNameAndLimits(t *testing.T) {
	e := func(write func(e *Encoder)) []byte {
		e := NewEncoder(nil)
		write(e)
		return e.Data()
	}
	for want, read := range map[string]func() error{
		"arm must be at most 2, got 3": func() error {
			d := NewDecoder([]byte{3})
			d.Byte("arm", 2)
			return d.Err()
		},
		"hour must be at most 10, got 11": func() error {
			d := NewDecoder(e(func(e *Encoder) { e.Uvarint(11) }))
			d.Uvarint("hour", 10)
			return d.Err()
		},
		"delta must be between -2 and 2, got -3": func() error {
			d := NewDecoder(e(func(e *Encoder) { e.Varint(-3) }))
			d.Varint("delta", -2, 2)
			return d.Err()
		},
		"level must be between 0 and 1, got NaN": func() error {
			d := NewDecoder(e(func(e *Encoder) { e.Float64(math.NaN()) }))
			d.Float64("level", 0, 1)
			return d.Err()
		},
		"cost must be between 0 and 1, got 1.5": func() error {
			d := NewDecoder(e(func(e *Encoder) { e.Float32(1.5) }))
			d.Float32("cost", 0, 1)
			return d.Err()
		},
		"windows must be at most 512, got 513": func() error {
			d := NewDecoder(e(func(e *Encoder) { e.Uvarint(513) }))
			d.Count("windows", 512)
			return d.Err()
		},
		"windows: unexpected end of data": func() error {
			d := NewDecoder(e(func(e *Encoder) { e.Uvarint(3); e.Byte(0) }))
			d.Count("windows", 512)
			return d.Err()
		},
		"hour: integer of more than 64 bits": func() error {
			d := NewDecoder(bytes.Repeat([]byte{0xff}, 11))
			d.Uvarint("hour", 10)
			return d.Err()
		},
	} {
		if err := read(); err == nil || err.Error() != want {
			t.Errorf("error %v, want %s", err, want)
		}
	}
}

func TestDecoder_afterAnError_keepsItAndReturnsZero(t *testing.T) {
	d := NewDecoder([]byte{3, 1, 1, 1, 1, 1, 1, 1, 1})
	d.Byte("first", 2)
	first := d.Err()
	if v := d.Uint64("second"); v != 0 || d.Len() != 0 {
		t.Errorf("read %d after an error, %d bytes left", v, d.Len())
	}
	d.Fail("third")
	if d.Finish("sample") != first || first == nil {
		t.Errorf("error is %v, want the first, %v", d.Err(), first)
	}
}

// Whatever the data is, decoding does not panic, and what is accepted is encoded to values that are decoded the same.
func FuzzDecoder(f *testing.F) {
	f.Add(encoded())
	f.Fuzz(func(t *testing.T, data []byte) {
		v, d := decoded(data)
		if d.Finish("sample") != nil {
			return
		}
		e := NewEncoder(nil)
		e.Byte(v.small)
		e.Uvarint(v.unsigned)
		e.Varint(v.signed)
		e.Uint64(v.wide)
		e.Float32(v.single)
		e.Float64(v.double)
		e.Bytes(v.raw)
		e.String(v.text)
		again, d := decoded(e.Data())
		if err := d.Finish("sample"); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(again.raw, v.raw) || again.text != v.text || again.signed != v.signed || again.double != v.double {
			t.Fatalf("decoded %+v, was %+v", again, v)
		}
	})
}
