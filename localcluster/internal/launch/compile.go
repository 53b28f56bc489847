// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"time"
)

const (
	// cpuPerPackage is the average CPU time to compile a package of Kubernetes, linking included.
	cpuPerPackage = 180 * time.Millisecond
	// progressInterval is the time between two lines of progress.
	progressInterval = 15 * time.Second
)

// announce prints what is built and how long that takes. It returns the number of packages that each artifact
// compiles, in addition to those of the artifacts before it; 0 where the number is unknown.
func (b *Builder) announce(ctx context.Context, artifacts []Artifact) []int {
	if len(artifacts) == 0 {
		return nil
	}
	fmt.Fprintln(b.Out, "To build, into "+b.Cache+":")
	for _, a := range artifacts {
		fmt.Fprintf(b.Out, "  %-14s %s\n", a.Name, a.Contents)
	}
	fmt.Fprintln(b.Out, "Looking up which packages the Go build cache already has. On a new machine this downloads modules first.")
	counts := make([]int, len(artifacts))
	counted := map[string]bool{}
	for i, a := range artifacts {
		for _, name := range b.uncompiled(ctx, a) {
			if !counted[name] {
				counted[name] = true
				counts[i]++
			}
		}
	}
	fmt.Fprintln(b.Out, estimate(len(counted), runtime.GOMAXPROCS(0)))
	return counts
}

// estimate returns how long the build of a number of packages takes.
func estimate(packages, cpus int) string {
	cpu := time.Duration(packages) * cpuPerPackage
	if cpu < time.Minute {
		return fmt.Sprintf("Packages to compile: %d. This takes less than a minute.", packages)
	}
	elapsed := max(cpu/time.Duration(cpus), time.Minute)
	return fmt.Sprintf("Packages to compile: %d. This takes about %.0f min of CPU time, %.0f min on %d CPUs. Later builds take seconds.",
		packages, cpu.Minutes(), elapsed.Minutes(), cpus)
}

// uncompiled returns the packages of an artifact that are not in the build cache; none if go list fails, because go build
// reports the reason.
func (b *Builder) uncompiled(ctx context.Context, a Artifact) []string {
	text, err := b.goCommand(ctx, a, "list", "-deps", "-f", "{{if .Stale}}{{.ImportPath}}{{end}}").Output()
	if err != nil {
		return nil
	}
	return strings.Fields(string(text))
}

// goCommand returns a command of Go on the package of an artifact, with its flags.
func (b *Builder) goCommand(ctx context.Context, a Artifact, args ...string) *exec.Cmd {
	args = append(append(args, "-buildvcs=false"), a.Flags...)
	env := append(os.Environ(), "GOWORK=off")
	if b.export != "" {
		args = append(args, "-trimpath")
		env = append(env, "CGO_ENABLED=0", "GOOS=linux", "GOARCH="+b.export)
	}
	c := exec.CommandContext(ctx, "go", append(args, a.Package)...)
	c.Dir = filepath.Join(b.Module, a.Dir)
	c.Env = env
	return c
}

// compile builds an executable at target and reports progress. packages is the number of packages to compile, 0 if unknown.
func (b *Builder) compile(ctx context.Context, a Artifact, target string, packages int) error {
	started := time.Now()
	fmt.Fprintf(b.Out, "build %s: started\n", a.Name)
	unfinished := target + ".new"
	c := b.goCommand(ctx, a, "build", "-v", "-o", unfinished)
	stderr, err := c.StderrPipe()
	if err != nil {
		return err
	}
	err = c.Start()
	if err != nil {
		return err
	}
	var output buildOutput
	done := make(chan struct{})
	go func() {
		defer close(done)
		output.read(stderr)
	}()
	tick := time.NewTicker(progressInterval)
	defer tick.Stop()
	for running := true; running; {
		select {
		case <-tick.C:
			fmt.Fprintf(b.Out, "build %s: %4.0fs, %s\n", a.Name, time.Since(started).Seconds(), output.progress(packages))
		case <-done:
			running = false
		}
	}
	err = c.Wait()
	if err != nil {
		return fmt.Errorf("go build: %w\n%s", err, strings.Join(output.messages, "\n"))
	}
	fmt.Fprintf(b.Out, "build %s: done in %.0fs\n", a.Name, time.Since(started).Seconds())
	return os.Rename(unfinished, target)
}

// buildOutput is what go build -v has printed: a line per downloaded module and compiled package, and error messages.
type buildOutput struct {
	compiled, downloaded atomic.Int64
	messages             []string // complete when read has returned
}

func (o *buildOutput) read(r io.Reader) {
	for lines := bufio.NewScanner(r); lines.Scan(); {
		line := lines.Text()
		switch {
		case strings.HasPrefix(line, "go: downloading "):
			o.downloaded.Add(1)
		case strings.ContainsAny(line, " :"):
			o.messages = append(o.messages, line)
		default:
			o.compiled.Add(1)
		}
	}
}

// progress prints the progress of the build. Linking is the last step and prints nothing.
func (o *buildOutput) progress(packages int) string {
	compiled := o.compiled.Load()
	downloaded := o.downloaded.Load()
	switch {
	case packages > 0 && compiled >= int64(packages):
		return fmt.Sprintf("all %d packages compiled, linking", compiled)
	case packages > 0:
		return fmt.Sprintf("%d of %d packages compiled", compiled, packages)
	case compiled == 0 && downloaded > 0:
		return fmt.Sprintf("%d modules downloaded", downloaded)
	}
	return fmt.Sprintf("%d packages compiled", compiled)
}
