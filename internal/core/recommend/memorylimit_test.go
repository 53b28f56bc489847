// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package recommend

import (
	"testing"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/usage"
)

// limit returns the memory limit of the container in MiB.
func (b *bench) limit(before int64) int64 {
	return MemoryLimit(b.book.Series(cart, "app"), before*mib, 0, 0, 0, b.now) / mib
}

func TestMemoryLimit_peakOfTwoWeeks_isDoubledOrGetsOneGiB(t *testing.T) {
	for name, p := range map[string]Profile{"hourly peaks": balanced(), "a histogram": DefaultProfile("default", "", DefaultParams())} {
		b := newBench(p)
		if got := b.limit(0); got != 0 {
			t.Errorf("%s: without usage, the limit is %d MiB", name, got)
		}
		b.use(2*day, always(0.1, 200*mib))
		small := b.limit(0)
		b.use(time.Hour, always(0.1, 3000*mib))
		b.use(day, always(0.1, 200*mib)) // a histogram gets the peak of a day when the day ends
		large := b.limit(0)
		// The buckets of a histogram are up to 5 % wide.
		if small < 1224 || small > 1224*106/100 || large < 6000 || large > 6000*106/100 {
			t.Errorf("%s: with peaks of 200 and 3000 MiB, the limits are %d and %d MiB, want 1224 and 6000", name, small, large)
		}
		b.use(20*day, always(0.1, 200*mib))
		if got := b.limit(0); got < 1224 || got > 1224*106/100 {
			t.Errorf("%s: three weeks after the peak, the limit is %d MiB, want 1224", name, got)
		}
	}
}

func TestMemoryLimit_storedLimit_staysWhileItIsClose(t *testing.T) {
	b := newBench(balanced())
	b.use(15*day, always(0.1, 2048*mib)) // peaks that are younger are completed from the histogram, whose buckets are wide
	for before, want := range map[int64]int64{0: 4096, 3800: 4096, 3950: 3950, 4096: 4096, 5000: 5000, 5300: 4096} {
		if got := b.limit(before); got < want || got > want*101/100 {
			t.Errorf("after %d MiB the limit is %d MiB, want %d", before, got, want)
		}
	}
}

func TestMemoryLimit_killedAtTheLimit_isAboveWhatWasNeeded(t *testing.T) {
	for name, p := range map[string]Profile{"hourly peaks": balanced(), "a histogram": DefaultProfile("default", "", DefaultParams())} {
		b := newBench(p)
		b.use(day, always(0.1, 200*mib))
		b.book.ObserveOOM(usage.OOM{Pod: b.pod, Container: "app", At: b.now, Memory: 2000 * mib})
		_, needed, _ := b.book.Series(cart, "app").LastOOM()
		if got := b.limit(0); needed < 2000*mib || got < 2*needed/mib {
			t.Errorf("%s: after a kill that needed %d MiB, the limit is %d MiB", name, needed/mib, got)
		}
		b.use(30*day, always(0.1, 200*mib))
		if got := b.limit(0); got > 1300 {
			t.Errorf("%s: a month after the kill, the limit is %d MiB", name, got)
		}
	}
}

// An amount that is broken gives a limit that can be stored.
func TestMemoryLimit_extremeUsage_isBounded(t *testing.T) {
	b := newBench(balanced())
	b.use(time.Hour, always(0.1, 1e15))
	if got := MemoryLimit(b.book.Series(cart, "app"), 0, 0, 0, 0, b.now); got < 0 || got > 1e14 {
		t.Errorf("the limit is %d bytes", got)
	}
}

// After a change of the profile, the hourly peaks are new, and the histogram knows the peak. So it is with the checkpoints of upstream, too.
func TestMemoryLimit_peaksAreYoungerThanTheHistory_limitDoesNotFall(t *testing.T) {
	b := newBench(DefaultProfile("default", "", DefaultParams()))
	b.use(14*day, always(0.1, 200*mib))
	b.use(time.Hour, always(0.1, 6000*mib))
	b.use(day, always(0.1, 200*mib))
	before := b.limit(0)
	b.p = balanced()
	b.book.Replace(cart, b.p.Extend)
	b.use(day, always(0.1, 200*mib)) // as long as the recommendation is held
	after, first := b.limit(before), b.book.Series(cart, "app").Seen(cluster.Memory).First
	if held := b.now.Sub(first) < LimitHistory; !held && after < before {
		t.Errorf("two days after a peak of 6000 MiB, the limit falls from %d to %d MiB", before, after)
	}
}

// A profile with memory.longDays below 14 has hourly peaks of fewer days.
func TestMemoryLimit_profileWithShortWindow_peakOfTwoWeeksCounts(t *testing.T) {
	params := Balanced()
	params.Memory.Days, params.Memory.Long = 2, 3
	b := newBench(AdaptiveProfile("mine", "", params))
	b.use(15*day, always(0.1, 200*mib))
	b.use(time.Hour, always(0.1, 3000*mib))
	b.use(5*day, always(0.1, 200*mib))
	if got := b.limit(0); got < 6000 {
		t.Errorf("five days after a peak of 3000 MiB, the limit is %d MiB, want 6000", got)
	}
}

func TestMemoryLimit_minAllowed_countsAsAPeak(t *testing.T) {
	b := newBench(balanced())
	b.use(2*day, always(0.1, 200*mib))
	if got := MemoryLimit(b.book.Series(cart, "app"), 0, 8<<30, 0, 0, b.now); got != 16<<30 {
		t.Errorf("with minAllowed 8Gi the limit is %d MiB, want 16Gi", got/mib)
	}
	if got := MemoryLimit(b.book.Series(cart, "app"), 0, 8<<30, 0, 12<<30, b.now); got != 12<<30 {
		t.Errorf("on nodes of 12Gi the limit is %d MiB", got/mib)
	}
}
