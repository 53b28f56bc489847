// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"html"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/replay"
	"podfit.dev/podfit/internal/core/wording"
)

// palette has the colours of recommenders, in their order; it repeats. The colours can be distinguished with colour
// blindness, and on light and dark backgrounds.
var palette = [...]string{"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#b8860b", "#56b4e9", "#7f3fbf", "#708090", "#8b4513"}

func colour(i int) string { return palette[i%len(palette)] }

// A frame is the plot area of a chart and maps values to coordinates in it.
type frame struct {
	left, top, width, height float64 // pixels
	x0, x1, y0, y1           float64 // values at the edges
}

func (f frame) x(v float64) float64 { return f.left + (v-f.x0)/(f.x1-f.x0)*f.width }
func (f frame) y(v float64) float64 { return f.top + f.height - (v-f.y0)/(f.y1-f.y0)*f.height }

// A canvas builds an SVG image.
type canvas struct{ strings.Builder }

func (c *canvas) printf(format string, args ...any) { fmt.Fprintf(&c.Builder, format, args...) }

func (c *canvas) open(width, height float64, label string) {
	c.printf(`<svg viewBox="0 0 %.0f %.0f" role="img" aria-label="%s">`, width, height, html.EscapeString(label))
}

func (c *canvas) text(x, y float64, class, s string) {
	c.printf(`<text x="%.1f" y="%.1f" class="%s">%s</text>`, x, y, class, html.EscapeString(s))
}

// axes draws grid lines and their labels.
func (c *canvas) axes(f frame, xs, ys []float64, xLabel, yLabel func(float64) string) {
	for _, v := range ys {
		c.printf(`<line x1="%.1f" x2="%.1f" y1="%.1f" y2="%.1f" class="grid"/>`, f.left, f.left+f.width, f.y(v), f.y(v))
		c.text(f.left-6, f.y(v)+4, "tick end", yLabel(v))
	}
	for _, v := range xs {
		c.printf(`<line x1="%.1f" x2="%.1f" y1="%.1f" y2="%.1f" class="grid"/>`, f.x(v), f.x(v), f.top, f.top+f.height)
		c.text(f.x(v), f.top+f.height+16, "tick middle", xLabel(v))
	}
}

// ticks returns about n round values between low and high.
func ticks(low, high float64, n int) []float64 {
	if !(high > low) {
		return nil
	}
	raw := (high - low) / float64(n)
	step := math.Pow(10, math.Floor(math.Log10(raw)))
	for _, factor := range [...]float64{1, 2, 5, 10} {
		if factor*step >= raw {
			step *= factor
			break
		}
	}
	var out []float64
	for v := math.Ceil(low/step) * step; v <= high+step*1e-9; v += step {
		out = append(out, v)
	}
	return out
}

// plain formats a number with up to four significant digits.
func plain(v float64) string { return strconv.FormatFloat(math.Round(v*1e6)/1e6, 'g', 4, 64) }

// frontier draws waste (x) against risk (y), with one dot per recommender.
func frontier(c *replay.Comparison, res cluster.Resource) string {
	type point struct{ x, y float64 }
	points := make([]point, len(c.Total))
	minX := math.Inf(1)
	maxX := math.Inf(-1)
	maxY := 0.0
	for i, outcome := range c.Total {
		s := summary(outcome, res)
		p := point{s.MeanSlack, 100 * (1 - s.FreeDays)}
		if res == cluster.CPU {
			p = point{s.Footprint, s.Above}
		}
		points[i] = p
		minX = min(minX, p.x)
		maxX = max(maxX, p.x)
		maxY = max(maxY, p.y)
	}
	// The differences between recommenders matter, so the x axis starts near the smallest value and not at 0.
	room := 0.25*(maxX-minX) + 0.05*math.Abs(maxX) + 1e-9
	f := frame{left: 60, top: 12, width: 420, height: 250, x0: minX - room, x1: maxX + room, y0: -0.1 * maxY, y1: maxY*1.15 + 1e-9}
	xTitle := "mean relative slack of memory"
	yTitle := "days above the request, %"
	if res == cluster.CPU {
		f.x0 = max(f.x0, 0)
		xTitle = "requested CPU, cores"
		yTitle = "samples above the request per day"
	}
	var out canvas
	out.open(520, 310, "waste against risk, "+res.String())
	out.axes(f, ticks(f.x0, f.x1, 6), ticks(0, f.y1, 4), plain, plain)
	out.text(f.left+f.width/2, f.top+f.height+38, "title middle", xTitle)
	out.printf(`<text transform="translate(14 %.1f) rotate(-90)" class="title middle">%s</text>`, f.top+f.height/2, yTitle)
	dots := make([]dot, len(points))
	for i, p := range points {
		dots[i] = dot{f.x(p.x), f.y(p.y)}
		out.printf(`<circle cx="%.1f" cy="%.1f" r="%.0f" fill="%s"/>`, dots[i].x, dots[i].y, dotRadius, colour(i))
	}
	var labels []box
	for i := range dots {
		name := c.Recommenders[i].Name
		label := placeLabel(dots, i, float64(len(name))*letterWidth, f, labels)
		labels = append(labels, label)
		out.printf(`<text x="%.1f" y="%.1f" fill="%s">%s</text>`, label.left, label.bottom-3, colour(i), html.EscapeString(name))
	}
	out.WriteString("</svg>")
	return out.String()
}

// Sizes in a frontier chart, in pixels.
const (
	dotRadius   = 6.0
	letterWidth = 7.5 // upper bound of the mean
	lineHeight  = 15.0
)

type dot struct{ x, y float64 }

type box struct{ left, top, right, bottom float64 }

func (b box) overlaps(o box) bool {
	return b.left < o.right && o.left < b.right && b.top < o.bottom && o.top < b.bottom
}

// placeLabel returns where the label of a dot goes: next to the dot, inside the frame, and not over another label or dot.
// If there is no such place, it returns the first candidate.
func placeLabel(dots []dot, i int, width float64, f frame, labels []box) box {
	at := func(dx, dy float64) box {
		b := box{left: dots[i].x + dx, bottom: dots[i].y + dy}
		b.right = b.left + width
		b.top = b.bottom - lineHeight
		return b
	}
	free := func(b box) bool {
		if b.left < f.left || b.right > f.left+f.width+20 || b.top < 0 || b.bottom > f.top+f.height {
			return false
		}
		for j, d := range dots {
			if j != i && b.overlaps(box{d.x - dotRadius, d.y - dotRadius, d.x + dotRadius, d.y + dotRadius}) {
				return false
			}
		}
		return !slices.ContainsFunc(labels, b.overlaps)
	}
	const beside, below = dotRadius + 3, lineHeight / 2
	for attempt := range 12 {
		away := float64(attempt) * lineHeight / 3
		for _, candidate := range [...]box{
			at(beside, below-away), at(beside, below+away), at(-beside-width, below-away), at(-beside-width, below+away),
			at(-width/2, -beside-away), at(-width/2, beside+lineHeight+away),
		} {
			if free(candidate) {
				return candidate
			}
		}
	}
	return at(beside, below)
}

// chartColumns is the width of a usage chart in pixels. Samples that share a pixel column are drawn as their range.
const chartColumns = 460

// usageChart draws the usage of one container and the requests of each recommender. It returns "" if there is no usage.
func usageChart(w *replay.WorkloadResult, container int, res cluster.Resource) string {
	first := w.Samples[0].At
	last := w.Samples[len(w.Samples)-1].At
	if last == first {
		last++
	}
	low, high, top := usageRanges(w, container, res, first, last)
	if top <= 0 {
		return ""
	}
	for _, changes := range w.Changes {
		for _, change := range changes {
			if int(change.Container) == container && change.Resource == res {
				top = max(top, requested(change))
			}
		}
	}
	f := frame{left: 74, top: 8, width: chartColumns, height: 150, x0: float64(first), x1: float64(last), y1: top * 1.05}
	var out canvas
	out.open(560, 190, fmt.Sprintf("%s of %s, container %s", res, w.Key, w.Containers[container]))
	day := func(v float64) string { return time.Unix(int64(v), 0).UTC().Format("2 Jan") }
	out.axes(f, midnights(first, last), amountTicks(res, f.y1), day, func(v float64) string { return wording.Measured(res, v) })
	var path strings.Builder
	for k := range chartColumns {
		if math.IsInf(low[k], 1) {
			continue // no samples
		}
		fmt.Fprintf(&path, "M%.0f %.1fV%.1f", f.left+float64(k), f.y(low[k])+0.5, f.y(high[k])-0.5)
	}
	out.printf(`<path d="%s" class="usage"/>`, path.String())
	for i, changes := range w.Changes {
		if line := requestLine(f, changes, container, res, last); line != "" {
			out.printf(`<path d="%s" class="request" stroke="%s"/>`, line, colour(i))
		}
	}
	out.WriteString("</svg>")
	return out.String()
}

// usageRanges returns the lowest and the highest usage in each pixel column, and the highest of all. The lowest is +Inf
// in a column without samples.
func usageRanges(w *replay.WorkloadResult, container int, res cluster.Resource, first, last int64) (low, high []float64, top float64) {
	low = make([]float64, chartColumns)
	high = make([]float64, chartColumns)
	for i := range low {
		low[i] = math.Inf(1)
	}
	for i := range w.Samples {
		s := &w.Samples[i]
		if int(s.Container) != container || !s.Has.Has(res) {
			continue
		}
		used := s.Memory
		if res == cluster.CPU {
			used = s.CPU
		}
		k := int(float64(s.At-first) / float64(last-first) * (chartColumns - 1))
		low[k] = min(low[k], used)
		high[k] = max(high[k], used)
		top = max(top, used)
	}
	return low, high, top
}

// requestLine returns the SVG path of the requests of one container over time.
func requestLine(f frame, changes []replay.Change, container int, res cluster.Resource, last int64) string {
	var path strings.Builder
	for _, change := range changes {
		if int(change.Container) != container || change.Resource != res || change.At > last {
			continue
		}
		x := f.x(float64(change.At))
		y := f.y(requested(change))
		if path.Len() == 0 {
			fmt.Fprintf(&path, "M%.1f %.1f", x, y)
		} else {
			fmt.Fprintf(&path, "H%.1fV%.1f", x, y)
		}
	}
	if path.Len() > 0 {
		fmt.Fprintf(&path, "H%.1f", f.left+f.width)
	}
	return path.String()
}

// requested returns the new request of a change in cores or bytes.
func requested(change replay.Change) float64 {
	if change.Resource == cluster.CPU {
		return float64(change.Request) * 0.001
	}
	return float64(change.Request)
}

// amountTicks returns round amounts up to a maximum: memory in whole MiB or GiB.
func amountTicks(res cluster.Resource, most float64) []float64 {
	unit := 1.0
	switch {
	case res == cluster.Memory && most >= 4<<30:
		unit = 1 << 30
	case res == cluster.Memory:
		unit = 1 << 20
	}
	out := ticks(0, most/unit, 4)
	for i := range out {
		out[i] *= unit
	}
	return out
}

// midnights returns at most eight evenly spaced midnights (UTC) between two times in Unix seconds.
func midnights(first, last int64) []float64 {
	const day = 24 * 3600
	step := max(1, ((last-first)/day+7)/8)
	var out []float64
	for at := (first/day + 1) * day; at <= last; at += step * day {
		out = append(out, float64(at))
	}
	return out
}
