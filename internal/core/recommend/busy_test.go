// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package recommend

import (
	"testing"
	"time"
	_ "time/tzdata" // the same zones on every machine

	"podfit.dev/podfit/internal/core/cluster"
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

func TestWorkload_shareOfANode_boundsCPU(t *testing.T) {
	b := newBench(BusyHoursProfile("busy", "", Busiest()))
	b.use(day, always(3, 100*mib))
	autoscaler := &cluster.Autoscaler{Target: cart}
	p := b.p.Params
	free := Workload(p, b.p.Estimator, b.book, autoscaler, cart, b.now)[0]
	if free.Target.CPU < 3900 {
		t.Fatalf("without a node: %+v", free)
	}
	p.MostMillicores = 1000
	bound := Workload(p, b.p.Estimator, b.book, autoscaler, cart, b.now)[0]
	if bound.Target.CPU != 1000 || bound.Lower.CPU > 1000 || bound.Upper.CPU != 1000 || bound.Target.Memory != free.Target.Memory {
		t.Errorf("bound to a core: %+v", bound)
	}
	p.MostMillicores = 1 // less than the floor
	if got := Workload(p, b.p.Estimator, b.book, autoscaler, cart, b.now)[0]; got.Target.CPU != 10 {
		t.Errorf("the floor does not hold: %+v", got)
	}
}
