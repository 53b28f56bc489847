// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package recommend

import (
	"context"
	"errors"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"podfit.dev/podfit/internal/app/process"
	"podfit.dev/podfit/test/kubetest"
)

// A recording is what a program wrote to a terminal.
type recording struct {
	mu   sync.Mutex
	text strings.Builder
}

func (r *recording) Write(b []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.text.Write(b)
}

func (r *recording) String() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.text.String()
}

var control = regexp.MustCompile(`\x1b\[\??(\d*)([a-zA-Z])|\r|\n|[^\x1b\r\n]+`)

// shown returns the lines that a user of a terminal with so many rows has seen at the end, also those that were scrolled out of the screen.
func shown(text string, rows int) []string {
	lines := []string{""}
	row := 0 // of the cursor
	for _, part := range control.FindAllStringSubmatch(text, -1) {
		switch {
		case part[0] == "\n":
			if row++; row == len(lines) {
				lines = append(lines, "")
			}
		case part[2] == "A":
			n, _ := strconv.Atoi(part[1])
			row = max(row-n, len(lines)-rows, 0)
		case part[2] == "J":
			lines = append(lines[:row], "")
		case part[0] == "\r", part[2] != "":
		default:
			lines[row] += part[0]
		}
	}
	return lines
}

// On a terminal there is a table after the first reading. It is replaced in place, also if it is taller than the terminal. After Ctrl-C, the last
// table stays, whole and once, and the exit code is 3.
func TestPreview_terminal_tableIsRefinedInPlaceAndStaysAfterCtrlC(t *testing.T) {
	for _, rows := range []int{50, 7} {
		t.Run(strconv.Itoa(rows)+" rows", func(t *testing.T) { refineUntilCtrlC(t, rows) })
	}
}

// refineUntilCtrlC reads the Metrics API on a terminal with so many rows, and interrupts that after three tables.
func refineUntilCtrlC(t *testing.T, rows int) {
	t.Helper()
	f := shop(t)
	f.Reply("GET /apis/metrics.k8s.io/v1beta1/pods", http.StatusOK, podMetrics(time.Now()))
	j := newTestJob(t, f)
	j.For = time.Hour
	var during []string
	seen, err := untilShown(t, j, rows, func(seen *recording) {
		kubetest.Eventually(t, "the table is drawn three times", func() bool { return strings.Count(seen.String(), "Ctrl-C ends it") >= 3 })
		during = shown(seen.String(), rows)
	})
	var exit process.ExitError
	if !errors.As(err, &exit) || exit.Code != exitPartial {
		t.Errorf("%d rows: got error %v", rows, err)
	}
	if n := strings.Count(strings.Join(during, "\n"), " workloads, "); n != 1 {
		t.Errorf("%d rows: while usage is read, %d tables are seen:\n%s", rows, n, strings.Join(during, "\n"))
	}
	after := strings.Join(shown(seen.String(), rows), "\n")
	for _, once := range []string{" workloads, ", "AT RISK", "shop/deploy/cart", "500m, young ", "web/deploy/front", "Incomplete: interrupted after "} {
		if strings.Count(after, once) != 1 {
			t.Errorf("%d rows: at the end, %q is seen %d times:\n%s", rows, once, strings.Count(after, once), after)
		}
	}
	if strings.Contains(after, "Ctrl-C") {
		t.Errorf("%d rows: the preview stays:\n%s", rows, after)
	}
	if cut := strings.Contains(seen.String(), " more lines at the end"); cut != (rows < 10) {
		t.Errorf("%d rows: lines are left out: %v", rows, cut)
	}
}

// untilShown runs a job on a terminal with so many rows until a function returns, and returns what was shown and the error of the job.
func untilShown(t *testing.T, j *job, rows int, until func(*recording)) (*recording, error) {
	t.Helper()
	reading, writing := openTerminal(t)
	if err := unix.IoctlSetWinsize(int(writing.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: uint16(rows), Col: 120}); err != nil {
		t.Fatal(err)
	}
	j.streams.Out = writing
	j.NoColour = true
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	var seen recording
	copied := make(chan struct{})
	go func() {
		defer close(copied)
		_, _ = reading.WriteTo(&seen) // reading a terminal whose other end is closed fails
	}()
	ended := make(chan error, 1)
	go func() { ended <- j.run(ctx) }()
	until(&seen)
	interrupt()
	err := <-ended
	const end = "\x1b[0m"
	_, _ = writing.WriteString(end)
	kubetest.Eventually(t, "all is read: closing a terminal can lose what is still in it", func() bool { return strings.HasSuffix(seen.String(), end) })
	writing.Close()
	<-copied
	return &seen, err
}

// In a cluster without VPAs and Prometheus, the first table needs one reading of the Metrics API: it waits neither for the next one nor for the
// end of --for. docs/load.md has the time.
func TestPreview_noVPAsAndNoPrometheus_firstTableNeedsOneReading(t *testing.T) {
	f := kubetest.NewFakeAPI(t)
	deployment{"web", "front", 1, `{"cpu":"100m","memory":"128Mi"}`, `{}`, "", 0}.apply(f)
	f.Reply("GET /apis/metrics.k8s.io/v1beta1/pods", http.StatusOK, podMetrics(time.Now()))
	j := newTestJob(t, f)
	j.Source, j.For, j.interval = sourceAuto, 48*time.Hour, 24*time.Hour
	_, _ = untilShown(t, j, 50, func(seen *recording) {
		kubetest.Eventually(t, "the first table has the number and its age", func() bool {
			text := seen.String()
			return strings.Contains(text, "web/deploy/front") && strings.Contains(text, ", young ") && strings.Contains(text, "of usage") && strings.Contains(text, "Ctrl-C ends it")
		})
	})
}

// A smaller or larger terminal does not make podfit overwrite what it has not drawn.
func TestPreview_terminalIsResized_nothingIsOverwritten(t *testing.T) {
	_, writing := openTerminal(t)
	p := preview{out: writing, columns: 80, rows: 24, lines: 5} // the terminal has 120 columns
	p.clear()
	if p.lines != 0 {
		t.Error("the old lines would be removed later")
	}
}

// A terminal that knows no control sequences, such as the shell of an editor, gets no preview: it would show them, and each table again.
func TestPreview_terminalWithoutControlSequences_noPreview(t *testing.T) {
	for name, wanted := range map[string]bool{"xterm": true, "": true, "dumb": false} {
		t.Setenv("TERM", name)
		j := job{Config: Config{Output: "table"}}
		_, j.streams.Out = openTerminal(t)
		if got := j.newPreview() != nil; got != wanted {
			t.Errorf("TERM=%q: preview %v, want %v", name, got, wanted)
		}
	}
}
