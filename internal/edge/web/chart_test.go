// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package web

import (
	"slices"
	"strings"
	"testing"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/overview"
	"podfit.dev/podfit/internal/core/review"
)

// drawn returns the charts of a container that have usage.
func drawn(row *overview.Row, stored overview.ContainerHistory, now time.Time) []chartView {
	all := chartsOf(row, &overview.History{Containers: []overview.ContainerHistory{stored}}, nil, now)
	return slices.DeleteFunc(all, func(c chartView) bool { return c.Kind == "" })
}

// The axes have values, also where no script runs: amounts upwards, days to the right.
func TestChart_axes_haveValues(t *testing.T) {
	now := time.Date(2026, 11, 22, 3, 14, 0, 0, time.UTC)
	row := &overview.Row{Containers: []*overview.Container{{Row: review.Row{Subject: review.Subject{Container: "app"}}}}}
	var peaks []overview.Peak
	for i := range 48 {
		peaks = append(peaks, overview.Peak{At: now.Truncate(time.Hour).Add(time.Duration(i-48) * time.Hour), Value: 0.4})
	}
	charts := drawn(row, overview.ContainerHistory{Name: "app", CPU: peaks}, now)
	if len(charts) != 1 {
		t.Fatalf("%d charts", len(charts))
	}
	for _, label := range []string{">0<", ">0.2<", ">0.4<", ">21 Nov<"} {
		if !strings.Contains(string(charts[0].SVG), label) {
			t.Errorf("no label %s in %s", label, charts[0].SVG)
		}
	}
}

// An upper bound with little confidence is hundreds of cores. It does not make the rest unreadable, and one sample is visible.
func TestChart_oneSampleAndHighUpperBound_isReadable(t *testing.T) {
	now := time.Date(2026, 11, 22, 3, 14, 0, 0, time.UTC)
	row := &overview.Row{Containers: []*overview.Container{{
		Row: review.Row{Subject: review.Subject{Container: "app", Requests: cluster.Amounts(1000, 1<<30)}}, Advice: &cluster.Advice{Estimate: cluster.Estimate{
			Lower: cluster.Amounts(28, 1<<28), Target: cluster.Amounts(143, 3<<28), Upper: cluster.Amounts(201_350, 400<<30),
		}},
	}}}
	hour := []overview.Peak{{At: now.Truncate(time.Hour), Value: 0.12}}
	charts := drawn(row, overview.ContainerHistory{Name: "app", CPU: hour}, now)
	if len(charts) != 1 || charts[0].Data.Top > 1.2 {
		t.Fatalf("%d charts, the axis ends at %v cores", len(charts), charts[0].Data.Top)
	}
	if svg := string(charts[0].SVG); !strings.Contains(svg, `<circle class="point"`) || !strings.Contains(svg, `class="band"`) || strings.Contains(svg, "NaN") || strings.Contains(svg, `height="-`) {
		t.Errorf("chart %s", svg)
	}
	buckets := []overview.Bucket{{From: 0, To: 0.2, Share: 1}}
	charts = drawn(row, overview.ContainerHistory{Name: "app", CPUBuckets: buckets}, now)
	if len(charts) != 1 || charts[0].Data.Top > 1.2 || charts[0].Kind != "histogram" {
		t.Errorf("histogram %+v", charts)
	}
}

func TestChart_peaksOfPrometheus_noteSaysSo(t *testing.T) {
	now := time.Date(2026, 11, 22, 3, 0, 0, 0, time.UTC)
	row := &overview.Row{Containers: []*overview.Container{{Row: review.Row{Subject: review.Subject{Container: "app"}}}}}
	peaks := func(hours int, every int) (out []overview.Peak) {
		for i := 0; i < hours; i += every {
			out = append(out, overview.Peak{At: now.Add(time.Duration(i-hours) * time.Hour), Value: 0.12})
		}
		return out
	}
	for _, tt := range []struct {
		peaks    []overview.Peak
		recorded int
		want     string
	}{
		{peaks(336, 1), 0, ""},
		{peaks(336, 1), 336, "Source: Prometheus, 14 days."},
		{peaks(1, 1), 1, "Source: Prometheus, 1 day."},
		{peaks(336, 2), 168, "Source: Prometheus, 14 days. It has no samples of 167 hours of this time."},
		{peaks(336, 1), 37, "Source: the stored usage, and Prometheus for 37 hours without stored usage."},
	} {
		charts := drawn(row, overview.ContainerHistory{Name: "app", CPU: tt.peaks, CPURecorded: tt.recorded}, now)
		if len(charts) != 1 || charts[0].Note != tt.want || charts[0].Recorded != tt.recorded || charts[0].Kind != "peaks" {
			t.Errorf("got %+v, want %q", charts, tt.want)
		}
	}
}

func TestChoicesOf_profilesWithoutHistory_areNamedOnce(t *testing.T) {
	sizes := []overview.ProfileSize{
		{Container: "app", Profile: "default", Own: true, Target: cluster.Amounts(143, 1<<20)}, {Container: "app", Profile: "cost", Reason: "No history."},
		{Container: "app", Profile: "balanced", Reason: "No history."}, {Container: "app", Profile: "busy-hours", Target: cluster.Amounts(0, 1<<20)},
		{Container: "proxy", Profile: "default", Own: true, Reason: "Too young."}, {Container: "proxy", Profile: "balanced", Reason: "No history."},
	}
	known, unknown := choicesOf(sizes)
	if len(known) != 3 || known[0].Span != 2 || known[1].Profile != "busy-hours" || known[2].Container != "proxy" || known[2].Span != 1 {
		t.Errorf("known %+v", known)
	}
	if len(unknown) != 1 || strings.Join(unknown[0].Profiles, ", ") != "cost, balanced" {
		t.Errorf("not known %+v", unknown)
	}
}
