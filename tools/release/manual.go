// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"podfit.dev/podfit/internal/app"
)

// completions are the files of the shells, named as the shells look for them.
var completions = map[string]string{"bash": "podfit.bash", "zsh": "_podfit", "fish": "podfit.fish", "powershell": "podfit.ps1"}

// writeManual writes man pages and completions.
func (r *release) writeManual(ctx context.Context) error {
	if err := r.addPages(app.Root(app.Streams{})); err != nil {
		return err
	}
	for shell, name := range completions {
		var out, errors bytes.Buffer
		if code := app.Main(ctx, []string{"podfit", "completion", shell}, app.Streams{In: strings.NewReader(""), Out: &out, Err: &errors}); code != 0 {
			return fmt.Errorf("podfit completion %s: exit code %d: %s", shell, code, errors.String())
		}
		r.manual = append(r.manual, file{name: "completions/" + name, mode: 0o644, content: out.Bytes()})
	}
	for _, f := range r.manual {
		if err := r.write(f.name, f.content); err != nil {
			return err
		}
	}
	return nil
}

// addPages makes the man page of a command and those of its subcommands.
func (r *release) addPages(c *cobra.Command) error {
	name := strings.ReplaceAll(c.CommandPath(), " ", "-")
	c.DisableAutoGenTag = true // it names cobra and today's date
	header := doc.GenManHeader{Title: strings.ToUpper(name), Section: "1", Date: &r.created, Source: "podfit " + r.version, Manual: "podfit"}
	var out bytes.Buffer
	if err := doc.GenMan(c, &header, &out); err != nil {
		return fmt.Errorf("man page %s: %w", name, err)
	}
	r.manual = append(r.manual, file{name: "man/" + name + ".1", mode: 0o644, content: out.Bytes()})
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() && !sub.IsAdditionalHelpTopicCommand() {
			if err := r.addPages(sub); err != nil {
				return err
			}
		}
	}
	return nil
}
