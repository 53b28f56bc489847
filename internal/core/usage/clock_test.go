// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package usage

import (
	"fmt"
	"math"
	"testing"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
)

const year = 365 * day

// leads are times by which the clock was ahead.
var leads = map[string]time.Duration{"1 h": time.Hour, "1 day": day, "3 days": 3 * day, "10 years": 10 * year}

// during observes a sample a minute, with a clock that is ahead.
func during(b *Store, p *cluster.Pod, from time.Time, d, ahead time.Duration, cores, bytes float64) (taken int) {
	for at := from; at.Before(from.Add(d)); at = at.Add(time.Minute) {
		b.Tick(at.Add(ahead))
		b.Track(p)
		if b.Observe(sample(p, "app", at.Add(ahead), cores, bytes)) == cluster.Both {
			taken++
		}
	}
	return taken
}

// percentiles returns percentiles of CPU and memory.
func percentiles(s *ContainerHistory) (cpu, memory float64) {
	return s.CPU.Percentile(0.9), s.Memory.Percentile(0.9)
}

func near(got, want float64) bool { return math.Abs(got-want) <= 0.11*want }

func TestRestore_checkpointFromTheFuture_keepsHistoryAndTakesSamples(t *testing.T) {
	for name, lead := range leads {
		for _, whole := range []bool{true, false} { // all the time, or for the last ten minutes before the checkpoint
			for _, extra := range []bool{true, false} {
				t.Run(fmt.Sprintf("%s, all the time %v, extra %v", name, whole, extra), func(t *testing.T) {
					p := podOf(cart, "cart-1", "app")
					old := newBook()
					history := 8 * day
					early := lead
					if !whole {
						early = 0
					}
					during(old, p, noon.Add(-history), history-10*time.Minute, early, 0.3, 300*mib)
					during(old, p, noon.Add(-10*time.Minute), 10*time.Minute, lead, 0.3, 300*mib)
					c, _ := old.Checkpoint(cart, "app", noon.Add(lead))
					if !extra {
						c.Extra = nil
					}
					b := newBook()
					b.Tick(noon)
					if err := b.Restore(cart, "app", c); err != nil {
						t.Fatal(err)
					}
					s := b.Series(cart, "app")
					seen := s.Seen(cluster.CPU)
					if seen.Count != int(history/time.Minute) || seen.Last.After(noon) || s.Seen(cluster.Memory).Last.After(noon) {
						t.Errorf("seen %+v, memory %+v", seen, s.Seen(cluster.Memory))
					}
					if n := during(b, p, noon.Add(time.Second), time.Hour, 0, 0.3, 300*mib); n != 60 {
						t.Errorf("%d of 60 samples were taken in the next hour", n)
					}
					if cpu, memory := percentiles(s); !near(cpu, 0.3) || !near(memory, 300*mib) {
						t.Errorf("the percentiles are %v cores and %v bytes", cpu, memory)
					}
					during(b, p, noon.Add(time.Hour), 5*day, 0, 1.2, 900*mib)
					if cpu, memory := percentiles(s); !near(cpu, 1.2) || !near(memory, 900*mib) {
						t.Errorf("after five days of more usage the percentiles are %v cores and %v bytes", cpu, memory)
					}
					during(b, p, noon.Add(time.Hour+5*day), 8*day, 0, 0.3, 300*mib)
					if cpu, memory := percentiles(s); !near(cpu, 0.3) || !near(memory, 300*mib) {
						t.Errorf("after eight days of less usage the percentiles are %v cores and %v bytes", cpu, memory)
					}
				})
			}
		}
	}
}

func TestTick_clockSetBack_takesSamples(t *testing.T) {
	for name, lead := range leads {
		t.Run(name, func(t *testing.T) {
			p := podOf(cart, "cart-1", "app")
			b := newBook()
			b.Extend(cart, newDiary)
			during(b, p, noon.Add(-8*day), 8*day-30*time.Minute, 0, 0.3, 300*mib)
			during(b, p, noon.Add(-30*time.Minute), 30*time.Minute, lead, 0.3, 300*mib)
			b.ObserveOOM(OOM{Pod: p.Key, Container: "app", At: noon.Add(lead), Memory: 300 * mib})
			s := b.Series(cart, "app")
			if n := during(b, p, noon.Add(time.Second), time.Hour, 0, 0.3, 300*mib); n < 59 {
				t.Errorf("%d of 60 samples were taken in the next hour", n)
			}
			now := noon.Add(time.Hour)
			if at, _, _ := s.LastOOM(); at.After(now) || s.Seen(cluster.CPU).Last.After(now) || s.Seen(cluster.Memory).Last.After(now) {
				t.Errorf("seen %+v, last OOM kill %v", s.Seen(cluster.CPU), at)
			}
			if !b.ObserveOOM(OOM{Pod: p.Key, Container: "app", At: now, Memory: 500 * mib}) {
				t.Error("the next OOM kill is not news")
			}
			during(b, p, now, 5*day, 0, 1.2, 900*mib)
			if cpu, memory := percentiles(s); !near(cpu, 1.2) || !near(memory, 900*mib) {
				t.Errorf("after five days of more usage the percentiles are %v cores and %v bytes", cpu, memory)
			}
			during(b, p, now.Add(5*day), 8*day, 0, 0.3, 300*mib)
			if cpu, memory := percentiles(s); !near(cpu, 0.3) || !near(memory, 300*mib) {
				t.Errorf("after eight days of less usage the percentiles are %v cores and %v bytes", cpu, memory)
			}
		})
	}
}

// A skew of less than MaxAhead changes nothing.
func TestTick_clockSetBackByMinutes_changesNothing(t *testing.T) {
	p := podOf(cart, "cart-1", "app")
	b := newBook()
	during(b, p, noon.Add(time.Second), time.Hour, 0, 0.3, 300*mib)
	before := *b.Series(cart, "app")
	b.Tick(noon.Add(52 * time.Minute))
	if after := *b.Series(cart, "app"); after.cpu != before.cpu || after.version != before.version {
		t.Errorf("%+v became %+v", before.cpu, after.cpu)
	}
}

func TestRestore_modelStateFromTheNearFuture_isKept(t *testing.T) {
	for name, lead := range leads {
		t.Run(name, func(t *testing.T) {
			c := stored(t, lived(t, 10, 20), 25)
			c.History.Updated, c.History.LastSample = c.History.Updated.Add(lead), c.History.LastSample.Add(lead)
			b := newBook()
			b.Tick(noon.Add(time.Minute))
			b.Extend(cart, newDiary)
			if err := b.Restore(cart, "app", c); err != nil {
				t.Fatal(err)
			}
			b.Track(podOf(cart, "cart-1", "app"))
			live(b, 70, 80)
			if got := fmt.Sprint(diaryOf(t, b)); got != "[10 20 70 80]" {
				t.Errorf("the extension was told %v", got)
			}
		})
	}
}

// The clock is set back several times, each time by less than MaxAhead.
func TestTick_clockSetBackInSmallSteps_takesSamples(t *testing.T) {
	b := newBook()
	p := podOf(cart, "cart-1", "app")
	b.Tick(noon)
	b.Track(p)
	b.Observe(sample(p, "app", noon, 0.1, 200*mib))
	now := noon
	for range 4 {
		now = now.Add(-9 * time.Minute)
		b.Tick(now)
	}
	now = now.Add(time.Minute)
	b.Tick(now)
	if taken := b.Observe(sample(p, "app", now, 0.1, 200*mib)); taken != cluster.Both {
		t.Errorf("36 minutes back, %v of a sample was taken", taken)
	}
}
