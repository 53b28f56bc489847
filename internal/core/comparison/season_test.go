// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package comparison

import (
	"math"
	"testing"

	"podfit.dev/podfit/internal/core/hourly"
)

func peaksOf(days int, amount func(hour int) float64) (*hourly.Peaks, int) {
	const first = 490_000
	p := hourly.NewPeaks(days * 24)
	for h := range days * 24 {
		if v := amount(h); v > 0 {
			p.Observe(first+h, v)
		}
	}
	return &p, first + days*24
}

func b2f(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

func TestPeriod_repeatingUsage_isDetected(t *testing.T) {
	noise := func(h int) float64 { return 1 + 0.3*math.Sin(float64(h*h%1013)) }
	tests := map[string]struct {
		days   int
		amount func(h int) float64
		want   int
	}{
		"constant":               {14, func(int) float64 { return 5 }, 0},
		"noise":                  {14, noise, 0},
		"a wave a day":           {14, func(h int) float64 { return noise(h) * (2 + math.Sin(2*math.Pi*float64(h)/24)) }, 24},
		"an hour a night":        {14, func(h int) float64 { return 1 + 9*b2f(h%24 == 3) }, 24},
		"a day a week":           {14, func(h int) float64 { return noise(h) * (1 + 4*b2f(h/24%7 == 2)) }, 168},
		"every eleven hours":     {14, func(h int) float64 { return 1 + 9*b2f(h%11 == 3) }, 0},
		"growth":                 {14, func(h int) float64 { return 1 + float64(h) }, 0},
		"a day a week, one week": {7, func(h int) float64 { return noise(h) * (1 + 4*b2f(h/24%7 == 2)) }, 0},
		"two days are too few":   {2, func(h int) float64 { return 1 + 9*b2f(h%24 == 3) }, 0},
		"mostly gaps":            {14, func(h int) float64 { return b2f(h%3 == 0) * (1 + 9*b2f(h%24 == 3)) }, 0},
	}
	for name, tt := range tests {
		p, hour := peaksOf(tt.days, tt.amount)
		if got := Period(p, hour); got != tt.want {
			t.Errorf("%s: period %d h, want %d", name, got, tt.want)
		}
	}
}
