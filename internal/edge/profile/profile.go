// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package profile reads SizingProfiles: how containers are sized, as a user writes it down. It checks what is written and
// translates it into a recommend.Profile; it sizes nothing. Files and objects of the cluster are read alike.
package profile

import (
	"errors"
	"fmt"
	"math"
	"os"
	"regexp"
	"strings"
	"time"
	_ "time/tzdata" // the image has no database of time zones
	"unicode/utf8"

	"podfit.dev/podfit/api/podfit/v1alpha1"
	"podfit.dev/podfit/internal/core/recommend"
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

// Parse reads a SizingProfile in YAML or JSON. All that is wrong with it is in the error.
func Parse(data []byte) (recommend.Profile, error) {
	o, err := decode(data)
	if err != nil {
		return recommend.Profile{}, err
	}
	if o.Name == "" {
		return recommend.Profile{}, errors.New("metadata.name is missing")
	}
	if _, taken := recommend.Builtin(o.Name); taken {
		return recommend.Profile{}, fmt.Errorf("metadata.name is %s, which is built in and cannot be replaced: choose another name, and name it in spec.base", o.Name)
	}
	c := &checker{}
	p := profileOf(o.Name, &o.Spec, c)
	if len(c.problems) > 0 {
		return recommend.Profile{}, errors.New(strings.Join(c.problems, "; "))
	}
	return p, nil
}

// checker gathers what is wrong.
type checker struct{ problems []string }

func (c *checker) wrong(format string, args ...any) {
	c.problems = append(c.problems, fmt.Sprintf(format, args...))
}

// number sets to, if v is given and within the bounds of the field at path.
func (c *checker) number(path string, v *float64, to *float64) {
	bounds := boundsOf(numberBounds, path)
	switch {
	case v == nil:
	case math.IsNaN(*v) || *v < bounds.least || *v > bounds.most:
		c.wrong("spec.%s is %g; it must be between %g and %g%s", path, *v, bounds.least, bounds.most, share(*v, bounds.least, bounds.most))
	default:
		*to = *v
	}
}

// whole is number for integers.
func (c *checker) whole(path string, v *int32, to *int) {
	bounds := boundsOf(numberBounds, path)
	switch {
	case v == nil:
	case float64(*v) < bounds.least || float64(*v) > bounds.most:
		c.wrong("spec.%s is %d; it must be between %g and %g", path, *v, bounds.least, bounds.most)
	default:
		*to = int(*v)
	}
}

var durations = regexp.MustCompile(`^([0-9]+(\.[0-9]+)?(h|m|s))+$`)

// duration is number for durations.
func (c *checker) duration(path string, v *v1alpha1.Duration, to *time.Duration) {
	if v == nil {
		return
	}
	bounds := boundsOf(durationBounds, path)
	switch d, err := time.ParseDuration(string(*v)); {
	case err != nil || !durations.MatchString(string(*v)) || len(*v) > boundsOf(lengthBounds, path):
		c.wrong("spec.%s is %q; it must be a duration like 12h or 90m", path, *v)
	case d < bounds.least || d > bounds.most:
		c.wrong("spec.%s is %s; it must be between %s and %s", path, d, short(bounds.least), short(bounds.most))
	default:
		*to = d
	}
}

// short returns a duration of whole hours as a user writes it.
func short(d time.Duration) string {
	if d == 0 {
		return "0s"
	}
	return fmt.Sprintf("%dh", d/time.Hour)
}

// profileOf returns the profile that a spec describes.
func profileOf(name string, s *v1alpha1.SizingProfileSpec, c *checker) recommend.Profile {
	base := string(s.Base)
	if base == "" {
		base = "balanced"
	}
	builtin, known := recommend.Builtin(base)
	if !known {
		c.wrong("%s", unknownBase(base))
		return recommend.Profile{}
	}
	about := s.About
	if about == "" {
		about = "based on " + base
	}
	if n, most := utf8.RuneCountInString(about), lengthBounds["about"]; n > most {
		c.wrong("spec.about has %d characters; it must not have more than %d", n, most)
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
	} {
		if part.given && !strings.Contains(", "+part.bases+", ", ", "+base+", ") {
			c.wrong("spec.%s has no meaning for a profile based on %s; it belongs to %s", part.name, base, part.bases)
		}
	}
	if len(c.problems) > 0 {
		return recommend.Profile{}
	}
	switch base {
	case "default":
		return histogram(name, about, s.Histogram, c)
	case "busy-hours":
		return busyHours(name, about, s.Memory, s.BusyHours, c)
	case "autopilot":
		return ensemble(name, about, s.Ensemble, c)
	}
	return adaptive(name, about, builtin.Name, s, c)
}

// unknownBase says which bases there are, instead of one that is not known.
func unknownBase(base string) string {
	var names []string
	for _, b := range recommend.Builtins() {
		names = append(names, b.Name)
	}
	what := fmt.Sprintf("spec.base is %q", base)
	if _, comparison := recommend.BacktestProfile(base); comparison {
		what += ", which only podfit backtest has"
	}
	meant := ""
	if near := Nearest(base, names); near != "" {
		meant = " (did you mean " + near + "?)"
	}
	return fmt.Sprintf("%s; it must be one of %s%s", what, strings.Join(names, ", "), meant)
}

func adaptive(name, about, base string, s *v1alpha1.SizingProfileSpec, c *checker) recommend.Profile {
	a := map[string]func() recommend.AdaptiveParams{
		"balanced": recommend.Balanced, "cost": recommend.Cost, "critical": recommend.Critical,
	}[base]()
	memory(s.Memory, &a.Memory, c)
	cpu(s.CPU, &a.CPU, c)
	p := recommend.AdaptiveProfile(name, about, a)
	if s.Memory != nil {
		c.number("memory.floorMiB", s.Memory.FloorMiB, &p.FloorMegabytes)
	}
	if s.CPU != nil {
		c.number("cpu.floorMillicores", s.CPU.FloorMillicores, &p.FloorMillicores)
	}
	return p
}

func floors(part string, f *v1alpha1.Floors, p *recommend.Params, c *checker) {
	c.number(part+".floorMillicores", f.FloorMillicores, &p.FloorMillicores)
	c.number(part+".floorMiB", f.FloorMiB, &p.FloorMegabytes)
}

func histogram(name, about string, h *v1alpha1.Histogram, c *checker) recommend.Profile {
	p := recommend.DefaultParams()
	if h == nil {
		return recommend.DefaultProfile(name, about, p)
	}
	c.number("histogram.margin", h.Margin, &p.Margin)
	switch h.Weight {
	case "", "constant":
	case "request":
		p.WeightByRequest = true
	default:
		c.wrong("spec.histogram.weight is %q; it must be constant or request", h.Weight)
	}
	percentiles(c, "cpu", &p.CPU, h.CPULowerPercentile, h.CPUPercentile, h.CPUUpperPercentile)
	percentiles(c, "memory", &p.Memory, h.MemoryLowerPercentile, h.MemoryPercentile, h.MemoryUpperPercentile)
	floors("histogram", &h.Floors, &p, c)
	return recommend.DefaultProfile(name, about, p)
}

// percentiles sets the three percentiles of a resource. Those that are not given make way for the target; where the
// target is not given it makes way for them.
func percentiles(c *checker, resource string, p *recommend.Percentiles, lower, target, upper *float64) {
	path := "histogram." + resource
	c.number(path+"LowerPercentile", lower, &p.Lower)
	c.number(path+"Percentile", target, &p.Target)
	c.number(path+"UpperPercentile", upper, &p.Upper)
	if lower != nil && target != nil && *lower > *target {
		c.wrong("spec.%sLowerPercentile is %g, above spec.%[1]sPercentile, %[3]g", path, *lower, *target)
	}
	if upper != nil && target != nil && *upper < *target {
		c.wrong("spec.%sUpperPercentile is %g, below spec.%[1]sPercentile, %[3]g", path, *upper, *target)
	}
	if target == nil {
		if lower != nil && upper != nil && *lower > *upper {
			c.wrong("spec.%sLowerPercentile is %g, above spec.%[1]sUpperPercentile, %[3]g", path, *lower, *upper)
		}
		if lower != nil {
			p.Target = max(p.Target, p.Lower)
		}
		if upper != nil {
			p.Target = min(p.Target, p.Upper)
		}
	}
	p.Lower, p.Upper = min(p.Lower, p.Target), max(p.Upper, p.Target)
}

func memory(m *v1alpha1.Memory, r *recommend.MemoryRule, c *checker) {
	if m == nil {
		return
	}
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
			c.wrong("spec.memory.longDays is %d, less than spec.memory.days, %d", r.Long, r.Days)
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
	if x == nil {
		return
	}
	c.duration("cpu.window", x.Window, &r.Window)
	if x.Shortfall != nil {
		c.number("cpu.shortfall", x.Shortfall, &r.Shortfall)
		r.Factor, r.Overrun = FactorFor(r.Shortfall), OverrunFor(r.Shortfall)
	}
	if x.Choose != nil && !*x.Choose {
		r.Overrun = 0
	}
	c.number("cpu.factor", x.Factor, &r.Factor)
	add := r.Add * 1000
	c.number("cpu.addMillicores", x.AddMillicores, &add)
	r.Add = add / 1000
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
	if b != nil {
		c.number("busyHours.percentile", b.Percentile, &r.Percentile)
		c.number("busyHours.criticality", b.Criticality, &r.Factor)
		most := float64(r.Most)
		c.number("busyHours.mostMillicores", b.MostMillicores, &most)
		r.Most = int64(most)
		c.number("busyHours.mostOfNode", b.MostOfNode, &r.MostOfNode)
		hours(b, &r, c)
	}
	p := recommend.BusyHoursProfile(name, about, r)
	if m != nil {
		c.number("memory.floorMiB", m.FloorMiB, &p.FloorMegabytes)
	}
	if b != nil {
		c.number("busyHours.floorMillicores", b.FloorMillicores, &p.FloorMillicores)
	}
	return p
}

// hours sets when the busy hours are.
func hours(b *v1alpha1.BusyHours, r *recommend.BusyParams, c *checker) {
	from, to, offset := 0, 0, 0
	before := len(c.problems)
	c.whole("busyHours.from", b.From, &from)
	c.whole("busyHours.to", b.To, &to)
	c.whole("busyHours.utcOffset", b.UTCOffset, &offset)
	switch {
	case (b.From == nil) != (b.To == nil):
		c.wrong("spec.busyHours has only one of from and to: from and to go together")
	case b.From == nil && b.UTCOffset != nil:
		c.wrong("spec.busyHours.utcOffset has no meaning without from and to")
	case b.From == nil && b.TimeZone != "":
		c.wrong("spec.busyHours.timeZone has no meaning without from and to")
	case b.TimeZone != "" && b.UTCOffset != nil:
		c.wrong("spec.busyHours.timeZone and spec.busyHours.utcOffset do not go together; timeZone knows daylight saving")
	case b.From != nil && from == to:
		c.wrong("spec.busyHours from %d to %d is no hour; the whole day is from 0 to 24", from, to)
	}
	if b.TimeZone != "" {
		zone, err := time.LoadLocation(b.TimeZone)
		if err != nil || b.TimeZone == "Local" {
			c.wrong("spec.busyHours.timeZone is %q, which is not in the IANA database; it must be a name like Europe/Berlin", b.TimeZone)
		}
		r.Zone = zone
	}
	if b.From == nil || len(c.problems) > before {
		return
	}
	if r.Hours = recommend.HoursBetween(from, to%24, offset); from == to%24 {
		r.Hours = recommend.WholeDay
	}
}

func ensemble(name, about string, e *v1alpha1.Ensemble, c *checker) recommend.Profile {
	r := recommend.Autopilot()
	if e != nil {
		weights("ensemble.cpu", e.CPU, &r.CPU, c)
		weights("ensemble.memory", e.Memory, &r.Memory, c)
	}
	p := recommend.EnsembleProfile(name, about, r)
	if e != nil {
		floors("ensemble", &e.Floors, &p.Params, c)
	}
	return p
}

func weights(path string, w *v1alpha1.Weights, r *recommend.EnsembleWeights, c *checker) {
	if w == nil {
		return
	}
	c.number(path+".overrun", w.Overrun, &r.Overrun)
	c.number(path+".change", w.Change, &r.Change)
	c.number(path+".switch", w.Switch, &r.Switch)
	c.duration(path+".forget", w.Forget, &r.Forget)
}

// suited returns what suits a budget: on the line through what the built-in profiles have, whose parameters were found on
// traces, over the logarithm of the budget.
func suited(budget float64, has func(recommend.AdaptiveParams) (budget, value float64)) float64 {
	x0, y0 := has(recommend.Critical())
	x1, y1 := has(recommend.Balanced())
	if budget > x1 {
		x0, y0 = x1, y1
		x1, y1 = has(recommend.Cost())
	}
	return y0 + (y1-y0)*math.Log(budget/x0)/math.Log(x1/x0)
}

// MarginFor returns the margin of memory to start from for a budget. Calibration does the rest.
func MarginFor(budget float64) float64 {
	return suited(budget, func(a recommend.AdaptiveParams) (float64, float64) { return a.Memory.Budget, a.Memory.Margin })
}

// FactorFor returns the factor of CPU to start from for a share of usage above the request. Calibration alone goes a tenth
// down from it: most days have nothing above, whatever the factor is.
func FactorFor(shortfall float64) float64 {
	return math.Exp(suited(shortfall, func(a recommend.AdaptiveParams) (float64, float64) {
		return a.CPU.Shortfall, math.Log(a.CPU.Factor)
	}))
}

// OverrunFor returns what a moment of CPU above the level costs, for the same.
func OverrunFor(shortfall float64) float64 {
	return math.Exp(suited(shortfall, func(a recommend.AdaptiveParams) (float64, float64) {
		return a.CPU.Shortfall, math.Log(a.CPU.Overrun)
	}))
}
