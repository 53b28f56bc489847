// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"math"
	"testing"
	"time"

	"podfit.dev/podfit/localcluster/internal/demand"
)

const Mi = 1 << 20

func TestMachine_CPUAboveLimit_isThrottledAndCounted(t *testing.T) {
	m := newMachine()
	c := start(t, m, "1500m", "10Mi", Limits{CPU: 0.5})
	for range 40 {
		tick(m)
	}
	near(t, "cores", c.CPU, 0.5)
	near(t, "CPU seconds", c.CPUSeconds, 5)
	near(t, "throttled seconds", c.ThrottledSeconds, 10)
	near(t, "periods", c.Periods, 100)
	near(t, "throttled periods", c.ThrottledPeriods, 100)

	c.Limits.CPU = 2
	for range 40 {
		tick(m)
	}
	near(t, "cores after the limit was raised", c.CPU, 1.5)
	near(t, "throttled seconds after the limit was raised", c.ThrottledSeconds, 10)
	near(t, "throttled periods after the limit was raised", c.ThrottledPeriods, 100)
}

func TestMachine_CPUShortage_sharesByWeightWithoutWaste(t *testing.T) {
	m := newMachine() // 4 cores
	small := start(t, m, "500m", "1Mi", Limits{Shares: 1024})
	big := start(t, m, "8", "1Mi", Limits{Shares: 2048})
	other := start(t, m, "8", "1Mi", Limits{Shares: 1024})
	capped := start(t, m, "8", "1Mi", Limits{Shares: 102400, CPU: 0.5})
	tick(m)
	near(t, "demand below the share", small.CPU, 0.5)
	near(t, "demand above the limit", capped.CPU, 0.5)
	near(t, "two shares of the rest", big.CPU, 2)
	near(t, "one share of the rest", other.CPU, 1)
	near(t, "starved", other.StarvedSeconds, 7*0.25)
	near(t, "starved by its own limit only", capped.StarvedSeconds, 0)
}

func TestMachine_memoryAboveLimit_killsContainer(t *testing.T) {
	m := newMachine()
	c := start(t, m, "100m", "ramp(100Mi,300Mi,100s)", Limits{Memory: 200 * Mi})
	peak := int64(0)
	for range 2000 {
		if ended := tick(m); len(ended) > 0 {
			if e := ended[0]; e.Container != c || e.Code != 137 || e.Reason != "OOMKilled" {
				t.Errorf("exit: %+v", e)
			}
			if peak < 199*Mi || peak > 200*Mi {
				t.Errorf("memory before the kill: %d", peak)
			}
			if clock < 50*time.Second || clock > 51*time.Second {
				t.Errorf("exited at %v", clock)
			}
			if tick(m) != nil || m.Used() != 0 {
				t.Error("container runs after its exit")
			}
			return
		}
		peak = c.Memory
	}
	t.Error("container was not killed")
}

func TestMachine_memoryLimitRaisedInTime_keepsContainer(t *testing.T) {
	m := newMachine()
	c := start(t, m, "100m", "ramp(100Mi,300Mi,10s)", Limits{Memory: 200 * Mi})
	for range 100 {
		if clock > 4*time.Second {
			c.Limits.Memory = 400 * Mi
		}
		if ended := tick(m); ended != nil {
			t.Fatalf("exited at %v", clock)
		}
	}
}

func TestMachine_outOfMemory_killsHighestBadness(t *testing.T) {
	m := newMachine() // 1 GiB
	start(t, m, "0", "600Mi", Limits{OOMScoreAdj: -997})
	victim := start(t, m, "0", "300Mi", Limits{OOMScoreAdj: 900})
	start(t, m, "0", "200Mi", Limits{OOMScoreAdj: 900})
	ended := tick(m)
	if len(ended) != 1 || ended[0].Container != victim {
		t.Errorf("exited: %+v", ended)
	}
}

func TestMachine_memoryIsEnough_pressureIsWhatContainersWish(t *testing.T) {
	m := newMachine()
	start(t, m, "100m", "1023Mi", Limits{})
	for range 400 {
		tick(m)
	}
	if m.Pressure != (Pressure{}) {
		t.Errorf("pressure %+v without a wish", m.Pressure)
	}
	for _, share := range []float64{0.1, 0.2} {
		start(t, m, "0", "0", Limits{}).Wish.Pressure = demand.Constant(share)
	}
	for range 240 {
		tick(m)
	}
	near(t, "seconds after a minute", m.Pressure.Seconds, 0.3*60)
	near(t, "mean of 10 s", m.Pressure.Avg10, 0.3*(1-math.Exp(-6)))
	near(t, "mean of 60 s", m.Pressure.Avg60, 0.3*(1-math.Exp(-1)))
	near(t, "mean of 300 s", m.Pressure.Avg300, 0.3*(1-math.Exp(-0.2)))

	start(t, m, "0", "0", Limits{}).Wish.Pressure = demand.Constant(7)
	tick(m)
	near(t, "seconds after a tick in which they wish more than all the time", m.Pressure.Seconds, 0.3*60+0.25)
}

func TestMachine_outOfMemory_isPressureUntilContainerIsKilled(t *testing.T) {
	m := newMachine()
	start(t, m, "0", "600Mi", Limits{})
	start(t, m, "0", "600Mi", Limits{})
	if ended := tick(m); len(ended) != 1 {
		t.Fatalf("exited: %+v", ended)
	}
	near(t, "seconds", m.Pressure.Seconds, 0.25)
	near(t, "mean of 10 s", m.Pressure.Avg10, 1-math.Exp(-0.025))
	for range 4000 {
		tick(m)
	}
	near(t, "seconds later", m.Pressure.Seconds, 0.25)
	near(t, "mean of 300 s later", math.Round(m.Pressure.Avg300*1000), 0)
}

func TestMachine_exitTimeReached_endsContainer(t *testing.T) {
	m := newMachine()
	c := start(t, m, "0", "1Mi", Limits{})
	c.Wish.Exit = &demand.Exit{After: 2 * time.Second, Code: 3}
	for range 7 {
		if ended := tick(m); ended != nil {
			t.Fatalf("exited at %v", clock)
		}
	}
	if ended := tick(m); len(ended) != 1 || ended[0].Code != 3 || ended[0].Reason != "Error" {
		t.Errorf("exited: %+v", ended)
	}
}

var clock time.Duration

func newMachine() *Machine {
	clock = 0
	return &Machine{Cores: 4, Memory: 1 << 30}
}

func tick(m *Machine) []End {
	clock += 250 * time.Millisecond
	return m.Tick(clock, 250*time.Millisecond)
}

func start(t *testing.T, m *Machine, cpu, memory string, l Limits) *Container {
	t.Helper()
	w := Wish{}
	var err, err2 error
	w.CPU, err = demand.Parse(cpu)
	w.Memory, err2 = demand.Parse(memory)
	if err != nil || err2 != nil {
		t.Fatal(err, err2)
	}
	c := &Container{Wish: w, Limits: l}
	m.Start(c, clock)
	return c
}

func near(t *testing.T, what string, got, want float64) {
	t.Helper()
	if math.Abs(got-want) > 1e-6 {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}
