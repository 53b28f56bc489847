// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"cmp"
	"fmt"
	"html/template"
	"math"
	"slices"
	"strings"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/replay"
	"podfit.dev/podfit/internal/core/wording"
	"podfit.dev/podfit/internal/look/chart"
)

// colour returns the class of the colour of a recommender. Colours repeat.
func colour(i int) string { return fmt.Sprintf("d%d", i%9) }

// frontier draws waste (x) against risk (y), with one dot per recommender.
func frontier(c *replay.Comparison, res cluster.Resource) template.HTML {
	points := cluster.Each(c.Total, func(o *replay.Outcome) chart.Point {
		s := summary(*o, res)
		return cluster.Pick(res, chart.Point{X: s.Footprint, Y: s.Above}, chart.Point{X: s.MeanSlack, Y: 100 * (1 - s.FreeDays)})
	})
	names := recommenders(c)
	if res == cluster.CPU {
		return dots("waste against risk, "+res.String(), "requested CPU, cores", "samples above the request per day", 0, names, points)
	}
	return dots("waste against risk, "+res.String(), "mean relative slack of memory", "days above the request, %", math.Inf(-1), names, points)
}

// dots draws one dot with a name per recommender. The x axis begins at least at a value.
func dots(title, xTitle, yTitle string, least float64, names []string, points []chart.Point) template.HTML {
	minX := math.Inf(1)
	maxX := math.Inf(-1)
	maxY := 0.0
	longest := 0
	for i, p := range points {
		minX = min(minX, p.X)
		maxX = max(maxX, p.X)
		maxY = max(maxY, p.Y)
		longest = max(longest, len(names[i]))
	}
	if maxY == 0 {
		maxY = 1 // an axis with different numbers
	}
	// The differences between recommenders matter, so the x axis starts near the smallest value and not at 0.
	room := 0.25*(maxX-minX) + 0.05*math.Abs(maxX) + 1e-9
	f := chart.Frame{Left: 60, Top: 12, Width: 420, Height: 250, X0: max(minX-room, least), X1: maxX + room, Y0: -0.1 * maxY, Y1: maxY*1.15 + 1e-9}
	image := chart.New(f.Left+f.Width+20+letterWidth*float64(longest), 310, "", title, f)
	image.Grid(chart.Ticks(f.X0, f.X1, 6), chart.Ticks(0, f.Y1, 4), chart.Number, chart.Number)
	image.Text(f.Left+f.Width/2, f.Top+f.Height+38, "middle", xTitle)
	image.Put(`<text transform="translate(14 %.1f) rotate(-90)" class="middle">%s</text>`, f.Top+f.Height/2, yTitle)
	for i, y := range labels(f, points) {
		image.Put(`<line class="grid" x1="%.1f" x2="%.1f" y1="%.1f" y2="%.1f"/>`, f.X(points[i].X), f.Left+f.Width+10, f.Y(points[i].Y), y-4)
		image.Put(`<circle cx="%.1f" cy="%.1f" r="6" class="point %s"/>`, f.X(points[i].X), f.Y(points[i].Y), colour(i))
		image.Text(f.Left+f.Width+14, y, "name "+colour(i), names[i])
	}
	return image.HTML()
}

// Sizes of text in a frontier chart, in pixels.
const (
	letterWidth = 7.5 // upper bound of the mean
	lineHeight  = 15.0
)

// labels returns the positions of the labels of points, which are right of the chart: at the height of its point, or above the label below.
func labels(f chart.Frame, points []chart.Point) []float64 {
	order := make([]int, len(points))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(points[a].Y, points[b].Y) })
	out := make([]float64, len(points))
	lowest := math.Inf(1)
	for _, i := range order {
		out[i] = min(f.Y(points[i].Y)+4, lowest)
		lowest = out[i] - lineHeight
	}
	return out
}

// chartColumns is the width of a usage chart in pixels. Samples that share a pixel column are drawn as their range.
const chartColumns = 460

// usageChart draws the usage of one container and the requests of each recommender. It returns "" if there is no usage.
func usageChart(w *replay.WorkloadResult, container int, res cluster.Resource) template.HTML {
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
		for _, p := range requests(changes, container, res, math.MaxInt64) {
			top = max(top, p.Y)
		}
	}
	f := chart.Frame{Left: 74, Top: 8, Width: chartColumns, Height: 150, X0: float64(first), X1: float64(last), Y1: top * 1.05}
	image := chart.New(560, 190, "", fmt.Sprintf("%s of %s, container %s", res, w.Key, w.Containers[container]), f)
	image.Grid(chart.Days(first, last), amountTicks(res, f.Y1), chart.Date, func(v float64) string { return wording.Measured(res, v) })
	var path strings.Builder
	for k := range chartColumns {
		if !math.IsInf(low[k], 1) { // there are samples
			fmt.Fprintf(&path, "M%.0f %.1fV%.1f", f.Left+float64(k), f.Y(low[k])+0.5, f.Y(high[k])-0.5)
		}
	}
	image.Put(`<path d="%s" class="usage"/>`, path.String())
	for i := range w.Changes {
		image.Steps("peak "+colour(i), requests(w.Changes[i], container, res, last))
	}
	return image.HTML()
}

func requests(changes []replay.Change, container int, res cluster.Resource, last int64) (out []chart.Point) {
	for _, change := range replay.ChangesOf(changes, container, res) {
		if change.At <= last {
			out = append(out, chart.Point{X: float64(change.At), Y: res.InUnits(change.Request)})
		}
	}
	return out
}

// usageRanges returns the lowest and the highest usage in each pixel column, and the highest of all. The lowest is +Inf
// in a column without samples.
func usageRanges(w *replay.WorkloadResult, container int, res cluster.Resource, first, last int64) (low, high []float64, top float64) {
	low = slices.Repeat([]float64{math.Inf(1)}, chartColumns)
	high = make([]float64, chartColumns)
	for _, s := range w.Samples {
		if int(s.Container) != container || !s.Has.Has(res) {
			continue
		}
		used := s.Used(res)
		k := int(float64(s.At-first) / float64(last-first) * (chartColumns - 1))
		low[k] = min(low[k], used)
		high[k] = max(high[k], used)
		top = max(top, used)
	}
	return low, high, top
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
	out := chart.Ticks(0, most/unit, 4)
	for i := range out {
		out[i] *= unit
	}
	return out
}
