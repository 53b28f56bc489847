// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package recommend

import (
	"github.com/schollz/progressbar/v3"

	"podfit.dev/podfit/internal/edge/report/terminal"
)

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
