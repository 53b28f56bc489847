// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Command evictions measures how fast an updater evicts the pods of many VPAs, in the shape of the benchmark of upstream's updater:
// 1,000 ReplicaSets with two pods each, all of which need an eviction. The API server, etcd and the controller manager are real. A
// hollow node reports pods as ready, and the recommendations are written by this command. It watches all pods during the run, and fails
// if a workload ever has fewer ready pods than its disruption budget requires.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"
)

// The values of -updater.
const (
	podfits   = "podfit"
	upstreams = "upstream"
)

// options are the flags.
type options struct {
	VPAs     int
	Budgets  bool // each workload has a PodDisruptionBudget
	Starts   time.Duration
	Updater  string
	Audit    bool
	Deadline time.Duration
	Args     []string // of the updater
}

// limitFlags are the flags of the updater without a limit on evictions, and with the client limits for 1,000 VPAs.
var limitFlags = []string{"--eviction-rate-limit=-1", "--kube-api-qps=200", "--kube-api-burst=400"}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdout)
	stop()
	os.Exit(code)
}

func run(ctx context.Context, args []string, out io.Writer) int {
	o, err := parse(args, out)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		fmt.Fprintln(out, err)
		return 2
	}
	r, err := measure(ctx, o, out)
	if r != nil {
		r.print(out)
	}
	if err != nil {
		fmt.Fprintf(out, "\nThe benchmark failed: %v\n", err)
		return 1
	}
	return 0
}

func parse(args []string, out io.Writer) (options, error) {
	var o options
	fs := flag.NewFlagSet("evictions", flag.ContinueOnError)
	fs.SetOutput(out)
	fs.IntVar(&o.VPAs, "vpas", 1000, "number of VPAs, each with a ReplicaSet of two pods")
	fs.BoolVar(&o.Budgets, "budgets", false, "give each ReplicaSet a PodDisruptionBudget with minAvailable 1; the controller of budgets handles one after the other")
	fs.DurationVar(&o.Starts, "start-time", time.Second, "time from the creation of a pod until it is ready")
	fs.StringVar(&o.Updater, "updater", podfits, "the updater: podfit, or upstream, whose released updater is built first")
	fs.BoolVar(&o.Audit, "audit", true, "also check the invariants of the end-to-end tests on the audit log of the API server")
	fs.DurationVar(&o.Deadline, "deadline", 10*time.Minute, "time after the start of the updater at which the benchmark gives up")
	if err := fs.Parse(args); err != nil {
		return o, err
	}
	o.Args = slices.Concat(limitFlags, fs.Args())
	if o.VPAs < 1 || o.VPAs > 5000 {
		return o, fmt.Errorf("-vpas must be between 1 and 5000, got %d", o.VPAs)
	}
	if o.Updater != podfits && o.Updater != upstreams {
		return o, fmt.Errorf("-updater must be podfit or upstream, got %q", o.Updater)
	}
	return o, nil
}

// stage prints what is being done, does it, and prints how long it took.
func stage(out io.Writer, what string, do func() error) error {
	start := time.Now()
	fmt.Fprintf(out, "==> %s\n", what)
	if err := do(); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	fmt.Fprintf(out, "    done in %s\n", time.Since(start).Round(100*time.Millisecond))
	return nil
}

// loadAverage returns the load of this machine in the last minute, or "?".
func loadAverage() string {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "?"
	}
	first, _, _ := strings.Cut(string(text), " ")
	return first
}
