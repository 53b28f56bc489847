// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Command localcluster runs a real Kubernetes control plane with simulated nodes on this machine.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	root := &cobra.Command{
		Use:           "localcluster",
		Short:         "Run a Kubernetes control plane with simulated nodes on this machine",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.AddCommand(build(), up(), ctl(), kubeconfig())
	err := root.ExecuteContext(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "localcluster:", err)
		os.Exit(1)
	}
}
