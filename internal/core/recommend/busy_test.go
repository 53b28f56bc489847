// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package recommend

import (
	"math"
	"testing"
	"time"
	_ "time/tzdata" // the same zones on every machine

	"pgregory.net/rapid"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/criticality"
	"podfit.dev/podfit/internal/core/derivation"
	"podfit.dev/podfit/internal/core/fleet"
	"podfit.dev/podfit/internal/core/usage"
	"podfit.dev/podfit/test/steptest"
)

// The example in docs/algorithm.md: steady work from 9 to 17 o'clock in Berlin, and a heavy job after it.
func TestBusyHours_timeZoneWithDaylightSaving_isFollowed(t *testing.T) {
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	office := func(at time.Time) (cores, bytes float64) { //nolint:unparam // memory usage is constant in this example
		bytes = 100 * mib
		switch h := at.In(berlin).Hour(); {
		case h == 17:
			return 4, bytes // outside of the busy hours
		case h >= 9 && h < 17:
			return 1, bytes
		}
		return 0.05, bytes
	}
	params := func(zone *time.Location, ahead int) BusyParams {
		p := Busiest()
		p.Hours, p.Zone = HoursBetween(9, 17, ahead), zone
		return p
	}
	// Summer time begins on 29 March 2026: from then on 9 o'clock in Berlin is 7 o'clock UTC, and no longer 8.
	cores := func(p BusyParams) int64 {
		b := newBench(BusyHoursProfile("office", "", p))
		b.now = time.Date(2026, 3, 23, 0, 0, 0, 0, time.UTC)
		b.use(14*day, office)
		return b.estimate().Target.CPU
	}
	if got := cores(params(berlin, 0)); got < 1300 || got > 1400 {
		t.Errorf("with the zone: %dm, want 1.3 × 1 core", got)
	}
	if got := cores(params(nil, 1)); got < 5000 {
		t.Errorf("with an offset of an hour, which is wrong in summer: %dm, the job at 17 o'clock should be seen", got)
	}
}

func TestBusyHours_changedHours_keepModelState(t *testing.T) {
	p := Busiest()
	b := newBench(BusyHoursProfile("found", "", p))
	b.use(3*day, func(at time.Time) (float64, float64) {
		if at.Hour() == 3 {
			return 2, 100 * mib
		}
		return 0.1, 100 * mib
	})
	data, err := b.book.Series(cart, "app").Extension().AppendBinary(nil)
	if err != nil {
		t.Fatal(err)
	}
	p.Hours = HoursBetween(9, 17, 0)
	given := newBench(BusyHoursProfile("given", "", p))
	given.use(5*time.Minute, always(0.1, 100*mib))
	if err := given.book.Series(cart, "app").Extension().UnmarshalBinary(data); err != nil {
		t.Fatal(err)
	}
	m := given.book.Series(cart, "app").Extension().(*Busy)
	at := time.Date(2026, 3, 10, 3, 0, 0, 0, time.UTC)
	if m.counts(at, 3) || !m.counts(at.Add(6*time.Hour), 9) {
		t.Error("the hours that were found before count, not those given")
	}
}

// The target without a share of a node is the uncapped target, and package policy applies the share.
func TestProfileFor_nodeIsKnown_shareIsOfItsBase(t *testing.T) {
	p := Busiest()
	p.MostOfNode = 0.5
	for base, want := range map[cluster.NodeBase]int64{cluster.OfAllocatable: 1900, cluster.OfCapacity: 2000} {
		p.MostOfNodeBase = base
		profile := BusyHoursProfile("busy", "", p)
		if got := profile.For(criticality.Declared{}, fleet.NodeSizes{Allocatable: 3800, Capacity: 4000}).Node; got.Most() != want || got.Base != base || got.Floor != 10 {
			t.Errorf("%s: %+v with at most %dm, want %dm", base, got, got.Most(), want)
		}
		if got := profile.For(criticality.Declared{}, fleet.NodeSizes{}).Node.Most(); got != 0 {
			t.Errorf("%s: without nodes at most %dm, want no bound", base, got)
		}
	}
	if got := AdaptiveProfile("balanced", "", Balanced()).For(criticality.Declared{Label: 3}, fleet.NodeSizes{Allocatable: 4000, Capacity: 4000}); got.Node.Most() != 0 {
		t.Errorf("a profile without a share has %+v", got.Node)
	}
}

// minutely adds a sample every minute, and restarts the container in place after a time.
func (b *bench) minutely(d, restart time.Duration, cores func(age time.Duration) float64) {
	pod := podOf(cart, "cart-1", "app")
	started := b.now
	for end := b.now.Add(d); b.now.Before(end); b.now = b.now.Add(time.Minute) {
		if b.now.Sub(started) >= restart {
			started = b.now
		}
		if pod.StartOf(&pod.Containers[0]) != started.Unix() {
			pod.Started, pod.Containers[0].Delay = started, 1
			b.book.Track(pod)
		}
		at := b.now.Add(time.Second)
		b.book.Observe(usage.Sample{Pod: b.pod, Container: "app", At: at, CPU: cores(at.Sub(started)), Memory: 100 * mib, Has: cluster.Both})
	}
}

func startsWith4Cores(age time.Duration) float64 {
	if age <= 5*time.Minute {
		return 4
	}
	return 0.2
}

func TestBusyHours_samplesAfterAStart_areLeftOut(t *testing.T) {
	for name, tt := range map[string]struct {
		startup, restart time.Duration
		least, most      int64
	}{
		"left out":            {5 * time.Minute, 2 * time.Hour, 260, 300},
		"parameter is 0":      {0, 2 * time.Hour, 4000, 6000},
		"longer than needed":  {30 * time.Minute, 2 * time.Hour, 260, 300},
		"never runs longer":   {5 * time.Minute, 4 * time.Minute, 5200, 5900},
		"just runs longer":    {5 * time.Minute, 8 * time.Minute, 5200, 5900},
		"mostly runs longer":  {5 * time.Minute, 13 * time.Minute, 260, 300},
		"shorter than starts": {2 * time.Minute, 2 * time.Hour, 4000, 6000},
	} {
		p := Busiest()
		p.Startup = tt.startup
		b := newBench(BusyHoursProfile("busy", "", p))
		b.minutely(3*day, tt.restart, startsWith4Cores)
		if got := b.estimate().Target.CPU; got < tt.least || got > tt.most {
			t.Errorf("%s: %dm, want %dm to %dm", name, got, tt.least, tt.most)
		}
		// Memory and the other profiles count all samples.
		memory := newBench(BusyHoursProfile("busy", "", p))
		memory.minutely(3*day, 1000*day, startsWith4Cores)
		if got, want := b.estimate().Target.Memory, memory.estimate().Target.Memory; got != want {
			t.Errorf("%s: memory is %d, and %d without restarts", name, got, want)
		}
	}
}

// A new workload has only samples of its start. The request falls as soon as there are others.
func TestBusyHours_firstMinutesOfAWorkload_countUntilThereAreOthers(t *testing.T) {
	b := newBench(BusyHoursProfile("busy", "", Busiest()))
	b.minutely(4*time.Minute, day, startsWith4Cores)
	if got := b.estimate().Target.CPU; got < 5200 {
		t.Errorf("after 4 minutes: %dm, want 1.3 × 4 cores", got)
	}
	var record derivation.Record
	b.p.Estimate(b.book.Series(cart, "app"), cluster.Resources{}, b.now, &record)
	if want := b.estimate().Target.CPU; !steptest.LeadTo(want, record.CPU) {
		t.Errorf("the steps do not lead to %dm: %+v", want, record.CPU)
	}
	b.minutely(2*time.Hour, day, func(time.Duration) float64 { return 0.2 })
	if got := b.estimate().Target.CPU; got > 300 {
		t.Errorf("after two hours: %dm, want 1.3 × 0.2 cores", got)
	}
}

func TestBusyHours_sampleBeforeAnUnknownOrLaterStart_counts(t *testing.T) {
	p := Busiest()
	at := noon
	for name, tt := range map[string]struct {
		started int64
		want    bool
	}{
		"not known":         {0, false},
		"later start":       {at.Unix() + 1, false},
		"just started":      {at.Unix(), true},
		"five minutes ago":  {at.Unix() - 300, true},
		"long ago":          {at.Unix() - 301, false},
		"before this epoch": {-1, false},
	} {
		if got := p.starts(&usage.Sample{At: at, Ran: usage.Ran{Started: tt.started}}); got != tt.want {
			t.Errorf("%s: %t, want %t", name, got, tt.want)
		}
	}
}

// A higher criticality never gives a lower request, and the decisions before it are the same.
func TestBusyHours_higherCriticality_givesAHigherRequest(t *testing.T) {
	with := func(k float64) *bench {
		p := Busiest()
		p.Factor = k
		return newBench(BusyHoursProfile("busy", "", p))
	}
	rapid.Check(t, func(t *rapid.T) {
		a := rapid.Float64Range(1, 2.5).Draw(t, "k")
		low, high := with(a), with(a+rapid.Float64Range(0.1, 0.5).Draw(t, "more"))
		for _, s := range drawUsage(t) {
			for _, b := range []*bench{low, high} {
				s.Pod = b.pod
				b.book.Observe(s)
				b.now = s.At
			}
			x, y := low.estimate().Target, high.estimate().Target
			if x.Has.Has(cluster.CPU) && x.CPU < mostMillicores && y.CPU <= x.CPU {
				t.Fatalf("k %.3f gives %dm, more gives %dm", a, x.CPU, y.CPU)
			}
		}
	})
}

// Above 100m, criticality is the factor of the percentile; below, the margin is that of 100m.
func TestBusyHours_criticality_multipliesThePercentile(t *testing.T) {
	for _, k := range []float64{1, 1.3, 2, 3} {
		for _, cores := range []float64{0.01, 0.05, 0.2, 1, 4} {
			p := Busiest()
			p.Factor = k
			b := newBench(BusyHoursProfile("busy", "", p))
			b.use(10*day, always(cores, 100*mib))
			want := 1000 * max(k*cores, cores+(k-1)*0.1)
			if got := float64(b.estimate().Target.CPU); got < math.Floor(want) || got > 1.12*want+1 {
				t.Errorf("k %.1f, %.2f cores: %.0fm, want %.0fm up to a bucket", k, cores, got, want)
			}
		}
	}
}

// footprint returns the mean request over days in cores, and the samples above it a day.
func (b *bench) footprint(days int, amount func(at time.Time) (cores, bytes float64)) (mean, above float64) {
	n := 0
	for range days * 288 {
		c, _ := amount(b.now)
		request := float64(b.estimate().Target.CPU) / 1000
		mean += request
		if c > request {
			above++
		}
		n++
		b.use(5*time.Minute, amount)
	}
	return mean / float64(n), above / float64(days)
}

// Long, irregular periods of load and idleness: the request follows them, and usage is seldom above it. Before, the request was 1.3 × 4 cores
// all the time.
func TestBusyHours_longIdlePeriods_lowerTheRequest(t *testing.T) {
	b := newBench(builtin(t, "busy-hours"))
	batch := func(at time.Time) (float64, float64) {
		if d := at.Unix() / 86400; d*d%7 < 3 && d%3 != 0 {
			return 4, 100 * mib
		}
		return 0.05, 100 * mib
	}
	b.use(20*day, batch)
	mean, above := b.footprint(21, batch)
	if mean > 0.7*1.3*4 || above > 1 {
		t.Errorf("the mean request is %.2f cores with %.2f samples above it a day, want at most 3.6 and 1", mean, above)
	}
}

// Usage that repeats every week: the request of the working days stays over the weekend, so that it is there on Monday morning.
func TestBusyHours_idleWeekend_keepsTheRequest(t *testing.T) {
	b := newBench(builtin(t, "busy-hours"))
	week := func(at time.Time) (float64, float64) {
		if day := at.Weekday(); day == time.Saturday || day == time.Sunday {
			return 0.05, 100 * mib
		}
		return officeHours(at)
	}
	b.use(28*day, week)
	mean, above := b.footprint(28, week)
	if mean < 1.23 || above > 0 {
		t.Errorf("the mean request is %.2f cores with %.2f samples above it a day, want 1.3 within 5 %% and none", mean, above)
	}
}
