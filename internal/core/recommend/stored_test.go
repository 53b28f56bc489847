// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package recommend

import (
	"bytes"
	"testing"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/usage"
)

// lives adds days of samples.
func lives(b *bench, days int) {
	at := b.now
	for i := range days * 144 {
		at = at.Add(10 * time.Minute)
		level := 1 + float64(i%144)/144
		b.book.Observe(usage.Sample{Pod: b.pod, Container: "app", At: at, CPU: 0.2 * level, Memory: 2e8 * level, Has: cluster.Both})
		b.now = at.Add(time.Minute)
	}
}

func TestModelState_everyProfile_hasFormAndTimes(t *testing.T) {
	forms := map[string]string{}
	for _, p := range Builtins() {
		if p.Extend == nil {
			continue
		}
		b := newBench(p)
		began := b.now
		lives(b, 2)
		e := b.book.Series(cart, "app").Extension()
		if e.Form() == "" {
			t.Errorf("the model state of %s has no form", p.Name)
		}
		if age := b.now.Sub(e.Latest()); age < 0 || age > 2*time.Hour {
			t.Errorf("%s is of %v, which is %v ago", p.Name, e.Latest(), age)
		}
		if since := e.Since(); since.Before(began.Add(-time.Hour)) || since.After(began.Add(time.Hour)) {
			t.Errorf("%s remembers since %v, and began at %v", p.Name, since, began)
		}
		data, err := e.AppendBinary(nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, q := range Builtins() {
			if q.Extend == nil {
				continue
			}
			other := q.Extend()
			if other.Form() == e.Form() && other.UnmarshalBinary(data) != nil {
				t.Errorf("%s does not read what %s stores in the same form", q.Name, p.Name)
			}
		}
		forms[e.Form()] = p.Name
	}
	if len(forms) != 3 {
		t.Errorf("the forms are %v", forms)
	}
}

// Decoding any bytes does not panic. With accepted model state, estimates are in order and bounded, also after more samples, and the
// state can be stored and read again.
func FuzzStored(f *testing.F) {
	builtins := Builtins()
	for i, p := range builtins {
		if p.Extend == nil {
			continue
		}
		for _, days := range []int{0, 1, 16} {
			b := newBench(p)
			lives(b, days)
			data, err := p.Extend().AppendBinary(nil)
			if s := b.book.Series(cart, "app"); s != nil && s.Extension() != nil {
				data, err = s.Extension().AppendBinary(nil)
			}
			if err != nil {
				f.Fatal(err)
			}
			f.Add(uint8(i), data)
			f.Add(uint8(i), bytes.Repeat([]byte{0xff}, len(data)))
		}
	}
	f.Fuzz(func(t *testing.T, profile uint8, data []byte) {
		p := builtins[int(profile)%len(builtins)]
		if p.Extend == nil {
			return
		}
		e := p.Extend()
		before, err := e.AppendBinary(nil)
		if err != nil {
			t.Fatal(err)
		}
		if e.UnmarshalBinary(data) != nil {
			if after, err := e.AppendBinary(nil); err != nil || !bytes.Equal(before, after) {
				t.Fatalf("%s: what was refused left something behind", p.Name)
			}
			return
		}
		b := newBench(p)
		b.book.Extend(cart, nil)
		b.book.Extend(cart, func() usage.Extension { return e })
		for days := range 2 {
			for _, est := range []cluster.Estimate{b.estimate()} {
				for _, r := range cluster.All {
					lower, target, upper := est.Lower.Amount(r), est.Target.Amount(r), est.Upper.Amount(r)
					if lower < 0 || lower > target || target > upper || upper > 1<<62 {
						t.Fatalf("%s, %d: %s is %d, %d, %d", p.Name, days, r, lower, target, upper)
					}
				}
			}
			lives(b, 1)
		}
		again, err := e.AppendBinary(nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := p.Extend().UnmarshalBinary(again); err != nil {
			t.Fatalf("%s: what is stored then cannot be read: %v", p.Name, err)
		}
	})
}
