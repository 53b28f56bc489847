// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package answer decodes answers of the HTTP API of Prometheus, one series after the other, so that its memory depends on the largest series
// and not on the answer. It sends no requests.
package answer

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"math"
	"strconv"
	"strings"
	"time"
)

// MaxSeries is the maximum length of one series in an answer in bytes: a day of values of a scrape interval of one second.
const MaxSeries = 4 << 20

// Errors of answers that are not decoded.
var (
	ErrShape    = errors.New("the answer does not have the form of an answer of Prometheus")
	ErrTooLarge = errors.New("the answer is too large")
)

// IsInvalid reports whether an error is that an answer is not one of Prometheus, and not that it was interrupted.
func IsInvalid(err error) bool {
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	return errors.As(err, &syntax) || errors.As(err, &kind) || errors.Is(err, ErrShape)
}

// A Point is a value of a series.
type Point struct{ At, Value float64 } // At in seconds since 1970

// Time returns when the value was measured, to the millisecond. A time that no server has is that of 1970.
func (p Point) Time() time.Time {
	if !(math.Abs(p.At) < 1e12) {
		return time.Unix(0, 0)
	}
	return time.UnixMilli(int64(math.Round(p.At * 1000)))
}

// Points are the values of a series: [[1700000000,"0.25"],...]. They are decoded without an allocation per value.
type Points []Point

// UnmarshalJSON implements json.Unmarshaler.
func (p *Points) UnmarshalJSON(data []byte) error {
	*p = (*p)[:0]
	if len(data) < 2 || data[0] != '[' {
		return nil // null, or no list
	}
	for rest := data[1 : len(data)-1]; len(rest) > 0; {
		i := bytes.IndexByte(rest, '[')
		if i < 0 {
			break
		}
		rest = rest[i+1:]
		end := bytes.IndexByte(rest, ']')
		at, value, ok := bytes.Cut(rest[:max(end, 0)], []byte{','})
		if !ok {
			return errors.New("a value must have a time and a number")
		}
		if err := p.add(at, value); err != nil {
			return err
		}
		rest = rest[end+1:]
	}
	return nil
}

func (p *Points) add(at, value []byte) error {
	t, err := strconv.ParseFloat(string(bytes.TrimSpace(at)), 64)
	if err != nil {
		return errors.New("the time of a value must be a number")
	}
	v, err := strconv.ParseFloat(string(bytes.Trim(bytes.TrimSpace(value), `"`)), 64)
	if err != nil && !errors.Is(err, strconv.ErrRange) {
		return errors.New("a value must be a number")
	}
	*p = append(*p, Point{t, v})
	return nil
}

// A Series is one series of an answer. Its memory is used again for the next one, apart from that of Metric.
type Series struct {
	Metric map[string]string `json:"metric"`
	Values Points            `json:"values"` // of a range query
	Value  [2]any            `json:"value"`  // of an instant query
}

// A Warning is a remark of a server about a result.
type Warning struct {
	Text    string
	Partial bool // a part of the series may be missing, for example because a store of Thanos did not respond
}

// An Answer is an answer without its series.
type Answer struct {
	Status, ErrorType, Error string
	ResultType               string   // such as matrix
	Names                    []string // of a list of names, such as the values of a label
	Warnings                 []Warning
}

// Decode decodes an answer of at most limit bytes, and calls each for each series. Its error is ErrTooLarge, or one of reading, of the form of
// the answer, or of each.
func Decode(body io.Reader, limit int64, each func(*Series) error) (Answer, error) {
	bounded := &bounded{from: body, limit: limit, until: min(limit, MaxSeries)}
	d := decoding{each: each, body: bounded, decoder: json.NewDecoder(bounded)}
	err := d.decode()
	switch {
	case bounded.exceeded:
		err = ErrTooLarge
	case err == nil && d.ResultType != "scalar" && d.ResultType != "string":
		err = d.noSeries
	}
	return d.Answer, err
}

// A bounded reads at most limit bytes, and no further than until before that is raised.
type bounded struct {
	from               io.Reader
	read, until, limit int64
	exceeded           bool
}

func (b *bounded) Read(p []byte) (int, error) {
	if b.read >= b.until {
		b.exceeded = true
		return 0, ErrTooLarge
	}
	n, err := b.from.Read(p[:min(int64(len(p)), b.until-b.read)])
	b.read += int64(n)
	return n, err
}

// next permits to read one more element.
func (b *bounded) next() { b.until = min(b.limit, b.read+MaxSeries) }

type decoding struct {
	Answer
	each    func(*Series) error
	body    *bounded
	decoder *json.Decoder

	noSeries error // the result has an element that is no series, as the one of a scalar, whose type may follow
}

// decode decodes an answer. null is an object without keys.
func (d *decoding) decode() error {
	token, err := d.decoder.Token()
	if err != nil || token == nil {
		return err
	}
	return d.fields(token, func(key string) error {
		switch key {
		case "status":
			return d.decoder.Decode(&d.Status)
		case "errorType":
			return d.decoder.Decode(&d.ErrorType)
		case "error":
			return d.decoder.Decode(&d.Error)
		case "warnings":
			var texts []string
			err := d.decoder.Decode(&texts)
			for _, text := range texts[:min(len(texts), 10)] {
				d.Warnings = append(d.Warnings, Warning{Text: text, Partial: !strings.HasPrefix(text, "PromQL ")})
			}
			return err
		case "isPartial": // VictoriaMetrics
			var partial bool
			err := d.decoder.Decode(&partial)
			if partial {
				d.Warnings = append(d.Warnings, Warning{Text: "the result is partial", Partial: true})
			}
			return err
		case "data":
			return d.data()
		}
		return d.skip()
	})
}

// data decodes the result of a query, or a list of names.
func (d *decoding) data() error {
	token, err := d.decoder.Token()
	if err != nil || token == nil {
		return err
	}
	if token == json.Delim('[') {
		return d.list(func() error {
			var name string
			err := d.decoder.Decode(&name)
			d.Names = append(d.Names, name)
			return err
		})
	}
	return d.fields(token, func(key string) error {
		switch key {
		case "resultType":
			return d.decoder.Decode(&d.ResultType)
		case "result":
			return d.result()
		}
		return d.skip()
	})
}

// fields calls do after each key of an object that begins with a token.
func (d *decoding) fields(begin json.Token, do func(key string) error) error {
	if begin != json.Delim('{') {
		return ErrShape
	}
	for d.decoder.More() {
		token, err := d.decoder.Token()
		if err != nil {
			return err
		}
		key, _ := token.(string)
		d.body.next()
		if err := do(key); err != nil {
			return err
		}
	}
	_, err := d.decoder.Token()
	return err
}

func (d *decoding) result() error {
	token, err := d.decoder.Token()
	if err != nil || token == nil {
		return err
	}
	if token != json.Delim('[') {
		return ErrShape
	}
	var one Series
	return d.list(func() error {
		one.Metric = nil
		one.Values = one.Values[:0]
		one.Value = [2]any{}
		err := d.decoder.Decode(&one)
		var kind *json.UnmarshalTypeError
		if errors.As(err, &kind) && kind.Field == "" { // the decoder goes on after it
			d.noSeries = err
			return nil
		}
		if err != nil {
			return err
		}
		return d.each(&one)
	})
}

// list calls do for each element of a list that has begun.
func (d *decoding) list(do func() error) error {
	for d.decoder.More() {
		d.body.next()
		if err := do(); err != nil {
			return err
		}
	}
	_, err := d.decoder.Token()
	return err
}

func (d *decoding) skip() error {
	var ignored json.RawMessage
	return d.decoder.Decode(&ignored)
}
