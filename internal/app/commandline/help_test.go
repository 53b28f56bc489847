// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package commandline

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"podfit.dev/podfit/internal/app/process"
)

// tree returns a command tree: a long-running command, one with groups of flags, a hidden one, and one that is in no group. Each adds its
// name and its arguments to ran.
func tree(ran *[]string) *cobra.Command {
	run := func(c *cobra.Command, args []string) error {
		*ran = append(*ran, strings.Join(append([]string{c.Name()}, args...), " "))
		return nil
	}
	root := &cobra.Command{Use: "podfit", Short: "Size pods", SilenceErrors: true, SilenceUsage: true, RunE: func(c *cobra.Command, _ []string) error { return c.Help() }}
	root.SetFlagErrorFunc(FlagError)
	long := &cobra.Command{Use: "updater", Short: "Change running pods", RunE: run, Example: "  podfit updater --dry-run\n"}
	long.Flags().Bool("dry-run", false, "Change nothing.")
	long.Flags().Duration("recheck", 0, "Time between two checks.")
	long.Flags().String("storage", "checkpoint", "Where history is stored.")
	long.Flags().Int("min-replicas", 2, strings.Repeat("Minimum number of replicas. ", 10))
	grouped := &cobra.Command{Use: "explain KIND/NAME", Short: "Explain a workload", Long: "Explains a workload.\n\nIt reads the cluster.", Example: "  podfit explain deploy/cart", RunE: run}
	grouped.Flags().StringP("output", "o", "text", "Format of the `FORM`.")
	grouped.Flags().String("min-replicas", "", "Replicas.")
	grouped.Flags().Bool("old", false, "Accepted for compatibility; has no effect.")
	process.Ineffective(grouped.Flags(), "old")
	Prepare(long)
	Prepare(grouped)
	root.AddCommand(long, grouped, &cobra.Command{Use: "other", Short: "Not in a group", RunE: run}, &cobra.Command{Use: "secret", Hidden: true, RunE: run})
	SetHelp(root)
	return root
}

// execute runs a command line in the tree, and returns the output and what ran.
func execute(line string) (output string, ran []string, err error) {
	var out bytes.Buffer
	root := tree(&ran)
	root.SetOut(&out)
	root.SetErr(&out)
	_, err = Execute(context.Background(), root, strings.Fields(line))
	return out.String(), ran, err
}

const explainHelp = `Explains a workload.

Usage:
  podfit explain KIND/NAME [flags]

Examples:
  podfit explain deploy/cart

Essential flags:
  -o, --output FORM   Format of the FORM. (default "text")
  -h, --help          help for explain
      --help-all      Print this help with all flags, in groups.

Details and all flags: podfit explain --help-all
`

func TestHelp_eachKindOfCommand_listsItsFlagsInGroups(t *testing.T) {
	for line, want := range map[string]string{
		"explain --help": explainHelp,
		"help explain":   explainHelp,
		"explain --help-all": `Explains a workload.

It reads the cluster.

Usage:
  podfit explain KIND/NAME [flags]

Examples:
  podfit explain deploy/cart

Safety: how much is changed at a time:
      --min-replicas string   Replicas.

What is shown:
  -o, --output FORM   Format of the FORM. (default "text")

Help:
  -h, --help       help for explain
      --help-all   Print this help with all flags, in groups.

Upstream's flags that are accepted for compatibility and have no effect:
      --old   Accepted for compatibility; has no effect.
`,
		"other --help": `Not in a group

Usage:
  podfit other [flags]

Flags:
  -h, --help   help for other
`,
	} {
		got, ran, err := execute(line)
		if err != nil || len(ran) != 0 || got != want {
			t.Errorf("podfit %s: error %v, ran %q, help\n%s\nwant\n%s", line, err, ran, got, want)
		}
	}
}

func TestFlagUsages_narrowTerminal_linesFit(t *testing.T) {
	c, _, err := tree(new([]string)).Find([]string{"updater"})
	if err != nil {
		t.Fatal(err)
	}
	for _, width := range []int{60, 80, 120} {
		longest := 0
		for line := range strings.Lines(flagUsages(c, width)) {
			longest = max(longest, len(strings.TrimRight(line, " \n")))
		}
		if longest > width || longest < width-12 {
			t.Errorf("%d columns: the longest line has %d", width, longest)
		}
	}
}

func TestExecute_commandLine_runsItsCommandOrReportsTheMistake(t *testing.T) {
	for line, tt := range map[string]struct{ ran, err string }{
		"updater --dry-run":                        {ran: "updater"},
		"updater --help-all=false":                 {ran: "updater"},
		"updater --help-all=maybe":                 {err: "--help-all must be true or false, got \"maybe\""},
		"explain deploy/cart -o json":              {ran: "explain deploy/cart"},
		"updater extra":                            {err: `podfit updater takes no arguments, got "extra"`},
		"updatr --unknown":                         {err: "unknown command \"updatr\" for \"podfit\"\n\nDid you mean this?\n\tupdater\n"},
		"secre":                                    {err: `unknown command "secre" for "podfit"`},
		"help nothing":                             {err: `unknown command "nothing" for "podfit"`},
		"completion bsh":                           {err: `unknown command "bsh" for "podfit completion"`},
		"updater --dryrun":                         {err: "unknown flag: --dryrun (did you mean --dry-run?)"},
		"updater --xyzzyx":                         {err: "unknown flag: --xyzzyx"},
		"updater -x":                               {err: "unknown shorthand flag: 'x' in -x"},
		"updater --min-replicas":                   {err: "flag needs an argument: --min-replicas"},
		"updater --min-replicas=a --dry_runn":      {err: "--min-replicas must be a whole number, got \"a\""},
		"updater --recheck 5":                      {err: "--recheck must be a duration such as 90s, 10m or 1h30m, got \"5\""},
		"updater --min-replicas 3 --dry-run=maybe": {err: "--dry-run must be true or false, got \"maybe\""},
	} {
		_, ran, err := execute(line)
		text := ""
		if err != nil {
			text = err.Error()
		}
		if got := strings.Join(ran, ";"); got != tt.ran || text != tt.err {
			t.Errorf("podfit %s: ran %q, error %q; want %q, %q", line, got, text, tt.ran, tt.err)
		}
		if err != nil && !errors.As(err, new(process.UsageError)) {
			t.Errorf("podfit %s: the error is %T, want a UsageError", line, err)
		}
	}
}

func TestCalledAs_fileNameOfPlugin_isKubectlPodfit(t *testing.T) {
	for path, want := range map[string]string{"/usr/bin/podfit": "", "kubectl-podfit": "kubectl podfit", "kubectl-podfit.exe": "kubectl podfit", "/x/kubectl-podfit": "kubectl podfit"} {
		if got := CalledAs([]string{path}); got != want {
			t.Errorf("%s: got %q, want %q", path, got, want)
		}
	}
	if got := CalledAs(nil); got != "" {
		t.Errorf("without arguments: got %q", got)
	}
	if got := Arguments(nil); got != nil {
		t.Errorf("arguments %q of an empty command line, want none", got)
	}
}

func TestRename_examplesAndQuotedCalls_haveTheNewName(t *testing.T) {
	c := &cobra.Command{Use: "podfit", Long: `The program podfit is called as "podfit run".`, Example: "  podfit run\n  cat x | podfit explain\n  echo mypodfit run"}
	Rename(c, "kubectl podfit")
	if want := "  kubectl podfit run\n  cat x | kubectl podfit explain\n  echo mypodfit run"; c.Example != want {
		t.Errorf("examples %q, want %q", c.Example, want)
	}
	if want := `The program podfit is called as "kubectl podfit run".`; c.Long != want {
		t.Errorf("description %q, want %q", c.Long, want)
	}
}
