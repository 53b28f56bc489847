// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Command demo shows podfit at work: it starts a local cluster with a real control plane, podfit with the rights of its own
// service accounts, and workloads whose requests are wrong, and shows how they become right.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/term"
)

// The exit codes.
const (
	exitConverged = 0
	exitFailed    = 1 // the demo could not be shown
	exitUsage     = 2
	exitLate      = 3 // some workload had not got its size by the deadline
)

// options are the demo's flags.
type options struct {
	Nodes    int
	Keep     bool
	Plain    bool
	Deadline time.Duration
	Settle   time.Duration
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdout)
	stop()
	os.Exit(code)
}

func run(ctx context.Context, args []string, out *os.File) int {
	var o options
	fs := flag.NewFlagSet("demo", flag.ContinueOnError)
	fs.IntVar(&o.Nodes, "nodes", 3, "number of nodes")
	fs.BoolVar(&o.Keep, "keep", os.Getenv("KEEP") != "", "leave the cluster up afterwards, until Ctrl-C; the default is whether KEEP is set")
	fs.BoolVar(&o.Plain, "plain", !term.IsTerminal(int(out.Fd())), "print lines instead of drawing a table; the default is whether this is no terminal")
	fs.DurationVar(&o.Deadline, "deadline", 6*time.Minute, "when to give up, counted from the start of the workloads")
	fs.DurationVar(&o.Settle, "settle", 20*time.Second, "how long everything must have its size before the demo ends")
	if err := fs.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return exitConverged
		}
		return exitUsage
	}
	err := show(ctx, o, out)
	switch {
	case err == nil:
		return exitConverged
	case errors.As(err, new(late)):
		fmt.Fprintf(out, "\n%v\n", err)
		return exitLate
	case ctx.Err() != nil:
		fmt.Fprintln(out, "\nInterrupted.")
		return exitFailed
	}
	fmt.Fprintf(out, "\nThe demo failed: %v\n", err)
	return exitFailed
}

// newScreen returns the screen for an output.
func newScreen(o options, out *os.File) *screen {
	return &screen{out: out, terminal: !o.Plain, size: func() (int, int) {
		w, h, err := term.GetSize(int(out.Fd()))
		if err != nil {
			return 120, 40
		}
		return w, h
	}}
}

// A stage is a line that says what is being done, and then how long it took.
func stage(out io.Writer, what string, do func() error) error {
	start := time.Now()
	fmt.Fprintf(out, "==> %s\n", what)
	if err := do(); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	fmt.Fprintf(out, "    done in %s\n", time.Since(start).Round(100*time.Millisecond))
	return nil
}
