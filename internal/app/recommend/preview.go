// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package recommend

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/schollz/progressbar/v3"

	"podfit.dev/podfit/internal/app/process"
	"podfit.dev/podfit/internal/core/wording"
	report "podfit.dev/podfit/internal/edge/report/review"
	"podfit.dev/podfit/internal/edge/report/terminal"
)

// A preview shows the table on a terminal while usage is still read, and replaces it in place. A nil preview shows nothing.
type preview struct {
	out                  io.Writer
	columns, rows, lines int // the size of the terminal, and the lines above the cursor, when the table was drawn
}

// newPreview returns a preview, nil unless a person reads a table on a terminal that knows control sequences.
func (j *job) newPreview() *preview {
	_, rows, onTerminal := process.TerminalSize(j.streams.Out)
	if !onTerminal || rows < 4 || os.Getenv("TERM") == "dumb" || j.Quiet || j.Output != "table" && j.Output != "wide" {
		return nil
	}
	return &preview{out: j.streams.Out}
}

// draw replaces the table. Lines that do not fit the terminal are left out, so nothing scrolls and the cursor finds the first line again. Output
// that cannot be written is an error of the report that follows.
func (p *preview) draw(j *job, c *collector, left time.Duration) {
	if p == nil {
		return
	}
	r, o := j.review(c.scene, j.provisionalSubjects(c))
	var table strings.Builder
	_ = report.Write(&table, j.Output, r, o)
	p.clear()
	p.columns, p.rows, _ = process.TerminalSize(p.out)
	lines := strings.Split(strings.TrimSuffix(table.String(), "\n"), "\n")
	status := "Reading usage for " + wording.Elapsed(left, "d") + " more. Ctrl-C ends it."
	if room := max(p.rows-2, 1); len(lines) > room {
		status = fmt.Sprintf("…%d more lines at the end. %s", len(lines)-room, status)
		lines = lines[:room]
	}
	lines = append(lines, status)
	p.lines = len(lines)
	_, _ = io.WriteString(p.out, "\x1b[?7l"+strings.Join(lines, "\n")+"\n\x1b[?7h") // long lines are cut, not wrapped
}

// clear removes the table. In a terminal of another size its position is not known, so it stays, and drawing continues below it.
func (p *preview) clear() {
	if p == nil || p.lines == 0 {
		return
	}
	if columns, rows, _ := process.TerminalSize(p.out); columns == p.columns && rows == p.rows {
		fmt.Fprintf(p.out, "\x1b[%dA\x1b[J", p.lines)
	}
	p.lines = 0
}

// A progress is a progress bar on a terminal that shows how much is read.
type progress struct{ bar *progressbar.ProgressBar }

// progressParts is the number of parts of the work that the bar counts.
const progressParts = 1000

// newProgress returns a progress. It shows nothing unless it may and a person reads the output on a terminal.
func (j *job) newProgress(may bool) progress {
	return progress{progressbar.NewOptions(progressParts,
		progressbar.OptionSetVisibility(may && j.streams.Terminal && !j.Quiet),
		progressbar.OptionSetWriter(j.streams.Err),
		progressbar.OptionSetTheme(progressbar.ThemeASCII),
		progressbar.OptionSetWidth(20),
		progressbar.OptionShowDescriptionAtLineEnd(),
		progressbar.OptionUseANSICodes(true),
		progressbar.OptionClearOnFinish(),
	)}
}

// show updates the bar: the share of the work that is done, from 0 to 1, and details.
func (p progress) show(done float64, details string) {
	_ = p.bar.Set(int(progressParts * min(done, 1))) // the only error is that of the terminal
	p.bar.Describe(terminal.Plain(details))
}

func (p progress) clear() { _ = p.bar.Clear() }
