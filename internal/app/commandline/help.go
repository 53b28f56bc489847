// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package commandline

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"podfit.dev/podfit/internal/app/process"
)

// Essential lists the flags that the help of a long-running command shows first: those that a first installation needs, and all that only
// podfit has.
var Essential = map[string]bool{
	"context": true, "as": true, "namespace": true, "all-namespaces": true, "dry-run": true, "hpa": true, "fit-nodes": true, "max-node-cpu": true, "max-node-memory": true, "log-format": true,
	"replacement-must-fit": true, "oom-rescue": true, "make-room": true, "mover": true, "freeze-configmap": true, "capacity-before-eviction": true, "placeholder-image": true, "provisioning-class": true, "early-passes": true, "updating-condition": true, "eviction-backoff": true,
	"max-change-per-hour-namespace": true, "max-change-per-hour-cluster": true, "help": true, "help-all": true,

	"kubeconfig": true, "vpa-object-namespace": true, "leader-elect": true, "v": true, "address": true, "feature-gates": true,
	"recommender-name": true, "recommender-interval": true, "storage": true, "prometheus-address": true, "history-length": true,
	"updater-interval": true, "min-replicas": true, "eviction-tolerance": true, "eviction-rate-limit": true,
	"client-ca-file": true, "tls-cert-file": true, "tls-private-key": true, "webhook-service": true, "register-webhook": true,
}

// HelpAll is the flag that prints the help with all flags.
const HelpAll = "help-all"

// Widest is the maximum line length of help texts, in characters. It applies if the output is not a terminal, too.
const Widest = 120

// Prepare completes a long-running command: it takes no arguments, its help has groups of flags, and shells complete the values of Choices.
func Prepare(c *cobra.Command) {
	c.Args = NoArguments
	groupFlags(c)
	completeChoices(c)
}

// groupFlags groups the flags in the help of a long-running command.
func groupFlags(c *cobra.Command) {
	c.Flags().Bool(HelpAll, false, "Print this help with all flags, also those that are accepted and have no effect.")
	c.SetUsageFunc(groupedUsage)
	run := c.RunE
	c.RunE = func(c *cobra.Command, args []string) error {
		if all, err := c.Flags().GetBool(HelpAll); err == nil && all {
			return c.Help()
		}
		return run(c, args)
	}
}

// groupedUsage prints the flags of a command in three groups: essential flags, further flags, and with --help-all those without effect.
func groupedUsage(c *cobra.Command) error {
	out, width := c.OutOrStderr(), Widest
	if columns, ok := process.TerminalWidth(out); ok {
		width = min(columns, Widest)
	}
	groups := make([]pflag.FlagSet, 3)
	hidden := 0
	c.LocalFlags().VisitAll(func(f *pflag.Flag) {
		shown := *f
		switch {
		case process.HasNoEffect(f):
			shown.Hidden = false
			hidden++
			groups[2].AddFlag(&shown)
		case Essential[f.Name]:
			groups[0].AddFlag(&shown)
		default:
			groups[1].AddFlag(&shown)
		}
	})
	var b strings.Builder
	fmt.Fprintf(&b, "Usage:\n  %s\n\nFlags:\n%s", c.UseLine(), groups[0].FlagUsagesWrapped(width))
	fmt.Fprintf(&b, "\nFurther flags, with the names and defaults of the Vertical Pod Autoscaler:\n%s", groups[1].FlagUsagesWrapped(width))
	if all, err := c.Flags().GetBool(HelpAll); err == nil && all {
		fmt.Fprintf(&b, "\nFlags that are accepted for compatibility and have no effect:\n%s", groups[2].FlagUsagesWrapped(width))
	} else if hidden > 0 {
		fmt.Fprintf(&b, "\n%d more flags are accepted for compatibility and have no effect; --%s lists them.\n", hidden, HelpAll)
	}
	_, err := io.WriteString(out, b.String())
	return err
}

// Choices are the values of the flags that accept one of a few words.
var Choices = map[string][]string{
	"capacity-before-eviction": {"off", "ask"}, "hpa": {process.HPALeave, process.HPAIgnore}, "log-format": {"text", "json"}, "make-room": {"off", "shrink", "split", "move"},
	"min-tls-version": {"tls1_2", "tls1_3"}, "mover": {"evict", "room", "surge"}, "oom-rescue": {"off", "evict", "delete"}, "storage": {"checkpoint", "prometheus"},
}

// completeChoices lets shells complete the values of Choices.
func completeChoices(c *cobra.Command) {
	for flag, values := range Choices {
		if c.Flags().Lookup(flag) != nil {
			process.CompleteFlag(c, flag, values...)
		}
	}
}
