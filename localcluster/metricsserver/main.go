// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Command metricsserver is metrics-server, as it is released, with one difference: it also takes a
// --metric-resolution below 10s, since nobody who waits for a test wants to wait for two scrapes of 15s. It is a
// module of its own so that its dependencies are those that metrics-server was released with.
package main

import (
	"flag"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/component-base/logs"
	"sigs.k8s.io/metrics-server/cmd/metrics-server/app/options"
)

// leastResolution is what metrics-server itself would refuse to go below.
const leastResolution = 10 * time.Second

func main() {
	logs.InitLogs()
	defer logs.FlushLogs()
	if err := command().Execute(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func command() *cobra.Command {
	o := options.NewOptions()
	c := &cobra.Command{Use: "metrics-server", SilenceUsage: true, RunE: func(*cobra.Command, []string) error { return run(o) }}
	for _, set := range o.Flags().FlagSets {
		c.Flags().AddFlagSet(set)
	}
	klog := flag.NewFlagSet("klog", flag.ContinueOnError)
	logs.AddGoFlags(klog)
	c.Flags().AddGoFlagSet(klog)
	return c
}

func run(o *options.Options) error {
	resolution := o.MetricResolution
	o.MetricResolution = max(resolution, leastResolution)
	if errs := o.Validate(); len(errs) > 0 {
		return errs[0]
	}
	config, err := o.ServerConfig()
	if err != nil {
		return err
	}
	config.MetricResolution = resolution
	server, err := config.Complete()
	if err != nil {
		return err
	}
	return server.RunUntil(genericapiserver.SetupSignalHandler())
}
