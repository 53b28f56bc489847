// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package recommend

import (
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"podfit.dev/podfit/internal/app/process"
)

// openTerminal returns both ends of a new terminal. Closing the second one ends reading from the first one.
func openTerminal(t *testing.T) (reading, writing *os.File) {
	t.Helper()
	reading, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skipf("this machine has no terminals: %v", err)
	}
	t.Cleanup(func() { reading.Close() })
	if err := unix.IoctlSetPointerInt(int(reading.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	number, err := unix.IoctlGetInt(int(reading.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	writing, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("this machine has no terminals: %v", err)
	}
	if err := unix.IoctlSetWinsize(int(writing.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 50, Col: 120}); err != nil {
		t.Fatal(err)
	}
	return reading, writing
}

// On a terminal, the table has colours, unless a flag or the environment variable says otherwise.
func TestRecommend_terminal_coloursAreOffWithTheFlagAndTheVariable(t *testing.T) {
	config := kubeconfig(t, shop(t).URL())
	for name, c := range map[string]struct {
		args    []string
		noColor string
		want    bool
	}{
		"default": {want: true}, "flag": {args: []string{"--no-color"}}, "variable": {noColor: "1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("NO_COLOR", c.noColor)
			reading, writing := openTerminal(t)
			shown := make(chan string, 1)
			go func() {
				text, _ := io.ReadAll(reading) // reading a terminal whose other end is closed fails
				shown <- string(text)
			}()
			cmd := NewCommand(process.Streams{Out: writing, Err: io.Discard})
			cmd.SetArgs(append([]string{"--kubeconfig", config, "--source", "cluster", "--quiet"}, c.args...))
			err := cmd.ExecuteContext(t.Context())
			writing.Close()
			if text := <-shown; err != nil || !strings.Contains(text, "cart") || strings.Contains(text, "\x1b[") != c.want {
				t.Errorf("got error %v and output %q, want colours: %t", err, text, c.want)
			}
		})
	}
}
