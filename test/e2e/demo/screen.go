// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"
)

// A screen shows the state of the workloads. On a terminal it redraws a table in place; otherwise it prints a line per action
// and the table every 30s.
type screen struct {
	out      io.Writer
	terminal bool
	size     func() (width, height int)

	drawn int       // number of lines drawn on the terminal
	last  time.Time // when the table was last printed without a terminal
}

// pause is the interval at which the table is printed without a terminal.
const pause = 30 * time.Second

func (s *screen) show(elapsed time.Duration, now time.Time, ws []workload, st *story) {
	if s.terminal {
		st.unreported() // dropped, because the table shows them
		s.redraw(append([]string{clock(elapsed)}, table(ws, st, true)...))
		return
	}
	for _, line := range st.unreported() {
		fmt.Fprintf(s.out, "%s  %s\n", clock(elapsed), line)
	}
	if now.Sub(s.last) >= pause {
		s.last = now
		fmt.Fprintf(s.out, "\n%s\n%s\n\n", clock(elapsed), strings.Join(table(ws, st, false), "\n"))
	}
}

// redraw replaces the previously drawn lines, and cuts lines to the terminal's size so that none wraps.
func (s *screen) redraw(lines []string) {
	width, height := s.size()
	if len(lines) >= height {
		lines = lines[:max(1, height-1)]
	}
	var b strings.Builder
	if s.drawn > 0 {
		fmt.Fprintf(&b, "\x1b[%dA", s.drawn)
	}
	b.WriteString("\r\x1b[J")
	for _, l := range lines {
		b.WriteString(cut(l, width))
		b.WriteString("\n")
	}
	s.drawn = len(lines)
	_, _ = io.WriteString(s.out, b.String()) // an error means that the terminal is closed
}

// done prints the final table and keeps it on the screen.
func (s *screen) done(now time.Time, elapsed time.Duration, ws []workload, st *story) {
	s.last = time.Time{}
	s.show(elapsed, now, ws, st)
	s.drawn = 0
}

// cut shortens a line to a width in visible characters, not counting colour codes.
func cut(line string, width int) string {
	var b strings.Builder
	n := 0
	for i := 0; i < len(line); {
		if line[i] == '\x1b' {
			end := strings.IndexByte(line[i:], 'm') + 1
			b.WriteString(line[i : i+end])
			i += end
			continue
		}
		r, size := utf8.DecodeRuneInString(line[i:])
		if n < width {
			b.WriteRune(r)
		}
		n++
		i += size
	}
	return b.String()
}

// clock formats a duration as minutes:seconds.
func clock(d time.Duration) string {
	s := int(d.Seconds())
	return fmt.Sprintf("%d:%02d", s/60, s%60)
}

// head returns the names of the columns.
func head() []string {
	return []string{"WORKLOAD", "MODE", "CONTAINER", "CPU REQUEST", "USED", "TARGET", "MEMORY REQUEST", "USED", "TARGET"}
}

// table returns a line per container, and a line per workload with what was done to it and why.
func table(ws []workload, st *story, colours bool) []string {
	paint := func(code, text string) string {
		if !colours {
			return text
		}
		return "\x1b[" + code + "m" + text + "\x1b[0m"
	}
	rows := [][]string{head()}
	notes := []string{""} // notes[i] is printed below row i if it is not empty
	for _, w := range ws {
		mark := paint("32", "✓")
		todo := w.missing()
		if todo != "" {
			mark = paint("33", "…")
		}
		for i, c := range w.Containers {
			first := []string{"", ""}
			if i == 0 {
				first = []string{fmt.Sprintf("%s %s ×%d", strings.ToLower(w.Kind), w.Name, w.Want), w.Mode}
			}
			rows = append(rows, append(first, cells(&w, c)...))
			notes = append(notes, "")
		}
		text := strings.Join(clean(todo, st.acts[w.Name].String()), "; ")
		if text == "" {
			text = w.untouched()
		}
		notes[len(notes)-1] = "  " + mark + " " + paint("2", text)
	}
	var out []string
	for i, line := range align(rows) {
		if i == 0 {
			line = paint("1", line)
		}
		out = append(out, line)
		if notes[i] != "" {
			out = append(out, notes[i])
		}
	}
	return out
}

// untouched returns why a workload needs no action.
func (w *workload) untouched() string {
	switch {
	case w.Mode == "Off":
		return "mode Off: recommendation only"
	case w.sizesOnlyNew():
		return "new pods get their size at creation"
	}
	return "requests match the recommendation"
}

func clean(texts ...string) []string {
	var out []string
	for _, t := range texts {
		if t != "" {
			out = append(out, t)
		}
	}
	return out
}

func cells(w *workload, c container) []string {
	least, most, any := w.has(c.Name)
	uses, measured := w.needs(c.Name)
	now := func(least, most int64, write func(int64) string) string {
		switch {
		case !any:
			return "?"
		case write(least) != write(most):
			return write(least) + "…" + write(most)
		}
		return write(most)
	}
	change := func(before int64, now string, write func(int64) string) string {
		if write(before) == now {
			return now
		}
		return write(before) + " → " + now
	}
	used := func(v int64, write func(int64) string) string {
		if !measured {
			return "-"
		}
		return write(v)
	}
	target := func(write func(int64) string, of func(amount) int64) string {
		if c.Advice == nil {
			return "-"
		}
		return write(of(c.Advice.Target))
	}
	return []string{
		c.Name,
		change(c.Before.CPU, now(least.CPU, most.CPU, cpu), cpu), used(uses.CPU, cpu), target(cpu, func(a amount) int64 { return a.CPU }),
		change(c.Before.Memory, now(least.Memory, most.Memory, memory), memory), used(uses.Memory, memory),
		target(memory, func(a amount) int64 { return a.Memory }),
	}
}

// cpu formats millicores.
func cpu(milli int64) string {
	if milli == 0 {
		return "none"
	}
	return fmt.Sprintf("%dm", milli)
}

// memory formats bytes as mebibytes.
func memory(bytes int64) string {
	if bytes == 0 {
		return "none"
	}
	return fmt.Sprintf("%dMi", (bytes+1<<19)>>20)
}

// align pads the columns: the first three are left-aligned, the numbers right-aligned.
func align(rows [][]string) []string {
	widths := make([]int, len(rows[0]))
	for _, r := range rows {
		for i, c := range r {
			widths[i] = max(widths[i], utf8.RuneCountInString(c))
		}
	}
	out := make([]string, 0, len(rows))
	for _, r := range rows {
		var b strings.Builder
		for i, c := range r {
			pad := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(c))
			if i > 0 {
				b.WriteString("  ")
			}
			if i < 3 {
				b.WriteString(c + pad)
			} else {
				b.WriteString(pad + c)
			}
		}
		out = append(out, strings.TrimRight(b.String(), " "))
	}
	return out
}
