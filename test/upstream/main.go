// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Command upstream builds the three released components of the Kubernetes Vertical Pod Autoscaler if they are missing, and prints
// the folder of their executables. It is a separate module, so that upstream keeps the dependencies of its release.
package main

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

// components are the built packages. The executables have the last element of the path as name.
var components = []string{
	"k8s.io/autoscaler/vertical-pod-autoscaler/pkg/admission-controller",
	"k8s.io/autoscaler/vertical-pod-autoscaler/pkg/recommender",
	"k8s.io/autoscaler/vertical-pod-autoscaler/pkg/updater",
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	dir, err := built(ctx, os.Stderr)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "upstream:", err)
		os.Exit(1)
	}
	fmt.Println(dir)
}

// built returns the folder of the executables. It builds them if they are missing.
func built(ctx context.Context, progress io.Writer) (string, error) {
	_, file, _, ok := runtime.Caller(0)
	if !ok || !filepath.IsAbs(file) {
		return "", fmt.Errorf("find the source of this command: %q is not an absolute path, run it with go run and without -trimpath", file)
	}
	module := filepath.Dir(file)
	key, err := key(module)
	if err != nil {
		return "", err
	}
	cache := filepath.Join(module, "..", "..", ".cache", "bin")
	dir := filepath.Join(cache, "upstream-"+key)
	if _, err := os.Stat(dir); err == nil {
		return dir, nil
	}
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return "", err
	}
	lock, err := os.OpenFile(filepath.Join(cache, "upstream.lock"), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return "", err
	}
	defer lock.Close()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return "", fmt.Errorf("lock %s: %w", lock.Name(), err)
	}
	if _, err := os.Stat(dir); err == nil { // another process has built them
		return dir, nil
	}
	unfinished := dir + ".new"
	if err := os.RemoveAll(unfinished); err != nil {
		return "", err
	}
	if err := os.Mkdir(unfinished, 0o755); err != nil {
		return "", err
	}
	if err := build(ctx, module, unfinished, progress); err != nil {
		return "", err
	}
	return dir, os.Rename(unfinished, dir)
}

// key returns a hash of everything that the executables depend on.
func key(module string) (string, error) {
	h := sha256.New()
	fmt.Fprintln(h, runtime.Version(), runtime.GOOS, runtime.GOARCH, components)
	for _, name := range []string{"go.mod", "go.sum"} {
		text, err := os.ReadFile(filepath.Join(module, name))
		if err != nil {
			return "", err
		}
		fmt.Fprintf(h, "%s %d\n%s", name, len(text), text)
	}
	return hex.EncodeToString(h.Sum(nil))[:12], nil
}

func build(ctx context.Context, module, dir string, progress io.Writer) error {
	started := time.Now()
	fmt.Fprintln(progress, "build upstream: the first time takes about 2 minutes of CPU time")
	args := append([]string{"build", "-v", "-buildvcs=false", "-ldflags=-s -w", "-o", dir + string(filepath.Separator)}, components...)
	c := exec.CommandContext(ctx, "go", args...)
	c.Dir = module
	c.Env = append(os.Environ(), "GOWORK=off")
	stderr, err := c.StderrPipe()
	if err != nil {
		return err
	}
	if err := c.Start(); err != nil {
		return err
	}
	var compiled atomic.Int64
	var messages []string
	read := make(chan struct{})
	go func() {
		defer close(read)
		for lines := bufio.NewScanner(stderr); lines.Scan(); compiled.Add(1) {
			if line := lines.Text(); strings.ContainsAny(line, " :") && !strings.HasPrefix(line, "go: downloading ") {
				messages = append(messages, line)
			}
		}
	}()
	tick := time.NewTicker(15 * time.Second)
	defer tick.Stop()
	for running := true; running; {
		select {
		case <-tick.C:
			fmt.Fprintf(progress, "build upstream: %4.0fs, %d packages downloaded or compiled\n", time.Since(started).Seconds(), compiled.Load())
		case <-read:
			running = false
		}
	}
	if err := c.Wait(); err != nil {
		return fmt.Errorf("go build: %w\n%s", err, strings.Join(messages, "\n"))
	}
	fmt.Fprintf(progress, "build upstream: done in %.0fs, with %.0fs of CPU\n", time.Since(started).Seconds(),
		(c.ProcessState.UserTime() + c.ProcessState.SystemTime()).Seconds())
	return nil
}
