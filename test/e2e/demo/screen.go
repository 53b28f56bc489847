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

// A screen shows how the workloads are doing: on a terminal a table that is drawn anew in its place, elsewhere a line for
// each thing that happens and the table now and then.
type screen struct {
	out      io.Writer
	terminal bool
	size     func() (width, height int)

	drawn int       // lines of the table on the terminal
	last  time.Time // when the table was last printed, where there is no terminal
}

// pause is how often the table is printed where it cannot be drawn in its place.
const pause = 30 * time.Second

func (s *screen) show(elapsed time.Duration, now time.Time, ws []workload, st *story) {
	if s.terminal {
		st.told() // the table has it
		s.redraw(append([]string{clock(elapsed)}, table(ws, st, true)...))
		return
	}
	for _, line := range st.told() {
		fmt.Fprintf(s.out, "%s  %s\n", clock(elapsed), line)
	}
	if now.Sub(s.last) >= pause {
		s.last = now
		fmt.Fprintf(s.out, "\n%s\n%s\n\n", clock(elapsed), strings.Join(table(ws, st, false), "\n"))
	}
}

// redraw replaces the lines drawn last by these, cut to the terminal's size so that none wraps.
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
	_, _ = io.WriteString(s.out, b.String()) // a terminal that is gone needs no table
}

// done leaves what is drawn, and goes on below.
func (s *screen) done(now time.Time, elapsed time.Duration, ws []workload, st *story) {
	s.last = time.Time{}
	s.show(elapsed, now, ws, st)
	s.drawn = 0
}

// cut shortens a line to a width on the screen, not counting colours.
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

// clock writes a time since the start as minutes and seconds.
func clock(d time.Duration) string {
	s := int(d.Seconds())
	return fmt.Sprintf("%d:%02d", s/60, s%60)
}

// head names the columns.
func head() []string {
	return []string{"WORKLOAD", "MODE", "CONTAINER", "CPU REQUEST", "USED", "TARGET", "MEMORY REQUEST", "USED", "TARGET"}
}

// table writes the workloads, a line for each container and one for what was done to the workload and why.
func table(ws []workload, st *story, colours bool) []string {
	paint := func(code, text string) string {
		if !colours {
			return text
		}
		return "\x1b[" + code + "m" + text + "\x1b[0m"
	}
	rows := [][]string{head()}
	var notes []string // below row i, if not empty
	notes = append(notes, "")
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
		text := strings.Join(clean(st.acts[w.Name].String(), todo), "; ")
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

// untouched says why nothing was done to a workload, and needs not be.
func (w *workload) untouched() string {
	switch {
	case w.Mode == "Off":
		return "recommended only: mode Off"
	case w.sizesOnlyNew():
		return "new pods get their size when they are created"
	}
	return "fits"
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

// cpu writes millicores.
func cpu(milli int64) string {
	if milli == 0 {
		return "none"
	}
	return fmt.Sprintf("%dm", milli)
}

// memory writes bytes in mebibytes, as one would in a manifest.
func memory(bytes int64) string {
	if bytes == 0 {
		return "none"
	}
	return fmt.Sprintf("%dMi", (bytes+1<<19)>>20)
}

// align pads columns to the same width, the first three to the left and the numbers to the right.
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
