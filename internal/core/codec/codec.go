// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package codec encodes and decodes the binary state that podfit stores: the extra data of checkpoints and the model state
// of containers. It knows the encoding of single values (varints, little-endian floats, strings) and nothing of the formats
// that are made of them.
package codec

import (
	"encoding/binary"
	"fmt"
	"math"
)

// An Encoder appends values to a buffer. The zero value is an empty buffer.
type Encoder struct{ data []byte }

// NewEncoder returns an Encoder that appends to a buffer, which may be nil.
func NewEncoder(data []byte) *Encoder { return &Encoder{data: data} }

// Data returns the buffer with everything that was appended.
func (e *Encoder) Data() []byte { return e.data }

// Byte appends one byte.
func (e *Encoder) Byte(v byte) { e.data = append(e.data, v) }

// Uvarint appends an unsigned integer: 1 byte up to 127, 10 bytes at most.
func (e *Encoder) Uvarint(v uint64) { e.data = binary.AppendUvarint(e.data, v) }

// Varint appends a signed integer: 1 byte from -64 to 63, 10 bytes at most.
func (e *Encoder) Varint(v int64) { e.data = binary.AppendVarint(e.data, v) }

// Uint64 appends an unsigned integer in 8 bytes.
func (e *Encoder) Uint64(v uint64) { e.data = binary.LittleEndian.AppendUint64(e.data, v) }

// Float32 appends a floating-point number in 4 bytes.
func (e *Encoder) Float32(v float32) {
	e.data = binary.LittleEndian.AppendUint32(e.data, math.Float32bits(v))
}

// Float64 appends a floating-point number in 8 bytes.
func (e *Encoder) Float64(v float64) { e.Uint64(math.Float64bits(v)) }

// Bytes appends a length and that many bytes.
func (e *Encoder) Bytes(v []byte) {
	e.Uvarint(uint64(len(v)))
	e.data = append(e.data, v...)
}

// String appends a length and that many bytes.
func (e *Encoder) String(v string) {
	e.Uvarint(uint64(len(v)))
	e.data = append(e.data, v...)
}

// A Decoder reads what an Encoder wrote. It keeps its first error (Err); after that every value is zero. The name that each
// method takes is that of the value, for the error message.
type Decoder struct {
	data []byte
	err  error
}

// NewDecoder returns a Decoder of data, which it does not change.
func NewDecoder(data []byte) *Decoder { return &Decoder{data: data} }

// Err returns the first error.
func (d *Decoder) Err() error { return d.err }

// Len returns how many bytes are left. It is 0 after an error.
func (d *Decoder) Len() int { return len(d.data) }

// Fail records an error, unless there is one already.
func (d *Decoder) Fail(format string, args ...any) {
	if d.err == nil {
		d.err = fmt.Errorf(format, args...)
	}
	d.data = nil
}

// Finish returns the first error. Bytes that have not been read are an error, too; what names the whole that was decoded.
func (d *Decoder) Finish(what string) error {
	if d.err == nil && len(d.data) > 0 {
		d.Fail("trailing bytes after %s", what)
	}
	return d.err
}

// take returns the next n bytes, or nil when there are not so many.
func (d *Decoder) take(name string, n int) []byte {
	if n > len(d.data) {
		d.Fail("%s: unexpected end of data", name)
		return nil
	}
	v := d.data[:n]
	d.data = d.data[n:]
	return v
}

// Byte reads one byte that is at most limit.
func (d *Decoder) Byte(name string, limit byte) byte {
	v := d.take(name, 1)
	if v == nil {
		return 0
	}
	if v[0] > limit {
		d.Fail("%s must be at most %d, got %d", name, limit, v[0])
		return 0
	}
	return v[0]
}

// Uvarint reads an unsigned integer that is at most limit.
func (d *Decoder) Uvarint(name string, limit uint64) uint64 {
	v, n := binary.Uvarint(d.data)
	if !d.advance(name, n) {
		return 0
	}
	if v > limit {
		d.Fail("%s must be at most %d, got %d", name, limit, v)
		return 0
	}
	return v
}

// Varint reads a signed integer between two limits.
func (d *Decoder) Varint(name string, lower, upper int64) int64 {
	v, n := binary.Varint(d.data)
	if !d.advance(name, n) {
		return 0
	}
	if v < lower || v > upper {
		d.Fail("%s must be between %d and %d, got %d", name, lower, upper, v)
		return 0
	}
	return v
}

// advance skips n bytes of a varint, where n is what package binary returned for it.
func (d *Decoder) advance(name string, n int) bool {
	switch {
	case n == 0:
		d.Fail("%s: unexpected end of data", name)
	case n < 0:
		d.Fail("%s: integer of more than 64 bits", name)
	default:
		d.data = d.data[n:]
	}
	return n > 0
}

// Uint64 reads an unsigned integer of 8 bytes.
func (d *Decoder) Uint64(name string) uint64 {
	v := d.take(name, 8)
	if v == nil {
		return 0
	}
	return binary.LittleEndian.Uint64(v)
}

// Float32 reads a floating-point number of 4 bytes between two limits, which excludes NaN.
func (d *Decoder) Float32(name string, lower, upper float64) float32 {
	v := d.take(name, 4)
	if v == nil {
		return 0
	}
	number := math.Float32frombits(binary.LittleEndian.Uint32(v))
	if !d.within(name, float64(number), lower, upper) {
		return 0
	}
	return number
}

// Float64 reads a floating-point number of 8 bytes between two limits, which excludes NaN.
func (d *Decoder) Float64(name string, lower, upper float64) float64 {
	v := d.take(name, 8)
	if v == nil {
		return 0
	}
	number := math.Float64frombits(binary.LittleEndian.Uint64(v))
	if !d.within(name, number, lower, upper) {
		return 0
	}
	return number
}

func (d *Decoder) within(name string, v, lower, upper float64) bool {
	if !(v >= lower && v <= upper) { // NaN is not within
		d.Fail("%s must be between %g and %g, got %g", name, lower, upper, v)
		return false
	}
	return true
}

// Count reads the number of elements that follow: at most limit, and at most one for each byte that is left.
func (d *Decoder) Count(name string, limit int) int {
	n := int(d.Uvarint(name, uint64(limit)))
	if n > len(d.data) {
		d.Fail("%s: unexpected end of data", name)
		return 0
	}
	return n
}

// Bytes reads a length, which is at most limit, and that many bytes. They are a copy.
func (d *Decoder) Bytes(name string, limit int) []byte {
	return append([]byte(nil), d.take(name, d.Count(name, limit))...)
}

// String reads a length, which is at most limit, and that many bytes.
func (d *Decoder) String(name string, limit int) string {
	return string(d.take(name, d.Count(name, limit)))
}

// A State is encoded and decoded as a whole. It is a pointer.
type State interface {
	Encode(e *Encoder)
	Decode(d *Decoder)
}

// Append appends model state to a buffer.
func Append(b []byte, s State) ([]byte, error) {
	e := NewEncoder(b)
	s.Encode(e)
	return e.Data(), nil
}

// Read decodes model state. When it fails, the state does not change.
func Read[T any, S interface {
	*T
	State
}](data []byte, s S) error {
	decoded := *s
	d := NewDecoder(data)
	S(&decoded).Decode(d)
	if err := d.Finish("model state"); err != nil {
		return fmt.Errorf("decode model state: %w", err)
	}
	*s = decoded
	return nil
}
