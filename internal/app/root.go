// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/spf13/cobra"

	"podfit.dev/podfit/internal/app/admission"
	"podfit.dev/podfit/internal/app/backtest"
	"podfit.dev/podfit/internal/app/commandline"
	"podfit.dev/podfit/internal/app/explain"
	"podfit.dev/podfit/internal/app/process"
	"podfit.dev/podfit/internal/app/recommender"
	"podfit.dev/podfit/internal/app/updater"
)

// Streams are where a command reads and writes.
type Streams = process.Streams

// The exit codes of podfit.
const (
	exitOK    = 0
	exitError = 1 // the command failed
	exitUsage = 2 // the command line is invalid
)

// Main runs the command that args name and returns the exit code.
func Main(ctx context.Context, args []string, s Streams) int {
	root := Root(s)
	if name := calledAs(args); name != "" {
		root.Annotations = map[string]string{cobra.CommandDisplayNameAnnotation: name}
	}
	err := execute(ctx, root, arguments(args))
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, new(process.UsageError)):
		fmt.Fprintf(s.Err, "podfit: %v\n", err)
		return exitUsage
	default:
		fmt.Fprintf(s.Err, "podfit: %v\n", err)
		return exitError
	}
}

// execute runs the command. It looks for an unknown command first, because cobra reports the unknown flags of an unknown command.
func execute(ctx context.Context, root *cobra.Command, args []string) error {
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd(args...)
	if found, rest, err := root.Find(args); err == nil && found == root && len(rest) > 0 && !strings.HasPrefix(rest[0], "-") && !strings.HasPrefix(rest[0], "__") {
		return commandline.KnownCommand(root, rest)
	}
	root.SetArgs(args)
	return root.ExecuteContext(ctx)
}

// calledAs returns the name under which podfit was called if it is a plugin of kubectl, "" otherwise.
func calledAs(args []string) string {
	if len(args) > 0 && plainName(args[0]) == "kubectl-podfit" {
		return "kubectl podfit"
	}
	return ""
}

// plainName returns the name of an executable without its folder and the suffix .exe.
func plainName(path string) string { return strings.TrimSuffix(filepath.Base(path), ".exe") }

// arguments returns the arguments of the command line. If the binary has the name of a component, as in upstream's images, it inserts the
// command.
func arguments(args []string) []string {
	if len(args) == 0 {
		return nil
	}
	switch name := plainName(args[0]); name {
	case "kubectl_complete-podfit": // kubectl calls this executable for the completion of "kubectl podfit"
		return append([]string{cobra.ShellCompRequestCmd}, args[1:]...)
	case "recommender", "updater", "admission-controller":
		return append([]string{name}, args[1:]...)
	case "recommender-amd64", "updater-amd64", "admission-controller-amd64":
		return append([]string{strings.TrimSuffix(name, "-amd64")}, args[1:]...)
	}
	return args[1:]
}

// Root returns podfit's command tree.
func Root(s Streams) *cobra.Command {
	root := &cobra.Command{
		Use:   "podfit",
		Short: "Sets the resource requests of containers according to their usage",
		Long: `podfit sets the CPU and memory requests of containers according to their usage. It is a drop-in replacement for the
Kubernetes Vertical Pod Autoscaler (VPA): it uses the same VerticalPodAutoscaler objects, flags and metrics.

podfit has three components. Each can run alone, or all three run in one process with "podfit run":
  recommender            measures usage and writes recommendations to the status of VPA objects
  updater                applies recommendations to running pods, in place where possible
  admission-controller   applies recommendations to new pods`,
		Args: commandline.KnownCommand, RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
		SilenceUsage: true, SilenceErrors: true,
	}
	root.SetIn(s.In)
	root.SetOut(s.Out)
	root.SetErr(s.Err)
	root.SetGlobalNormalizationFunc(process.Dashes)
	root.SetFlagErrorFunc(commandline.FlagError)
	root.Version = version()
	root.SetVersionTemplate("podfit {{.Version}}\n")
	for _, c := range commands(s) {
		c.Flags().SetNormalizeFunc(process.Dashes)
		root.AddCommand(c)
	}
	return root
}

// commands returns all commands.
func commands(s Streams) []*cobra.Command {
	running := []*cobra.Command{newRunCommand(s), recommender.NewCommand(s), updater.NewCommand(s), admission.NewCommand(s)}
	for _, c := range running {
		commandline.Prepare(c)
	}
	return append(running,
		backtest.NewCommand(),
		explain.NewCommand(s, updater.NewSettings()),
		newCRDsCommand(s),
		newVersionCommand(s),
	)
}

// version returns the version of this binary and how it was built.
func version() string {
	return fmt.Sprintf("%s %s %s/%s", process.BuildVersion(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

func newVersionCommand(s Streams) *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print the version of this binary", Args: commandline.NoArguments,
		RunE: func(*cobra.Command, []string) error {
			_, err := fmt.Fprintf(s.Out, "podfit %s\n", version())
			return err
		},
	}
}
