// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package v1

import (
	"bytes"
	"errors"
	"fmt"
)

// Bounds of the text of a quantity. Kubernetes parses a quantity into a number of arbitrary size, so the exponent of
// 1e-999999999 alone keeps a processor busy for minutes and takes hundreds of megabytes. The schema of the custom
// resource allows such a text, so it can be stored and reaches every component.
const (
	maxQuantityText     = 64
	maxQuantityExponent = 2 // decimal digits
)

// ErrQuantity is the error for a quantity that is too long or has too large an exponent to be parsed.
var ErrQuantity = errors.New("quantity out of bounds")

// CheckQuantity returns ErrQuantity if the text of a quantity is not safe to parse. It does not say that the text is valid.
func CheckQuantity[T string | []byte](text T) error {
	if len(text) > maxQuantityText {
		return fmt.Errorf("%w: it has %d characters, at most %d are allowed", ErrQuantity, len(text), maxQuantityText)
	}
	for i := range len(text) {
		if text[i] == '\\' { // no quantity needs an escape in JSON, and one can hide an exponent
			return fmt.Errorf("%w: %q has an escape sequence", ErrQuantity, string(text))
		}
		if text[i] != 'e' && text[i] != 'E' {
			continue
		}
		digits := 0 // without leading zeros, which do not change the value
		for j := i + 1; j < len(text); j++ {
			if text[j] >= '1' && text[j] <= '9' || text[j] == '0' && digits > 0 {
				digits++
			}
		}
		if digits > maxQuantityExponent {
			return fmt.Errorf("%w: %q, its exponent may have at most %d digits", ErrQuantity, string(text), maxQuantityExponent)
		}
	}
	return nil
}

// quantityFields are the fields of a VerticalPodAutoscaler whose value is a quantity or a map of quantities.
var quantityFields = map[string]bool{
	"minAllowed": true, "maxAllowed": true, "target": true, "lowerBound": true, "upperBound": true, "uncappedTarget": true,
	"oomBumpUpRatio": true, "oomMinBumpUp": true, "quantity": true,
}

// CheckQuantities applies CheckQuantity to every quantity in the JSON of a VerticalPodAutoscaler, before it is decoded.
// It takes time in proportion to the text and allocates nothing unless it finds one. It does not validate the JSON.
func CheckQuantities(object []byte) error {
	var scan quantityScan
	for i := 0; i < len(object); {
		switch c := object[i]; {
		case c == '{' || c == '[':
			scan.open()
			i++
		case c == '}' || c == ']':
			scan.close()
			i++
		case c == '"':
			text, end := stringAt(object, i)
			i = end
			if isKey(object, i) {
				scan.named = quantityFields[string(text)] || bytes.Contains(text, []byte(`\u`)) // which may spell any name
				continue
			}
			if err := scan.value(text); err != nil {
				return err
			}
		case c == '-' || c >= '0' && c <= '9':
			end := len(object)
			if n := bytes.IndexAny(object[i:], ",}] \t\r\n"); n > 0 {
				end = i + n
			}
			if err := scan.value(object[i:end]); err != nil {
				return err
			}
			i = end
		default:
			i++
		}
	}
	return nil
}

// A quantityScan is the state of CheckQuantities.
type quantityScan struct {
	depth  int
	within int  // the depth at which the current map of quantities was opened, 0 outside of one
	named  bool // the last key is one of quantityFields
}

// open notes the beginning of an object or an array.
func (s *quantityScan) open() {
	s.depth++
	if s.named && s.within == 0 {
		s.within = s.depth
	}
	s.named = false
}

// close notes the end of an object or an array.
func (s *quantityScan) close() {
	if s.depth == s.within {
		s.within = 0
	}
	s.depth--
}

// value checks a string or a number, if it is a quantity.
func (s *quantityScan) value(text []byte) error {
	quantity := s.named || s.within > 0
	s.named = false
	if !quantity {
		return nil
	}
	return CheckQuantity(text)
}

// stringAt returns the text of the JSON string that begins at i, with its escapes, and where it ends.
func stringAt(object []byte, i int) (text []byte, end int) {
	for end = i + 1; end < len(object); end++ {
		switch object[end] {
		case '\\':
			end++
		case '"':
			return object[i+1 : end], end + 1
		}
	}
	return nil, len(object)
}

// isKey reports whether a colon follows.
func isKey(object []byte, i int) bool {
	return bytes.HasPrefix(bytes.TrimLeft(object[i:], " \t\r\n"), []byte(":"))
}
