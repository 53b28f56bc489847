// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package codec

import (
	"bytes"
	"math"
	"reflect"
	"testing"
)

// encoded returns one value of each kind.
func encoded() []byte {
	e := NewEncoder([]byte{9})
	v := values{
		small: 7, unsigned: 300, signed: -5, wide: 1 << 63, single: 0.5, double: -2.25, raw: []byte{1, 2, 3}, text: "adaptive/1", set: true,
		list: []int32{8, 9},
	}
	v.code(e)
	return e.Data()[1:]
}

type values struct {
	small      byte
	unsigned   uint64
	signed     int64
	wide       uint64
	single     float32
	double     float64
	raw        []byte
	text       string
	clear, set bool
	list       []int32
}

func (v *values) code(c *Coder) {
	Byte(c, "small", &v.small, 7)
	Uvarint(c, "unsigned", &v.unsigned, 300)
	Varint(c, "signed", &v.signed, -5, 5)
	c.Uint64("wide", &v.wide)
	c.Float32("single", &v.single, 0, 1)
	c.Float64("double", &v.double, -3, 3)
	c.Bytes("raw", &v.raw, 3)
	c.String("text", &v.text, 64)
	c.Flags("flags", &v.clear, &v.set)
	Length(c, "list", &v.list, 3)
	for i := range v.list {
		Varint(c, "element", &v.list[i], 0, 9)
	}
}

func decoded(data []byte) (v values, d *Coder) {
	d = NewDecoder(data)
	v.code(d)
	return v, d
}

func TestDecoder_encodedValues_returnsThem(t *testing.T) {
	got, d := decoded(encoded())
	if err := d.Finish("sample"); err != nil {
		t.Fatal(err)
	}
	want := values{7, 300, -5, 1 << 63, 0.5, -2.25, []byte{1, 2, 3}, "adaptive/1", false, true, []int32{8, 9}}
	if !reflect.DeepEqual(got, want) {
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
	nan, high := math.NaN(), float32(1.5)
	one, three, eleven, minusThree, many := 1, 3, 11, -3, 513
	for want, code := range map[string]struct{ write, read func(c *Coder) }{
		"arm must be at most 2, got 3": {
			func(c *Coder) { Byte(c, "arm", &three, 3) }, func(c *Coder) { Byte(c, "arm", new(int), 2) },
		},
		"hour must be at most 10, got 11": {
			func(c *Coder) { Uvarint(c, "hour", &eleven, 11) }, func(c *Coder) { Uvarint(c, "hour", new(int), 10) },
		},
		"delta must be between -2 and 2, got -3": {
			func(c *Coder) { Varint(c, "delta", &minusThree, 0, 0) }, func(c *Coder) { Varint(c, "delta", new(int), -2, 2) },
		},
		"level must be between 0 and 1, got NaN": {
			func(c *Coder) { c.Float64("level", &nan, 0, 0) }, func(c *Coder) { c.Float64("level", new(float64), 0, 1) },
		},
		"cost must be between 0 and 1, got 1.5": {
			func(c *Coder) { c.Float32("cost", &high, 0, 0) }, func(c *Coder) { c.Float32("cost", new(float32), 0, 1) },
		},
		"version must be between 2 and 3, got 1": {
			func(c *Coder) { Byte(c, "version", &one, 1) }, func(c *Coder) { c.Version(3, 2, 3) },
		},
		"flags must be at most 1, got 3": {
			func(c *Coder) { Byte(c, "flags", &three, 3) }, func(c *Coder) { c.Flags("flags", new(bool)) },
		},
		"windows must be at most 512, got 513": {
			func(c *Coder) { Uvarint(c, "windows", &many, 0) }, func(c *Coder) { c.Count("windows", 0, 512) },
		},
		"windows: unexpected end of data": {
			func(c *Coder) { Uvarint(c, "windows", &three, 0); Byte(c, "", new(int), 0) }, func(c *Coder) { c.Count("windows", 0, 512) },
		},
		"hour: integer of more than 64 bits": {
			func(c *Coder) { c.data = bytes.Repeat([]byte{0xff}, 11) }, func(c *Coder) { Uvarint(c, "hour", new(int), 10) },
		},
	} {
		e := NewEncoder(nil)
		code.write(e)
		d := NewDecoder(e.Data())
		code.read(d)
		if err := d.Err(); err == nil || err.Error() != want {
			t.Errorf("error %v, want %s", err, want)
		}
	}
}

func TestDecoder_afterAnError_keepsItAndReturnsZero(t *testing.T) {
	d := NewDecoder([]byte{3, 1, 1, 1, 1, 1, 1, 1, 1})
	before := values{small: 1}
	Byte(d, "first", &before.small, 2)
	first := d.Err()
	v := values{1, 2, 3, 4, 5, 6, []byte{7}, "8", true, true, []int32{9}}
	v.code(d)
	if !reflect.DeepEqual(v, values{}) || before.small != 0 || d.Len() != 0 {
		t.Errorf("read %d and %+v after an error, %d bytes left", before.small, v, d.Len())
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
		v.code(e)
		again, d := decoded(e.Data())
		if err := d.Finish("sample"); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(again, v) {
			t.Fatalf("decoded %+v, was %+v", again, v)
		}
	})
}
