// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package profile reads SizingProfiles: how containers are sized, as a user writes it down. It checks what is written and
// translates it into a recommend.Profile; it sizes nothing.
package profile

import (
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"time"

	"sigs.k8s.io/yaml"

	"podfit.dev/podfit/internal/core/recommend"
)

// The version and kind of what is read.
const (
	APIVersion = "podfit.dev/v1alpha1"
	Kind       = "SizingProfile"
)

// How far a profile may look back: so far that what is remembered of a container stays within 1.5 KiB.
const (
	mostDays   = 21
	mostWindow = 72 * time.Hour
)

// manifest is a SizingProfile as it is written. A field that is not there is as in the base.
type manifest struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Metadata   struct {
		Name        string            `json:"name"`
		Labels      map[string]string `json:"labels"`
		Annotations map[string]string `json:"annotations"`
	} `json:"metadata"`
	Spec spec `json:"spec"`
}

type spec struct {
	Base      string    `json:"base"`  // a built-in profile; balanced when not given
	About     string    `json:"about"` // one line for reports
	Histogram histogram `json:"histogram"`
	Memory    memory    `json:"memory"`
	CPU       cpu       `json:"cpu"`
	BusyHours busy      `json:"busyHours"`
}

// histogram is for profiles based on default.
type histogram struct {
	Margin           *float64 `json:"margin"`
	CPUPercentile    *float64 `json:"cpuPercentile"`
	MemoryPercentile *float64 `json:"memoryPercentile"`
	FloorMillicores  *float64 `json:"floorMillicores"`
	FloorMiB         *float64 `json:"floorMiB"`
}

// memory is for profiles based on balanced, cost, critical and busy-hours.
type memory struct {
	OOMBudget   *float64 `json:"oomBudget"` // the share of days that may see memory above the request
	Margin      *float64 `json:"margin"`    // instead of the one that suits the budget
	Days        *float64 `json:"days"`
	LongDays    *float64 `json:"longDays"`
	LowHours    *bool    `json:"lowHours"` // whether a day may have two levels
	GrowBy      *float64 `json:"growBy"`
	ShrinkBy    *float64 `json:"shrinkBy"`
	ShrinkAfter *string  `json:"shrinkAfter"`
	FloorMiB    *float64 `json:"floorMiB"`
}

// cpu is for profiles based on balanced, cost and critical.
type cpu struct {
	Window          *string  `json:"window"`
	Factor          *float64 `json:"factor"`
	AddMillicores   *float64 `json:"addMillicores"`
	LowHours        *bool    `json:"lowHours"`
	ShrinkBy        *float64 `json:"shrinkBy"`
	ShrinkAfter     *string  `json:"shrinkAfter"`
	FloorMillicores *float64 `json:"floorMillicores"`
}

// busy is for profiles based on busy-hours.
type busy struct {
	From           *float64 `json:"from"` // o'clock
	To             *float64 `json:"to"`
	UTCOffset      *float64 `json:"utcOffset"` // hours
	Percentile     *float64 `json:"percentile"`
	Criticality    *float64 `json:"criticality"`
	MostMillicores *float64 `json:"mostMillicores"`
}

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
	var m manifest
	if err := yaml.UnmarshalStrict(data, &m); err != nil {
		return recommend.Profile{}, fmt.Errorf("not a SizingProfile: %s", strings.TrimPrefix(err.Error(), "error unmarshaling JSON: while decoding JSON: "))
	}
	switch {
	case m.APIVersion != APIVersion || m.Kind != Kind:
		return recommend.Profile{}, fmt.Errorf("apiVersion %q and kind %q are not %s and %s", m.APIVersion, m.Kind, APIVersion, Kind)
	case m.Metadata.Name == "":
		return recommend.Profile{}, errors.New("metadata.name is missing")
	}
	if _, taken := recommend.Builtin(m.Metadata.Name); taken {
		return recommend.Profile{}, fmt.Errorf("metadata.name is %s, which is built in", m.Metadata.Name)
	}
	c := &checker{}
	p := m.Spec.profile(m.Metadata.Name, c)
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

// number sets to, when v is given, and checks that it is within bounds.
func (c *checker) number(path string, v *float64, least, most float64, to *float64) {
	switch {
	case v == nil:
	case math.IsNaN(*v) || *v < least || *v > most:
		c.wrong("spec.%s is %g; it must be between %g and %g", path, *v, least, most)
	default:
		*to = *v
	}
}

// whole is number for whole numbers.
func (c *checker) whole(path string, v *float64, least, most int, to *int) {
	f := float64(*to)
	c.number(path, v, float64(least), float64(most), &f)
	if f != math.Trunc(f) {
		c.wrong("spec.%s is %g; it must be a whole number", path, f)
	}
	*to = int(f)
}

func (c *checker) duration(path string, v *string, least, most time.Duration, to *time.Duration) {
	if v == nil {
		return
	}
	switch d, err := time.ParseDuration(*v); {
	case err != nil:
		c.wrong("spec.%s is %q; it must be a duration like 12h or 90m", path, *v)
	case d < least || d > most:
		c.wrong("spec.%s is %s; it must be between %s and %s", path, d, least, most)
	default:
		*to = d
	}
}

// unused complains about a part that the base has no use for.
func (c *checker) unused(base, part string, given bool) {
	if given {
		c.wrong("spec.%s has no meaning for a profile based on %s", part, base)
	}
}

var bases = []string{"default", "balanced", "cost", "critical", "busy-hours"}

func (s *spec) profile(name string, c *checker) recommend.Profile {
	base := s.Base
	if base == "" {
		base = "balanced"
	}
	if !slices.Contains(bases, base) {
		c.wrong("spec.base is %q; it must be one of %s", base, strings.Join(bases, ", "))
		return recommend.Profile{}
	}
	about := s.About
	if about == "" {
		about = "based on " + base
	}
	adaptive := base != "default" && base != "busy-hours"
	c.unused(base, "histogram", base != "default" && s.Histogram != histogram{})
	c.unused(base, "memory", base == "default" && s.Memory != memory{})
	c.unused(base, "cpu", !adaptive && s.CPU != cpu{})
	c.unused(base, "busyHours", base != "busy-hours" && s.BusyHours != busy{})
	switch base {
	case "default":
		p := recommend.DefaultParams()
		s.Histogram.apply(c, &p)
		return recommend.DefaultProfile(name, about, p)
	case "busy-hours":
		p := recommend.Busiest()
		s.Memory.apply(c, &p.Memory)
		s.BusyHours.apply(c, &p)
		return s.floors(c, recommend.BusyHoursProfile(name, about, p))
	}
	p := map[string]func() recommend.AdaptiveParams{
		"balanced": recommend.Balanced, "cost": recommend.Cost, "critical": recommend.Critical,
	}[base]()
	s.Memory.apply(c, &p.Memory)
	s.CPU.apply(c, &p.CPU)
	return s.floors(c, recommend.AdaptiveProfile(name, about, p))
}

func (s *spec) floors(c *checker, p recommend.Profile) recommend.Profile {
	c.number("memory.floorMiB", s.Memory.FloorMiB, 1, 1<<20, &p.FloorMegabytes)
	c.number("cpu.floorMillicores", s.CPU.FloorMillicores, 1, 1e6, &p.FloorMillicores)
	return p
}

func (h *histogram) apply(c *checker, p *recommend.Params) {
	c.number("histogram.margin", h.Margin, 0, 10, &p.Margin)
	c.number("histogram.cpuPercentile", h.CPUPercentile, 0.01, 1, &p.CPU.Target)
	c.number("histogram.memoryPercentile", h.MemoryPercentile, 0.01, 1, &p.Memory.Target)
	c.number("histogram.floorMillicores", h.FloorMillicores, 1, 1e6, &p.FloorMillicores)
	c.number("histogram.floorMiB", h.FloorMiB, 1, 1<<20, &p.FloorMegabytes)
	for _, x := range []*recommend.Percentiles{&p.CPU, &p.Memory} {
		x.Lower, x.Upper = min(x.Lower, x.Target), max(x.Upper, x.Target)
	}
}

func (m *memory) apply(c *checker, r *recommend.MemoryRule) {
	if m.OOMBudget != nil {
		c.number("memory.oomBudget", m.OOMBudget, 0.001, 0.5, &r.Budget)
		r.Margin = MarginFor(r.Budget)
	}
	c.number("memory.margin", m.Margin, -0.5, 3, &r.Margin)
	c.whole("memory.days", m.Days, 1, mostDays, &r.Days)
	r.Long = max(r.Long, r.Days)
	c.whole("memory.longDays", m.LongDays, 1, mostDays, &r.Long)
	if r.Long < r.Days {
		c.wrong("spec.memory.longDays is %d, less than spec.memory.days, %d", r.Long, r.Days)
	}
	if m.LowHours != nil && !*m.LowHours {
		r.Plan.Gain = 0
	}
	c.number("memory.growBy", m.GrowBy, 0.06, 1, &r.Grow)
	c.number("memory.shrinkBy", m.ShrinkBy, 0.08, 0.95, &r.Shrink)
	c.duration("memory.shrinkAfter", m.ShrinkAfter, 0, 30*24*time.Hour, &r.Wait)
}

func (x *cpu) apply(c *checker, r *recommend.CPURule) {
	c.duration("cpu.window", x.Window, time.Hour, mostWindow, &r.Window)
	c.number("cpu.factor", x.Factor, 0.1, 10, &r.Factor)
	add := r.Add * 1000
	c.number("cpu.addMillicores", x.AddMillicores, 0, 1e6, &add)
	r.Add = add / 1000
	if x.LowHours != nil && !*x.LowHours {
		r.Plan.Gain = 0
	}
	c.number("cpu.shrinkBy", x.ShrinkBy, 0.08, 0.95, &r.Shrink)
	c.duration("cpu.shrinkAfter", x.ShrinkAfter, 0, 30*24*time.Hour, &r.Wait)
}

func (b *busy) apply(c *checker, p *recommend.BusyParams) {
	c.number("busyHours.percentile", b.Percentile, 0.5, 1, &p.Percentile)
	c.number("busyHours.criticality", b.Criticality, 1, 3, &p.Factor)
	most := float64(p.Most)
	c.number("busyHours.mostMillicores", b.MostMillicores, 1, 1e6, &most)
	p.Most = int64(most)
	from, to, offset := 0, 0, 0
	c.whole("busyHours.from", b.From, 0, 23, &from)
	c.whole("busyHours.to", b.To, 0, 24, &to)
	c.whole("busyHours.utcOffset", b.UTCOffset, -12, 14, &offset)
	switch {
	case (b.From == nil) != (b.To == nil):
		c.wrong("spec.busyHours has only one of from and to")
	case b.From == nil && b.UTCOffset != nil:
		c.wrong("spec.busyHours.utcOffset is given without from and to")
	case b.From != nil && len(c.problems) == 0:
		if p.Hours = recommend.HoursBetween(from, to%24, offset); to-from == 24 {
			p.Hours = recommend.WholeDay
		}
		if p.Hours == 0 {
			c.wrong("spec.busyHours from %d to %d is no hour", from, to)
		}
	}
}

// tuned are the budgets and margins of the built-in profiles, in order of the budget.
func tuned() [][2]float64 {
	var out [][2]float64
	for _, p := range []recommend.AdaptiveParams{recommend.Critical(), recommend.Balanced(), recommend.Cost()} {
		out = append(out, [2]float64{p.Memory.Budget, p.Memory.Margin})
	}
	return out
}

// MarginFor returns the margin to start from for a budget: on the line through those of the built-in profiles, whose
// margins were found on traces, over the logarithm of the budget. Calibration does the rest.
func MarginFor(budget float64) float64 {
	t := tuned()
	i := 1
	if budget > t[1][0] {
		i = 2
	}
	a, b := t[i-1], t[i]
	return a[1] + (b[1]-a[1])*math.Log(budget/a[0])/math.Log(b[0]/a[0])
}
