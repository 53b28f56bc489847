// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package demand

import (
	"math"
	"testing"
	"time"
)

func TestProfile_overTime_hasExpectedValues(t *testing.T) {
	const Mi = 1 << 20
	type want struct {
		clock, age time.Duration
		value      float64
	}
	h := time.Hour
	m := time.Minute
	s := time.Second
	for text, wants := range map[string][]want{
		"300m":                               {{0, 0, 0.3}, {100 * h, h, 0.3}},
		"1.5":                                {{0, 0, 1.5}},
		"200Mi":                              {{0, 0, 200 * Mi}},
		"sine(50m,450m,24h)":                 {{0, 0, 0.05}, {6 * h, 0, 0.25}, {12 * h, 0, 0.45}, {24 * h, 0, 0.05}, {36 * h, 0, 0.45}},
		"sine(50m,450m,24h,phase=12h)":       {{0, 0, 0.45}},
		"ramp(200Mi,900Mi,3d)":               {{0, 0, 200 * Mi}, {9 * h, 36 * h, 550 * Mi}, {0, 72 * h, 900 * Mi}, {0, 1000 * h, 900 * Mi}},
		"leak(100Mi, 10Mi, every=1h)":        {{0, 0, 100 * Mi}, {0, 30 * m, 105 * Mi}, {0, 100 * h, 1100 * Mi}},
		"burst(100m,900m,every=10m,for=30s)": {{0, h, 0.9}, {29 * s, 0, 0.9}, {30 * s, 0, 0.1}, {10 * m, 0, 0.9}},
		"burst(100m,900m,every=10m,for=30s,phase=1m)": {{0, 0, 0.1}, {9 * m, 0, 0.9}},
		"startup(1500m,for=20s,then=100m)":            {{h, 0, 1.5}, {h, 19 * s, 1.5}, {h, 20 * s, 0.1}},
		"step(100m,400m,after=2h)":                    {{0, 0, 0.1}, {0, 2 * h, 0.4}},
		"sawtooth(200Mi,800Mi,5m)":                    {{0, 0, 200 * Mi}, {0, 150 * s, 500 * Mi}, {0, 5 * m, 200 * Mi}},
		"100m + startup(1, for=10s, then=0) + 50m":    {{0, 0, 1.15}, {0, m, 0.15}},
		"max(300m, sine(50m,450m,24h))":               {{0, 0, 0.3}, {12 * h, 0, 0.45}},
		"min(300m, sine(50m,450m,24h), 200m)":         {{0, 0, 0.05}, {12 * h, 0, 0.2}},
		"noise(300m,0)":                               {{0, 0, 0.3}},
	} {
		p, err := Parse(text)
		if err != nil {
			t.Error(err)
			continue
		}
		for _, w := range wants {
			got := p.At(Moment{Clock: w.clock, Age: w.age})
			if math.Abs(got-w.value) > 1e-9*math.Max(1, w.value) {
				t.Errorf("%s at %v, age %v: %v, want %v", text, w.clock, w.age, got, w.value)
			}
		}
	}
}

func TestNoise_withSeed_repeatsWithinSpread(t *testing.T) {
	seeded := mustParse(t, "noise(sine(100m,300m,1h),0.2,seed=7)")
	own := mustParse(t, "noise(200m,0.2)")
	curve := mustParse(t, "sine(100m,300m,1h)")
	different := 0
	sum := 0.0
	const n = 10000
	for i := range n {
		at := Moment{Clock: time.Duration(i) * 10 * time.Second, Instance: 1}
		other := at
		other.Instance = 2
		got := seeded.At(at)
		base := curve.At(at)
		if got < base*0.8 || got > base*1.2 {
			t.Fatalf("%v is not within 20%% of %v", got, base)
		}
		if got != seeded.At(other) {
			t.Fatal("noise with a seed differs between containers")
		}
		if own.At(at) != own.At(other) {
			different++
		}
		sum += own.At(at)
	}
	if different < n*9/10 {
		t.Errorf("noise without a seed differs between two containers in %d of %d cases", different, n)
	}
	if mean := sum / n; math.Abs(mean-0.2) > 0.002 {
		t.Errorf("the mean of the noise is %v, want 0.2", mean)
	}
}

func TestParse_invalidExpressions_areRefused(t *testing.T) {
	for _, text := range []string{
		"", "many", "-1", "300m 2", "300m+", "sine", "sine(1,2", "sine(1,2)", "sine(1,2,0s)", "sine(1,2,24h,1h,3)", "sine(1,2,24h,color=3)",
		"ramp(1,2,soon)", "burst(1,every=1m,2,for=3s)", "burst(1,2,every=1m,every=2m,for=3s)", "noise(1)", "noise(1,x)", "noise(1,0.1,seed=-1)",
		"jump(1)", "max()", "NaN", "Inf", "1e400", "startup(1,for=-1s,then=2)",
	} {
		if p, err := Parse(text); err == nil {
			t.Errorf("%q was parsed as %v", text, p)
		}
	}
}

func TestParseExit_validAndInvalidText_isReadOrRefused(t *testing.T) {
	e, err := ParseExit("after=90s, code=3")
	if err != nil || e.After != 90*time.Second || e.Code != 3 {
		t.Errorf("got %v, %v", e, err)
	}
	for _, text := range []string{"", "90s", "after=x", "code=x", "when=1s"} {
		if e, err := ParseExit(text); err == nil {
			t.Errorf("%q was parsed as %v", text, e)
		}
	}
	if d, err := ParseReady("after=1d"); err != nil || d != 24*time.Hour {
		t.Errorf("got %v, %v", d, err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add("noise(sine(50m,400m,24h)+1,0.1,seed=7)")
	f.Fuzz(func(t *testing.T, text string) {
		p, err := Parse(text)
		if err != nil {
			return
		}
		if v := p.At(Moment{Clock: time.Hour, Age: time.Minute}); v < 0 {
			t.Errorf("%q is %v", text, v)
		}
	})
}

func mustParse(t *testing.T, text string) Profile {
	t.Helper()
	p, err := Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return p
}
