// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Command demo starts a local cluster with a real control plane, podfit with its own service accounts and rights, and workloads
// with wrong requests, and shows how podfit corrects them.
//
// In the demo archive of a release, the same executable also is podfit under the name podfit, because each of them alone would contain
// most of the other. There it uses the files of the archive, and builds nothing.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/term"

	"podfit.dev/podfit/internal/app"
)

// The exit codes.
const (
	exitConverged = 0
	exitFailed    = 1 // the demo could not run
	exitUsage     = 2
	exitLate      = 3 // a workload did not have its size at the deadline
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
	var code int
	if isPodfit(os.Args[0]) {
		context.AfterFunc(ctx, stop) // a second signal ends the process immediately
		code = app.Main(ctx, os.Args, app.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Terminal: term.IsTerminal(int(os.Stderr.Fd()))})
	} else {
		code = run(ctx, os.Args[1:], os.Stdout)
	}
	stop()
	os.Exit(code)
}

// isPodfit reports whether a process with this path is podfit: also as kubectl-podfit, the plugin.
func isPodfit(path string) bool { return strings.Contains(filepath.Base(path), "podfit") }

func run(ctx context.Context, args []string, out *os.File) int {
	var o options
	fs := flag.NewFlagSet("demo", flag.ContinueOnError)
	fs.IntVar(&o.Nodes, "nodes", 3, "number of nodes")
	fs.BoolVar(&o.Keep, "keep", os.Getenv("KEEP") != "", "keep the cluster running until Ctrl-C; default: true if the environment variable KEEP is set")
	fs.BoolVar(&o.Plain, "plain", !term.IsTerminal(int(out.Fd())), "print lines instead of redrawing a table; default: true if the output is not a terminal")
	fs.DurationVar(&o.Deadline, "deadline", 6*time.Minute, "time after the start of the workloads at which the demo gives up")
	fs.DurationVar(&o.Settle, "settle", 20*time.Second, "how long all workloads must keep their size before the demo ends")
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
		fmt.Fprintln(out, "\nInterrupted. The cluster is stopped and removed.")
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
