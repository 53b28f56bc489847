// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"podfit.dev/podfit/test/e2e/bed"
)

// explained is the workload that the demo explains at its end: it was OOM-killed with the requests of its manifest.
const explained = "deploy/worker"

// explainTimeout limits podfit explain.
const explainTimeout = time.Minute

// explainArgs are the arguments of podfit explain. The plan of the next pass is that of the demo's updater only with the same flags.
func explainArgs() []string {
	updater := slices.DeleteFunc(slices.Clone(fastUpdater), func(flag string) bool { return strings.HasPrefix(flag, "--log-format") })
	return append([]string{"explain", explained, "-n", namespace}, updater...)
}

// explain prints the output of podfit explain.
func explain(ctx context.Context, binary, kubeconfig string, out io.Writer) error {
	ctx, cancel := context.WithTimeout(ctx, explainTimeout)
	defer cancel()
	args := explainArgs()
	fmt.Fprintf(out, "\n==> Why does a pod have this size, and what happens next?\n\n$ podfit %s\n", strings.Join(args, " "))
	cmd := exec.CommandContext(ctx, binary, append(args, "--kubeconfig="+kubeconfig)...)
	var errs strings.Builder
	cmd.Stdout, cmd.Stderr = out, &errs
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("podfit explain %s: %w\n%s", explained, err, errs.String())
	}
	return nil
}

// servePage starts podfit web and returns its address when the page answers. It returns the process also with an error, or nil.
func servePage(ctx context.Context, c *bed.Cluster, binary string) (string, *bed.Process, error) {
	port, err := bed.FreePort()
	if err != nil {
		return "", nil, err
	}
	address := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	p, err := bed.Start(bed.Command{
		Name: "web", Path: binary, Args: []string{"web", "--kubeconfig=" + c.Kubeconfig, "--web-address=" + address}, Log: filepath.Join(c.Dir, "web.log"),
	})
	if err != nil {
		return "", nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	url := "http://" + address + "/"
	err = bed.Until(ctx, 100*time.Millisecond, func(ctx context.Context) error {
		if !p.Running() {
			return fmt.Errorf("podfit web exited: %w", p.Err())
		}
		return answers(ctx, url)
	})
	if err != nil {
		return "", p, fmt.Errorf("%w\n%s", err, p.Tail(20))
	}
	return url, p, nil
}

// answers returns nil if a page is served with status 200.
func answers(ctx context.Context, url string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", url, response.Status)
	}
	return nil
}
