// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package demand computes how much CPU or memory a simulated container demands at a point in time. A profile is written as
// a short expression:
//
//	300m                                     a constant: cores, or bytes (200Mi)
//	sine(50m, 400m, 24h)                     a daily curve: low at 0h, high at 12h, by the scenario's clock
//	ramp(200Mi, 900Mi, 3d)                   from the first value to the second, then constant
//	leak(200Mi, 10Mi, every=1h)              grows without limit
//	burst(100m, 900m, every=10m, for=30s)    the second value for 30s in every 10m, by the scenario's clock
//	startup(1500m, for=20s, then=100m)       a start-up spike
//	step(100m, 400m, after=2h)               a permanent change
//	sawtooth(200Mi, 800Mi, 5m)               grows and falls back, like a JVM heap
//	noise(300m, 0.1, seed=7)                 up to 10% more or less; a new value every=10s
//	min(a, b), max(a, b), a + b              any of the above
//
// Every argument that is a value may be an expression. Ramps, leaks, start-up spikes, steps and sawtooth curves count from
// the start of the container; sine curves and bursts follow the clock of the scenario. The package is pure: a profile is a
// function of the time.
package demand
