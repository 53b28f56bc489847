// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package recommend

import (
	"bytes"
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/usage"
)

// A bench observes one container and estimates its size.
type bench struct {
	book *usage.Store
	p    Profile
	pod  cluster.Key
	now  time.Time
}

func newBench(p Profile) *bench {
	b := &bench{book: usage.NewStore(usage.DefaultConfig()), p: p, now: noon}
	b.book.Extend(cart, p.Extend)
	pod := podOf(cart, "cart-1", "app")
	b.book.Track(pod)
	b.pod = pod.Key
	return b
}

// use adds a sample every five minutes.
func (b *bench) use(d time.Duration, amount func(at time.Time) (cores, bytes float64)) {
	for end := b.now.Add(d); b.now.Before(end); b.now = b.now.Add(5 * time.Minute) {
		c, m := amount(b.now)
		b.book.Observe(usage.Sample{Pod: b.pod, Container: "app", At: b.now, CPU: c, Memory: m, Has: cluster.Both})
	}
}

func always(cores, bytes float64) func(time.Time) (float64, float64) {
	return func(time.Time) (float64, float64) { return cores, bytes }
}

func (b *bench) estimate() cluster.Estimate {
	return b.p.Estimate(b.book.Series(cart, "app"), cluster.Resources{}, b.now, nil)
}

func (b *bench) memory() float64 { return float64(b.estimate().Target.Memory) / mib }

func (b *bench) memo() *Memo { return b.book.Series(cart, "app").Extension().(*Memo) }

const day = 24 * time.Hour

func balanced() Profile { return AdaptiveProfile("balanced", "", Balanced()) }

func TestAdaptive_steadyUsage_getsASmallMargin(t *testing.T) {
	b := newBench(balanced())
	b.use(10*day, always(0.5, 400*mib))
	if got := b.memory(); got < 400*1.05 || got > 400*1.23 {
		t.Errorf("a steady 400 MiB gets %.0f MiB", got)
	}
	if got := b.estimate().Target.CPU; got < 480 || got > 600 {
		t.Errorf("a steady half core gets %dm", got)
	}
}

func TestAdaptive_spikyUsage_getsALargerMargin(t *testing.T) {
	margin := func(quiet float64) float64 {
		b := newBench(balanced())
		b.use(10*day, func(at time.Time) (float64, float64) {
			if at.Minute() == 0 && at.Hour()%6 == 0 { // all day, so that no hours are low
				return 0.1, 400 * mib
			}
			return 0.1, quiet * mib
		})
		return b.memory() / 400
	}
	if steady, spiky := margin(390), margin(40); spiky < steady*1.2 {
		t.Errorf("steady usage gets ×%.2f of its peak, spiky ×%.2f", steady, spiky)
	}
}

func TestAdaptive_singleSpike_isForgottenBeforeARepeatedOne(t *testing.T) {
	after := func(spikes int) float64 {
		b := newBench(balanced())
		b.use(8*day, always(0.1, 400*mib))
		for range spikes {
			b.use(5*time.Minute, always(0.1, 800*mib))
			b.use(day, always(0.1, 400*mib))
		}
		b.use(2*day, always(0.1, 400*mib))
		return b.memory()
	}
	one, three := after(1), after(3)
	if three < 800 || one > three*0.9 {
		t.Errorf("days after one spike of 800 MiB the request is %.0f MiB, after three %.0f MiB", one, three)
	}
}

func TestAdaptive_usageAboveTheRequest_raisesAtOnce(t *testing.T) {
	b := newBench(balanced())
	b.use(9*day, always(0.1, 400*mib))
	b.use(5*time.Minute, always(0.1, 900*mib))
	if got := b.memory(); got < 900*1.09 {
		t.Errorf("a sample of 900 MiB leaves the request at %.0f MiB", got)
	}
}

func TestAdaptive_oomKill_raisesAboveTheRequest(t *testing.T) {
	b := newBench(balanced())
	b.use(9*day, always(0.1, 400*mib))
	had := b.estimate().Target.Memory
	for n := range 3 {
		b.now = b.now.Add(time.Minute)
		b.book.ObserveOOM(usage.OOM{Pod: b.pod, Container: "app", At: b.now, Memory: had})
		got := b.estimate().Target.Memory
		if float64(got) < 1.19*float64(had) {
			t.Fatalf("kill %d at %d MiB leaves the request at %d MiB", n+1, had/mib, got/mib)
		}
		had = got
	}
	// A kill of a pod that still has an old, smaller request changes nothing.
	b.now = b.now.Add(time.Minute)
	b.book.ObserveOOM(usage.OOM{Pod: b.pod, Container: "app", At: b.now, Memory: 100 * mib})
	if got := b.estimate().Target.Memory; got != had {
		t.Errorf("a kill at 100 MiB moves the request from %d to %d MiB", had/mib, got/mib)
	}
}

func TestAdaptive_oomKillOfASmallContainer_getsAtLeastUpstreamsBump(t *testing.T) {
	for name, p := range adaptiveProfiles() {
		b := newBench(p)
		b.use(9*day, always(0.1, 50*mib))
		had := b.estimate().Target.Memory
		b.now = b.now.Add(time.Minute)
		b.book.ObserveOOM(usage.OOM{Pod: b.pod, Container: "app", At: b.now, Memory: had})
		if got := b.estimate().Target.Memory; got < had+100*mib {
			t.Errorf("%s: a kill at %d MiB leaves the request at %d MiB; upstream adds 100 MiB", name, had/mib, got/mib)
		}
	}
}

func TestAdaptive_lowHours_getALowerRequest(t *testing.T) {
	b := newBench(balanced())
	nightly := func(at time.Time) (float64, float64) {
		if h := at.Hour(); h == 1 || h == 2 {
			return 0.1, 1000 * mib
		}
		return 0.1, 200 * mib
	}
	b.use(10*day, nightly)
	seen := map[int]float64{}
	for range 24 * 12 {
		b.use(5*time.Minute, nightly)
		seen[b.now.Hour()] = max(seen[b.now.Hour()], b.memory())
	}
	for _, h := range []int{0, 1, 2} {
		if seen[h] < 1000 {
			t.Errorf("at %d h, around the peak of 1000 MiB, the request is %.0f MiB", h, seen[h])
		}
	}
	for _, h := range []int{8, 12, 18} {
		if seen[h] > 400 {
			t.Errorf("at %d h, when 200 MiB are used, the request is %.0f MiB", h, seen[h])
		}
	}
	// New usage in the low hours ends them.
	for b.now.Hour() != 12 {
		b.use(5*time.Minute, nightly)
	}
	b.use(5*time.Minute, always(0.1, 700*mib))
	b.use(day, nightly)
	if got := b.memory(); got < 1000 {
		t.Errorf("a day after the low hours proved wrong the request is %.0f MiB", got)
	}
}

func TestAdaptive_daysAboveTheRequest_raiseTheMargin(t *testing.T) {
	b := newBench(balanced())
	b.use(9*day, always(0.1, 400*mib))
	quiet := b.memo().memory.adjust
	if quiet >= 0 {
		t.Errorf("after quiet days the margin has learnt %g, want less than nothing", quiet)
	}
	for range 10 {
		b.use(5*time.Minute, always(0.1, 400*mib))
	}
	b.use(5*time.Minute, func(time.Time) (float64, float64) { return 0.1, 1.5 * b.memory() * mib })
	b.use(5*time.Minute, func(time.Time) (float64, float64) { return 0.1, 1.5 * b.memory() * mib })
	r := Balanced().Memory
	want := quiet + r.Step*(1-r.aim())
	if got := b.memo().memory.adjust; math.Abs(got-want) > 1e-12 {
		t.Errorf("after a day above, however often, the margin has learnt %g, want %g", got, want)
	}
}

func TestAdaptive_startAfterSilence_doesNotShrinkTheRequest(t *testing.T) {
	b := newBench(balanced())
	b.use(9*day, always(0.5, 800*mib))
	before := b.estimate().Target
	b.now = b.now.Add(20 * day) // scaled to nothing
	b.use(2*time.Hour, always(0.01, 50*mib))
	if got := b.estimate().Target; got.CPU < before.CPU || got.Memory < before.Memory {
		t.Errorf("two hours after a start the request is %v, it was %v", got, before)
	}
	b.use(day, always(0.01, 50*mib))
	if got := b.memory(); got > 100 {
		t.Errorf("a day of 50 MiB later it is still %.0f MiB", got)
	}
}

func TestAdaptive_lateSamples_countADayOnce(t *testing.T) {
	b := newBench(balanced())
	b.use(9*day+12*time.Hour-5*time.Minute, always(0.1, 400*mib)) // to just before midnight
	m, midnight := b.memo(), b.now.Truncate(day).Add(day)
	m.Observe(usage.Sample{At: midnight, Memory: 400 * mib}, cluster.Of(cluster.Memory))
	want := m.memory.adjust
	for range 50 {
		m.Observe(usage.Sample{At: midnight.Add(-time.Second), Memory: 400 * mib}, cluster.Of(cluster.Memory))
		m.Observe(usage.Sample{At: midnight.Add(time.Second), Memory: 400 * mib}, cluster.Of(cluster.Memory))
	}
	if got := m.memory.adjust; got != want {
		t.Errorf("the margin has learnt %g from one midnight, want %g", got, want)
	}
}

func drawUsage(t *rapid.T) []usage.Sample {
	var out []usage.Sample
	at := noon
	level := rapid.Float64Range(1, 2000).Draw(t, "level")
	for range rapid.IntRange(1, 120).Draw(t, "samples") {
		at = at.Add(rapid.SampledFrom([]time.Duration{time.Minute, 20 * time.Minute, time.Hour, 7 * time.Hour, 50 * time.Hour}).Draw(t, "step"))
		level = min(max(level*rapid.SampledFrom([]float64{1, 1, 1, 0.7, 1.4, 4, 0.2}).Draw(t, "factor"), 0.1), 1e6)
		out = append(out, usage.Sample{
			Container: "app", At: at, CPU: level / 1000, Memory: level * mib,
			Has: rapid.SampledFrom([]cluster.Set{cluster.Both, cluster.Both, cluster.Of(cluster.CPU), cluster.Of(cluster.Memory)}).Draw(t, "has"),
		})
	}
	return out
}

// feed adds samples to an extension and returns the estimates after each.
func (b *bench) feed(samples []usage.Sample) []cluster.Estimate {
	var out []cluster.Estimate
	for _, s := range samples {
		s.Pod = b.pod
		b.book.Observe(s)
		b.now = s.At.Add(time.Minute)
		out = append(out, b.estimate())
	}
	return out
}

func TestEstimate_everyProfile_keepsItsBoundsInOrder(t *testing.T) {
	for _, p := range BacktestProfiles() {
		rapid.Check(t, func(t *rapid.T) {
			samples := drawUsage(t)
			var seen cluster.Set
			for i, e := range newBench(p).feed(samples) {
				seen |= samples[i].Has
				if e.Target.Has != seen {
					t.Fatalf("%s sizes %v, has seen %v", p.Name, e.Target.Has, seen)
				}
				for _, r := range cluster.All {
					if e.Lower.Amount(r) > e.Target.Amount(r) || e.Target.Amount(r) > e.Upper.Amount(r) || seen.Has(r) && e.Target.Amount(r) <= 0 {
						t.Fatalf("%s: %s %d, %d, %d", p.Name, r, e.Lower.Amount(r), e.Target.Amount(r), e.Upper.Amount(r))
					}
				}
			}
		})
	}
}

func TestModelState_restart_changesNoEstimate(t *testing.T) {
	for _, p := range Builtins() {
		if p.Extend == nil {
			continue
		}
		rapid.Check(t, func(t *rapid.T) {
			samples := drawUsage(t)
			cut := rapid.IntRange(0, len(samples)).Draw(t, "cut")
			want := newBench(p).feed(samples)

			b := newBench(p)
			b.feed(samples[:cut])
			ext := b.book.Series(cart, "app").Extension()
			stored, err := ext.AppendBinary(nil)
			if err != nil {
				t.Fatal(err)
			}
			if len(stored) > 1536 {
				t.Fatalf("%s stores %d bytes", p.Name, len(stored))
			}
			fresh := p.Extend()
			if err := fresh.UnmarshalBinary(stored); err != nil {
				t.Fatalf("%s: %v", p.Name, err)
			}
			again, _ := fresh.AppendBinary(nil)
			if !bytes.Equal(stored, again) {
				t.Fatalf("%s: stored again it is something else", p.Name)
			}
			if err := ext.UnmarshalBinary(stored); err != nil {
				t.Fatal(err)
			}
			for i, e := range b.feed(samples[cut:]) {
				if e != want[cut+i] {
					t.Fatalf("%s: answer %d after the restart is %v, want %v", p.Name, i, e, want[cut+i])
				}
			}
		})
	}
}

func TestAdaptive_doubledUsage_doublesTheEstimate(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		samples := drawUsage(t)
		twice := append([]usage.Sample(nil), samples...)
		for i := range twice {
			samples[i].Memory = max(samples[i].Memory, 8*mib)
			twice[i].Memory = 2 * samples[i].Memory
		}
		one, two := newBench(balanced()).feed(samples), newBench(balanced()).feed(twice)
		for i := range one {
			if a, b := float64(one[i].Target.Memory), float64(two[i].Target.Memory); math.Abs(b-2*a) > 2+1e-9*a {
				t.Fatalf("sample %d: %g for a usage, %g for twice the usage", i, a, b)
			}
		}
	})
}

func TestAdaptive_moreMargin_neverGivesLess(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := Balanced()
		a.Memory.Choose = false // another margin may make another arm the cheapest
		a.Memory.Plan.Gain, a.Memory.Step, a.Memory.Grow, a.Memory.Shrink, a.Memory.Wait = 0, 0, 0, 0, 0
		more := a
		more.Memory.Margin += rapid.Float64Range(0, 1).Draw(t, "more")
		a.Memory.Hold, more.Memory.Hold = 0, 0
		samples := drawUsage(t)
		decided := func(p AdaptiveParams) float64 {
			b := newBench(AdaptiveProfile("a", "", p))
			b.feed(samples)
			m := b.memo()
			if m.Memory.Empty() {
				return 0
			}
			m.decideMemory(b.now.Unix(), false)
			return m.memory.level
		}
		if one, two := decided(a), decided(more); one > two {
			t.Fatalf("%g with less margin, %g with more", one, two)
		}
	})
}

func TestAdaptive_observe_doesNotAllocate(t *testing.T) {
	b := newBench(balanced())
	b.use(20*day, func(at time.Time) (float64, float64) { return 0.1, float64(200+at.Hour()*20) * mib })
	m := b.memo()
	s := usage.Sample{CPU: 0.1, Memory: 300 * mib, Has: cluster.Both, At: b.now}
	if n := testing.AllocsPerRun(2000, func() {
		s.At = s.At.Add(5 * time.Minute)
		m.Observe(s, cluster.Both)
	}); n != 0 {
		t.Errorf("%v allocations a sample", n)
	}
}

func FuzzMemoUnmarshal(f *testing.F) {
	b := newBench(balanced())
	b.use(3*day, always(0.2, 300*mib))
	good, _ := b.memo().AppendBinary(nil)
	f.Add(good)
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, p := range Builtins() {
			if p.Extend == nil {
				continue
			}
			e := p.Extend()
			if e.UnmarshalBinary(data) != nil {
				continue
			}
			stored, err := e.AppendBinary(nil)
			if err != nil {
				t.Fatal(err)
			}
			if err := p.Extend().UnmarshalBinary(stored); err != nil {
				t.Fatalf("%s: what was accepted does not round-trip: %v", p.Name, err)
			}
		}
	})
}

func BenchmarkAdaptiveObserve(b *testing.B) {
	x := newBench(balanced())
	x.use(20*day, always(0.1, 300*mib))
	m := x.memo()
	s := usage.Sample{CPU: 0.1, Memory: 300 * mib, Has: cluster.Both, At: x.now}
	b.ReportAllocs()
	for b.Loop() {
		s.At = s.At.Add(time.Minute)
		m.Observe(s, cluster.Both)
	}
}
