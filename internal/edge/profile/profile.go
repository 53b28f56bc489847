// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package profile reads SizingProfiles, from files and from the API server. It validates a profile and converts it to a
// recommend.Profile. It does not recommend anything.
package profile

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"
	_ "time/tzdata" // the container image has no time zone database
	"unicode/utf8"

	"podfit.dev/podfit/api/podfit/v1alpha1"
	"podfit.dev/podfit/internal/core/autopilot"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/criticality"
	"podfit.dev/podfit/internal/core/recommend"
	"podfit.dev/podfit/internal/core/sizing"
	"podfit.dev/podfit/internal/spelling"
)

// ReadFile reads the SizingProfile in a file.
func ReadFile(path string) (recommend.Profile, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return recommend.Profile{}, fmt.Errorf("read profile: %w", err)
	}
	p, err := Parse(data)
	if err != nil {
		return p, fmt.Errorf("%s: %w", path, err)
	}
	return p, nil
}

// Learn adds a version of a SizingProfile to a catalog, in YAML or JSON. If it is invalid, the catalog has the problem.
func Learn(catalog *sizing.Catalog, name, version string, data []byte) {
	p, err := Parse(data)
	if err != nil {
		catalog.LearnInvalid(name, version, err.Error())
		return
	}
	catalog.Learn(name, version, p)
}

// Parse reads a SizingProfile in YAML or JSON. The error has all problems of the spec.
func Parse(data []byte) (recommend.Profile, error) {
	o, err := decode(data)
	if err != nil {
		return recommend.Profile{}, err
	}
	if o.Name == "" {
		return recommend.Profile{}, errors.New("metadata.name is required")
	}
	_, builtin := recommend.Builtin(o.Name)
	if builtin {
		return recommend.Profile{}, fmt.Errorf("metadata.name must not be the name of a built-in profile, got %s; "+
			"choose another name, and use spec.base to start from the built-in profile", o.Name)
	}
	c := &checker{}
	p := profileOf(o.Name, &o.Spec, c)
	p.Learning = learning(o.Spec.StartupBoost, c)
	if l := o.Spec.Limits; l != nil && l.Memory != "" {
		p.MemoryLimits = cluster.LimitRule{Peaks: l.Memory == v1alpha1.LimitByPeaks, Keep: l.Memory == v1alpha1.UnchangedLimit}
	}
	if len(c.problems) > 0 {
		return recommend.Profile{}, errors.New(strings.Join(c.problems, "; "))
	}
	return p, nil
}

// A checker collects the problems of a spec.
type checker struct{ problems []string }

func (c *checker) problem(format string, args ...any) {
	c.problems = append(c.problems, fmt.Sprintf(format, args...))
}

// number sets *to to *v if v is set and within the bounds of the field at path.
func (c *checker) number(path string, v *float64, to *float64) {
	bounds := boundsOf(numberBounds, path)
	switch {
	case v == nil:
	case math.IsNaN(*v) || *v < bounds.least || *v > bounds.most:
		c.problem("spec.%s must be between %g and %g, got %g%s", path, bounds.least, bounds.most, *v, percentHint(*v, bounds.least, bounds.most))
	default:
		*to = *v
	}
}

// whole is like number, for whole numbers.
func (c *checker) whole(path string, v *int32, to *int) {
	bounds := boundsOf(numberBounds, path)
	switch {
	case v == nil:
	case float64(*v) < bounds.least || float64(*v) > bounds.most:
		c.problem("spec.%s must be between %g and %g, got %d", path, bounds.least, bounds.most, *v)
	default:
		*to = int(*v)
	}
}

func (c *checker) oneOf(path, value string, choices ...string) {
	if last := len(choices) - 1; value != "" && !slices.Contains(choices, value) {
		c.problem("spec.%s must be %s or %s, got %q", path, strings.Join(choices[:last], ", "), choices[last], value)
	}
}

var durations = regexp.MustCompile(`^([0-9]+(\.[0-9]+)?(h|m|s))+$`)

// duration is like number, for durations in hours, minutes and seconds.
func (c *checker) duration(path string, v *v1alpha1.Duration, to *time.Duration) {
	if v == nil {
		return
	}
	bounds := boundsOf(durationBounds, path)
	d, err := time.ParseDuration(string(*v))
	switch {
	case err != nil || !durations.MatchString(string(*v)) || len(*v) > boundsOf(lengthBounds, path):
		c.problem("spec.%s must be a duration such as 12h or 90m, got %q", path, *v)
	case d < bounds.least || d > bounds.most:
		c.problem("spec.%s must be between %s and %s, got %s", path, shortDuration(bounds.least), shortDuration(bounds.most), d)
	default:
		*to = d
	}
}

// shortDuration formats a duration of whole hours or minutes.
func shortDuration(d time.Duration) string {
	switch {
	case d == 0:
		return "0s"
	case d%time.Hour != 0:
		return fmt.Sprintf("%dm", d/time.Minute)
	}
	return fmt.Sprintf("%dh", d/time.Hour)
}

func profileOf(name string, s *v1alpha1.SizingProfileSpec, c *checker) recommend.Profile {
	base := cmp.Or(string(s.Base), "balanced")
	builtin, known := recommend.Builtin(base)
	if !known {
		c.problem("%s", unknownBase(base))
		return recommend.Profile{}
	}
	about := cmp.Or(s.About, "based on "+base)
	n := utf8.RuneCountInString(about)
	most := boundsOf(lengthBounds, "about")
	if n > most {
		c.problem("spec.about must have at most %d characters, got %d", most, n)
	}
	// The recommender does not need these: the updater and the webhook read them.
	c.oneOf("rollout", s.Rollout, "all", "canary")
	c.duration("canaryDuration", s.CanaryDuration, new(time.Duration))
	checkGuards(s, c)
	if s.Limits != nil {
		c.oneOf("limits.cpu", string(s.Limits.CPU), string(v1alpha1.KeepLimit), string(v1alpha1.RemoveLimit))
		c.oneOf("limits.memory", string(s.Limits.Memory), string(v1alpha1.ProportionalLimit), string(v1alpha1.UnchangedLimit), string(v1alpha1.LimitByPeaks))
	}
	for _, part := range []struct {
		name  string
		given bool
		bases string
	}{
		{"histogram", s.Histogram != nil, "default"},
		{"memory", s.Memory != nil, "balanced, cost, critical, busy-hours"},
		{"cpu", s.CPU != nil, "balanced, cost, critical"},
		{"busyHours", s.BusyHours != nil, "busy-hours"},
		{"ensemble", s.Ensemble != nil, "autopilot"},
		{"packed", s.Packed != nil, "packed"},
	} {
		if part.given && !strings.Contains(", "+part.bases+", ", ", "+base+", ") {
			c.problem("spec.%s is not allowed with base %s; it is allowed with %s", part.name, base, part.bases)
		}
	}
	if len(c.problems) > 0 {
		return recommend.Profile{}
	}
	memory := cmp.Or(s.Memory, new(v1alpha1.Memory))
	switch base {
	case "default":
		return histogram(name, about, cmp.Or(s.Histogram, new(v1alpha1.Histogram)), c)
	case "busy-hours":
		return busyHours(name, about, memory, cmp.Or(s.BusyHours, new(v1alpha1.BusyHours)), c)
	case "packed":
		return packed(name, about, cmp.Or(s.Packed, new(v1alpha1.Packed)), c)
	case "autopilot":
		return ensemble(name, about, cmp.Or(s.Ensemble, new(v1alpha1.Ensemble)), c)
	}
	return adaptive(name, about, builtin.Name, memory, cmp.Or(s.CPU, new(v1alpha1.CPU)), c)
}

// checkGuards checks the rules for language runtimes.
func checkGuards(s *v1alpha1.SizingProfileSpec, c *checker) {
	for i, g := range s.RuntimeGuards {
		if g != v1alpha1.GuardCPU && g != v1alpha1.GuardMemory {
			c.problem("spec.runtimeGuards must contain only %s and %s, got %q", v1alpha1.GuardCPU, v1alpha1.GuardMemory, g)
			return
		}
		if slices.Contains(s.RuntimeGuards[:i], g) {
			c.problem("spec.runtimeGuards contains %s twice", g)
			return
		}
	}
}

func learning(b *v1alpha1.StartupBoost, c *checker) cluster.BoostLearning {
	if b == nil {
		return cluster.BoostLearning{}
	}
	factor := float64(cluster.DefaultBoostPercent) / 100
	out := cluster.BoostLearning{On: b.Learn, MaxDuration: cluster.DefaultBoostDuration}
	c.number("startupBoost.maxFactor", b.MaxFactor, &factor)
	c.duration("startupBoost.maxDuration", b.MaxDuration, &out.MaxDuration)
	out.MaxPercent = int32(math.Round(factor * 100))
	return out
}

// unknownBase returns the problem of a base that is not a built-in profile, with the allowed bases.
func unknownBase(base string) string {
	names := cluster.Each(recommend.Builtins(), func(b *recommend.Profile) string { return b.Name })
	hint := spelling.Hint(base, names)
	if _, comparison := recommend.BacktestProfile(base); comparison {
		hint = "; " + base + " is a comparison profile, which only podfit backtest has"
	}
	return fmt.Sprintf("spec.base must be one of %s, got %q%s", strings.Join(names, ", "), base, hint)
}

// adaptive returns a profile based on balanced, cost or critical.
func adaptive(name, about, base string, m *v1alpha1.Memory, x *v1alpha1.CPU, c *checker) recommend.Profile {
	params := map[string]func() recommend.AdaptiveParams{
		"balanced": recommend.Balanced, "cost": recommend.Cost, "critical": recommend.Critical,
	}[base]()
	memory(m, &params.Memory, c)
	cpu(x, &params.CPU, c)
	p := recommend.AdaptiveProfile(name, about, params)
	c.number("memory.floorMiB", m.FloorMiB, &p.FloorMegabytes)
	c.number("cpu.floorMillicores", x.FloorMillicores, &p.FloorMillicores)
	return p
}

func floors(part string, f *v1alpha1.Floors, p *recommend.Params, c *checker) {
	c.number(part+".floorMillicores", f.FloorMillicores, &p.FloorMillicores)
	c.number(part+".floorMiB", f.FloorMiB, &p.FloorMegabytes)
}

func histogram(name, about string, h *v1alpha1.Histogram, c *checker) recommend.Profile {
	p := recommend.DefaultParams()
	c.number("histogram.margin", h.Margin, &p.Margin)
	c.oneOf("histogram.weight", h.Weight, "constant", "request")
	p.WeightByRequest = h.Weight == "request"
	percentiles(c, "cpu", &p.CPU, h.CPULowerPercentile, h.CPUPercentile, h.CPUUpperPercentile)
	percentiles(c, "memory", &p.Memory, h.MemoryLowerPercentile, h.MemoryPercentile, h.MemoryUpperPercentile)
	floors("histogram", &h.Floors, &p, c)
	return recommend.DefaultProfile(name, about, p)
}

func packed(name, about string, of *v1alpha1.Packed, c *checker) recommend.Profile {
	p := recommend.Packed()
	c.number("packed.memoryPercentile", of.MemoryPercentile, &p.Memory)
	c.number("packed.cpuPercentile", of.CPUPercentile, &p.CPU)
	c.number("packed.peak", of.Peak, &p.Peak)
	c.number("packed.reserve", of.Reserve, &p.Reserve)
	c.whole("packed.days", of.Days, &p.Days)
	c.whole("packed.longDays", of.LongDays, &p.LongDays)
	return recommend.PackedProfile(name, about, p)
}

// percentiles sets the three percentiles of a resource. They must be ordered: bounds that are not set are moved to the target,
// and a target that is not set is moved to the bounds.
func percentiles(c *checker, resource string, p *recommend.Percentiles, lower, target, upper *float64) {
	path := "histogram." + resource
	c.number(path+"LowerPercentile", lower, &p.Lower)
	c.number(path+"Percentile", target, &p.Target)
	c.number(path+"UpperPercentile", upper, &p.Upper)
	if lower != nil && target != nil && *lower > *target {
		c.problem("spec.%sLowerPercentile must be at most spec.%[1]sPercentile (%[3]g), got %[2]g", path, *lower, *target)
	}
	if upper != nil && target != nil && *upper < *target {
		c.problem("spec.%sUpperPercentile must be at least spec.%[1]sPercentile (%[3]g), got %[2]g", path, *upper, *target)
	}
	if target == nil {
		if lower != nil && upper != nil && *lower > *upper {
			c.problem("spec.%sLowerPercentile must be at most spec.%[1]sUpperPercentile (%[3]g), got %[2]g", path, *lower, *upper)
		}
		if lower != nil {
			p.Target = max(p.Target, p.Lower)
		}
		if upper != nil {
			p.Target = min(p.Target, p.Upper)
		}
	}
	p.Lower = min(p.Lower, p.Target)
	p.Upper = max(p.Upper, p.Target)
}

func memory(m *v1alpha1.Memory, r *recommend.MemoryRule, c *checker) {
	if m.OOMBudget != nil {
		c.number("memory.oomBudget", m.OOMBudget, &r.Budget)
		r.Margin = MarginFor(r.Budget)
	}
	c.number("memory.margin", m.Margin, &r.Margin)
	c.whole("memory.days", m.Days, &r.Days)
	if m.LongDays == nil {
		r.Long = max(r.Long, r.Days)
	} else {
		c.whole("memory.longDays", m.LongDays, &r.Long)
		if m.Days == nil {
			r.Days = min(r.Days, r.Long)
		} else if r.Long < r.Days {
			c.problem("spec.memory.longDays must be at least spec.memory.days (%d), got %d", r.Days, r.Long)
		}
	}
	if m.Choose != nil {
		r.Choose = *m.Choose
	}
	if m.LowHours != nil && !*m.LowHours {
		r.Plan.Gain = 0
	}
	c.number("memory.growBy", m.GrowBy, &r.Grow)
	c.number("memory.shrinkBy", m.ShrinkBy, &r.Shrink)
	c.number("memory.leakBound", m.LeakBound, &r.LeakBound)
	c.duration("memory.shrinkAfter", m.ShrinkAfter, &r.Wait)
}

func cpu(x *v1alpha1.CPU, r *recommend.CPURule, c *checker) {
	c.duration("cpu.window", x.Window, &r.Window)
	if x.Shortfall != nil {
		c.number("cpu.shortfall", x.Shortfall, &r.Shortfall)
		r.Factor = FactorFor(r.Shortfall)
		r.Overrun = OverrunFor(r.Shortfall)
	}
	if x.Choose != nil && !*x.Choose {
		r.Overrun = 0
	}
	c.number("cpu.factor", x.Factor, &r.Factor)
	if x.AddMillicores != nil {
		add := r.Add * 1000
		c.number("cpu.addMillicores", x.AddMillicores, &add)
		r.Add = add / 1000
	}
	if x.LowHours != nil && !*x.LowHours {
		r.Plan.Gain = 0
	}
	c.number("cpu.growBy", x.GrowBy, &r.Grow)
	c.number("cpu.shrinkBy", x.ShrinkBy, &r.Shrink)
	c.duration("cpu.shrinkAfter", x.ShrinkAfter, &r.Wait)
}

func busyHours(name, about string, m *v1alpha1.Memory, b *v1alpha1.BusyHours, c *checker) recommend.Profile {
	r := recommend.Busiest()
	memory(m, &r.Memory, c)
	c.number("busyHours.percentile", b.Percentile, &r.Percentile)
	c.number("busyHours.criticality", b.Criticality, &r.Factor)
	c.duration("busyHours.startup", b.Startup, &r.Startup)
	most := float64(r.Most)
	c.number("busyHours.mostMillicores", b.MostMillicores, &most)
	r.Most = int64(most)
	c.number("busyHours.mostOfNode", b.MostOfNode, &r.MostOfNode)
	c.oneOf("busyHours.mostOfNodeBase", string(b.MostOfNodeBase), string(v1alpha1.NodeAllocatable), string(v1alpha1.NodeCapacity))
	if b.MostOfNodeBase == v1alpha1.NodeCapacity {
		r.MostOfNodeBase = cluster.OfCapacity
	}
	priorityClasses(b, &r, c)
	hours(b, &r, c)
	p := recommend.BusyHoursProfile(name, about, r)
	c.number("memory.floorMiB", m.FloorMiB, &p.FloorMegabytes)
	c.number("busyHours.floorMillicores", b.FloorMillicores, &p.FloorMillicores)
	return p
}

const (
	maxPriorityClasses = 32  // as in the CRD
	maxClassName       = 253 // characters, as in the CRD
)

func priorityClasses(b *v1alpha1.BusyHours, r *recommend.BusyParams, c *checker) {
	const path = "spec.busyHours.priorityClasses"
	if len(b.PriorityClasses) > maxPriorityClasses {
		c.problem("%s must have at most %d elements, got %d", path, maxPriorityClasses, len(b.PriorityClasses))
		return
	}
	for i, p := range b.PriorityClasses {
		twice := slices.ContainsFunc(r.PriorityClasses, func(o criticality.ClassFactor) bool { return o.Class == p.Name })
		switch {
		case p.Name == "" || utf8.RuneCountInString(p.Name) > maxClassName:
			c.problem("%s[%d].name must be the name of a PriorityClass, got %q", path, i, p.Name[:min(len(p.Name), maxClassName)])
		case twice:
			c.problem("%s contains %s twice", path, p.Name)
		case !(p.Criticality >= criticality.Min && p.Criticality <= criticality.Max):
			c.problem("%s[%d].criticality must be between %d and %d, got %g", path, i, criticality.Min, criticality.Max, p.Criticality)
		default:
			r.PriorityClasses = append(r.PriorityClasses, criticality.ClassFactor{Class: p.Name, Factor: p.Criticality})
		}
	}
}

func hours(b *v1alpha1.BusyHours, r *recommend.BusyParams, c *checker) {
	var from, to, offset int
	before := len(c.problems)
	c.whole("busyHours.from", b.From, &from)
	c.whole("busyHours.to", b.To, &to)
	c.whole("busyHours.utcOffset", b.UTCOffset, &offset)
	switch {
	case (b.From == nil) != (b.To == nil):
		c.problem("spec.busyHours must have both from and to, or neither")
	case b.From == nil && b.UTCOffset != nil:
		c.problem("spec.busyHours.utcOffset is only allowed with from and to")
	case b.From == nil && b.TimeZone != "":
		c.problem("spec.busyHours.timeZone is only allowed with from and to")
	case b.TimeZone != "" && b.UTCOffset != nil:
		c.problem("spec.busyHours.timeZone and spec.busyHours.utcOffset must not both be set; timeZone includes daylight saving time")
	case b.From != nil && from == to:
		c.problem("spec.busyHours must have at least one hour, got %d to %d; use 0 to 24 for the whole day", from, to)
	}
	if b.TimeZone != "" {
		zone, err := time.LoadLocation(b.TimeZone)
		if err != nil || b.TimeZone == "Local" {
			c.problem("spec.busyHours.timeZone must be a name of the IANA database such as Europe/Berlin, got %q", b.TimeZone)
		}
		r.Zone = zone
	}
	if b.From == nil || len(c.problems) > before {
		return
	}
	r.Hours = recommend.HoursBetween(from, to%24, offset)
	if from == to%24 {
		r.Hours = recommend.WholeDay
	}
}

func ensemble(name, about string, e *v1alpha1.Ensemble, c *checker) recommend.Profile {
	r := recommend.Autopilot()
	weights("ensemble.cpu", e.CPU, &r.CPU, c)
	weights("ensemble.memory", e.Memory, &r.Memory, c)
	p := recommend.EnsembleProfile(name, about, r)
	floors("ensemble", &e.Floors, &p.Params, c)
	return p
}

func weights(path string, w *v1alpha1.Weights, r *autopilot.Weights, c *checker) {
	if w == nil {
		return
	}
	c.number(path+".overrun", w.Overrun, &r.Overrun)
	c.number(path+".change", w.Change, &r.Change)
	c.number(path+".switch", w.Switch, &r.Switch)
	c.duration(path+".forget", w.Forget, &r.Forget)
}

// interpolate returns the value of a parameter for a budget, interpolated linearly over the logarithm of the budget between
// the built-in profiles, whose parameters were fitted on traces.
func interpolate(budget float64, point func(recommend.AdaptiveParams) (budget, value float64)) float64 {
	x0, y0 := point(recommend.Critical())
	x1, y1 := point(recommend.Balanced())
	if budget > x1 {
		x0, y0 = point(recommend.Balanced())
		x1, y1 = point(recommend.Cost())
	}
	return y0 + (y1-y0)*math.Log(budget/x0)/math.Log(x1/x0)
}

// MarginFor returns the initial memory margin for an OOM budget. Calibration adjusts it.
func MarginFor(budget float64) float64 {
	return interpolate(budget, func(a recommend.AdaptiveParams) (float64, float64) { return a.Memory.Budget, a.Memory.Margin })
}

// FactorFor returns the initial CPU factor for a share of usage above the request. Calibration lowers it by at most a tenth,
// because most days have no usage above the request with any factor.
func FactorFor(shortfall float64) float64 {
	return math.Exp(interpolate(shortfall, func(a recommend.AdaptiveParams) (float64, float64) {
		return a.CPU.Shortfall, math.Log(a.CPU.Factor)
	}))
}

// OverrunFor returns the cost of CPU usage above the level, for a share of usage above the request.
func OverrunFor(shortfall float64) float64 {
	return math.Exp(interpolate(shortfall, func(a recommend.AdaptiveParams) (float64, float64) {
		return a.CPU.Shortfall, math.Log(a.CPU.Overrun)
	}))
}
