// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package hourly

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"podfit.dev/podfit/internal/core/codec"
)

func TestLevelOf_anyAmount_isRoundedUp(t *testing.T) {
	for _, v := range []float64{2e-5, 0.001, 0.25, 1, 3.7, 1024, 1 << 30, 5e11, 1.7e14} {
		got := LevelOf(v).Amount()
		if got < v*(1-1e-12) || got > v*1.0008 {
			t.Errorf("LevelOf(%g) stands for %g", v, got)
		}
	}
	if got := LevelOf(0); got != 1 || LevelOf(math.NaN()) != 1 {
		t.Errorf("nothing used is level %d, want 1: something was seen", got)
	}
	if got := Level(0).Amount(); got != 0 {
		t.Errorf("level 0 stands for %g, want 0", got)
	}
	if LevelOf(1e300) != math.MaxUint16 {
		t.Error("what is beyond the scale is not its end")
	}
}

// peaksTwin is a simple reference implementation.
type peaksTwin struct {
	room, newest, since int
	hours               map[int]Level
}

func (p *peaksTwin) observe(hour int, v float64) {
	if len(p.hours) == 0 {
		p.since, p.newest = hour, hour
	}
	if hour <= p.newest-p.room {
		return
	}
	p.since, p.newest = min(p.since, hour), max(p.newest, hour)
	p.hours[hour] = max(p.hours[hour], LevelOf(v))
}

func (p *peaksTwin) at(hour int) Level {
	if hour <= p.newest-p.room {
		return 0
	}
	return p.hours[hour]
}

func (p *peaksTwin) all(from, before int) (out []Level) {
	for h := from; h < before; h++ {
		if l := p.at(h); l > 0 {
			out = append(out, l)
		}
	}
	return out
}

func (p *peaksTwin) max(from, before int) Level {
	m := Level(0)
	for h := from; h < before; h++ {
		m = max(m, p.at(h))
	}
	return m
}

func drawPeaks(t *rapid.T, room int) (Peaks, peaksTwin) {
	p, twin := NewPeaks(room), peaksTwin{room: room, hours: map[int]Level{}}
	hour := rapid.IntRange(0, 500_000).Draw(t, "start")
	for range rapid.IntRange(0, 60).Draw(t, "samples") {
		hour = max(0, hour+rapid.SampledFrom([]int{0, 0, 1, 1, 2, 5, 30, 400, -1, -3, -40}).Draw(t, "step"))
		v := rapid.Float64Range(0, 1e12).Draw(t, "amount")
		p.Observe(hour, v)
		twin.observe(hour, v)
	}
	return p, twin
}

func TestPeaks_randomUse_equalsReference(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		room := rapid.SampledFrom([]int{1, 2, 24, 26, 48, 336}).Draw(t, "room")
		p, twin := drawPeaks(t, room)
		if p.Empty() != (len(twin.hours) == 0) {
			t.Fatalf("empty: %v", p.Empty())
		}
		if p.Empty() {
			return
		}
		if p.Newest() != twin.newest || p.Since() != twin.since {
			t.Fatalf("from %d to %d, want %d to %d", p.Since(), p.Newest(), twin.since, twin.newest)
		}
		for range 20 {
			from := twin.newest + rapid.IntRange(-400, 5).Draw(t, "from")
			before := from + rapid.IntRange(0, 400).Draw(t, "length")
			if got, want := p.Max(from, before), twin.max(from, before); got != want {
				t.Fatalf("Max(%d, %d) = %d, want %d", from, before, got, want)
			}
			if got, want := p.AppendHours(nil, from, before), twin.all(from, before); !slices.Equal(got, want) {
				t.Fatalf("AppendHours(%d, %d) = %v, want %v", from, before, got, want)
			}
			if got, want := p.At(from), twin.at(from); got != want {
				t.Fatalf("At(%d) = %d, want %d", from, got, want)
			}
		}
		checkRoundTrip(t, &p)
	})
}

func checkRoundTrip(t *rapid.T, p *Peaks) {
	e := codec.NewEncoder([]byte{7})
	p.Code(e)
	q := NewPeaks(p.Room())
	d := codec.NewDecoder(append(e.Data()[1:], 1, 2))
	q.Code(d)
	if d.Err() != nil || d.Len() != 2 {
		t.Fatalf("read back: %v, %d left", d.Err(), d.Len())
	}
	if q.Newest() != p.Newest() || q.Since() != p.Since() {
		t.Fatalf("read back from %d to %d, want %d to %d", q.Since(), q.Newest(), p.Since(), p.Newest())
	}
	for h := p.Newest() - p.Room() - 2; h <= p.Newest()+1; h++ {
		if p.At(h) != q.At(h) {
			t.Fatalf("read back: hour %d is %d, want %d", h, q.At(h), p.At(h))
		}
	}
}

func TestPeaksLast_afterAGap_returnsTheNewestKnownPeak(t *testing.T) {
	p := NewPeaks(48)
	p.Observe(100, 5)
	p.Observe(110, 3)
	for hour, want := range map[int]float64{110: 3, 115: 3, 119: 3, 500: 3, 105: 5} {
		if got := p.Last(10, hour).Amount(); got < want || got > want*1.001 {
			t.Errorf("the most of 10 hours up to %d is %g, want %g", hour, got, want)
		}
	}
}

func TestPeaks_twoWeeks_takeFewBytesAndDoNotAllocate(t *testing.T) {
	p := NewPeaks(14 * 24)
	hour := 0
	for ; hour < 1000; hour++ {
		p.Observe(hour, float64(hour))
	}
	if got := 2 * len(p.ring); got > 700 {
		t.Errorf("two weeks take %d bytes, want at most 700", got)
	}
	if n := testing.AllocsPerRun(1000, func() { hour++; p.Observe(hour, 3) }); n != 0 {
		t.Errorf("%v allocations a sample", n)
	}
}

func FuzzPeaksDecode(f *testing.F) {
	p := NewPeaks(48)
	for h := range 60 {
		p.Observe(1000+h, float64(h))
	}
	good := codec.NewEncoder(nil)
	p.Code(good)
	f.Add(good.Data())
	f.Add([]byte{})
	f.Add([]byte{0})
	f.Fuzz(func(t *testing.T, data []byte) {
		q := NewPeaks(48)
		d := codec.NewDecoder(data)
		q.Code(d)
		if d.Err() != nil {
			if !q.Empty() {
				t.Fatal("a refused checkpoint left something behind")
			}
			return
		}
		e := codec.NewEncoder(nil)
		q.Code(e)
		again := NewPeaks(48)
		d = codec.NewDecoder(e.Data())
		again.Code(d)
		if err := d.Finish("peaks"); err != nil {
			t.Fatalf("what was accepted does not round-trip: %v", err)
		}
	})
}

func TestPeaksWithout_someHours_removesTheseFromTheCopyOnly(t *testing.T) {
	p := NewPeaks(48)
	for h := range 60 {
		p.Observe(1000+h, float64(h+1))
	}
	q := p.Without(1030, 1040)
	for h := 1000; h < 1070; h++ {
		want := p.At(h)
		if h >= 1030 && h < 1040 {
			want = 0
		}
		if got := q.At(h); got != want {
			t.Errorf("hour %d is %d, want %d", h, got, want)
		}
	}
	if p.At(1035) == 0 {
		t.Error("the original has changed")
	}
	if all := p.Without(0, 5000); all.Max(0, 5000) != 0 {
		t.Error("there are peaks without any hour")
	}
	var empty Peaks
	if e := empty.Without(0, 10); !e.Empty() {
		t.Error("peaks without samples are not empty")
	}
}
