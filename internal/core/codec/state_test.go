// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package codec

import (
	"strings"
	"testing"
)

type pair struct {
	a uint64
	b string
}

func (p *pair) Code(c *Coder) {
	Uvarint(c, "a", &p.a, 1000)
	c.String("b", &p.b, 10)
}

func TestState_encoded_isDecodedAsItWas(t *testing.T) {
	want := pair{a: 700, b: "text"}
	data, err := Append([]byte("before"), &want)
	if err != nil || !strings.HasPrefix(string(data), "before") {
		t.Fatalf("data %q, error %v", data, err)
	}
	data = data[len("before"):]
	var read pair
	if err := Read(data, &read); err != nil || read != want {
		t.Errorf("read %+v, error %v, want %+v", read, err, want)
	}
	decoded, err := Decode[pair](data, "the pair")
	if err != nil || *decoded != want {
		t.Errorf("decoded %+v, error %v, want %+v", decoded, err, want)
	}
	if none, err := Decode[pair](nil, "the pair"); none != nil || err != nil {
		t.Errorf("without data: %+v, error %v", none, err)
	}
}

func TestState_damaged_isAnErrorAndNothingChanges(t *testing.T) {
	data, err := Append(nil, &pair{a: 700, b: "text"})
	if err != nil {
		t.Fatal(err)
	}
	beyond, err := Append(nil, &pair{a: 1001})
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		data []byte
		want string
	}{
		"truncated":         {data[:len(data)-1], "b: unexpected end"},
		"longer":            {append(data[:len(data):len(data)], 1), "the pair"},
		"a above its limit": {beyond, "a "},
	} {
		state := pair{a: 3, b: "old"}
		if err := Read(c.data, &state); err == nil || state != (pair{a: 3, b: "old"}) {
			t.Errorf("%s: error %v, state %+v; want an error, and the state as before", name, err, state)
		}
		if got, err := Decode[pair](c.data, "the pair"); got != nil || err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %+v, error %v; want an error with %q", name, got, err, c.want)
		}
	}
}
