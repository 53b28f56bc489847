// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// KubernetesVersion is the version that the parts report. It equals the version of k8s.io/kubernetes in go.mod.
const KubernetesVersion = "v1.36.3"

// An Artifact is an executable that is built from Go modules.
type Artifact struct {
	Name     string
	Contents string   // what it consists of, for messages
	Dir      string   // folder of the Go module, relative to this module
	Package  string   // in the Go module, or in a module that it requires
	Sources  []string // files and folders that it is built from, relative to this module
	Flags    []string // of go build
}

// The artifacts of a cluster. They are all built with the default flags of go build and go test, apart from linker flags and
// tags, and from the same versions of shared modules, so that each package is compiled once.
var (
	Launcher = Artifact{
		Name: "localcluster", Contents: "the command that starts and stops the cluster", Dir: ".", Package: "./cmd/localcluster",
		Sources: []string{"go.mod", "go.sum", "cmd/localcluster", "internal/demand", "internal/launch"}, Flags: []string{"-ldflags", "-s -w"},
	}
	ControlPlane = Artifact{
		Name: "controlplane", Contents: "Kubernetes " + KubernetesVersion + ": etcd, API server, controller manager, scheduler, kubelet",
		Dir: ".", Package: "./cmd/controlplane",
		Sources: []string{"go.mod", "go.sum", "cmd/controlplane", "internal/demand", "internal/engine", "internal/machine", "internal/node", "internal/scenario"},
		Flags:   []string{"-ldflags", "-s -w -X k8s.io/component-base/version.gitVersion=" + KubernetesVersion},
	}
	MetricsServer = Artifact{
		Name: "metrics-server", Contents: "the Metrics API", Dir: "metricsserver", Package: ".", Sources: []string{"metricsserver"},
		Flags: []string{"-ldflags", "-s -w"},
	}
	Prometheus = Artifact{
		Name: "prometheus", Contents: "for tests with usage history", Dir: "prometheus",
		Package: "github.com/prometheus/prometheus/cmd/prometheus", Sources: []string{"prometheus"},
		Flags: []string{"-tags", "remove_all_sd", "-ldflags", "-s -w"},
	}
	StateMetrics = Artifact{
		Name: "kube-state-metrics", Contents: "metrics of objects, for tests of alerts and boards", Dir: "kubestatemetrics",
		Package: "k8s.io/kube-state-metrics/v2", Sources: []string{"kubestatemetrics"}, Flags: []string{"-ldflags", "-s -w"},
	}
	Karpenter = Artifact{
		Name: "karpenter", Contents: "Karpenter, whose nodes are Node objects, for tests of capacity", Dir: "karpenter",
		Package: "sigs.k8s.io/karpenter/kwok", Sources: []string{"karpenter"}, Flags: []string{"-ldflags", "-s -w"},
	}
)

// A Builder builds executables and keeps them until their sources change.
type Builder struct {
	Module string    // folder of this module
	Cache  string    // folder of the executables
	Given  string    // folder with executables to use as they are; then nothing is built, and Module and Cache are not used
	Out    io.Writer // receives progress

	export string // Go's name of the architecture for Export; empty for executables that are built for this machine
}

// NewBuilder returns a Builder for the module in this source tree. If cache is empty, executables are kept in .cache/bin of
// the repository.
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

// moduleDir returns the folder of this module: the one that this file was compiled in, or the working directory or a folder
// above it.
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
	return "", errors.New("find the source of module localcluster: run this command inside the repository")
}

// BuildAll returns the paths of up-to-date executables by name. It builds those that are missing or out of date, and says
// before the first build what is built and how long it takes.
func (b *Builder) BuildAll(ctx context.Context, artifacts ...Artifact) (map[string]string, error) {
	if b.Given != "" {
		return b.given(artifacts)
	}
	var outdated []Artifact
	paths := map[string]string{}
	for _, a := range artifacts {
		target, built, err := b.find(a)
		if err != nil {
			return nil, err
		}
		paths[a.Name] = target
		if !built {
			outdated = append(outdated, a)
		}
	}
	packages := b.announce(ctx, outdated)
	for i, a := range outdated {
		err := b.build(ctx, a, packages[i])
		if err != nil {
			return nil, err
		}
	}
	return paths, nil
}

// Build returns the path of an up-to-date executable. It builds the executable if it is missing or out of date.
func (b *Builder) Build(ctx context.Context, a Artifact) (string, error) {
	paths, err := b.BuildAll(ctx, a)
	return paths[a.Name], err
}

// given returns the paths of the executables in the folder Given.
func (b *Builder) given(artifacts []Artifact) (map[string]string, error) {
	paths := map[string]string{}
	for _, a := range artifacts {
		path, err := filepath.Abs(filepath.Join(b.Given, a.Name))
		if err == nil {
			_, err = os.Stat(path)
		}
		if err != nil {
			return nil, fmt.Errorf("find the executable %s, %s: %w", a.Name, a.Contents, err)
		}
		paths[a.Name] = path
	}
	return paths, nil
}

// Export builds static executables for Linux machines of an architecture, without paths of this machine, so that the same sources give the
// same bytes. It writes them to a folder under their names.
func (b *Builder) Export(ctx context.Context, folder, arch string, artifacts ...Artifact) error {
	e := &Builder{Module: b.Module, Cache: folder, Out: b.Out, export: arch}
	packages := e.announce(ctx, artifacts)
	for i, a := range artifacts {
		if err := e.compile(ctx, a, filepath.Join(folder, a.Name), packages[i]); err != nil {
			return fmt.Errorf("build %s for linux/%s: %w", a.Name, arch, err)
		}
	}
	return nil
}

// find returns the path of the executable for the present sources, and whether it exists.
func (b *Builder) find(a Artifact) (target string, built bool, err error) {
	key, err := b.key(a)
	if err != nil {
		return "", false, fmt.Errorf("build %s: %w", a.Name, err)
	}
	target = filepath.Join(b.Cache, a.Name+"-"+key)
	_, err = os.Stat(target)
	if err != nil {
		return target, false, nil
	}
	b.tidy(a.Name, target)
	return target, true, b.link(a.Name, target)
}

// build builds an executable, unless another process builds it first. packages is the number of packages to compile. If the sources change
// during the build, e.g. by a checkout, it builds again: nobody knows which of them the executable has.
func (b *Builder) build(ctx context.Context, a Artifact, packages int) error {
	err := os.MkdirAll(b.Cache, 0o755)
	if err != nil {
		return err
	}
	unlock, err := lock(filepath.Join(b.Cache, a.Name+".lock"))
	if err != nil {
		return err
	}
	defer unlock()
	for range 3 {
		target, built, err := b.find(a)
		if err != nil || built {
			return err
		}
		before := b.changed(a)
		fresh := target + ".fresh"
		if err := b.compile(ctx, a, fresh, packages); err != nil {
			return fmt.Errorf("build %s: %w", a.Name, err)
		}
		if present, _, err := b.find(a); err != nil {
			return err
		} else if present == target && b.changed(a).Equal(before) { // so the executable is of these sources
			if err := os.Rename(fresh, target); err != nil {
				return err
			}
			b.tidy(a.Name, target)
			return b.link(a.Name, target)
		}
		fmt.Fprintf(b.Out, "build %s: the source files changed during the build, so it starts again\n", a.Name)
		os.Remove(fresh)
	}
	return fmt.Errorf("build %s: its source files changed during each of 3 builds; build again when no program changes them", a.Name)
}

// tidy removes executables of that name that were not requested for a day. A running cluster may need a younger one to
// restart a part.
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

// link makes the name without a key a symbolic link to the executable for the present sources, which may be an older one after a checkout.
func (b *Builder) link(name, target string) error {
	short := filepath.Join(b.Cache, name)
	if linked, err := os.Readlink(short); err == nil && linked == filepath.Base(target) {
		return nil
	}
	unfinished := fmt.Sprintf("%s.link-%d", short, os.Getpid())
	os.Remove(unfinished)
	if err := os.Symlink(filepath.Base(target), unfinished); err != nil {
		return err
	}
	return os.Rename(unfinished, short)
}

// key returns a hash of everything that the executable depends on.
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

// changed returns when a source was changed last. So a change that is undone during a build is noticed, too.
func (b *Builder) changed(a Artifact) (last time.Time) {
	for _, source := range a.Sources {
		_ = filepath.WalkDir(filepath.Join(b.Module, source), func(_ string, d fs.DirEntry, err error) error {
			if err != nil {
				return nil // key reports it
			}
			if info, err := d.Info(); err == nil && info.ModTime().After(last) {
				last = info.ModTime()
			}
			return nil
		})
	}
	return last
}

// lock takes a file lock. It waits until no other process holds it.
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

// tryLock takes a file lock. It fails if another process holds it.
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
