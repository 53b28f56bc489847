// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package machine simulates the computer of a node. It gives its containers the CPU and memory that they demand, within their
// limits and its size, and does what a kernel does otherwise: CPU demand above the limit is throttled, CPU demand above the
// machine's cores is shared by weight, and a container with memory above its limit is killed. The package is pure: time is a
// parameter of each tick.
package machine

import (
	"math"
	"slices"
	"time"

	"podfit.dev/podfit/localcluster/internal/demand"
)

// period is the period of the kernel's CPU bandwidth control.
const period = 100 * time.Millisecond

// A Machine has a size and running containers.
type Machine struct {
	Cores  float64
	Memory int64 // bytes

	Pressure Pressure // of memory

	running []*Container
}

// A Wish is what a container does without limits.
type Wish struct {
	CPU, Memory demand.Profile // cores, bytes
	Pressure    demand.Profile // share of the time in which all tasks of the machine wait for memory because of it; nil: none
	Exit        *demand.Exit   // nil: does not exit
	Ready       time.Duration  // age at which its probes start to succeed
	ResizeFails bool           // the runtime refuses other limits
}

// Limits are the limits that the machine enforces. Zero means no limit.
type Limits struct {
	CPU         float64 // cores
	Memory      int64   // bytes
	Shares      int64   // weight when CPU is scarce
	OOMScoreAdj int64   // as in Linux; 1000 is killed first
}

// A Container is a simulated container on a node, with the CPU and memory that it uses.
type Container struct {
	Wish     Wish
	Limits   Limits
	Instance uint64        // differs between containers with the same wish
	Started  time.Duration // on the scenario's clock

	CPU    float64 // cores, during the last tick
	Memory int64   // bytes, at the last tick

	CPUSeconds       float64
	ThrottledSeconds float64 // CPU time not received because of the limit
	StarvedSeconds   float64 // CPU time not received because of other containers
	Periods          float64
	ThrottledPeriods float64

	wanted float64
}

// An End is the exit of a container.
type End struct {
	*Container
	Code   int32
	Reason string // as a container runtime reports it
}

// Start adds a container.
func (m *Machine) Start(c *Container, clock time.Duration) {
	c.Started = clock
	m.running = append(m.running, c)
}

// Stop removes a container. It does nothing if the container does not run.
func (m *Machine) Stop(c *Container) {
	m.running = slices.DeleteFunc(m.running, func(r *Container) bool { return r == c })
	c.CPU = 0
	c.Memory = 0
}

// Tick simulates the time that passed until the given time of the scenario's clock, and returns the containers that
// exited.
func (m *Machine) Tick(clock, passed time.Duration) []End {
	seconds := passed.Seconds()
	for _, c := range m.running {
		c.wanted = c.Wish.CPU.At(c.moment(clock))
		c.Memory = int64(c.Wish.Memory.At(c.moment(clock)))
	}
	m.wait(clock, passed)
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

// wait counts the time in which all tasks wait for memory: what the containers wish, and all the time if they demand more than the machine has.
func (m *Machine) wait(clock, passed time.Duration) {
	share := 0.0
	for _, c := range m.running {
		if c.Wish.Pressure != nil {
			share += c.Wish.Pressure.At(c.moment(clock))
		}
	}
	if m.Used() > m.Memory {
		share = 1
	}
	m.Pressure.pass(share, passed)
}

// share distributes the CPU. Each container gets what it demands within its limit. If that exceeds the machine's cores, they are
// shared by weight, and what a container does not need of its share goes to the others.
func (m *Machine) share() {
	left := m.Cores
	hungry := slices.Clone(m.running)
	for _, c := range hungry {
		c.CPU = 0
	}
	for len(hungry) > 0 {
		weights := 0.0
		for _, c := range hungry {
			weights += c.weight()
		}
		given := 0.0
		asking := len(hungry)
		hungry = slices.DeleteFunc(hungry, func(c *Container) bool {
			if c.allowed() > left*c.weight()/weights {
				return false
			}
			c.CPU = c.allowed()
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

// Used returns the memory in use, in bytes.
func (m *Machine) Used() int64 {
	total := int64(0)
	for _, c := range m.running {
		total += c.Memory
	}
	return total
}

// badness is the score by which Linux chooses the container to kill when the machine is out of memory.
func (m *Machine) badness(c *Container) int64 {
	return c.Memory*1000/m.Memory + c.Limits.OOMScoreAdj
}

// Ready reports whether a probe succeeds.
func (c *Container) Ready(clock time.Duration) bool { return clock-c.Started >= c.Wish.Ready }

func (c *Container) moment(clock time.Duration) demand.Moment {
	return demand.Moment{Clock: clock, Age: clock - c.Started, Instance: c.Instance}
}

// allowed returns the CPU demand within the limit, in cores.
func (c *Container) allowed() float64 {
	if c.Limits.CPU > 0 {
		return math.Min(c.wanted, c.Limits.CPU)
	}
	return c.wanted
}

// weight returns the CPU shares. The minimum is 2, as in Linux.
func (c *Container) weight() float64 { return math.Max(2, float64(c.Limits.Shares)) }

// Wanted returns the CPU that the container demands, in cores.
func (c *Container) Wanted() float64 { return c.wanted }
