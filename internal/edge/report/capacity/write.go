// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package capacity

import (
	"fmt"
	"io"

	core "podfit.dev/podfit/internal/core/capacity"
	"podfit.dev/podfit/internal/look/page"
)

// A Report is a capacity plan and what a reader should know about it.
type Report struct {
	core.Plan
	Cluster string
	Source  string   // where the history is from
	Missing []string // what could not be read; the plan is incomplete
	Notes   []string
}

// Options control what tables show.
type Options struct {
	Width  int  // columns of the terminal; 0: unlimited
	Colour bool // use ANSI colours
}

var formats = []struct {
	name  string
	write func(io.Writer, *Report, Options) error
}{
	{"table", table},
	{"json", writeJSON},
	{"html", func(w io.Writer, r *Report, _ Options) error { return page.Write(w, shown(r)) }},
}

// Formats returns the names of all formats.
func Formats() []string {
	names := make([]string, len(formats))
	for i, f := range formats {
		names[i] = f.name
	}
	return names
}

// Write writes a report in a format.
func Write(w io.Writer, format string, r *Report, o Options) error {
	for _, f := range formats {
		if f.name != format {
			continue
		}
		if err := f.write(w, r, o); err != nil {
			return fmt.Errorf("write report: %w", err)
		}
		return nil
	}
	return fmt.Errorf("unknown format %q", format)
}
