// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Command metricsserver is the released metrics-server with one difference: it accepts a --metric-resolution below 10s, so
// that a test does not wait 30s for the two scrapes that a pod's usage needs.
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

// minResolution is the smallest --metric-resolution that metrics-server itself accepts.
const minResolution = 10 * time.Second

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
	o.MetricResolution = max(resolution, minResolution)
	errs := o.Validate()
	if len(errs) > 0 {
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
