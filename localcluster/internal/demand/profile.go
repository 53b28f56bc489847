// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package demand

import (
	"hash/fnv"
	"math"
	"time"
)

// A Moment is the input of a profile.
type Moment struct {
	Clock    time.Duration // scenario time since the scenario began
	Age      time.Duration // scenario time since the container started
	Instance uint64        // differs between containers with the same expression
}

// A Profile is a demand over time, in cores or bytes. It is never negative.
type Profile interface {
	At(m Moment) float64
}

// Constant is the same demand at every moment.
type Constant float64

// At returns the constant.
func (c Constant) At(Moment) float64 { return math.Max(0, float64(c)) }

type sum []Profile

func (s sum) At(m Moment) float64 {
	total := 0.0
	for _, p := range s {
		total += p.At(m)
	}
	return total
}

type sine struct {
	low, high     Profile
	period, phase time.Duration
}

func (s sine) At(m Moment) float64 {
	turn := 2 * math.Pi * float64(m.Clock+s.phase) / float64(s.period)
	return between(s.low.At(m), s.high.At(m), (1-math.Cos(turn))/2)
}

type ramp struct {
	from, to Profile
	over     time.Duration
}

func (r ramp) At(m Moment) float64 {
	return between(r.from.At(m), r.to.At(m), math.Min(1, float64(m.Age)/float64(r.over)))
}

type leak struct {
	base, growth Profile
	every        time.Duration
}

func (l leak) At(m Moment) float64 {
	return l.base.At(m) + l.growth.At(m)*float64(m.Age)/float64(l.every)
}

type burst struct {
	base, peak         Profile
	every, last, phase time.Duration
}

func (b burst) At(m Moment) float64 {
	if into(m.Clock+b.phase, b.every) < b.last {
		return b.peak.At(m)
	}
	return b.base.At(m)
}

// step is one profile until the container has a certain age, and another one afterwards: a start-up spike or a permanent
// change.
type step struct {
	before, after Profile
	at            time.Duration
}

func (s step) At(m Moment) float64 {
	if m.Age < s.at {
		return s.before.At(m)
	}
	return s.after.At(m)
}

type sawtooth struct {
	low, high Profile
	period    time.Duration
}

func (s sawtooth) At(m Moment) float64 {
	return between(s.low.At(m), s.high.At(m), float64(into(m.Age, s.period))/float64(s.period))
}

type noise struct {
	base   Profile
	spread float64
	every  time.Duration
	seed   uint64
	seeded bool // false: the seed is the container's instance
}

func (n noise) At(m Moment) float64 {
	seed := n.seed
	if !n.seeded {
		seed = m.Instance
	}
	draw := unit(seed, uint64(m.Clock/n.every))
	return math.Max(0, n.base.At(m)*(1+n.spread*(2*draw-1)))
}

type extreme struct {
	pick func(a, b float64) float64
	of   []Profile
}

func (e extreme) At(m Moment) float64 {
	v := e.of[0].At(m)
	for _, p := range e.of[1:] {
		v = e.pick(v, p.At(m))
	}
	return v
}

// Instance returns a hash of a container's name, for Moment.Instance.
func Instance(name string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(name))
	return h.Sum64()
}

func between(low, high, share float64) float64 { return low + (high-low)*share }

// into returns d modulo the period, in [0, period), also for negative d.
func into(d, period time.Duration) time.Duration {
	d %= period
	if d < 0 {
		d += period
	}
	return d
}

// unit returns a pseudo-random number in [0, 1) that depends only on its arguments (the output function of splitmix64).
func unit(seed, n uint64) float64 {
	x := seed + (n+1)*0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	x ^= x >> 31
	return float64(x>>11) / (1 << 53)
}
