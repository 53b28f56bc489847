// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package web

import (
	"cmp"
	"encoding/json"
	"fmt"
	"html/template"
	"math"
	"slices"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/overview"
	"podfit.dev/podfit/internal/core/wording"
	"podfit.dev/podfit/internal/look/chart"
)

// chartData is what the script draws. Amounts are in the unit, times in Unix seconds. An amount that is not set is absent.
type chartData struct {
	Unit    string            `json:"unit"`
	Times   []int64           `json:"times,omitempty"`
	Peaks   []*float64        `json:"peaks,omitempty"`    // null: no samples in this hour
	Steps   []step            `json:"requests,omitempty"` // how the request changed, as far as it is known
	Request *float64          `json:"request,omitempty"`  // now
	Target  *float64          `json:"target,omitempty"`
	Lower   *float64          `json:"lower,omitempty"`
	Upper   *float64          `json:"upper,omitempty"`
	Limit   *float64          `json:"limit,omitempty"`
	Kills   []int64           `json:"kills,omitempty"`
	Changes []int64           `json:"changes,omitempty"`
	Buckets []overview.Bucket `json:"buckets,omitempty"`
	Top     float64           `json:"top"` // upper end of the axis
}

// A step is a time from which on the request has a value.
type step struct {
	At    int64   `json:"at"`
	Value float64 `json:"value"`
}

// JSON returns the data for the attribute of the chart.
func (c chartView) JSON() (string, error) {
	b, err := json.Marshal(c.Data)
	return string(b), err
}

// units are the amounts per unit of a chart.
var units = map[cluster.Resource]struct {
	name  string
	scale float64 // of the amounts of cluster.Resources
	used  float64 // of measured usage
	title string
	class string
}{
	cluster.CPU:    {"cores", 1000, 1, "CPU", "cpu"},
	cluster.Memory: {"GiB", 1 << 30, 1 << 30, "Memory", "mem"},
}

// chartsOf returns the charts of a workload: memory and CPU of each container. Without any usage, there are none.
func chartsOf(row *overview.Row, history *overview.History, activity []overview.Entry, now time.Time) []chartView {
	var changes []time.Time
	for i := range activity {
		if activity[i].Act != "leave" {
			changes = append(changes, activity[i].At)
		}
	}
	var out []chartView
	for _, c := range row.Containers {
		found := cluster.Find(history.Containers, func(h *overview.ContainerHistory) bool { return h.Name == c.Container })
		stored := cmp.Or(found, new(overview.ContainerHistory))
		for _, res := range [...]cluster.Resource{cluster.Memory, cluster.CPU} {
			peaks := cluster.Pick(res, stored.CPU, stored.Memory)
			buckets := cluster.Pick(res, stored.CPUBuckets, stored.MemoryBuckets)
			recorded := cluster.Pick(res, stored.CPURecorded, stored.MemoryRecorded)
			unit := units[res]
			view := chartView{Title: fmt.Sprintf("%s of container %s, %s per pod", unit.title, c.Container, unit.name), Class: unit.class, Data: levelsOf(c, res)}
			switch {
			case len(peaks) > 0:
				view.peaks(peaks, unit.used)
				view.source(peaks, recorded)
				if res == cluster.Memory {
					view.Data.Kills = view.Data.within(c.Kills)
				}
				view.Data.Changes = view.Data.within(changes)
				view.Data.steps(history.Requests, c.Container, res)
				view.Data.scale()
				view.SVG = view.drawPeaks()
			case len(buckets) > 0:
				view.histogram(buckets, unit.used, stored, now)
				view.Data.scale()
				view.SVG = view.drawHistogram()
			default:
				view.Note = "No usage of it is stored yet, so there is no chart."
			}
			out = append(out, view)
		}
	}
	if !slices.ContainsFunc(out, func(c chartView) bool { return c.Kind != "" }) {
		return []chartView{}
	}
	return out
}

// levelsOf returns the current request, limit and recommendation.
func levelsOf(c *overview.Container, res cluster.Resource) chartData {
	unit := units[res]
	level := func(r cluster.Resources) *float64 {
		if v, ok := r.Get(res); ok && v > 0 {
			return new(rounded(float64(v) / unit.scale))
		}
		return nil
	}
	return chartData{
		Unit: unit.name, Request: level(c.Requests), Limit: level(c.Limits), Target: level(c.Estimate().Target), Lower: level(c.Estimate().Lower), Upper: level(c.Estimate().Upper),
	}
}

// rounded keeps four significant digits, so that pages stay small.
func rounded(v float64) float64 {
	if v == 0 {
		return 0
	}
	digits := math.Pow(10, 3-math.Floor(math.Log10(math.Abs(v))))
	if r := math.Round(v*digits) / digits; !math.IsNaN(r) && !math.IsInf(r, 0) {
		return r
	}
	return v // JSON has neither NaN nor infinity
}

// peaks adds the peak of each hour. Hours without samples are gaps.
func (c *chartView) peaks(peaks []overview.Peak, scale float64) {
	c.Kind = "peaks"
	c.Head = []string{"Day", "Highest hour, UTC", "Peak, " + c.Data.Unit}
	var highest []overview.Peak // of each day
	at := peaks[0].At
	for _, p := range peaks {
		for ; !at.After(p.At); at = at.Add(time.Hour) {
			c.Data.Times = append(c.Data.Times, at.Unix())
			c.Data.Peaks = append(c.Data.Peaks, nil)
		}
		c.Data.Peaks[len(c.Data.Peaks)-1] = new(rounded(p.Value / scale))
		switch n := len(highest) - 1; {
		case n < 0 || p.At.Format(time.DateOnly) != highest[n].At.Format(time.DateOnly):
			highest = append(highest, p)
		case p.Value > highest[n].Value:
			highest[n] = p
		}
	}
	c.Table = cluster.Each(highest, func(p *overview.Peak) []string {
		return []string{p.At.Format("Mon, 2 Jan"), p.At.Format("15:04"), wording.Number(p.Value / scale)}
	})
}

// source notes how many of the peaks are from Prometheus. Without any, there is no note.
func (c *chartView) source(peaks []overview.Peak, recorded int) {
	c.Recorded = recorded
	switch {
	case recorded == 0:
	case recorded == len(peaks):
		hours := int(peaks[len(peaks)-1].At.Sub(peaks[0].At)/time.Hour) + 1
		c.Note = "Source: Prometheus, " + wording.Count((hours+23)/24, "day") + "."
		if absent := hours - recorded; absent > 0 {
			c.Note += fmt.Sprintf(" It has no samples of %s of this time.", wording.Count(absent, "hour"))
		}
	default:
		c.Note = fmt.Sprintf("Source: the stored usage, and Prometheus for %s without stored usage.", wording.Count(recorded, "hour"))
	}
}

func (c *chartView) histogram(buckets []overview.Bucket, scale float64, stored *overview.ContainerHistory, now time.Time) {
	c.Kind = "histogram"
	c.Head = []string{"From, " + c.Data.Unit, "To, " + c.Data.Unit, "Share"}
	for _, b := range buckets {
		c.Data.Buckets = append(c.Data.Buckets, overview.Bucket{From: rounded(b.From / scale), To: rounded(b.To / scale), Share: rounded(b.Share)})
		c.Table = append(c.Table, []string{wording.Number(b.From / scale), wording.Number(b.To / scale), fmt.Sprintf("%.1f %%", b.Share*100)})
	}
	c.Note = "The profile stores a histogram and no times: the checkpoint shows how often which usage occurred, with less weight for old samples."
	if !stored.First.IsZero() {
		c.Note += fmt.Sprintf(" %s since %s, the last %s ago.", wording.Count(stored.Samples, "sample"), stored.First.Format("2 Jan"), ago(now.Sub(stored.Last)))
	}
}

// within returns the times that are within the chart. Those in the two hours after its last point are at that point.
func (d *chartData) within(times []time.Time) (in []int64) {
	last := d.Times[len(d.Times)-1]
	for _, at := range times {
		if t := at.Unix(); t >= d.Times[0] && t <= last+2*3600 {
			in = append(in, min(t, last))
		}
	}
	return in
}

// steps adds how the request of a container changed. Without a known change, there are none.
func (d *chartData) steps(all []overview.RequestStep, container string, res cluster.Resource) {
	first := d.Times[0]
	last := d.Times[len(d.Times)-1]
	for i := range all {
		v, ok := all[i].Requests.Get(res)
		if !ok || all[i].Container != container {
			continue
		}
		s := step{min(max(all[i].At.Unix(), first), last), rounded(float64(v) / units[res].scale)}
		switch n := len(d.Steps); {
		case n > 0 && d.Steps[n-1].Value == s.Value:
		case n > 0 && d.Steps[n-1].At == s.At:
			d.Steps[n-1].Value = s.Value
		default:
			d.Steps = append(d.Steps, s)
		}
	}
}

// scale sets the upper end of the axis. A limit or upper bound far above everything else is left out, so that the rest is readable.
func (d *chartData) scale() {
	top := 0.0
	for _, v := range slices.Concat(d.Peaks, []*float64{d.Request, d.Target}) {
		if v != nil {
			top = max(top, *v)
		}
	}
	for _, b := range d.Buckets {
		top = max(top, b.To)
	}
	for _, s := range d.Steps {
		top = max(top, s.Value)
	}
	for _, v := range []*float64{d.Upper, d.Limit} {
		if v != nil && *v <= 2.5*top {
			top = max(top, *v)
		}
	}
	d.Top = rounded(top * 1.1)
}

// LimitOutside returns the limit if it is above the chart, "" otherwise.
func (c chartView) LimitOutside() string {
	if c.Data.Limit == nil || *c.Data.Limit <= c.Data.Top {
		return ""
	}
	return wording.Number(*c.Data.Limit) + " " + c.Data.Unit
}

// image returns an empty chart with values from x0 to x1 and from 0 to top. It is as large as on a usual screen, where two are side by side.
func (c *chartView) image(label string, x0, x1, top float64) *chart.Image {
	return chart.New(580, 230, c.Class, c.Title+": "+label, chart.Frame{Left: 48, Top: 14, Width: 520, Height: 192, X0: x0, X1: x1, Y1: top})
}

func (c *chartView) drawPeaks() template.HTML {
	const minimumSpan = 6 * 3600 // the shortest time that a chart shows, in seconds
	d := &c.Data
	first := d.Times[0]
	last := max(d.Times[len(d.Times)-1], first+minimumSpan)
	from, to := float64(first), float64(last)
	m := c.image("hourly peak from "+chart.Date(from)+" to "+chart.Date(to)+", with request and limit", from, to, d.Top)
	m.Grid(chart.Days(first, last), chart.Ticks(0, d.Top, 4), chart.Date, chart.Number)
	if d.Lower != nil && d.Upper != nil {
		m.Box("band", from, to, *d.Lower, *d.Upper)
	}
	var points []chart.Point // of hours without a gap
	for i, v := range d.Peaks {
		if v != nil {
			points = append(points, chart.Point{X: float64(d.Times[i]), Y: *v})
		}
		if len(points) == 0 || v != nil && i+1 < len(d.Peaks) {
			continue
		}
		if len(points) == 1 {
			m.Put(`<circle class="point" cx="%.1f" cy="%.1f" r="2.5"/>`, m.X(points[0].X), m.Y(points[0].Y))
		}
		m.Line("peak", points...)
		m.Area("area", append(points, chart.Point{X: points[len(points)-1].X}, chart.Point{X: points[0].X})...)
		points = points[:0]
	}
	if len(d.Steps) == 0 {
		levels(m.Across, d.Request, "request")
	}
	// Before the first step, the request is not known.
	m.Steps("request", cluster.Each(d.Steps, func(s *step) chart.Point { return chart.Point{X: float64(s.At), Y: s.Value} }))
	levels(m.Across, d.Target, "target")
	levels(m.Across, d.Limit, "limit")
	for _, t := range d.Changes {
		m.Down("change", float64(t))
	}
	for _, t := range d.Kills {
		m.Put(`<path class="kill" d="M%.1f %.0fl8 8m0 -8l-8 8"/>`, m.X(float64(t))-4, m.Top-4)
	}
	return m.HTML()
}

func levels(draw func(class string, v float64), v *float64, class string) {
	if v != nil {
		draw(class, *v)
	}
}

func (c *chartView) drawHistogram() template.HTML {
	d := &c.Data
	most := slices.MaxFunc(d.Buckets, func(a, b overview.Bucket) int { return cmp.Compare(a.Share, b.Share) }).Share
	m := c.image("histogram of usage, with request and limit", 0, d.Top, most*1.05)
	m.Grid(chart.Ticks(0, d.Top, 6), chart.Ticks(0, m.Y1, 3), chart.Number, wording.Percent)
	if d.Lower != nil && d.Upper != nil {
		m.Box("band", *d.Lower, *d.Upper, 0, m.Y1)
	}
	for _, b := range d.Buckets {
		m.Box("bucket", b.From, b.To, 0, b.Share)
	}
	levels(m.Down, d.Request, "request")
	levels(m.Down, d.Target, "target")
	levels(m.Down, d.Limit, "limit")
	return m.HTML()
}
