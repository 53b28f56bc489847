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
	root := &cobra.Command{Use: "podfit", Short: "Size pods", Args: KnownCommand, SilenceErrors: true, SilenceUsage: true, RunE: run}
	root.SetFlagErrorFunc(FlagError)
	long := &cobra.Command{Use: "updater", Short: "Change running pods", RunE: run, Example: "  podfit updater --dry-run\n"}
	long.Flags().Bool("dry-run", false, "Change nothing.")
	long.Flags().Duration("recheck", 0, "Time between two checks.")
	long.Flags().String("storage", "checkpoint", "Where history is stored.")
	long.Flags().Int("min-replicas", 2, "Minimum number of replicas.")
	long.Flags().Bool("old", false, "Accepted for compatibility; has no effect.")
	process.Ineffective(long.Flags(), "old")
	grouped := &cobra.Command{Use: "explain KIND/NAME", Short: "Explain a workload", Long: "Explains a workload.\n\nIt reads the cluster.", RunE: run}
	grouped.Flags().StringP("output", "o", "text", "Format of the `FORM`.")
	grouped.Flags().String("size", "", "Size.")
	grouped.Flags().String("min-replicas", "", "Replicas.")
	grouped.Flags().Bool("internal", false, "For tests.")
	if err := grouped.Flags().MarkHidden("internal"); err != nil {
		panic(err)
	}
	Prepare(long)
	Prepare(grouped)
	root.AddCommand(long, grouped, &cobra.Command{Use: "other", Short: "Not in a group", RunE: run}, &cobra.Command{Use: "secret", Hidden: true, RunE: run})
	root.SetHelpCommand(NewHelpCommand())
	SetHelp(root)
	return root
}

// execute runs a command line in the tree, and returns the output and what ran.
func execute(line string) (output string, ran []string, err error) {
	var out bytes.Buffer
	_, err = Execute(context.Background(), func() *cobra.Command {
		root := tree(&ran)
		root.SetOut(&out)
		root.SetErr(&out)
		return root
	}, strings.Fields(line))
	return out.String(), ran, err
}

const explainHelp = `Explains a workload.

Usage:
  podfit explain KIND/NAME [flags]

Essential flags:
  -o, --output FORM           Format of the FORM. (default "text")
  -h, --help                  Print this help.
      --help-all              Print this help with all flags, in groups.

'podfit explain --help-all' explains more, and lists all 5 flags in groups.
`

func TestHelp_eachKindOfCommand_listsItsFlagsInGroups(t *testing.T) {
	t.Setenv("COLUMNS", "100")
	for line, want := range map[string]string{
		"updater --help": `Change running pods.

Usage:
  podfit updater [flags]

Examples:
  podfit updater --dry-run

Essential flags:
      --dry-run               Change nothing.
      --min-replicas int      Minimum number of replicas. (default 2)
  -h, --help                  Print this help.
      --help-all              Print this help with all flags, in groups.

'podfit updater --help-all' explains more, and lists all 7 flags in groups.
`,
		"explain --help": explainHelp,
		"help explain":   explainHelp,
		"explain --help-all": `Explains a workload.

It reads the cluster.

Usage:
  podfit explain KIND/NAME [flags]

Safety: how much is changed at a time:
      --min-replicas string   Replicas.

What is shown:
  -o, --output FORM           Format of the FORM. (default "text")

Help:
  -h, --help                  Print this help.
      --help-all              Print this help with all flags, in groups.

Flags:
      --size string           Size.
`,
		"other --help": `Not in a group.

Usage:
  podfit other [flags]

Flags:
  -h, --help                  Print this help.
`,
		"help": `Size pods.

Usage:
  podfit COMMAND [flags]

See what podfit would do; these commands change nothing:
  explain                Explain a workload

Run podfit:
  updater                Change running pods

Install podfit, and more:
  completion             Generate the autocompletion script for the specified shell
  help                   Print the help of a command

Commands:
  other                  Not in a group

Flags:
  -h, --help                  Print this help.

See 'podfit COMMAND --help' for the flags and examples of a command.
`,
	} {
		got, ran, err := execute(line)
		if err != nil || len(ran) != 0 || got != want {
			t.Errorf("podfit %s: error %v, ran %q, help\n%s\nwant\n%s", line, err, ran, got, want)
		}
	}
	all, ran, err := execute("updater --help-all")
	if err != nil || len(ran) != 0 || !strings.Contains(all, "have no effect:\n      --old ") || strings.Contains(all, "explains more") {
		t.Errorf("updater --help-all: error %v, ran %q, help\n%s", err, ran, all)
	}
	var usage bytes.Buffer
	root := tree(new([]string))
	root.SetErr(&usage)
	root.SetOut(&usage)
	if err := root.Usage(); err != nil || !strings.HasPrefix(usage.String(), "Usage:\n  podfit COMMAND [flags]\n") || strings.Contains(usage.String(), "secret") {
		t.Errorf("error %v, usage\n%s", err, usage.String())
	}
}

func TestExecute_commandLine_runsItsCommandOrReportsAllMistakes(t *testing.T) {
	for line, tt := range map[string]struct{ ran, err string }{
		"updater --dry-run":                        {ran: "updater"},
		"updater --help-all=false":                 {ran: "updater"},
		"updater --help-all=maybe":                 {err: "--help-all must be true or false, got \"maybe\""},
		"explain deploy/cart -o json":              {ran: "explain deploy/cart"},
		"updater extra":                            {err: `podfit updater takes no arguments, got "extra"`},
		"updatr --unknown":                         {err: `unknown command "updatr" (did you mean updater?)`},
		"secre":                                    {err: `unknown command "secre"`},
		"help nothing":                             {err: `unknown command "nothing"`},
		"updater --dryrun":                         {err: "unknown flag --dryrun (did you mean --dry-run?)"},
		"updater --xyzzyx":                         {err: "unknown flag --xyzzyx"},
		"explain --interna":                        {err: "unknown flag --interna"},
		"updater -x":                               {err: "unknown shorthand flag: 'x' in -x"},
		"updater --min-replicas":                   {err: "flag needs an argument: --min-replicas"},
		"updater --min-replicas=a --dry_runn":      {err: "--min-replicas must be a whole number, got \"a\"\nunknown flag --dry_runn (did you mean --dry-run?)"},
		"updater --min-replicas a --recheck 5 -x":  {err: "--min-replicas must be a whole number, got \"a\"\n--recheck must be a duration such as 90s, 10m or 1h30m, got \"5\"\nunknown shorthand flag: 'x' in -x"},
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

func TestHelpCommand_completion_offersVisibleCommandsWithThePrefix(t *testing.T) {
	root := tree(new([]string))
	root.InitDefaultHelpCmd()
	help, _, err := root.Find([]string{"help"})
	if err != nil {
		t.Fatal(err)
	}
	for typed, want := range map[string]string{"": "explain other updater", "e": "explain", "s": "", "x": ""} {
		var names []string
		offered, _ := help.ValidArgsFunction(help, nil, typed)
		for _, o := range offered {
			name, _, _ := strings.Cut(o, "\t")
			names = append(names, name)
		}
		if got := strings.Join(names, " "); got != want {
			t.Errorf("%q: offered %q, want %q", typed, got, want)
		}
	}
	if offered, _ := help.ValidArgsFunction(help, []string{"explain"}, ""); len(offered) != 0 {
		t.Errorf("a second command is offered: %q", offered)
	}
}

func TestWidthOf_noTerminal_isThatOfColumnsUpToTheWidest(t *testing.T) {
	for columns, want := range map[string]int{"": usualWidth, "100": 100, "1": 1, "0": usualWidth, "-5": usualWidth, "500": Widest, "wide": usualWidth} {
		t.Setenv("COLUMNS", columns)
		if got := widthOf(new(bytes.Buffer)); got != want {
			t.Errorf("COLUMNS=%q: got %d, want %d", columns, got, want)
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
