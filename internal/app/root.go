// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/spf13/cobra"

	"podfit.dev/podfit/internal/app/admission"
	"podfit.dev/podfit/internal/app/backtest"
	"podfit.dev/podfit/internal/app/commandline"
	"podfit.dev/podfit/internal/app/explain"
	"podfit.dev/podfit/internal/app/process"
	"podfit.dev/podfit/internal/app/recommend"
	"podfit.dev/podfit/internal/app/recommender"
	"podfit.dev/podfit/internal/app/updater"
	"podfit.dev/podfit/internal/app/web"
	"podfit.dev/podfit/internal/edge/kube"
	page "podfit.dev/podfit/internal/edge/web"
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
	root := func() *cobra.Command {
		root := Root(s)
		if name := calledAs(args); name != "" {
			commandline.Rename(root, name)
		}
		return root
	}
	called, err := execute(ctx, root, arguments(args))
	var exit process.ExitError
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, new(process.UsageError)):
		fmt.Fprintf(s.Err, "podfit: %s\nSee '%s --help'\n", commandline.Mistakes(err), called.CommandPath())
		return exitUsage
	case errors.As(err, &exit):
		fmt.Fprintf(s.Err, "podfit: %v\n", err)
		return exit.Code
	default:
		fmt.Fprintf(s.Err, "podfit: %v\n", err)
		return exitError
	}
}

// execute runs the command that args name, and returns it. It looks for an unknown command first, because cobra reports the unknown flags
// of an unknown command. If a flag is wrong, it looks for further wrong flags.
func execute(ctx context.Context, newRoot func() *cobra.Command, args []string) (*cobra.Command, error) {
	root := newRoot()
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd(args...)
	found, rest, err := root.Find(args)
	if err == nil && found.HasSubCommands() && len(rest) > 0 && !strings.HasPrefix(rest[0], "-") && !strings.HasPrefix(rest[0], "__") {
		return found, commandline.KnownCommand(found, rest)
	}
	root.SetArgs(args)
	called, err := root.ExecuteContextC(ctx)
	if !errors.As(err, new(process.UsageError)) {
		return called, err
	}
	wrong := commandline.WrongFlags(rest, func() *cobra.Command {
		c, _, _ := newRoot().Find(args) // found before
		return c
	})
	if wrong != nil {
		err = process.UsageError{Err: wrong}
	}
	return called, err
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
		Example: `  # Compare profiles on the usage that your Prometheus recorded
  podfit backtest --prometheus http://localhost:9090 -n shop

  # Log what podfit would change in the cluster of your kubeconfig
  podfit run --dry-run --context staging`,
		Args: commandline.KnownCommand, RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
		SilenceUsage: true, SilenceErrors: true,
	}
	root.SetIn(s.In)
	root.SetOut(s.Out)
	root.SetErr(s.Err)
	root.SetGlobalNormalizationFunc(process.Dashes)
	root.SetFlagErrorFunc(commandline.FlagError)
	commandline.SetHelp(root)
	root.SetHelpCommand(newHelpCommand())
	root.Version = version()
	root.SetVersionTemplate("podfit {{.Version}}\n")
	for _, c := range commands(s) {
		c.Flags().SetNormalizeFunc(process.Dashes)
		process.CompleteFromCluster(c)
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
		recommend.NewCommand(s),
		backtest.NewCommand(),
		web.NewCommand(s, explainerOfPage),
		explain.NewCommand(s, updater.NewSettings()),
		newCRDsCommand(s),
		newVersionCommand(s),
	)
}

// explainerOfPage returns what explains workloads on the page of "podfit web". The flags of the updater are not known, so their defaults
// are assumed.
func explainerOfPage(clients *kube.Clients, log *slog.Logger) page.Explainer {
	return explain.NewPage(clients, func() explain.Updater { return updater.NewSettings() }, true, log)
}

// version returns the version of this binary and how it was built.
func version() string {
	return fmt.Sprintf("%s %s %s/%s", process.BuildVersion(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

func newVersionCommand(s Streams) *cobra.Command {
	var output string
	c := &cobra.Command{
		Use: "version", Short: "Print the version of this binary", Args: commandline.NoArguments,
		RunE: func(*cobra.Command, []string) error {
			switch output {
			case "text":
				_, err := fmt.Fprintf(s.Out, "podfit %s\n", version())
				return err
			case "json":
				return json.NewEncoder(s.Out).Encode(map[string]string{
					"version": process.BuildVersion(), "goVersion": runtime.Version(), "platform": runtime.GOOS + "/" + runtime.GOARCH,
				})
			}
			return process.UsageError{Err: fmt.Errorf("--output must be text or json, got %q", output)}
		},
	}
	c.Flags().StringVarP(&output, "output", "o", "text", "Format: text or json.")
	process.CompleteFlag(c, "output", "text", "json")
	return c
}

// newHelpCommand returns "podfit help". Cobra's prints the help of the root command for an unknown name.
func newHelpCommand() *cobra.Command {
	return &cobra.Command{
		Use: "help [COMMAND]", Short: "Print the help of a command",
		RunE: func(c *cobra.Command, args []string) error {
			named, rest, err := c.Root().Find(args)
			if err == nil && len(rest) > 0 {
				err = commandline.KnownCommand(named, rest)
			}
			if err != nil {
				return err
			}
			return named.Help()
		},
		ValidArgsFunction: func(c *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
			var names []string
			for _, sub := range c.Root().Commands() {
				if len(args) == 0 && sub.IsAvailableCommand() && strings.HasPrefix(sub.Name(), typed) {
					names = append(names, cobra.CompletionWithDesc(sub.Name(), sub.Short))
				}
			}
			return names, cobra.ShellCompDirectiveNoFileComp
		},
	}
}
