// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package capacity

import (
	"fmt"
	"slices"

	core "podfit.dev/podfit/internal/core/capacity"
	"podfit.dev/podfit/internal/look/chart"
	"podfit.dev/podfit/internal/look/page"
)

// charts returns the forecast of a resource: the band, the expected line, and the capacity. There is none without a forecast.
func charts(r *core.ResourcePlan) []page.Chart {
	o := &r.Outlook
	days := len(o.High)
	if days < 2 || r.Capacity <= 0 {
		return nil
	}
	top := max(float64(r.Capacity), slices.Max(o.High))
	m := chart.New(640, 128, "cpu", fmt.Sprintf("Forecast of requested %s for %d days: the band, the expected line, and the capacity", r.Resource, days),
		chart.Frame{Width: 640, Height: 120, X1: float64(days - 1), Y1: 1.05 * top})
	band := make([]chart.Point, 2*days)
	line := make([]chart.Point, days)
	for i := range days {
		x := float64(i)
		band[i] = chart.Point{X: x, Y: o.High[i]}
		band[2*days-1-i] = chart.Point{X: x, Y: o.Low[i]}
		line[i] = chart.Point{X: x, Y: o.Middle[i]}
	}
	m.Area("area", band...)
	m.Line("peak", line...)
	m.Across("limit", float64(r.Capacity))
	return []page.Chart{{Image: m.HTML(), Caption: fmt.Sprintf("%s, next %d days; dashed: capacity", r.Resource, days)}}
}
