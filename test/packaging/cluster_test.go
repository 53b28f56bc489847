// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package packaging

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/release"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/kubectl/pkg/cmd/apply"
	cmdutil "k8s.io/kubectl/pkg/cmd/util"

	"podfit.dev/podfit/test/e2e/bed"
)

// namespace is where the tests install podfit: bed runs podfit with service accounts of this namespace.
const namespace = bed.Namespace

// A world is what the tests on a cluster share.
type world struct {
	*bed.Cluster
	binary string
	dir    string // for caches
	// kubeconfig is that of the user who runs commands; empty for the administrator.
	kubeconfig string
}

var shared struct {
	once  sync.Once
	world *world
	err   error
}

func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == "kubectl" { // a link to this program on the PATH of a newcomer
		runKubectl()
	}
	flag.Parse()
	code := m.Run()
	if w := shared.world; w != nil {
		if err := errors.Join(w.Down(), os.RemoveAll(w.dir)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

// cluster returns the local cluster, which the first test that needs it starts.
func cluster(t *testing.T) *world {
	t.Helper()
	if testing.Short() {
		t.Skip("tests on the local cluster are not short")
	}
	shared.once.Do(func() { shared.world, shared.err = start(context.Background()) })
	if shared.err != nil {
		t.Fatal(shared.err)
	}
	return shared.world
}

func start(ctx context.Context) (*world, error) {
	repository, err := filepath.Abs(root)
	if err != nil {
		return nil, err
	}
	w := &world{}
	if w.dir, err = os.MkdirTemp("", "podfit-packaging-"); err != nil {
		return nil, err
	}
	w.binary = filepath.Join(w.dir, "podfit")
	build := exec.CommandContext(ctx, "go", "build", "-buildvcs=false", "-trimpath", "-ldflags=-s -w", "-o", w.binary, ".")
	build.Dir, build.Env = repository, append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("build podfit: %w\n%s", err, out)
	}
	w.Cluster, err = bed.Up(ctx, bed.Options{Root: repository, Nodes: 2, NodeCPU: 8, NodeMemory: "16Gi", Metrics: 5 * time.Second, Prometheus: true, Progress: os.Stderr})
	return w, err
}

// flags returns a client configuration as that of kubectl and helm.
func (w *world) flags() *genericclioptions.ConfigFlags {
	f := genericclioptions.NewConfigFlags(false)
	cache, ns := filepath.Join(w.dir, "cache"), namespace
	kubeconfig := w.config()
	f.KubeConfig, f.CacheDir, f.Namespace = &kubeconfig, &cache, &ns
	return f
}

// config returns the path of the kubeconfig of the user who runs commands.
func (w *world) config() string {
	if w.kubeconfig != "" {
		return w.kubeconfig
	}
	return w.Kubeconfig
}

// kubectlApply runs kubectl apply with arguments, in this process. It returns what kubectl prints.
func (w *world) kubectlApply(args ...string) (text string, err error) {
	var out, errs bytes.Buffer
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("kubectl apply %s: %v", strings.Join(args, " "), r)
		}
	}()
	cmdutil.BehaviorOnFatal(func(message string, _ int) { panic(message) })
	defer cmdutil.DefaultBehaviorOnFatal()
	c := apply.NewCmdApply("kubectl", cmdutil.NewFactory(w.flags()), genericiooptions.IOStreams{Out: &out, ErrOut: &errs})
	c.SetArgs(args)
	c.SetOut(io.Discard)
	c.SetErr(io.Discard)
	if err := c.Execute(); err != nil {
		return out.String(), fmt.Errorf("kubectl apply %s: %w\n%s", strings.Join(args, " "), err, errs.String())
	}
	return out.String(), nil
}

// helm returns the configuration of a helm action.
func (w *world) helm(t *testing.T) *action.Configuration {
	t.Helper()
	c := &action.Configuration{}
	if err := c.Init(w.flags(), namespace, "secret", func(string, ...any) {}); err != nil {
		t.Fatal(err)
	}
	return c
}

func (w *world) install(t *testing.T, c *chart.Chart, vals map[string]any) (*release.Release, error) {
	t.Helper()
	a := action.NewInstall(w.helm(t))
	a.ReleaseName, a.Namespace, a.Timeout = "vpa", namespace, time.Minute
	a.DisableHooks = true // upstream's hooks are jobs, which no container runs here
	return a.RunWithContext(t.Context(), c, vals)
}

// upgrade upgrades the release, with --reuse-values or --reset-values.
func (w *world) upgrade(t *testing.T, c *chart.Chart, reuse bool, vals map[string]any) (*release.Release, error) {
	t.Helper()
	a := action.NewUpgrade(w.helm(t))
	a.Namespace, a.ReuseValues, a.ResetValues, a.DisableHooks, a.Timeout = namespace, reuse, !reuse, true, time.Minute
	return a.RunWithContext(t.Context(), "vpa", c, vals)
}

func (w *world) rollback(t *testing.T, version int) error {
	t.Helper()
	a := action.NewRollback(w.helm(t))
	a.Version, a.DisableHooks, a.Timeout = version, true, time.Minute
	return a.Run("vpa")
}

func (w *world) uninstall(t *testing.T) error {
	t.Helper()
	a := action.NewUninstall(w.helm(t))
	a.DisableHooks, a.Timeout = true, time.Minute
	_, err := a.Run("vpa")
	return err
}
