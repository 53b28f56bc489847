// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package machine is the simulated computer under a node: it gives its containers the CPU and memory that they
// demand, as far as their limits and its size allow, and does what a kernel does when they want more. CPU above the
// limit is throttled, CPU above the machine's is shared by weight, and memory above the limit is the end of the
// container. It is pure: time comes in with each tick, and nothing runs by itself.
package machine

import (
	"math"
	"slices"
	"time"

	"podfit.dev/podfit/localcluster/internal/demand"
)

// period is the length of a period of the kernel's CPU bandwidth control.
const period = 100 * time.Millisecond

// A Machine has a size, and the containers that run on it.
type Machine struct {
	Cores  float64
	Memory int64 // bytes

	running []*Container
}

// A Wish is what a container does if nothing stops it.
type Wish struct {
	CPU, Memory demand.Profile // cores, bytes
	Exit        *demand.Exit   // nil: runs for ever
	Ready       time.Duration  // the age from which its probes succeed
}

// Limits are what the container runtime was told to enforce. Zero is no limit.
type Limits struct {
	CPU         float64 // cores
	Memory      int64   // bytes
	Shares      int64   // weight when CPU is short
	OOMScoreAdj int64   // 1000 is the first to go when the machine is out of memory
}

// A Container is a running container and what it has used.
type Container struct {
	Wish     Wish
	Limits   Limits
	Instance uint64        // tells it from others with the same wish
	Started  time.Duration // by the scenario's clock

	CPU    float64 // cores, during the last tick
	Memory int64   // bytes, at the last tick

	CPUSeconds       float64
	ThrottledSeconds float64 // how much CPU time the limit has cost
	StarvedSeconds   float64 // how much CPU time the other containers have cost
	Periods          float64
	ThrottledPeriods float64

	wanted float64
}

// An End is a container that has ended, and how.
type End struct {
	*Container
	Code   int32
	Reason string // as a container runtime words it
}

// Start runs a container.
func (m *Machine) Start(c *Container, clock time.Duration) {
	c.Started = clock
	m.running = append(m.running, c)
}

// Stop ends a container. Stopping twice is harmless.
func (m *Machine) Stop(c *Container) {
	m.running = slices.DeleteFunc(m.running, func(r *Container) bool { return r == c })
	c.CPU, c.Memory = 0, 0
}

// Tick lets the machine run for a while, until the given time of the scenario's clock, and returns the containers
// that ended.
func (m *Machine) Tick(clock, passed time.Duration) []End {
	seconds := passed.Seconds()
	for _, c := range m.running {
		c.wanted = c.Wish.CPU.At(c.moment(clock))
		c.Memory = int64(c.Wish.Memory.At(c.moment(clock)))
	}
	m.share()
	for _, c := range m.running {
		c.CPUSeconds += c.CPU * seconds
		allowed := c.wanted
		if c.Limits.CPU > 0 {
			c.Periods += float64(passed) / float64(period)
			if c.wanted > c.Limits.CPU {
				allowed = c.Limits.CPU
				c.ThrottledPeriods += float64(passed) / float64(period)
				c.ThrottledSeconds += (c.wanted - c.Limits.CPU) * seconds
			}
		}
		c.StarvedSeconds += max(0, allowed-c.CPU) * seconds
	}

	var ended []End
	for _, c := range m.running {
		switch exit := c.Wish.Exit; {
		case c.Limits.Memory > 0 && c.Memory > c.Limits.Memory:
			ended = append(ended, End{c, 137, "OOMKilled"})
		case exit != nil && clock-c.Started >= exit.After:
			reason := "Completed"
			if exit.Code != 0 {
				reason = "Error"
			}
			ended = append(ended, End{c, exit.Code, reason})
		}
	}
	for _, e := range ended {
		m.Stop(e.Container)
	}
	for m.Used() > m.Memory {
		victim := slices.MaxFunc(m.running, func(a, b *Container) int { return int(m.badness(a) - m.badness(b)) })
		ended = append(ended, End{victim, 137, "OOMKilled"})
		m.Stop(victim)
	}
	return ended
}

// share gives every container what it may and wants to have, and if that is more than there is, a share of what is
// there by weight; what one does not need of its share goes to the others.
func (m *Machine) share() {
	left, hungry := m.Cores, slices.Clone(m.running)
	for _, c := range hungry {
		c.CPU = 0
	}
	for len(hungry) > 0 {
		weights := 0.0
		for _, c := range hungry {
			weights += c.weight()
		}
		given, asking := 0.0, len(hungry)
		hungry = slices.DeleteFunc(hungry, func(c *Container) bool {
			if c.may() > left*c.weight()/weights {
				return false
			}
			c.CPU = c.may()
			given += c.CPU
			return true
		})
		if len(hungry) == asking {
			for _, c := range hungry {
				c.CPU = left * c.weight() / weights
			}
			return
		}
		left -= given
	}
}

// Used is the memory in use.
func (m *Machine) Used() int64 {
	total := int64(0)
	for _, c := range m.running {
		total += c.Memory
	}
	return total
}

// badness is by what Linux chooses whom to kill when the machine is out of memory.
func (m *Machine) badness(c *Container) int64 {
	return c.Memory*1000/m.Memory + c.Limits.OOMScoreAdj
}

// Ready says whether a probe succeeds.
func (c *Container) Ready(clock time.Duration) bool { return clock-c.Started >= c.Wish.Ready }

func (c *Container) moment(clock time.Duration) demand.Moment {
	return demand.Moment{Clock: clock, Age: clock - c.Started, Instance: c.Instance}
}

func (c *Container) may() float64 {
	if c.Limits.CPU > 0 {
		return math.Min(c.wanted, c.Limits.CPU)
	}
	return c.wanted
}

// weight is never nothing: Linux gives 2 shares to those who asked for none.
func (c *Container) weight() float64 { return math.Max(2, float64(c.Limits.Shares)) }

// Wanted is the CPU that it would use if nothing stopped it, in cores.
func (c *Container) Wanted() float64 { return c.wanted }
