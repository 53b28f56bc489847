// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"fmt"
	"html"
	"math"
	"strconv"
	"strings"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/replay"
)

// palette are the colours of recommenders, in their order; it repeats. They are told apart with any colour vision, by
// day and night.
var palette = [...]string{"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#b8860b", "#56b4e9", "#7f3fbf", "#708090", "#8b4513"}

func colour(i int) string { return palette[i%len(palette)] }

// A frame maps values to the inside of a picture.
type frame struct {
	left, top, width, height float64
	x0, x1, y0, y1           float64 // the values at the edges
}

func (f frame) x(v float64) float64 { return f.left + (v-f.x0)/(f.x1-f.x0)*f.width }
func (f frame) y(v float64) float64 { return f.top + f.height - (v-f.y0)/(f.y1-f.y0)*f.height }

// canvas gathers SVG.
type canvas struct{ strings.Builder }

func (c *canvas) f(format string, args ...any) { fmt.Fprintf(&c.Builder, format, args...) }

func (c *canvas) text(x, y float64, class, s string) {
	c.f(`<text x="%.1f" y="%.1f" class="%s">%s</text>`, x, y, class, html.EscapeString(s))
}

func (c *canvas) open(width, height float64, label string) {
	c.f(`<svg viewBox="0 0 %.0f %.0f" role="img" aria-label="%s">`, width, height, html.EscapeString(label))
}

// nice returns round values between two, some n of them.
func nice(lo, hi float64, n int) []float64 {
	if !(hi > lo) {
		return nil
	}
	raw := (hi - lo) / float64(n)
	step := math.Pow(10, math.Floor(math.Log10(raw)))
	for _, k := range [...]float64{1, 2, 5, 10} {
		if k*step >= raw {
			step *= k
			break
		}
	}
	var out []float64
	for v := math.Ceil(lo/step) * step; v <= hi+step*1e-9; v += step {
		out = append(out, v)
	}
	return out
}

// axes draws the frame, lines at given and at round values and their names.
func (c *canvas) axes(f frame, xs, ys []float64, xName, yName func(float64) string) {
	for _, v := range ys {
		c.f(`<line x1="%.1f" x2="%.1f" y1="%.1f" y2="%.1f" class="grid"/>`, f.left, f.left+f.width, f.y(v), f.y(v))
		c.text(f.left-6, f.y(v)+4, "tick end", yName(v))
	}
	for _, v := range xs {
		c.f(`<line x1="%.1f" x2="%.1f" y1="%.1f" y2="%.1f" class="grid"/>`, f.x(v), f.x(v), f.top, f.top+f.height)
		c.text(f.x(v), f.top+f.height+16, "tick middle", xName(v))
	}
}

// plain writes a number with as many digits as it needs.
func plain(v float64) string { return strconv.FormatFloat(math.Round(v*1e6)/1e6, 'g', 4, 64) }

// frontier draws what each recommender wastes against what it risks.
func (r *Report) frontier(res cluster.Resource) string {
	type point struct{ x, y float64 }
	points := make([]point, len(r.Total))
	minX, maxX, maxY := math.Inf(1), math.Inf(-1), 0.0
	for i, o := range r.Total {
		s := summary(o, res)
		p := point{s.MeanSlack, 100 * (1 - s.FreeDays)}
		if res == cluster.CPU {
			p = point{s.Footprint, s.Above}
		}
		points[i] = p
		minX, maxX, maxY = min(minX, p.x), max(maxX, p.x), max(maxY, p.y)
	}
	// What is told apart are the recommenders, so the axis of waste begins near the least of it.
	room := 0.25*(maxX-minX) + 0.05*math.Abs(maxX) + 1e-9
	f := frame{left: 60, top: 12, width: 420, height: 250, x0: minX - room, x1: maxX + room, y0: -0.1 * maxY, y1: maxY*1.15 + 1e-9}
	if res == cluster.CPU {
		f.x0 = max(f.x0, 0)
	}
	var c canvas
	c.open(520, 310, "waste against risk, "+res.String())
	c.axes(f, nice(f.x0, f.x1, 6), nice(0, f.y1, 4), plain, plain)
	xTitle, yTitle := "mean relative slack of memory", "days above the request, %"
	if res == cluster.CPU {
		xTitle, yTitle = "requested CPU, cores", "samples above the request a day"
	}
	c.text(f.left+f.width/2, f.top+f.height+38, "title middle", xTitle)
	c.f(`<text transform="translate(14 %.1f) rotate(-90)" class="title middle">%s</text>`, f.top+f.height/2, yTitle)
	at := make([]spot, len(points))
	for i, p := range points {
		at[i] = spot{f.x(p.x), f.y(p.y)}
		c.f(`<circle cx="%.1f" cy="%.1f" r="%.0f" fill="%s"/>`, at[i].x, at[i].y, dotRadius, colour(i))
	}
	var taken []box
	for i := range at {
		name := r.Recommenders[i].Name
		label := place(at, i, float64(len(name))*letterWidth, f, taken)
		taken = append(taken, label)
		c.f(`<text x="%.1f" y="%.1f" style="fill:%s">%s</text>`, label.left, label.bottom-3, colour(i), html.EscapeString(name))
	}
	c.WriteString("</svg>")
	return c.String()
}

// Sizes in a picture of the frontier.
const (
	dotRadius   = 6.0
	letterWidth = 7.5 // at most, on average
	lineHeight  = 15.0
)

type spot struct{ x, y float64 }

type box struct{ left, top, right, bottom float64 }

func (b box) meets(o box) bool {
	return b.left < o.right && o.left < b.right && b.top < o.bottom && o.top < b.bottom
}

// place returns where the name of a dot is written: beside it, inside the frame, over no other name and no other dot. Where
// there is no such place it is the first that is tried.
func place(dots []spot, i int, width float64, f frame, taken []box) box {
	at := func(dx, dy float64) box {
		b := box{left: dots[i].x + dx, bottom: dots[i].y + dy}
		b.right, b.top = b.left+width, b.bottom-lineHeight
		return b
	}
	free := func(b box) bool {
		if b.left < f.left || b.right > f.left+f.width+20 || b.top < 0 || b.bottom > f.top+f.height {
			return false
		}
		for j, d := range dots {
			if j != i && b.meets(box{d.x - dotRadius, d.y - dotRadius, d.x + dotRadius, d.y + dotRadius}) {
				return false
			}
		}
		for _, o := range taken {
			if b.meets(o) {
				return false
			}
		}
		return true
	}
	beside, below := dotRadius+3, lineHeight/2
	for far := range 12 {
		away := float64(far) * lineHeight / 3
		for _, b := range [...]box{
			at(beside, below-away), at(beside, below+away), at(-beside-width, below-away), at(-beside-width, below+away),
			at(-width/2, -beside-away), at(-width/2, beside+lineHeight+away),
		} {
			if free(b) {
				return b
			}
		}
	}
	return at(beside, below)
}

// columns is how many points wide a picture of usage is: more samples than that are drawn as their range.
const columns = 460

// history draws the usage of one container and what each recommender requested.
func (w *Workload) history(container int, res cluster.Resource) string {
	samples := w.Samples
	first, last := samples[0].At, samples[len(samples)-1].At
	if last == first {
		last++
	}
	value := func(s *replay.Sample) float64 {
		if res == cluster.CPU {
			return s.CPU
		}
		return s.Memory
	}
	unit := 1.0
	if res == cluster.CPU {
		unit = 0.001
	}
	low, high := make([]float64, columns), make([]float64, columns)
	for i := range low {
		low[i] = math.Inf(1)
	}
	top := 0.0
	for i := range samples {
		s := &samples[i]
		if int(s.Container) != container || !s.Has.Has(res) {
			continue
		}
		k := int(float64(s.At-first) / float64(last-first) * (columns - 1))
		v := value(s)
		low[k], high[k] = min(low[k], v), max(high[k], v)
		top = max(top, v)
	}
	if top <= 0 {
		return ""
	}
	for _, changes := range w.Changes {
		for _, x := range changes {
			if int(x.Container) == container && x.Resource == res {
				top = max(top, float64(x.Request)*unit)
			}
		}
	}
	f := frame{left: 74, top: 8, width: columns, height: 150, x0: float64(first), x1: float64(last), y1: top * 1.05}
	var c canvas
	c.open(560, 190, fmt.Sprintf("%s of %s, container %s", res, w.Key, w.Containers[container]))
	day := func(v float64) string { return time.Unix(int64(v), 0).UTC().Format("2 Jan") }
	c.axes(f, days(first, last), amounts(res, f.y1), day, func(v float64) string { return amount(res, v) })
	var d strings.Builder
	for k := range columns {
		if high[k] == 0 && math.IsInf(low[k], 1) {
			continue
		}
		x := f.left + float64(k)
		fmt.Fprintf(&d, "M%.0f %.1fV%.1f", x, f.y(low[k])+0.5, f.y(high[k])-0.5)
	}
	c.f(`<path d="%s" class="usage"/>`, d.String())
	for i, changes := range w.Changes {
		var d strings.Builder
		open := false
		for _, x := range changes {
			if int(x.Container) != container || x.Resource != res || x.At > last {
				continue
			}
			if !open {
				fmt.Fprintf(&d, "M%.1f %.1f", f.x(float64(x.At)), f.y(float64(x.Request)*unit))
				open = true
				continue
			}
			fmt.Fprintf(&d, "H%.1fV%.1f", f.x(float64(x.At)), f.y(float64(x.Request)*unit))
		}
		if open {
			fmt.Fprintf(&d, "H%.1f", f.left+f.width)
			c.f(`<path d="%s" class="request" stroke="%s"/>`, d.String(), colour(i))
		}
	}
	c.WriteString("</svg>")
	return c.String()
}

// amounts returns round amounts up to one: memory in whole MiB or GiB.
func amounts(res cluster.Resource, most float64) []float64 {
	unit := 1.0
	switch {
	case res == cluster.Memory && most >= 4<<30:
		unit = 1 << 30
	case res == cluster.Memory:
		unit = 1 << 20
	}
	out := nice(0, most/unit, 4)
	for i := range out {
		out[i] *= unit
	}
	return out
}

// days returns midnights between two times, at most eight, evenly spaced.
func days(first, last int64) []float64 {
	const day = 24 * 3600
	n := (last - first) / day
	step := max(1, (n+7)/8)
	var out []float64
	for at := (first/day + 1) * day; at <= last; at += step * day {
		out = append(out, float64(at))
	}
	return out
}
