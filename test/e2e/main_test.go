// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package e2e tests the podfit binary on a local cluster with a real control plane. Each of its commands runs as its own service
// account with the rights of deploy/.
package e2e

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"podfit.dev/podfit/test/e2e/bed"
	"podfit.dev/podfit/test/e2e/invariant"
)

// A world is what all tests of a run share: a cluster and the components of podfit.
type world struct {
	*bed.Cluster
	root, binary string

	recommender, updater, admission *bed.Podfit

	*checker
}

// shared is the world of this run.
var shared *world

func TestMain(m *testing.M) {
	flag.Parse()
	// The tests wait most of the time, so more of them can run in parallel than there are CPUs.
	if err := flag.Set("test.parallel", "32"); err != nil {
		panic(err)
	}
	if testing.Short() {
		fmt.Println("skipped: end-to-end tests are not short")
		return
	}
	ctx := context.Background()
	var (
		code int
		err  error
	)
	if wholeRun() {
		code, err = runInGroups(ctx)
	} else {
		code, err = run(ctx, m)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func run(ctx context.Context, m *testing.M) (code int, err error) {
	root, err := bed.Root()
	if err != nil {
		return 0, err
	}
	w := &world{root: root}
	if os.Getenv(withFaults) != "" { // TestFaults has a cluster of its own, and runs alone
		shared = w
		return m.Run(), nil
	}
	if w.binary, err = bed.Build(ctx, root, os.Stderr); err != nil {
		return 0, err
	}
	// The nodes have more CPU than all parallel tests use. On a smaller node the containers would get, and so use, less than they demand.
	value := func(name string) string { return flag.Lookup(name).Value.String() }
	rights := needed(value("test.run"), value("test.skip"))
	w.Cluster, err = bed.Up(ctx, bed.Options{
		Root: root, Nodes: 3, NodeCPU: 16, NodeMemory: "16Gi", Metrics: 5 * time.Second, Audit: true, Rights: rights, Progress: os.Stderr,
	})
	if err != nil {
		return 0, err
	}
	defer func() {
		if down := w.Down(); err == nil {
			err = down
		}
	}()
	if err := w.install(ctx); err != nil {
		return 0, err
	}
	witness, err := w.Witness(ctx)
	if err != nil {
		return 0, err
	}
	w.checker = &checker{witness: witness, limits: freshLimits()}
	if err := w.startAll(ctx); err != nil {
		return 0, err
	}
	shared = w
	code = m.Run()
	return code, errors.Join(w.last(ctx), w.checkRights())
}

// freshLimits are the default limits, and twice the --status-interval as the maximum age of a recommendation.
func freshLimits() invariant.Limits {
	limits := invariant.DefaultLimits()
	limits.Fresh = 20 * time.Minute
	return limits
}

// The intervals are short to keep the tests short. All flags that affect sizes and disruption have their defaults.
func recommender() bed.Component {
	return ofAllNamespaces().With("--ignored-vpa-object-namespaces=" + strings.Join(adviseThemselves, ","))
}

// ofAllNamespaces is the recommender also of the namespaces of adviseThemselves.
func ofAllNamespaces() bed.Component {
	return bed.Recommender().With("--recommender-interval=5s", "--role-history=2m")
}

// adviseThemselves are the namespaces of tests that write recommendations themselves.
var adviseThemselves = []string{
	"freeze-and-windows", "canaries", "requests-reset", "frozen-cluster", "full-node", "infeasible-resize", "failed-resize", "throttled-canary",
	"pauses-between-pods", "do-not-disrupt", killedSurges, killedCanaries, viewedShop, strangersShop, youngShop, notCalled, sharedHeadroom, upstreamInit,
	initRuns, initRunsUpstream,
}

func updater() bed.Component {
	return bed.Updater().With("--updater-interval=5s", "--admission-controller-status-lease-timeout=15s",
		"--ignored-vpa-object-namespaces="+withoutRoom+","+withPlaceholders+","+withRequests+","+killedSurges+","+killedPlaceholders+","+killedCanaries)
}

// The namespaces of tests that start their own updaters.
const (
	withoutRoom      = "replacement-may-not-fit"
	withPlaceholders = "placeholder-pods"
	withRequests     = "provisioning-requests"

	killedSurges       = "killed-during-surges"
	killedPlaceholders = "killed-during-placeholders"
	killedCanaries     = "killed-during-canaries"
)

// notCalled is the namespace for whose pods the webhook is not called: its namespaceSelector does not match.
const notCalled = "webhook-not-called"

func admission() (bed.Component, error) {
	serving, err := bed.Serving()
	return bed.Admission().With(serving...).With("--status-lease-update-interval=2s", "--ignored-vpa-object-namespaces="+notCalled), err
}

// startAll starts the three components.
func (w *world) startAll(ctx context.Context) (err error) {
	component, err := admission()
	if err != nil {
		return err
	}
	if w.admission, err = w.healthy(ctx, component); err != nil {
		return err
	}
	if w.recommender, err = w.healthy(ctx, recommender()); err != nil {
		return err
	}
	if w.updater, err = w.healthy(ctx, updater()); err != nil {
		return err
	}
	ctx, cancel := bed.WithPatience(ctx, time.Minute)
	defer cancel()
	return bed.Until(ctx, 100*time.Millisecond, w.Registered)
}

// healthy starts a component and waits until its health check succeeds.
func (w *world) healthy(ctx context.Context, component bed.Component) (*bed.Podfit, error) {
	p, err := w.Run(ctx, w.binary, component)
	if err != nil {
		return nil, err
	}
	ctx, cancel := bed.WithPatience(ctx, time.Minute)
	defer cancel()
	if err := bed.Until(ctx, 100*time.Millisecond, p.Healthy); err != nil {
		return nil, fmt.Errorf("%s is not healthy: %w\n%s", component.Name, err, p.Tail(40))
	}
	return p, nil
}

// components returns the running components.
func (w *world) components() []*bed.Podfit {
	return slices.DeleteFunc([]*bed.Podfit{w.recommender, w.updater, w.admission}, func(c *bed.Podfit) bool { return c == nil })
}
