// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package app is podfit's command line: it builds the command tree from the jobs, and runs all jobs in one process with
// "podfit run".
//
// Each job has a package of its own below: recommender, updater, admission and backtest. They do not import each other.
// What the processes of several jobs need is in package process.
//
//go:generate go test . -run TestDocs_flagsAndMetrics_matchCode -update
package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"strings"

	"github.com/spf13/cobra"

	"podfit.dev/podfit/deploy"
	"podfit.dev/podfit/internal/app/admission"
	"podfit.dev/podfit/internal/app/backtest"
	"podfit.dev/podfit/internal/app/capacity"
	"podfit.dev/podfit/internal/app/commandline"
	"podfit.dev/podfit/internal/app/explain"
	"podfit.dev/podfit/internal/app/process"
	"podfit.dev/podfit/internal/app/recommend"
	"podfit.dev/podfit/internal/app/recommender"
	"podfit.dev/podfit/internal/app/updater"
	"podfit.dev/podfit/internal/app/web"
	"podfit.dev/podfit/internal/compatibility"
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
	root := Root(s)
	if name := commandline.CalledAs(args); name != "" {
		commandline.Rename(root, name)
	}
	called, err := commandline.Execute(ctx, root, commandline.Arguments(args))
	var exit process.ExitError
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, new(process.UsageError)):
		text := err.Error()
		lines := strings.Split(text, "\n")
		if len(lines) > 1 && errors.As(err, new(interface{ Unwrap() []error })) {
			text = fmt.Sprintf("the call has %d mistakes:\n  %s", len(lines), strings.Join(lines, "\n  "))
		}
		fmt.Fprintf(s.Err, "podfit: %s\nSee '%s --help'\n", text, called.CommandPath())
		return exitUsage
	case errors.As(err, &exit):
		fmt.Fprintf(s.Err, "podfit: %v\n", err)
		return exit.Code
	default:
		fmt.Fprintf(s.Err, "podfit: %v\n", err)
		return exitError
	}
}

// Root returns podfit's command tree.
func Root(s Streams) *cobra.Command {
	root := &cobra.Command{
		Use:   "podfit",
		Short: "Sets the resource requests of containers according to their usage",
		Long: `podfit sets the CPU and memory requests of containers according to their usage.
It is a drop-in replacement for the Kubernetes Vertical Pod Autoscaler (VPA): it
uses the same VerticalPodAutoscaler objects, flags and metrics.

podfit has three components: recommender, updater and admission-controller. Each
can run alone, or all three run in one process with "podfit run".`,
		Example: `  # Compare profiles on the usage that your Prometheus recorded
  podfit backtest --prometheus http://localhost:9090 -n shop

  # Log what podfit would change in the cluster of your kubeconfig
  podfit run --dry-run --context staging`,
		RunE:         func(c *cobra.Command, _ []string) error { return c.Help() },
		SilenceUsage: true, SilenceErrors: true,
	}
	root.SetIn(s.In)
	root.SetOut(s.Out)
	root.SetErr(s.Err)
	root.SetGlobalNormalizationFunc(process.Dashes)
	root.SetFlagErrorFunc(commandline.FlagError)
	commandline.SetHelp(root)
	root.Version = version()
	root.SetVersionTemplate("podfit {{.Version}}\n")
	root.Flags().BoolP("version", "v", false, "Print the version of this binary.")
	addGroup(root, "See what podfit would do; nothing is changed, except by capacity --apply:", recommend.NewCommand(s), capacity.NewCommand(s),
		backtest.NewCommand(), web.NewCommand(s, explainerOfPage), explain.NewCommand(s, defaultJobs(), web.Judge))
	addGroup(root, "Run podfit:", newRunCommand(s), recommender.NewCommand(s), updater.NewCommand(s), admission.NewCommand(s))
	addGroup(root, "Install podfit, and more:", newCRDsCommand(s), newVersionCommand(s))
	root.SetHelpCommandGroupID("Install podfit, and more:")
	root.SetCompletionCommandGroupID("Install podfit, and more:")
	return root
}

// addGroup adds commands that the help lists under a title.
func addGroup(root *cobra.Command, title string, commands ...*cobra.Command) {
	root.AddGroup(&cobra.Group{ID: title, Title: title})
	for _, c := range commands {
		c.GroupID = title
		c.Flags().SetNormalizeFunc(process.Dashes)
		commandline.Prepare(c)
		process.CompleteFromCluster(c)
		root.AddCommand(c)
	}
}

// defaultJobs returns the jobs that podfit explain explains, with their defaults.
func defaultJobs() explain.Running {
	return explain.Running{Updater: updater.NewSettings(), Recommender: recommender.NewSettings()}
}

// explainerOfPage returns what explains workloads on the page. The flags of the jobs are read from their Deployments.
func explainerOfPage(clients *kube.Clients, excluded []string, log *slog.Logger) page.Explainer {
	return explain.NewPage(clients, defaultJobs, true, excluded, log)
}

// version returns the version of this binary and how it was built.
func version() string {
	return fmt.Sprintf("%s %s %s/%s", process.BuildVersion(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

func newVersionCommand(s Streams) *cobra.Command {
	output := "text"
	mode := compatibility.Podfit
	c := &cobra.Command{
		Use: "version", Short: "Print the version of this binary",
		RunE: func(*cobra.Command, []string) error {
			if err := mode.Validate(); err != nil {
				return process.UsageError{Err: err}
			}
			switch output {
			case "text":
				_, err := fmt.Fprintf(s.Out, "podfit %s\n", version())
				return err
			case "json":
				return json.NewEncoder(s.Out).Encode(map[string]string{
					"version": process.BuildVersion(), "goVersion": runtime.Version(), "platform": runtime.GOOS + "/" + runtime.GOARCH,
					compatibility.FlagName: string(mode), compatibility.FlagName + "Flags": mode.Arguments(),
				})
			}
			return process.UsageError{Err: fmt.Errorf("--output must be text or json, got %q", output)}
		},
	}
	c.Flags().StringVarP(&output, "output", "o", output, "Format: text or json.")
	c.Flags().StringVar((*string)(&mode), compatibility.FlagName, string(mode), "The value of --compatibility whose flags the JSON contains: podfit or upstream.")
	process.CompleteFlag(c, "output", "text", "json")
	return c
}

func newCRDsCommand(s Streams) *cobra.Command {
	return &cobra.Command{
		Use: "crds", Short: "Print the CRDs that podfit requires",
		Long:    "Prints the custom resource definitions that podfit requires, as YAML.",
		Example: "  podfit crds | kubectl apply --server-side --force-conflicts -f -",
		RunE: func(*cobra.Command, []string) error {
			_, err := s.Out.Write(deploy.CRDs())
			return err
		},
	}
}
