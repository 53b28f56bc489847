// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	core "podfit.dev/podfit/internal/core/explanation"
)

// onTerminal returns what a function writes to a terminal with so many columns.
func onTerminal(t *testing.T, columns uint16, write func(out io.Writer) error) string {
	t.Helper()
	reading, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skipf("this machine has no terminals: %v", err)
	}
	defer reading.Close()
	if err := unix.IoctlSetPointerInt(int(reading.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	number, err := unix.IoctlGetInt(int(reading.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	writing, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("this machine has no terminals: %v", err)
	}
	if err := unix.IoctlSetWinsize(int(writing.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 50, Col: columns}); err != nil {
		t.Fatal(err)
	}
	shown := make(chan string, 1)
	go func() {
		text, _ := io.ReadAll(reading) // reading a terminal whose other end is closed fails
		shown <- strings.ReplaceAll(string(text), "\r\n", "\n")
	}()
	if err := write(writing); err != nil {
		t.Error(err)
	}
	writing.Close()
	return <-shown
}

// An explanation, the list of workloads and the text about a message are as wide as the terminal, and as usual in a pipe.
func TestWidth_terminal_textsFillItsColumns(t *testing.T) {
	long := strings.Repeat("Many words that are wrapped. ", 20)
	l := needs{Workloads: 1, Attention: []need{{"shop/Deployment/cart", "high", long, "podfit explain deploy/cart -n shop"}}}
	for name, tt := range map[string]struct {
		piped int
		write func(io.Writer) error
	}{
		"object": {80, func(out io.Writer) error {
			return writeText(false)(out, &core.Explanation{Subject: "shop/Deployment/cart", Now: []string{long}})
		}},
		"list":    {80, l.write},
		"message": {columns, func(out io.Writer) error { return writeMessages(out, "BudgetSpent", "text") }},
	} {
		var pipe strings.Builder
		if err := tt.write(&pipe); err != nil || !fills(pipe.String(), tt.piped) {
			t.Errorf("%s: error %v, not %d columns in\n%s", name, err, tt.piped, pipe.String())
		}
		for terminal, want := range map[uint16]int{50: 50, 110: 110, 300: 120} {
			if got := onTerminal(t, terminal, tt.write); !fills(got, want) {
				t.Errorf("%s on %d columns: not %d columns in\n%s", name, terminal, want, got)
			}
		}
	}
}

// fills reports whether the longest line of a text has so many columns, or less by one word.
func fills(text string, columns int) bool {
	longest := 0
	for line := range strings.Lines(text) {
		longest = max(longest, utf8.RuneCountInString(strings.TrimSuffix(line, "\n")))
	}
	return longest <= columns && longest > columns-12
}
