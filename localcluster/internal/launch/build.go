// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

// KubernetesVersion is what the parts call themselves; it is that of k8s.io/kubernetes in go.mod.
const KubernetesVersion = "v1.36.3"

// An Artifact is an executable that is built from Go modules.
type Artifact struct {
	Name    string
	Dir     string   // of the Go module, within this module
	Package string   // within the Go module, or of a module that it requires
	Sources []string // what it is built from, within this module
	Flags   []string
}

// What can be built.
var (
	Launcher = Artifact{
		Name: "localcluster", Dir: ".", Package: "./cmd/localcluster", Sources: []string{"go.mod", "go.sum", "cmd/localcluster", "internal/demand", "internal/launch"},
	}
	ControlPlane = Artifact{
		Name: "controlplane", Dir: ".", Package: "./cmd/controlplane",
		Sources: []string{"go.mod", "go.sum", "cmd/controlplane", "internal/demand", "internal/engine", "internal/machine", "internal/node", "internal/scenario"},
		Flags:   []string{"-ldflags", "-s -w -X k8s.io/component-base/version.gitVersion=" + KubernetesVersion},
	}
	MetricsServer = Artifact{Name: "metrics-server", Dir: "metricsserver", Package: ".", Sources: []string{"metricsserver"}, Flags: []string{"-ldflags", "-s -w"}}
	Prometheus    = Artifact{
		Name: "prometheus", Dir: "prometheus", Package: "github.com/prometheus/prometheus/cmd/prometheus", Sources: []string{"prometheus"},
		Flags: []string{"-tags", "remove_all_sd", "-ldflags", "-s -w"},
	}
)

// A Builder builds executables once, and keeps them.
type Builder struct {
	Module string // the folder of this module
	Cache  string
	Out    io.Writer // where progress is told
}

// NewBuilder builds from the module at its place in the source tree. An empty cache folder means the usual one.
func NewBuilder(cache string, out io.Writer) (*Builder, error) {
	module, err := moduleDir()
	if err != nil {
		return nil, err
	}
	if cache == "" {
		cache = filepath.Join(filepath.Dir(module), ".cache", "bin")
	}
	cache, err = filepath.Abs(cache)
	return &Builder{Module: module, Cache: cache, Out: out}, err
}

// moduleDir is where this source file was when it was compiled, or else above the working directory.
func moduleDir() (string, error) {
	var places []string
	if _, file, _, ok := runtime.Caller(0); ok {
		places = append(places, filepath.Join(filepath.Dir(file), "..", ".."))
	}
	if here, err := os.Getwd(); err == nil {
		for ; here != filepath.Dir(here); here = filepath.Dir(here) {
			places = append(places, here, filepath.Join(here, "localcluster"))
		}
	}
	for _, place := range places {
		if _, err := os.Stat(filepath.Join(place, "cmd", "controlplane", "main.go")); err == nil {
			return filepath.Abs(place)
		}
	}
	return "", errors.New("the source of the module localcluster is not found: run this inside the repository")
}

// Build returns the path of an up-to-date executable, which it builds if there is none.
func (b *Builder) Build(ctx context.Context, a Artifact) (string, error) {
	key, err := b.key(a)
	if err != nil {
		return "", fmt.Errorf("build %s: %w", a.Name, err)
	}
	target := filepath.Join(b.Cache, a.Name+"-"+key)
	if _, err := os.Stat(target); err == nil {
		b.tidy(a.Name, target)
		return target, nil
	}
	if err := os.MkdirAll(b.Cache, 0o755); err != nil {
		return "", err
	}
	unlock, err := lock(filepath.Join(b.Cache, a.Name+".lock"))
	if err != nil {
		return "", err
	}
	defer unlock()
	if _, err := os.Stat(target); err == nil { // somebody else has built it meanwhile
		return target, nil
	}
	if err := b.build(ctx, a, target); err != nil {
		return "", fmt.Errorf("build %s: %w", a.Name, err)
	}
	b.tidy(a.Name, target)
	return target, b.link(a.Name, target)
}

// tidy removes executables of that name that nobody has asked for in a day. A younger one may be needed by a running
// cluster, to start a part again.
func (b *Builder) tidy(name, used string) {
	now := time.Now()
	_ = os.Chtimes(used, now, now)
	old, _ := filepath.Glob(filepath.Join(b.Cache, name+"-????????????"))
	for _, path := range old {
		if info, err := os.Stat(path); err == nil && now.Sub(info.ModTime()) > 24*time.Hour {
			os.Remove(path)
		}
	}
}

// link gives the newest executable a name without a key.
func (b *Builder) link(name, target string) error {
	short := filepath.Join(b.Cache, name)
	unfinished := short + ".link"
	os.Remove(unfinished)
	if err := os.Symlink(filepath.Base(target), unfinished); err != nil {
		return err
	}
	return os.Rename(unfinished, short)
}

func (b *Builder) build(ctx context.Context, a Artifact, target string) error {
	started := time.Now()
	fmt.Fprintf(b.Out, "build %s: a first time takes minutes\n", a.Name)
	unfinished := target + ".new"
	c := exec.CommandContext(ctx, "go", append(append([]string{"build", "-v", "-buildvcs=false", "-o", unfinished}, a.Flags...), a.Package)...)
	c.Dir = filepath.Join(b.Module, a.Dir)
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
		for lines := bufio.NewScanner(stderr); lines.Scan(); {
			line := lines.Text()
			if strings.ContainsAny(line, " :") && !strings.HasPrefix(line, "go: downloading ") {
				messages = append(messages, line)
			}
			compiled.Add(1)
		}
	}()
	tick := time.NewTicker(15 * time.Second)
	defer tick.Stop()
	for running := true; running; {
		select {
		case <-tick.C:
			fmt.Fprintf(b.Out, "build %s: %4.0fs, %d packages downloaded or compiled\n", a.Name, time.Since(started).Seconds(), compiled.Load())
		case <-read:
			running = false
		}
	}
	if err := c.Wait(); err != nil {
		return fmt.Errorf("go build: %w\n%s", err, strings.Join(messages, "\n"))
	}
	fmt.Fprintf(b.Out, "build %s: done in %.0fs\n", a.Name, time.Since(started).Seconds())
	return os.Rename(unfinished, target)
}

// key changes whenever another executable would be built.
func (b *Builder) key(a Artifact) (string, error) {
	h := sha256.New()
	fmt.Fprintln(h, runtime.Version(), runtime.GOOS, runtime.GOARCH, a)
	for _, source := range a.Sources {
		err := filepath.WalkDir(filepath.Join(b.Module, source), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || strings.HasSuffix(path, "_test.go") {
				return err
			}
			text, err := os.ReadFile(path)
			relative, _ := filepath.Rel(b.Module, path)
			fmt.Fprintf(h, "%s %d\n%s", relative, len(text), text)
			return err
		})
		if err != nil {
			return "", err
		}
	}
	return hex.EncodeToString(h.Sum(nil))[:12], nil
}

// lock waits until no other process holds the lock.
func lock(path string) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
		f.Close()
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	return func() { f.Close() }, nil
}

// tryLock fails at once if another process holds the lock.
func tryLock(path string) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		f.Close()
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	return func() { f.Close() }, nil
}
