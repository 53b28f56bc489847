// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"podfit.dev/podfit/test/load/soak"
)

// write writes the report as JSON.
func (r *SoakReport) write(path string) error {
	b, err := json.MarshalIndent(r, "", "\t")
	if err != nil {
		return err
	}
	return os.WriteFile(path, b, 0o644)
}

// page returns docs/soak.md.
func (r *SoakReport) page() string {
	var out strings.Builder
	out.WriteString(`<!-- Written by "make soak HOURS=1 WRITE=1". -->
# An hour with churn and faults

` + "`make soak`" + ` runs ` + "`podfit run`" + ` at an API server that keeps everything in memory ([performance.md](performance.md)). Each day, workloads are rolled out, scaled and
replaced by others, VPAs and a namespace are deleted and created again, and Jobs run. On most days a fault is injected. A checker reads what the API server gets from podfit: an eviction needs a new and valid
recommendation, budgets hold, and nothing learnt may be lost. Memory, goroutines, metrics and stored objects must not grow.

A day has 40 s here, but podfit keeps the usage of deleted workloads for real days, so their number grows, and memory is compared per usage history.

`)
	fmt.Fprintf(&out, "Machine: %s, with other work.\n", r.Machine)
	r.print(&out)
	return out.String()
}

// print prints the report.
func (r *SoakReport) print(w io.Writer) {
	fmt.Fprintf(w, "\n%d days of %.0f s, %d workloads with %d pods, seed %d, %.1f minutes\n\n", len(r.Samples), r.Length, r.Workloads, r.Pods, r.Seed, r.Minutes)
	faults := table{{"day", "fault", "lasted (s)", "recovered in (s)"}}
	for _, f := range r.Faults {
		faults = append(faults, []string{strconv.Itoa(f.Day), f.Name, number(f.Lasted), number(f.Recovered)})
	}
	faults.write(w)
	fmt.Fprintln(w)
	days := table{{"at the end of day"}}
	for _, m := range soak.Measures {
		days[0] = append(days[0], m.Name)
	}
	days[0] = append(days[0], "process")
	for i, s := range r.Samples {
		if every := max(1, len(r.Samples)/10); i > 1 && i%every != 0 && i != len(r.Samples)-1 {
			continue
		}
		line := []string{strconv.Itoa(s.Day)}
		for _, m := range soak.Measures {
			line = append(line, number(m.Value(s)))
		}
		days = append(days, append(line, strconv.Itoa(s.Process)))
	}
	days.write(w)
	fmt.Fprintln(w)
	growth := table{{"measure", "of", "days", "from", "to", "ratio"}}
	for _, c := range r.Comparisons {
		ratio := "–"
		if c.From > 0 {
			ratio = fmt.Sprintf("%.2f", c.To/c.From)
		}
		if c.Grows {
			ratio = "**" + ratio + "** (grows)"
		}
		growth = append(growth, []string{c.Measure, c.Of, fmt.Sprintf("%d → %d", c.First, c.Last), number(c.From), number(c.To), ratio})
	}
	growth.write(w)
	fmt.Fprintf(w, "\nEvictions: %d, resizes: %d, deletions of pods: %d, most writes in a minute: %d\n", r.Actions["eviction"], r.Actions["resize"], r.Actions["delete"], r.MostWrites)
	fmt.Fprintf(w, "\nViolations: %d\n", len(r.Violations))
	for _, v := range r.Violations {
		fmt.Fprintf(w, "\n%s\n", v)
	}
}
