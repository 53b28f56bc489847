// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package web

import (
	"encoding/json"
	"fmt"
	"html/template"
	"math"
	"strconv"
	"strings"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/overview"
	"podfit.dev/podfit/internal/core/wording"
)

// chartData is what the script draws. Amounts are in the unit, times in Unix seconds. An amount that is not set is absent.
type chartData struct {
	Unit    string     `json:"unit"`
	Times   []int64    `json:"times,omitempty"`
	Peaks   []*float64 `json:"peaks,omitempty"`    // null: no samples in this hour
	Steps   []step     `json:"requests,omitempty"` // how the request changed, as far as it is known
	Request *float64   `json:"request,omitempty"`  // now
	Target  *float64   `json:"target,omitempty"`
	Lower   *float64   `json:"lower,omitempty"`
	Upper   *float64   `json:"upper,omitempty"`
	Limit   *float64   `json:"limit,omitempty"`
	Kills   []int64    `json:"kills,omitempty"`
	Changes []int64    `json:"changes,omitempty"`
	Buckets []bucket   `json:"buckets,omitempty"`
	Top     float64    `json:"top"` // upper end of the axis
}

// A step is a time from which on the request has a value.
type step struct {
	At    int64   `json:"at"`
	Value float64 `json:"value"`
}

type bucket struct {
	From  float64 `json:"from"`
	To    float64 `json:"to"`
	Share float64 `json:"share"`
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

// chartsOf returns the charts of a workload: memory and CPU of each container.
func chartsOf(row *overview.Row, history *overview.History, activity []overview.Entry, now time.Time) []chartView {
	var changes []int64
	for i := range activity {
		if activity[i].Act != "leave" {
			changes = append(changes, activity[i].At.Unix())
		}
	}
	out := []chartView{}
	for i := range row.Containers {
		c := &row.Containers[i]
		stored := overview.ContainerHistory{Name: c.Container}
		for j := range history.Containers {
			if history.Containers[j].Name == c.Container {
				stored = history.Containers[j]
			}
		}
		for _, res := range [...]cluster.Resource{cluster.Memory, cluster.CPU} {
			peaks := stored.Memory
			buckets := stored.MemoryBuckets
			recorded := stored.MemoryRecorded
			if res == cluster.CPU {
				peaks = stored.CPU
				buckets = stored.CPUBuckets
				recorded = stored.CPURecorded
			}
			unit := units[res]
			chart := chartView{Title: fmt.Sprintf("%s of container %s, %s per pod", unit.title, c.Container, unit.name), Class: unit.class, Data: levelsOf(c, res)}
			switch {
			case len(peaks) > 0:
				chart.peaks(peaks, unit.used)
				chart.source(peaks, recorded)
				if res == cluster.Memory {
					chart.Data.mark(c.Kills, nil)
				}
				chart.Data.mark(nil, changes)
				chart.Data.steps(history.Requests, c.Container, res)
			case len(buckets) > 0:
				chart.histogram(buckets, unit.used, &stored, now)
			default:
				continue
			}
			chart.Data.scale()
			if chart.Kind == "peaks" {
				chart.SVG = chart.drawPeaks()
			} else {
				chart.SVG = chart.drawHistogram()
			}
			out = append(out, chart)
		}
	}
	return out
}

// levelsOf returns the current request, limit and recommendation.
func levelsOf(c *overview.Container, res cluster.Resource) chartData {
	unit := units[res]
	level := func(r cluster.Resources) *float64 {
		if v, ok := r.Get(res); ok && v > 0 {
			x := rounded(float64(v) / unit.scale)
			return &x
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
	first := peaks[0].At
	last := peaks[len(peaks)-1].At
	next := 0
	var best overview.Peak
	flush := func() {
		if best.Value > 0 {
			c.Table = append(c.Table, tableRow{best.At.Format("Mon, 2 Jan"), best.At.Format("15:04"), wording.Number(best.Value / scale)})
		}
		best = overview.Peak{}
	}
	for at := first; !at.After(last); at = at.Add(time.Hour) {
		c.Data.Times = append(c.Data.Times, at.Unix())
		if next >= len(peaks) || !peaks[next].At.Equal(at) {
			c.Data.Peaks = append(c.Data.Peaks, nil)
			continue
		}
		p := peaks[next]
		next++
		v := rounded(p.Value / scale)
		c.Data.Peaks = append(c.Data.Peaks, &v)
		if p.At.Format(time.DateOnly) != best.At.Format(time.DateOnly) {
			flush()
		}
		if p.Value > best.Value {
			best = p
		}
	}
	flush()
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

// histogram adds the buckets of a checkpoint.
func (c *chartView) histogram(buckets []overview.Bucket, scale float64, stored *overview.ContainerHistory, now time.Time) {
	c.Kind = "histogram"
	c.Head = []string{"From, " + c.Data.Unit, "To, " + c.Data.Unit, "Share"}
	for _, b := range buckets {
		c.Data.Buckets = append(c.Data.Buckets, bucket{rounded(b.From / scale), rounded(b.To / scale), rounded(b.Share)})
		c.Table = append(c.Table, tableRow{wording.Number(b.From / scale), wording.Number(b.To / scale), fmt.Sprintf("%.1f %%", b.Share*100)})
	}
	c.Note = "The profile stores a histogram and no times: the checkpoint shows how often which usage occurred, with less weight for old samples."
	if !stored.First.IsZero() {
		c.Note += fmt.Sprintf(" %s since %s, the last %s ago.", wording.Count(stored.Samples, "sample"), stored.First.Format("2 Jan"), ago(now.Sub(stored.Last)))
	}
}

// mark adds OOM kills and changes within the time of the chart.
func (d *chartData) mark(kills []time.Time, changes []int64) {
	from := d.Times[0]
	to := d.Times[len(d.Times)-1] + 2*3600
	for _, at := range kills {
		if t := at.Unix(); t >= from && t <= to {
			d.Kills = append(d.Kills, min(t, d.Times[len(d.Times)-1]))
		}
	}
	for _, t := range changes {
		if t >= from && t <= to {
			d.Changes = append(d.Changes, min(t, d.Times[len(d.Times)-1]))
		}
	}
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
	for _, v := range d.Peaks {
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
	for _, v := range []*float64{d.Request, d.Target} {
		if v != nil {
			top = max(top, *v)
		}
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

// minimumSpan is the shortest time that a chart shows, in seconds.
const minimumSpan = 6 * 3600

// The plot area of a chart in the units of its SVG.
const (
	chartWidth  = 1160.0
	chartHeight = 230.0
	plotLeft    = 48.0
	plotRight   = 1148.0
	plotTop     = 14.0
	plotBottom  = 206.0
)

// A canvas builds an SVG image. Colours come from classes, so that light and dark use the same image.
type canvas struct{ strings.Builder }

func (c *canvas) put(format string, args ...any) { fmt.Fprintf(&c.Builder, format, args...) }

func (c *canvas) label(x, y float64, anchor, text string) {
	c.put(`<text x="%.1f" y="%.1f" text-anchor="%s">%s</text>`, x, y, anchor, template.HTMLEscapeString(text))
}

// ticks returns about n round values from 0 to top.
func ticks(top float64, n int) []float64 {
	if !(top > 0) || math.IsInf(top, 1) {
		return nil
	}
	raw := top / float64(n)
	step := math.Pow(10, math.Floor(math.Log10(raw)))
	for _, factor := range [...]float64{1, 2, 2.5, 5, 10} {
		if factor*step >= raw {
			step *= factor
			break
		}
	}
	var out []float64
	for i := 0; float64(i)*step <= top; i++ {
		out = append(out, float64(float64(i)*step))
	}
	return out
}

func (c *chartView) y(v float64) float64 {
	return plotBottom - min(v/max(c.Data.Top, 1e-9), 1)*(plotBottom-plotTop)
}

// open draws the frame, the grid and the levels.
func (c *chartView) open(out *canvas, label string) {
	out.put(`<svg viewBox="0 0 %.0f %.0f" role="img" aria-label="%s" class="chart %s">`, chartWidth, chartHeight, template.HTMLEscapeString(label), c.Class)
	for _, v := range ticks(c.Data.Top, 4) {
		out.put(`<line class="grid" x1="%.0f" x2="%.0f" y1="%.1f" y2="%.1f"/>`, plotLeft, plotRight, c.y(v), c.y(v))
		out.label(plotLeft-6, c.y(v)+4, "end", strconv.FormatFloat(rounded(v), 'g', 4, 64))
	}
}

func (c *chartView) horizontal(out *canvas, class string, v *float64) {
	if v != nil && *v <= c.Data.Top {
		out.put(`<line class="%s" x1="%.0f" x2="%.0f" y1="%.1f" y2="%.1f"/>`, class, plotLeft, plotRight, c.y(*v), c.y(*v))
	}
}

func (c *chartView) drawPeaks() template.HTML {
	d := &c.Data
	var out canvas
	first := d.Times[0]
	last := max(d.Times[len(d.Times)-1], first+minimumSpan)
	x := func(t int64) float64 { return plotLeft + float64(t-first)/float64(last-first)*(plotRight-plotLeft) }
	c.open(&out, c.Title+": hourly peak from "+time.Unix(first, 0).UTC().Format("2 Jan")+" to "+time.Unix(last, 0).UTC().Format("2 Jan")+", with request and limit")
	days := (last - first) / 86400
	step := max(days/7, 1) * 86400
	for t := first - first%86400 + 86400; t < last; t += step {
		out.label(x(t), plotBottom+17, "middle", time.Unix(t, 0).UTC().Format("2 Jan"))
	}
	if d.Lower != nil && d.Upper != nil {
		out.put(`<rect class="band" x="%.0f" width="%.0f" y="%.1f" height="%.1f"/>`, plotLeft, plotRight-plotLeft, c.y(*d.Upper), c.y(*d.Lower)-c.y(*d.Upper))
	}
	for from := 0; from < len(d.Peaks); {
		if d.Peaks[from] == nil {
			from++
			continue
		}
		to := from
		var points strings.Builder
		for ; to < len(d.Peaks) && d.Peaks[to] != nil; to++ {
			fmt.Fprintf(&points, "%.1f,%.1f ", x(d.Times[to]), c.y(*d.Peaks[to]))
		}
		if to-from == 1 {
			out.put(`<circle class="point" cx="%.1f" cy="%.1f" r="2.5"/>`, x(d.Times[from]), c.y(*d.Peaks[from]))
		}
		out.put(`<polygon class="area" points="%.1f,%.1f %s%.1f,%.1f"/><polyline class="peak" points="%s"/>`,
			x(d.Times[from]), plotBottom, points.String(), x(d.Times[to-1]), plotBottom, strings.TrimSpace(points.String()))
		from = to
	}
	if len(d.Steps) == 0 {
		c.horizontal(&out, "request", d.Request)
	} else {
		c.drawSteps(&out, x)
	}
	c.horizontal(&out, "target", d.Target)
	c.horizontal(&out, "limit", d.Limit)
	for _, t := range d.Changes {
		out.put(`<line class="change" x1="%.1f" x2="%.1f" y1="%.0f" y2="%.0f"/>`, x(t), x(t), plotTop, plotBottom)
	}
	for _, t := range d.Kills {
		out.put(`<path class="kill" d="M%.1f %.0fl8 8m0 -8l-8 8"/>`, x(t)-4, plotTop-4)
	}
	out.WriteString("</svg>")
	return template.HTML(out.String()) // all texts are escaped
}

// drawSteps draws the request over time. x returns the horizontal position of a time. Before the first step, the request is not known.
func (c *chartView) drawSteps(out *canvas, x func(int64) float64) {
	d := &c.Data
	var points strings.Builder
	for i, s := range d.Steps {
		to := max(d.Times[len(d.Times)-1], d.Times[0]+minimumSpan)
		if i+1 < len(d.Steps) {
			to = d.Steps[i+1].At
		}
		fmt.Fprintf(&points, "%.1f,%.1f %.1f,%.1f ", x(s.At), c.y(s.Value), x(to), c.y(s.Value))
	}
	out.put(`<polyline class="request" points="%s"/>`, strings.TrimSpace(points.String()))
}

func (c *chartView) drawHistogram() template.HTML {
	d := &c.Data
	var out canvas
	most := 0.0
	for _, b := range d.Buckets {
		most = max(most, b.Share)
	}
	out.put(`<svg viewBox="0 0 %.0f %.0f" role="img" aria-label="%s" class="chart %s">`, chartWidth, chartHeight,
		template.HTMLEscapeString(c.Title+": histogram of usage, with request and limit"), c.Class)
	x := func(v float64) float64 { return plotLeft + min(v/max(d.Top, 1e-9), 1)*(plotRight-plotLeft) }
	for _, v := range ticks(d.Top, 8) {
		out.put(`<line class="grid" x1="%.1f" x2="%.1f" y1="%.0f" y2="%.0f"/>`, x(v), x(v), plotTop, plotBottom)
		out.label(x(v), plotBottom+17, "middle", strconv.FormatFloat(rounded(v), 'g', 4, 64))
	}
	if d.Lower != nil && d.Upper != nil {
		out.put(`<rect class="band" x="%.1f" width="%.1f" y="%.0f" height="%.0f"/>`, x(*d.Lower), x(*d.Upper)-x(*d.Lower), plotTop, plotBottom-plotTop)
	}
	for _, b := range d.Buckets {
		height := b.Share / most * (plotBottom - plotTop - 10)
		out.put(`<rect class="bucket" x="%.1f" width="%.1f" y="%.1f" height="%.1f"/>`, x(b.From), max(x(b.To)-x(b.From)-1, 1), plotBottom-height, height)
	}
	for _, l := range [...]struct {
		class string
		v     *float64
	}{{"request", d.Request}, {"target", d.Target}, {"limit", d.Limit}} {
		if l.v != nil && *l.v <= d.Top {
			out.put(`<line class="%s" x1="%.1f" x2="%.1f" y1="%.0f" y2="%.0f"/>`, l.class, x(*l.v), x(*l.v), plotTop, plotBottom)
		}
	}
	out.WriteString("</svg>")
	return template.HTML(out.String()) // all texts are escaped
}
