// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package transcript runs transcripts: text files with commands and their output. It does not define commands. Only tests import it.
//
// A transcript is a sequence of blocks: commands, the line "----", and the output of the commands, up to an empty line. A line that
// starts with # is a comment.
package transcript

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite the output in the transcripts")

// Command executes one command and writes its output. fields are the words of its line; there is at least one.
type Command func(fields []string, out *strings.Builder) error

// Run executes each file that matches the pattern in a subtest, which fails if the output is not the one in the file. With -update it
// writes the output to the file instead. It calls begin before each file.
func Run(t *testing.T, pattern string, begin func(t *testing.T) Command) {
	t.Helper()
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) == 0 {
		t.Fatalf("no transcripts match %s: %v", pattern, err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got, err := replay(string(text), begin(t))
			if err != nil {
				t.Fatal(err)
			}
			if *update {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if got != string(text) {
				t.Errorf("the transcript differs; run with -update and review the diff. It is now:\n%s", got)
			}
		})
	}
}

// replay returns the transcript with the current output of its commands.
func replay(text string, command Command) (string, error) {
	var out, printed strings.Builder
	skipping := false
	for n, line := range strings.Split(strings.TrimRight(text, "\n"), "\n") {
		switch {
		case skipping && line != "":
			continue
		case skipping:
			skipping = false
			out.WriteString("\n")
		case line == "----":
			out.WriteString("----\n" + printed.String())
			printed.Reset()
			skipping = true
		default:
			out.WriteString(line + "\n")
			fields := strings.Fields(line)
			if len(fields) == 0 || strings.HasPrefix(fields[0], "#") {
				continue
			}
			if err := command(fields, &printed); err != nil {
				return "", fmt.Errorf("line %d: %w", n+1, err)
			}
		}
	}
	return out.String(), nil
}
