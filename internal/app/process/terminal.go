// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package process

import (
	"io"
	"os"

	"golang.org/x/term"
)

// TerminalWidth returns the number of columns of a terminal. ok is false if w is not a terminal.
func TerminalWidth(w io.Writer) (columns int, ok bool) {
	f, isFile := w.(*os.File)
	if !isFile {
		return 0, false
	}
	columns, _, err := term.GetSize(int(f.Fd()))
	return columns, err == nil && columns > 0
}
