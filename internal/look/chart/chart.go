// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package chart draws the charts of the web page and of the HTML reports as SVG. Colours come from the classes of the common style, so that
// light and dark use the same image. All texts are escaped.
package chart

import (
	_ "embed"
	"fmt"
	"html/template"
	"math"
	"strconv"
	"strings"
	"time"
)

// Style is the style sheet of charts, which follows the common one.
//
//go:embed chart.css
var Style string

// A Frame is the plot area of a chart in pixels, and the values at its edges. Values beyond an edge are drawn at the edge.
type Frame struct {
	Left, Top, Width, Height float64
	X0, X1, Y0, Y1           float64
}

// X returns the horizontal position of a value, in pixels.
func (f Frame) X(v float64) float64 { return f.Left + ratio(v-f.X0, f.X1-f.X0)*f.Width }

// Y returns the vertical position of a value, in pixels.
func (f Frame) Y(v float64) float64 { return f.Top + f.Height - ratio(v-f.Y0, f.Y1-f.Y0)*f.Height }

func ratio(part, whole float64) float64 { return min(max(part/max(whole, 1e-9), 0), 1) }

// A Point is a point of a chart, in values of its axes.
type Point struct{ X, Y float64 }

// An Image is a chart that is being drawn.
type Image struct {
	Frame
	out strings.Builder
}

// New returns an empty chart. The label is for readers who do not see it.
func New(width, height float64, class, label string, f Frame) *Image {
	m := &Image{Frame: f}
	m.Put(`<svg viewBox="0 0 %.0f %.0f" role="img" aria-label="%s" class="chart %s">`, width, height, template.HTMLEscapeString(label), class)
	return m
}

// HTML returns the chart.
func (m *Image) HTML() template.HTML { return template.HTML(m.out.String() + "</svg>") } // all texts are escaped

// Put adds an element. Its arguments are numbers and classes.
func (m *Image) Put(format string, args ...any) { fmt.Fprintf(&m.out, format, args...) }

// Text adds a text at a position in pixels.
func (m *Image) Text(x, y float64, class, text string) {
	m.Put(`<text x="%.1f" y="%.1f" class="%s">%s</text>`, x, y, class, template.HTMLEscapeString(text))
}

// Across adds a horizontal line at a value, nothing above the chart.
func (m *Image) Across(class string, v float64) {
	if v <= m.Y1 {
		m.Put(`<line class="%s" x1="%.0f" x2="%.0f" y1="%.1f" y2="%.1f"/>`, class, m.Left, m.Left+m.Width, m.Y(v), m.Y(v))
	}
}

// Down adds a vertical line at a value, nothing beside the chart.
func (m *Image) Down(class string, v float64) {
	if v <= m.X1 {
		m.Put(`<line class="%s" x1="%.1f" x2="%.1f" y1="%.0f" y2="%.0f"/>`, class, m.X(v), m.X(v), m.Top, m.Top+m.Height)
	}
}

// Grid adds lines and labels at values of the axes.
func (m *Image) Grid(xs, ys []float64, xLabel, yLabel func(float64) string) {
	for _, v := range ys {
		m.Across("grid", v)
		m.Text(m.Left-6, m.Y(v)+4, "end", yLabel(v))
	}
	for _, v := range xs {
		m.Down("grid", v)
		m.Text(m.X(v), m.Top+m.Height+16, "middle", xLabel(v))
	}
}

// Line adds a line through points.
func (m *Image) Line(class string, points ...Point) {
	m.Put(`<polyline points="%s" class="%s"/>`, m.positions(points), class)
}

// Area adds the area between points.
func (m *Image) Area(class string, points ...Point) {
	m.Put(`<polygon points="%s" class="%s"/>`, m.positions(points), class)
}

// Box adds the area between two values of each axis.
func (m *Image) Box(class string, x0, x1, y0, y1 float64) {
	m.Area(class, Point{x0, y0}, Point{x0, y1}, Point{x1, y1}, Point{x1, y0})
}

func (m *Image) positions(points []Point) string {
	var out strings.Builder
	for i, p := range points {
		if i > 0 {
			out.WriteByte(' ')
		}
		fmt.Fprintf(&out, "%.1f,%.1f", m.X(p.X), m.Y(p.Y))
	}
	return out.String()
}

// Steps adds a value over time that changes at points and has its last value up to the end of the chart.
func (m *Image) Steps(class string, points []Point) {
	for i, p := range points {
		command := "H%.1fV%.1f"
		if i == 0 {
			command = "M%.1f %.1f"
			m.Put(`<path class="%s" d="`, class)
		}
		m.Put(command, m.X(p.X), m.Y(p.Y))
	}
	if len(points) > 0 {
		m.Put(`H%.1f"/>`, m.Left+m.Width)
	}
}

// Ticks returns about n round values between low and high.
func Ticks(low, high float64, n int) []float64 {
	if !(high > low) || math.IsInf(high-low, 0) {
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
	for i := math.Ceil(low / step); i*step <= high+step*1e-9; i++ {
		out = append(out, float64(i*step))
	}
	return out
}

// Days returns at most eight evenly spaced midnights (UTC) between two times in Unix seconds.
func Days(first, last int64) []float64 {
	const day = 24 * 3600
	step := max(1, ((last-first)/day+7)/8)
	var out []float64
	for at := (first/day + 1) * day; at <= last; at += step * day {
		out = append(out, float64(at))
	}
	return out
}

// Date is the label of a time in Unix seconds: "9 Dec".
func Date(at float64) string { return time.Unix(int64(at), 0).UTC().Format("2 Jan") }

// Number is the label of a number, with up to four significant digits.
func Number(v float64) string { return strconv.FormatFloat(math.Round(v*1e6)/1e6, 'g', 4, 64) }
