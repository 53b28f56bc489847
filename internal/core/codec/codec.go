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

// A Coder encodes or decodes values, so one function describes a format for both: it calls a method or function for each value, with its
// name, for error messages, and its bounds, which are checked while decoding. Encoding does not change values and has no errors.
// Decoding keeps its first error (Err); after that every value is zero.
type Coder struct {
	data     []byte // encoded, or left to decode
	err      error
	decoding bool
}

// NewEncoder returns a Coder that appends to a buffer, which may be nil.
func NewEncoder(data []byte) *Coder { return &Coder{data: data} }

// NewDecoder returns a Coder that decodes data, which it does not change.
func NewDecoder(data []byte) *Coder { return &Coder{data: data, decoding: true} }

// Data returns the buffer with everything that was appended.
func (c *Coder) Data() []byte { return c.data }

// Decoding reports whether values are decoded.
func (c *Coder) Decoding() bool { return c.decoding }

// Err returns the first error.
func (c *Coder) Err() error { return c.err }

// Len returns how many bytes are left to decode. It is 0 after an error.
func (c *Coder) Len() int { return len(c.data) }

// Fail records an error while decoding, unless there is one already.
func (c *Coder) Fail(format string, args ...any) {
	if !c.decoding {
		return
	}
	if c.err == nil {
		c.err = fmt.Errorf(format, args...)
	}
	c.data = nil
}

// Finish returns the first error. Bytes that have not been decoded are an error, too; what names the whole that was decoded.
func (c *Coder) Finish(what string) error {
	if c.err == nil && len(c.data) > 0 {
		c.Fail("trailing bytes after %s", what)
	}
	return c.err
}

// take returns the next n bytes, or nil when there are not so many.
func (c *Coder) take(name string, n int) []byte {
	if n > len(c.data) {
		c.Fail("%s: unexpected end of data", name)
		return nil
	}
	v := c.data[:n]
	c.data = c.data[n:]
	return v
}

// advance skips n bytes of a varint, where n is what package binary returned for it.
func (c *Coder) advance(name string, n int) {
	switch {
	case n == 0:
		c.Fail("%s: unexpected end of data", name)
	case n < 0:
		c.Fail("%s: integer of more than 64 bits", name)
	default:
		c.data = c.data[n:]
	}
}

type integer interface {
	~int | ~int32 | ~int64 | ~uint8 | ~uint16 | ~uint32 | ~uint64
}

// Byte encodes or decodes an integer from 0 to limit in one byte.
func Byte[T integer](c *Coder, name string, v *T, limit byte) {
	if !c.decoding {
		c.data = append(c.data, byte(*v))
		return
	}
	*v = 0
	if b := c.take(name, 1); b != nil {
		*v = T(c.upTo(name, uint64(b[0]), uint64(limit)))
	}
}

// Uvarint encodes or decodes an integer from 0 to limit: 1 byte up to 127, 10 bytes at most.
func Uvarint[T integer](c *Coder, name string, v *T, limit uint64) {
	if !c.decoding {
		c.data = binary.AppendUvarint(c.data, uint64(*v))
		return
	}
	u, n := binary.Uvarint(c.data)
	c.advance(name, n)
	*v = T(c.upTo(name, u, limit))
}

// upTo returns an integer up to limit, and 0 after an error.
func (c *Coder) upTo(name string, v, limit uint64) uint64 {
	if v > limit {
		c.Fail("%s must be at most %d, got %d", name, limit, v)
		return 0
	}
	return v
}

// Varint encodes or decodes an integer between two limits: 1 byte from -64 to 63, 10 bytes at most.
func Varint[T integer](c *Coder, name string, v *T, lower, upper int64) {
	if !c.decoding {
		c.data = binary.AppendVarint(c.data, int64(*v))
		return
	}
	i, n := binary.Varint(c.data)
	c.advance(name, n)
	if i < lower || i > upper {
		c.Fail("%s must be between %d and %d, got %d", name, lower, upper, i)
		i = 0
	}
	*v = T(i)
}

// Uint64 encodes or decodes an unsigned integer in 8 bytes.
func (c *Coder) Uint64(name string, v *uint64) {
	if !c.decoding {
		c.data = binary.LittleEndian.AppendUint64(c.data, *v)
		return
	}
	*v = 0
	if b := c.take(name, 8); b != nil {
		*v = binary.LittleEndian.Uint64(b)
	}
}

// Float64 encodes or decodes a floating-point number between two limits, which excludes NaN, in 8 bytes.
func (c *Coder) Float64(name string, v *float64, lower, upper float64) {
	bits := math.Float64bits(*v)
	c.Uint64(name, &bits)
	if c.decoding {
		*v = c.within(name, math.Float64frombits(bits), lower, upper)
	}
}

// Float32 encodes or decodes a floating-point number between two limits, which excludes NaN, in 4 bytes.
func (c *Coder) Float32(name string, v *float32, lower, upper float64) {
	if !c.decoding {
		c.data = binary.LittleEndian.AppendUint32(c.data, math.Float32bits(*v))
		return
	}
	*v = 0
	if b := c.take(name, 4); b != nil {
		*v = float32(c.within(name, float64(math.Float32frombits(binary.LittleEndian.Uint32(b))), lower, upper))
	}
}

// within returns a number between two limits, and 0 after an error.
func (c *Coder) within(name string, v, lower, upper float64) float64 {
	if !(v >= lower && v <= upper) { // NaN is not within
		c.Fail("%s must be between %g and %g, got %g", name, lower, upper, v)
		return 0
	}
	return v
}

// Flags encodes or decodes booleans in one byte.
func (c *Coder) Flags(name string, flags ...*bool) {
	bits := byte(0)
	for i, flag := range flags {
		if *flag {
			bits |= 1 << i
		}
	}
	Byte(c, name, &bits, 1<<len(flags)-1)
	if c.decoding {
		for i, flag := range flags {
			*flag = bits&(1<<i) != 0
		}
	}
}

// Version encodes the version of a format in one byte, or decodes and returns one between two limits.
func (c *Coder) Version(v, oldest, newest byte) byte {
	Byte(c, "version", &v, math.MaxUint8)
	if v < oldest || v > newest {
		c.Fail("version must be between %d and %d, got %d", oldest, newest, v)
	}
	return v
}

// Count encodes the number of elements that follow, or decodes and returns it: at most limit, and at most one for each byte that is left.
func (c *Coder) Count(name string, n, limit int) int {
	Uvarint(c, name, &n, uint64(limit))
	if c.decoding && n > len(c.data) {
		c.Fail("%s: unexpected end of data", name)
		return 0
	}
	return n
}

// Length encodes or decodes the length of a list, which has at most limit elements. While decoding, it makes the list.
func Length[T any](c *Coder, name string, list *[]T, limit int) {
	n := c.Count(name, len(*list), limit)
	if c.decoding {
		*list = append([]T(nil), make([]T, n)...)
	}
}

// Bytes encodes or decodes a length, which is at most limit, and that many bytes. They are a copy.
func (c *Coder) Bytes(name string, v *[]byte, limit int) {
	n := c.Count(name, len(*v), limit)
	if c.decoding {
		*v = append([]byte(nil), c.take(name, n)...)
		return
	}
	c.data = append(c.data, *v...)
}

// String encodes or decodes a length, which is at most limit, and that many bytes.
func (c *Coder) String(name string, v *string, limit int) {
	n := c.Count(name, len(*v), limit)
	if c.decoding {
		*v = string(c.take(name, n))
		return
	}
	c.data = append(c.data, *v...)
}

// MaxSecond is the latest time that is stored, in Unix seconds: the year 2200.
const MaxSecond = 7_258_118_400

// Limits of values in model state. They are above any real value: more bytes than a machine has, and a time in 36,000 years.
const (
	MaxNumber = 1e15
	MaxTime   = 1 << 40
)

// A State is encoded and decoded as a whole. It is a pointer.
type State interface {
	Code(c *Coder)
}

// Append appends model state to a buffer.
func Append(b []byte, s State) ([]byte, error) {
	c := NewEncoder(b)
	s.Code(c)
	return c.Data(), nil
}

// A pointer is the State of a value of another type.
type pointer[T any] interface {
	*T
	State
}

// Decode returns what was encoded, nil for no data. what names it in errors.
func Decode[T any, S pointer[T]](data []byte, what string) (S, error) {
	if len(data) == 0 {
		return nil, nil
	}
	decoded := S(new(T))
	c := NewDecoder(data)
	decoded.Code(c)
	if err := c.Finish(what); err != nil {
		return nil, err
	}
	return decoded, nil
}

// Read decodes model state. When it fails, the state does not change.
func Read[T any, S pointer[T]](data []byte, s S) error {
	decoded := *s
	c := NewDecoder(data)
	S(&decoded).Code(c)
	if err := c.Finish("model state"); err != nil {
		return fmt.Errorf("decode model state: %w", err)
	}
	*s = decoded
	return nil
}
