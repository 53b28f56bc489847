// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Command podfit keeps every container of a Kubernetes cluster at the right size.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"podfit.dev/podfit/internal/app"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process immediately
	code := app.Main(ctx, os.Args, app.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr})
	stop()
	os.Exit(code)
}
