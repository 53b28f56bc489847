// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package process

import (
	"io"
	"os"

	"golang.org/x/term"
)

// TerminalSize returns the number of columns and rows of a terminal. ok is false if w is not a terminal.
func TerminalSize(w io.Writer) (columns, rows int, ok bool) {
	f, isFile := w.(*os.File)
	if !isFile {
		return 0, 0, false
	}
	columns, rows, err := term.GetSize(int(f.Fd()))
	return columns, rows, err == nil && columns > 0
}
