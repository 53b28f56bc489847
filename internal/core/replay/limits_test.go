// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"testing"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/recommend"
)

// The limit of a day is that of the product (recommend.MemoryLimit), from the usage of the 14 days before.
func TestMemoryLimits_startOfDay_isThatOfTheProduct(t *testing.T) {
	const gib = 1 << 30
	w := steady(20, 0.1, 4*gib)
	origin := w.Samples[0].At / daySeconds * daySeconds
	for i := range w.Samples {
		switch (w.Samples[i].At - origin) / daySeconds {
		case 2:
			w.Samples[i].Memory = 8 * gib
		case 3:
			w.Samples[i].Memory = 7 * gib
		}
	}
	got := MemoryLimits(w, origin)[0]
	for day, want := range map[int]float64{
		0:  0, // nothing is known
		2:  8, // twice the peak
		3:  16,
		16: 16,
		17: 16, // close to twice the peak of day 3, so it stays
		18: 8,
	} {
		if limit := float64(got[day]) / gib; limit < want || limit > 1.06*want { // peaks are rounded up
			t.Errorf("day %d: the limit is %.2f GiB, want %g", day, limit, want)
		}
	}
}

// If limits are kept, usage above the request says nothing about the limit, which a trace does not have. So the request follows usage only.
func TestRun_limitsAreKept_usageAboveTheRequestIsNoKill(t *testing.T) {
	const mib = 1 << 20
	w := steady(6, 0.1, 1000*mib)
	w.Samples[4*288].Memory = 1400 * mib
	for rule, isKilled := range map[cluster.LimitRule]bool{{}: true, {Keep: true}: false} {
		profile, _ := recommend.Builtin("default")
		profile.MemoryLimits = rule
		most := int64(0)
		for _, c := range Run(w, profile) {
			if c.Resource == cluster.Memory && c.At > w.Samples[4*288].At {
				most = max(most, c.Request/mib)
			}
		}
		if got := most > 1400*115/100*106/100; got != isKilled { // with upstream's margin; its buckets are 5 % wide
			t.Errorf("%+v: the highest request after 1400 MiB were used is %d MiB, want more than usage requires: %t", rule, most, isKilled)
		}
	}
}
