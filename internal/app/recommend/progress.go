// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package recommend

import (
	"fmt"
	"io"
	"time"
)

// A progress is a line on a terminal that shows how much is read. A nil progress shows nothing.
type progress struct {
	out     io.Writer
	started time.Time
	shown   time.Time
}

// newProgress returns a progress, nil unless a person reads the output on a terminal.
func (j *job) newProgress() *progress {
	if !j.streams.Terminal || j.config.Quiet {
		return nil
	}
	return &progress{out: j.streams.Err, started: time.Now()}
}

// progressInterval is the shortest time between two updates of the line.
const progressInterval = 200 * time.Millisecond

// show updates the line: the share of the work that is done, details, and the remaining time, which is estimated from the elapsed time.
func (p *progress) show(now time.Time, done float64, details string) {
	if p == nil || now.Sub(p.shown) < progressInterval {
		return
	}
	p.shown = now
	line := fmt.Sprintf("%.0f %% · %s", 100*done, plainText(details))
	if elapsed := now.Sub(p.started); done > 0.02 && done < 1 && elapsed > 2*time.Second {
		left := time.Duration(float64(elapsed) / done * (1 - done)).Round(time.Second)
		line += fmt.Sprintf(" · about %v", left)
	}
	fmt.Fprintf(p.out, "\r\x1b[K%s", line)
}

// clear removes the line.
func (p *progress) clear() {
	if p != nil {
		fmt.Fprint(p.out, "\r\x1b[K")
	}
}
