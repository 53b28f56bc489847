// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package autopilot sizes containers as Google's Autopilot does: by an ensemble of simple models.
package autopilot

import (
	"cmp"
	"math"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/codec"
	"podfit.dev/podfit/internal/core/derivation"
	"podfit.dev/podfit/internal/core/usage"
)

// Params are the hyper-parameters of an Ensemble.
type Params struct {
	CPU, Memory Weights
}

// Weights are the weights of the costs of a resource, and their decay.
type Weights struct {
	Overrun, Underrun float64       // w_o, w_u
	Change            float64       // w_ΔL
	Switch            float64       // w_Δm
	Forget            time.Duration // the half-life of c_m, instead of d
	Bump              float64       // after usage above the request: the request relative to usage
	Hold              time.Duration // how long the raised request stays
}

// The models: half-lives in hours, and margins.
var (
	modelDecays  = [...]float64{24, 96, 336}
	modelMargins = [...]float64{0.05, 0.15, 0.3}
)

const models = len(modelDecays) * len(modelMargins)

// The buckets grow by a constant factor and cover a range of 1 to 268. The range moves up with usage.
const (
	buckets     = 40
	bucketRatio = 1.15
	lowest      = 1e-5
	lightest    = 1e-3
)

// mostModelled limits weights, limits and costs, which only broken model state exceeds. It is below codec.MaxNumber, so that they can be
// stored and read again.
const mostModelled = codec.MaxNumber / 2

// Ensemble is Autopilot's machine-learnt recommender (Rzadca et al., EuroSys 2020, 3.2.3): many simple models, each a
// decay d_m and a margin M_m, and a choice among them by what each would have cost. Once an hour, with s the histogram
// of the hour's samples (of memory its peak alone) and L the bucket bounds:
//
//	(4) o(L) ← (1−d_m)·o(L) + d_m·Σ_{b>L} s[b]                overruns
//	(5) u(L) ← (1−d_m)·u(L) + d_m·Σ_{b<L} s[b]                underruns
//	(6) L'   = argmin_L  w_o·o(L) + w_u·u(L) + w_ΔL·Δ(L, L' before)
//	(7) L_m  = L' + M_m
//	(8) c_m  ← d·(w_o·o_m + w_u·u_m + w_ΔL·Δ(L_m, L_m before)) + (1−d)·c_m     o_m, u_m: of the last hour alone
//	(9) L    = L_m of the m with least c_m + w_Δm·Δ(m, m before) + w_ΔL·Δ(L_m, L before)
//
// There are three differences, because with counts alone (5) and (6) end at the highest bucket that is not empty: an underrun
// is weighted by the unused share (L−b)/L; buckets with a decayed weight below a thousandth are ignored; and an overrun of CPU is
// weighted by the missing share (b−L)/L, while an overrun of memory counts as 1. Margins are relative.
// The paper does not publish its weights; these were tuned on the traces (docs/backtest.md).
type Ensemble struct{ Params }

// Extend creates the model state of a container (usage.Store.Extend).
func (e *Ensemble) Extend() usage.Extension { return &Models{p: &e.Params} }

// Amount returns the limit of the chosen model, or the request that usage above it has raised.
func (e *Ensemble) Amount(state usage.Extension, r cluster.Resource, now time.Time, to *derivation.Recorder) int64 {
	m, ok := state.(*Models)
	if !ok {
		return 0
	}
	mixture := cluster.Pick(r, &m.cpu, &m.memory)
	if mixture.at(now.Unix(), nil) <= 0 {
		return 0
	}
	mixture.explain(cluster.Pick(r, &e.CPU, &e.Memory), to)
	return to.Ceil(to.ToMillicores(mixture.at(now.Unix(), to), cluster.Pick(r, 1000.0, 1)))
}

// Models is the model state of Ensemble.
type Models struct {
	p           *Params
	since       int64 // the hour of the first sample; 0: no sample, or unknown
	cpu, memory mixture
}

// Observe adds a sample.
func (m *Models) Observe(s usage.Sample, taken cluster.Set) {
	now := s.At.Unix()
	if m.since == 0 && m.cpu.hour == 0 && m.memory.hour == 0 {
		m.since = now / 3600
	}
	if taken.Has(cluster.CPU) {
		m.cpu.observe(now, s.CPU, &m.p.CPU, false)
	}
	if taken.Has(cluster.Memory) {
		m.memory.observe(now, s.Memory, &m.p.Memory, true)
	}
}

// ObserveOOM raises the request to the memory that an OOM kill showed to be needed.
func (m *Models) ObserveOOM(o usage.OOM, needed int64) {
	m.memory.raise(o.At.Unix(), float64(needed), &m.p.Memory)
}

// mixture is the state of the models of one resource. Times are Unix seconds.
type mixture struct {
	base    int32 // the bucket of the first weight, on the scale of bucketOf
	hour    int64 // the current hour, 0 before the first sample
	samples [buckets]uint16
	top     int32 // the highest bucket of the hour
	weights [len(modelDecays)][buckets]float32
	bound   [len(modelDecays)]int32 // L', as a bucket; 0 before the first
	limit   [models]float32         // L_m
	cost    [models]float32         // c_m
	chosen  int32                   // m
	level   float64                 // L
	raised  float64                 // not below this
	until   int64                   // until then
}

// bucketOf returns the bucket of a value. Bucket k ends at boundOf(k).
func bucketOf(v float64) int32 {
	if v <= lowest {
		return 0
	}
	return int32(math.Ceil(math.Log(v/lowest) / math.Log(bucketRatio)))
}

func boundOf(k int32) float64 { return lowest * math.Pow(bucketRatio, float64(k)) }

// steps are the bounds of the buckets relative to the first one.
var steps = func() (out [buckets]float64) {
	for i := range out {
		out[i] = math.Pow(bucketRatio, float64(i))
	}
	return out
}()

func (x *mixture) at(now int64, to *derivation.Recorder) float64 {
	if now >= x.until {
		return x.level
	}
	v := to.Raise(derivation.StepRaised, x.level, x.raised)
	to.Evidence().Until = unix(x.until)
	return v
}

// explain records the steps to the level: the limit of the chosen model, which the level has unless the difference is too small, or no hour
// has ended yet.
func (x *mixture) explain(weights *Weights, to *derivation.Recorder) {
	if to == nil {
		return
	}
	if x.limit[x.chosen] == 0 {
		to.Value(derivation.StepRecent, x.level)
		*to.Evidence() = derivation.Evidence{Hours: 1, Margin: weights.Bump - 1, From: unix(x.hour * 3600), Until: unix(x.hour*3600 + 3600)}
		return
	}
	limit := x.limitOf(int(x.chosen), to)
	if limit != x.level {
		to.Keep(derivation.StepKept, limit, x.level)
		*to.Evidence() = derivation.Evidence{From: unix(x.hour * 3600), Amount: to.Amount(limit), Kept: derivation.KeptSmall, Share: leastDifference}
	}
}

// limitOf returns the limit of a model, L_m of equation 7.
func (x *mixture) limitOf(model int, to *derivation.Recorder) float64 {
	limit := to.Value(derivation.StepModel, boundOf(x.bound[model/len(modelMargins)]))
	to.Evidence().HalfLife = time.Duration(modelDecays[model/len(modelMargins)] * float64(time.Hour))
	limit = to.Multiply(derivation.StepModelMargin, limit, 1+modelMargins[model%len(modelMargins)])
	to.Evidence().Margin = modelMargins[model%len(modelMargins)]
	return to.Lower(derivation.StepMaximum, limit, mostModelled)
}

func (x *mixture) observe(now int64, used float64, weights *Weights, peakOnly bool) {
	hour := max(1, now/3600) // not 0, which means that there is no sample
	if x.hour == 0 {
		x.hour = hour
		x.base = max(0, bucketOf(used)-buckets/2)
	}
	if hour > x.hour {
		x.endHour(weights, peakOnly)
		x.hour = hour
	}
	k := bucketOf(used)
	x.include(k)
	x.top = max(x.top, k)
	if n := &x.samples[max(0, k-x.base)]; *n < math.MaxUint16 {
		*n++
	}
	x.level = cmp.Or(x.level, used*weights.Bump)
	if used > x.at(now, nil) {
		x.raise(now, used*weights.Bump, weights)
	}
}

// raise raises the request at once, for the time of Hold.
func (x *mixture) raise(now int64, v float64, w *Weights) {
	if now >= x.until || v > x.raised {
		x.raised = v
	}
	x.until = now + int64(w.Hold/time.Second)
}

// include moves the range of buckets up to include a bucket. Weights below the range are added to the lowest bucket.
func (x *mixture) include(k int32) {
	shift := k - x.base - (buckets - 1)
	if shift <= 0 {
		return
	}
	for d := range x.weights {
		shiftDown(x.weights[d][:], int(shift), mostModelled)
	}
	shiftDown(x.samples[:], int(shift), math.MaxUint16)
	x.base += shift
}

// shiftDown moves values down by a number of places and adds those that fall out to the first, up to a maximum.
func shiftDown[T uint16 | float32](values []T, by int, most T) {
	lost := 0.0
	for i := range min(by, len(values)) {
		lost += float64(values[i])
	}
	kept := copy(values, values[min(by, len(values)):])
	clear(values[kept:])
	values[0] = T(min(float64(values[0])+lost, float64(most)))
}

// endHour applies equations 4 to 9 to the samples of the hour.
func (x *mixture) endHour(weights *Weights, peakOnly bool) {
	var shares [buckets]float64
	if peakOnly {
		shares[max(0, x.top-x.base)] = 1
	} else {
		n := 0.0
		for _, c := range x.samples {
			n += float64(c)
		}
		if n == 0 { // only in broken model state
			x.top = 0
			return
		}
		for i, c := range x.samples {
			shares[i] = float64(c) / n
		}
	}
	for d := range modelDecays {
		keep := math.Exp2(-1 / modelDecays[d]) // 1 − d_m
		for i := range shares {
			x.weights[d][i] = float32(keep*float64(x.weights[d][i]) + (1-keep)*shares[i])
		}
		x.bound[d] = x.best(d, weights, peakOnly)
	}
	keep := math.Exp2(-3600 / weights.Forget.Seconds())
	least := math.Inf(1)
	chosen := int32(0)
	for model := range models {
		limit := x.limitOf(model, nil)
		// The hour is charged to the limit that was in effect during it.
		c := 0.0
		if before := float64(x.limit[model]); before > 0 {
			over, under := runs(&shares, before/boundOf(x.base), peakOnly)
			c = weights.Overrun*over + weights.Underrun*under
			if differ(limit, before) {
				c += weights.Change
			}
			c = min(c, mostModelled)
		}
		x.cost[model] = float32((1-keep)*c + keep*float64(x.cost[model]))
		x.limit[model] = float32(limit)
		total := float64(x.cost[model])
		if int32(model) != x.chosen {
			total += weights.Switch
		}
		if differ(limit, x.level) {
			total += weights.Change * (1 - keep)
		}
		if total < least {
			least = total
			chosen = int32(model)
		}
	}
	x.chosen = chosen
	if l := float64(x.limit[chosen]); differ(l, x.level) {
		x.level = l
	}
	x.samples = [buckets]uint16{}
	x.top = 0
}

// leastDifference is the difference of two limits that is more than rounding, as a share.
const leastDifference = 1e-4

// differ reports whether two limits differ by more than rounding.
func differ(a, b float64) bool { return math.Abs(a-b) > leastDifference*b }

// best returns the bucket of equation 6.
func (x *mixture) best(decay int, weights *Weights, peakOnly bool) int32 {
	var shares [buckets]float64
	total := 0.0
	for i, weight := range x.weights[decay] {
		shares[i] = float64(weight)
		total += shares[i]
	}
	for i := range shares {
		if shares[i] < lightest*total {
			shares[i] = 0
		}
		shares[i] /= total
	}
	least := math.Inf(1)
	bucket := int32(0)
	for i := range int32(buckets) {
		k := x.base + i
		over, under := runs(&shares, steps[i], peakOnly)
		cost := weights.Overrun*over + weights.Underrun*under
		if k != x.bound[decay] {
			cost += weights.Change
		}
		if cost < least {
			least = cost
			bucket = k
		}
	}
	return bucket
}

// runs returns the overruns and underruns of a histogram at a limit relative to the bound of the first bucket.
func runs(s *[buckets]float64, limit float64, peakOnly bool) (over, under float64) {
	for i, weight := range s {
		if weight == 0 {
			continue
		}
		switch b := steps[i]; {
		case b <= limit*(1+1e-6):
			under += weight * max(0, limit-b) / limit
		case peakOnly:
			over += weight
		default:
			over += weight * (b - limit) / limit
		}
	}
	return over, under
}

// ahead is how far planned times may be in the future, in seconds.
const ahead = 60 * 24 * 3600

func unix(seconds int64) time.Time { return time.Unix(seconds, 0).UTC() }

// Form implements usage.Extension.
func (m *Models) Form() string { return "autopilot/1" }

// Latest implements usage.Extension.
func (m *Models) Latest() time.Time {
	return unix(max(m.since*3600, m.cpu.hour*3600, m.memory.hour*3600, m.cpu.until-ahead, m.memory.until-ahead))
}

// Since implements usage.Extension.
func (m *Models) Since() (at time.Time) {
	if m.since > 0 {
		at = unix(m.since * 3600)
	}
	return at
}

// CPUWeight implements usage.Extension.
func (m *Models) CPUWeight(float64) float64 { return usage.SampleWeight }

// modelsVersion is the format of stored Models. Version 2 has no time of the first sample; other versions are not read.
const modelsVersion = 3

// AppendBinary appends the model state.
func (m *Models) AppendBinary(b []byte) ([]byte, error) { return codec.Append(b, m) }

// UnmarshalBinary reads what AppendBinary wrote. When it fails, m does not change.
func (m *Models) UnmarshalBinary(data []byte) error { return codec.Read(data, m) }

// Code implements codec.State.
func (m *Models) Code(c *codec.Coder) {
	version := c.Version(modelsVersion, 2, modelsVersion)
	if version >= 3 {
		codec.Varint(c, "hour of the first sample", &m.since, 0, codec.MaxTime)
	} else {
		m.since = 0
	}
	m.cpu.code(c)
	m.memory.code(c)
}

// numbers returns the weights, then limit and cost of each model.
func (x *mixture) numbers() []*float32 {
	var out []*float32
	for decay := range x.weights {
		for i := range x.weights[decay] {
			out = append(out, &x.weights[decay][i])
		}
	}
	for m := range models {
		out = append(out, &x.limit[m], &x.cost[m])
	}
	return out
}

// maxBucket is above any bucket that usage can be in.
const maxBucket = 1000

func (x *mixture) code(c *codec.Coder) {
	if c.Decoding() {
		*x = mixture{}
	}
	codec.Varint(c, "hour", &x.hour, 0, codec.MaxTime)
	if x.hour == 0 {
		return
	}
	codec.Varint(c, "first bucket", &x.base, 0, maxBucket-buckets)
	codec.Varint(c, "highest bucket of the hour", &x.top, 0, int64(x.base+buckets-1))
	codec.Varint(c, "time until which the level is raised", &x.until, 0, codec.MaxTime)
	codec.Byte(c, "chosen model", &x.chosen, byte(models-1))
	for decay := range x.bound {
		codec.Varint(c, "bucket of a limit", &x.bound[decay], 0, maxBucket)
	}
	c.Float64("level", &x.level, 0, codec.MaxNumber)
	c.Float64("raised level", &x.raised, 0, codec.MaxNumber)
	for i := range x.samples {
		codec.Uvarint(c, "samples of a bucket", &x.samples[i], math.MaxUint16)
	}
	codeNumbers(c, x.numbers())
}

// codeNumbers encodes or decodes numbers as runs: runOfZeros and the length of the run, or oneNumber and the number. Most weights are zero.
func codeNumbers(c *codec.Coder, numbers []*float32) {
	const (
		runOfZeros = iota
		oneNumber
	)
	for i := 0; i < len(numbers) && c.Err() == nil; {
		run := 0
		for !c.Decoding() && run < math.MaxUint8 && i+run < len(numbers) && *numbers[i+run] == 0 {
			run++
		}
		kind := byte(runOfZeros)
		if run == 0 {
			kind = oneNumber
		}
		codec.Byte(c, "kind of a run", &kind, oneNumber)
		if kind == oneNumber {
			c.Float32("weight, limit or cost", numbers[i], 0, codec.MaxNumber)
			i++
			continue
		}
		codec.Byte(c, "length of a run of zeros", &run, math.MaxUint8)
		if run == 0 || i+run > len(numbers) {
			c.Fail("run of %d zeros in a sequence of %d numbers at %d", run, len(numbers), i)
		}
		i += run
	}
}
