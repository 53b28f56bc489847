// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package capacity writes a capacity plan as tables for a terminal, as JSON for programs, or as one page of HTML.
package capacity

import (
	"fmt"
	"io"

	core "podfit.dev/podfit/internal/core/capacity"
	"podfit.dev/podfit/internal/core/fragments"
	"podfit.dev/podfit/internal/core/room"
	"podfit.dev/podfit/internal/edge/report/terminal"
	"podfit.dev/podfit/internal/look/page"
)

// A Report is a capacity plan and what a reader should know about it.
type Report struct {
	core.Plan
	Cluster   string
	Source    string   // where the history is from
	Missing   []string // what could not be read; the plan is incomplete
	Notes     []string
	BackedOff []string    // groups of nodes from which their autoscaler backs off
	For       room.Amount // the size for which moves make room; zero: none
	Fragments []fragments.Pool
}

// Formats are the names of all formats.
var Formats = []string{"table", "json", "html"}

// Write writes a report in a format. Tables are laid out by an empty printer.
func Write(w io.Writer, format string, r *Report, p *terminal.Printer) (err error) {
	switch format {
	case "table":
		p.Document(shown(r))
		_, err = io.WriteString(w, p.Text.String())
	case "json":
		err = writeJSON(w, r)
	case "html":
		err = page.Write(w, shown(r))
	default:
		return fmt.Errorf("unknown format %q", format)
	}
	if err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	return nil
}
