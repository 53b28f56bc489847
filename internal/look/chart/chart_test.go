// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package chart

import (
	"math"
	"slices"
	"strings"
	"testing"
)

func TestImage_valuesOutsideTheFrame_areAtItsEdge(t *testing.T) {
	m := New(120, 60, "cpu", "a <label>", Frame{Left: 10, Top: 5, Width: 100, Height: 50, X1: 4, Y1: 2})
	m.Line("peak", Point{0, 1}, Point{4, 2}, Point{8, -1})
	m.Steps("request", []Point{{1, 1}, {2, 9}})
	m.Steps("request", nil)
	m.Across("limit", 3) // above the chart
	m.Text(1, 2, "end", "<b>")
	const want = `<svg viewBox="0 0 120 60" role="img" aria-label="a &lt;label&gt;" class="chart cpu"><polyline points="10.0,30.0 110.0,5.0 110.0,55.0" class="peak"/>` +
		`<path class="request" d="M35.0 30.0H60.0V5.0H110.0"/><text x="1.0" y="2.0" class="end">&lt;b&gt;</text></svg>`
	if got := string(m.HTML()); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	m = New(1, 1, "", "", Frame{})
	m.Box("band", 1, 2, 3, math.MaxFloat64)
	if got := string(m.HTML()); strings.Contains(got, "NaN") || strings.Contains(got, "Inf") {
		t.Errorf("a frame without values: %s", got)
	}
}

func TestTicks_range_areRoundValuesInIt(t *testing.T) {
	for _, tt := range []struct {
		low, high float64
		want      []float64
	}{{0, 9.5, []float64{0, 5}}, {0.3, 1, []float64{0.4, 0.6, 0.8, 1}}, {1, 1, nil}, {0, math.Inf(1), nil}, {math.NaN(), 1, nil}} {
		got := Ticks(tt.low, tt.high, 4)
		if !slices.EqualFunc(got, tt.want, func(a, b float64) bool { return math.Abs(a-b) < 1e-9 }) {
			t.Errorf("%v to %v: %v, want %v", tt.low, tt.high, got, tt.want)
		}
	}
}

func TestDays_anyTime_areAtMostEightMidnights(t *testing.T) {
	for _, days := range []int64{0, 1, 7, 8, 30, 365} {
		got := Days(3600, 3600+days*86400)
		if want := int(min(days, 8)); len(got) > 8 || days <= 8 && len(got) != want {
			t.Errorf("%d days: %v", days, got)
		}
		for _, at := range got {
			if math.Mod(at, 86400) != 0 || Date(at) == "1 Jan" {
				t.Errorf("%d days: %v", days, got)
			}
		}
	}
}
