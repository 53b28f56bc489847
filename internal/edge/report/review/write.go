// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package review writes the result of podfit recommend in all of its formats: tables for people, data for programs, and manifests for Git.
package review

import (
	"fmt"
	"io"

	"podfit.dev/podfit/internal/core/cluster"
	core "podfit.dev/podfit/internal/core/review"
	"podfit.dev/podfit/internal/edge/report/terminal"
	"podfit.dev/podfit/internal/look/page"
)

// Formats returns the names of all formats.
func Formats() []string {
	return cluster.Each(formats, func(f *format) string { return f.name })
}

type format struct {
	name  string
	write func(*printer)
}

var formats = []format{
	{"table", func(p *printer) { p.tables(false) }},
	{"wide", func(p *printer) { p.tables(true) }},
	{"json", func(p *printer) { p.writeJSON(p.document()) }},
	{"yaml", func(p *printer) { p.writeYAML(p.document()) }},
	{"csv", (*printer).csv},
	{"markdown", (*printer).markdown},
	{"html", func(p *printer) { p.err = page.Write(&p.Text, p.shown(true)) }},
	{"github", func(p *printer) { p.comment(mostGitHub) }},
	{"gitlab", func(p *printer) { p.comment(mostGitLab) }},
	{"patch", (*printer).patch},
	{"kustomize", (*printer).kustomize},
	{"helm-values", (*printer).helmValues},
	{"vpa", (*printer).vpa},
	{"krr-json", (*printer).krrJSON},
	{"krr-csv", (*printer).krrCSV},
}

// Write writes a report in a format.
func Write(w io.Writer, name string, r *core.Report, o Options) error {
	f := cluster.Find(formats, func(f *format) bool { return f.name == name })
	if f == nil {
		return fmt.Errorf("unknown format %q", name)
	}
	p := &printer{Printer: terminal.Printer{Width: o.Width, Colour: o.Colour}, content: content{Report: r, options: o}}
	p.differing = p.otherTemplates()
	f.write(p)
	if p.err == nil {
		_, p.err = io.WriteString(w, p.Text.String())
	}
	if p.err != nil {
		return fmt.Errorf("write report: %w", p.err)
	}
	return nil
}
