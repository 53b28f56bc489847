// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package answer

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
)

func TestDecode_forms_seriesNamesAndErrorsAreThere(t *testing.T) {
	for name, c := range map[string]struct {
		body, want string
	}{
		"matrix":                {`{"status":"success","data":{"resultType":"matrix","result":[{"metric":{"a":"b"},"values":[[1.5,"2"],[2,"NaN"]]}]}}`, "success matrix map[a:b] [{1.5 2} {2 NaN}]"},
		"vector":                {`{"status":"success","data":{"resultType":"vector","result":[{"metric":{},"value":[1,"2"]}]}}`, "success vector map[] [] [1 2]"},
		"scalar":                {`{"status":"success","data":{"resultType":"scalar","result":[1,"2"]}}`, "success scalar"},
		"scalar, then its type": {`{"status":"success","data":{"result":[1,"2"],"resultType":"scalar"}}`, "success scalar"},
		"no series":             {`{"data":{"result":[1,"2"],"resultType":"vector"}}`, "error: json: cannot unmarshal string into Go value of type answer.Series"},
		"names":                 {`{"status":"success","data":["shop","web"]}`, "success  [shop web]"},
		"refused":               {`{"status":"error","errorType":"execution","error":"too many samples"}`, "error  execution: too many samples"},
		"partial":               {`{"status":"success","isPartial":true,"data":null}`, "success  the result is partial"},
		"no object":             {`[]`, "error: " + ErrShape.Error()},
		"cut off":               {`{"status":"success","data":{"result":[{"metric":{"a":"b"}`, "error: unexpected EOF"},
		"unknown elements":      {`{"status":"success","x":[{}],"data":{"stats":{"a":[1]},"result":null}}`, "success"},
	} {
		got := ""
		a, err := Decode(strings.NewReader(c.body), 1<<20, func(s *Series) error {
			got += fmt.Sprint(" ", s.Metric, " ", s.Values)
			if s.Value[1] != nil {
				got += fmt.Sprint(" ", s.Value)
			}
			return nil
		})
		switch {
		case err != nil:
			got = "error: " + err.Error()
		default:
			got = strings.TrimRight(a.Status+" "+a.ResultType+got, " ")
			for _, w := range a.Warnings {
				got += "  " + w.Text
			}
			if a.Error != "" {
				got += "  " + a.ErrorType + ": " + a.Error
			}
			if a.Names != nil {
				got += fmt.Sprint("  ", a.Names)
			}
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// endless is an answer that does not end: its beginning, and then a part again and again.
type endless struct {
	begin string
	again string
	at    int // in again
	read  int64
}

func (e *endless) Read(p []byte) (int, error) {
	n := 0
	if e.begin != "" {
		n = copy(p, e.begin)
		e.begin = e.begin[n:]
	}
	for n < len(p) {
		copied := copy(p[n:], e.again[e.at:])
		e.at = (e.at + copied) % len(e.again)
		n += copied
	}
	e.read += int64(n)
	return n, nil
}

// No part of an answer is read without a bound: neither the answer, nor a series, a name or a text in it.
func TestDecode_partWithoutEnd_isRefused(t *testing.T) {
	const limit = 6 << 20
	for name, c := range map[string]struct {
		body *endless
		most int64
	}{
		"series":         {&endless{begin: `{"data":{"result":[`, again: `{"metric":{"a":"b"},"values":[[1,"2"]]},`}, limit},
		"small series":   {&endless{begin: `{"data":{"result":[`, again: `{},`}, limit},
		"one series":     {&endless{begin: `{"data":{"result":[{"values":[`, again: `[1,"2"],`}, MaxSeries},
		"one label":      {&endless{begin: `{"data":{"result":[{"metric":{"a":"`, again: `b`}, MaxSeries},
		"names":          {&endless{begin: `{"data":[`, again: `"name",`}, limit},
		"error":          {&endless{begin: `{"error":"`, again: `e`}, MaxSeries},
		"warnings":       {&endless{begin: `{"warnings":[`, again: `"w",`}, MaxSeries},
		"unknown object": {&endless{begin: `{"other":[`, again: `{},`}, MaxSeries},
		"whitespace":     {&endless{begin: `{`, again: " "}, MaxSeries},
	} {
		_, err := Decode(c.body, limit, func(*Series) error { return nil })
		if !errors.Is(err, ErrTooLarge) || c.body.read > c.most+1<<10 {
			t.Errorf("%s: error %v after %d bytes, want at most %d", name, err, c.body.read, c.most)
		}
	}
}

// The caller's error ends the decoding, and so does one of the connection.
func TestDecode_errors_areThoseOfTheirCause(t *testing.T) {
	own := errors.New("own")
	if _, err := Decode(strings.NewReader(`{"data":{"result":[{}]}}`), 1<<20, func(*Series) error { return own }); !errors.Is(err, own) || IsInvalid(err) {
		t.Errorf("got %v", err)
	}
	broken := io.MultiReader(strings.NewReader(`{"data":{"result":[{},`), failing{})
	if _, err := Decode(broken, 1<<20, func(*Series) error { return nil }); !errors.Is(err, io.ErrClosedPipe) || IsInvalid(err) {
		t.Errorf("got %v", err)
	}
	for _, text := range []string{"<html>", "[]", `{"status":5}`, `{"data":{"result":5}}`, `{"data":5}`} {
		if _, err := Decode(strings.NewReader(text), 1<<20, func(*Series) error { return nil }); !IsInvalid(err) {
			t.Errorf("%s: got %v", text, err)
		}
	}
}

type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, io.ErrClosedPipe }

func FuzzDecode_anyAnswer_endsWithinItsBounds(f *testing.F) {
	for _, s := range []string{
		`{"status":"success","data":{"resultType":"matrix","result":[{"metric":{"a":"b"},"values":[[1,"2"],[1e300,"x"]]}]}}`, `{"data":["a"]}`, "null", "", "[", `{"data":{"result":[[1]]}}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		series := 0
		a, err := Decode(strings.NewReader(string(body)), int64(len(body)+1), func(s *Series) error {
			series++
			for _, p := range s.Values {
				_ = p.Time()
			}
			return nil
		})
		if errors.Is(err, ErrTooLarge) || series > len(body) || slices.ContainsFunc(a.Warnings, func(w Warning) bool { return len(w.Text) > len(body)*3+30 }) {
			t.Errorf("error %v, %d series", err, series)
		}
	})
}
