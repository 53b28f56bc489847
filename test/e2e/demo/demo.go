// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	_ "embed"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"podfit.dev/podfit/test/e2e/bed"
)

//go:embed workloads.yaml
var manifests []byte

// namespace is where the demo's workloads live.
const namespace = "shop"

// metricResolution is how often usage is measured: 15s is usual.
const metricResolution = 5 * time.Second

// The demo has minutes where a cluster has weeks, so these flags make podfit's clock run faster; all else is as it comes.
var (
	hurryRecommender = []string{
		"--recommender-interval=5s",
		// How long history must be to be trusted: 24h each by default. Until then the range around a target is wide, and an
		// over-sized pod in it is left alone.
		"--confidence-interval-cpu=1m", "--confidence-interval-memory=1m",
	}
	hurryUpdater = []string{
		"--updater-interval=5s",
		// How old a pod within its range must be to be changed for a closer fit: 12h by default.
		"--in-recommendation-bounds-eviction-lifetime-threshold=30s",
		"--log-format=json",
	}
)

// late says what had not converged by the deadline.
type late struct {
	after   time.Duration
	missing []string
}

func (l late) Error() string {
	return fmt.Sprintf("Not converged after %s:\n  %s", clock(l.after), strings.Join(l.missing, "\n  "))
}

// show is the demo from the first build to the summary.
func show(ctx context.Context, o options, out *os.File) error {
	root, err := bed.Root()
	if err != nil {
		return err
	}
	var binary string
	if err := stage(out, "Building podfit", func() (err error) { binary, err = bed.Build(ctx, root, out); return err }); err != nil {
		return err
	}
	var c *bed.Cluster
	start := func() (err error) {
		c, err = bed.Up(ctx, bed.Options{Root: root, Nodes: o.Nodes, NodeCPU: 4, NodeMemory: "16Gi", Metrics: metricResolution, Progress: out})
		return err
	}
	what := fmt.Sprintf("Starting a cluster of %d nodes (the first time builds Kubernetes, which takes some ten minutes)", o.Nodes)
	if err := stage(out, what, start); err != nil {
		return err
	}
	defer func() { _ = c.Down() }()
	var parts []*bed.Podfit
	install := func() (err error) { parts, err = install(ctx, c, root, binary); return err }
	if err := stage(out, "Installing CRDs and rights, starting podfit as its three service accounts", install); err != nil {
		return err
	}
	fmt.Fprintf(out, "    The demo has minutes where a cluster has weeks. These flags scale podfit's clock:\n")
	fmt.Fprintf(out, "      recommender %s\n      updater     %s\n", strings.Join(hurryRecommender, " "), strings.Join(hurryUpdater, " "))

	objects, err := bed.Parse(manifests)
	if err != nil {
		return err
	}
	if err := stage(out, "Creating workloads, each wrong in its own way", func() error { return create(ctx, c, objects) }); err != nil {
		return err
	}
	shape, err := shapeOf(objects, o.Nodes)
	if err != nil {
		return err
	}
	fmt.Fprintln(out)
	w := watch{
		observer: &observer{kube: c.Kube, namespace: namespace, shape: shape},
		story:    newStory(shape, filepath.Join(c.Dir, bed.Updater().Name+".log")),
		screen:   newScreen(o, out), parts: parts, options: o,
	}
	err = w.run(ctx)
	if o.Keep && ctx.Err() == nil {
		if err != nil {
			fmt.Fprintf(out, "\n%v\n", err)
		}
		keep(ctx, c, out)
	}
	return err
}

// install installs podfit, and starts it.
func install(ctx context.Context, c *bed.Cluster, root, binary string) ([]*bed.Podfit, error) {
	if err := c.Install(ctx, filepath.Join(root, "deploy")); err != nil {
		return nil, err
	}
	serving, err := bed.Serving()
	if err != nil {
		return nil, err
	}
	var parts []*bed.Podfit
	for _, component := range []bed.Component{
		bed.Admission().With(serving...), bed.Recommender().With(hurryRecommender...), bed.Updater().With(hurryUpdater...),
	} {
		p, err := c.Run(ctx, binary, component)
		if err != nil {
			return nil, err
		}
		parts = append(parts, p)
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for _, p := range parts {
		if err := bed.Until(ctx, 100*time.Millisecond, p.Healthy); err != nil {
			return nil, fmt.Errorf("%w\n%s", err, p.Tail(20))
		}
	}
	return parts, bed.Until(ctx, 100*time.Millisecond, c.Registered)
}

func create(ctx context.Context, c *bed.Cluster, objects []*unstructured.Unstructured) error {
	if err := c.ApplyYAML(ctx, "", "{apiVersion: v1, kind: Namespace, metadata: {name: "+namespace+"}}"); err != nil {
		return err
	}
	return c.Apply(ctx, namespace, objects...)
}

// A watch follows the workloads until they have converged.
type watch struct {
	*observer
	*story
	*screen
	parts   []*bed.Podfit
	options options
}

func (w *watch) run(ctx context.Context) error {
	start := time.Now()
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	var good time.Time // since when nothing is missing
	var v view
	for now := start; ; {
		seen, err := w.look(ctx)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			return err
		}
		v = seen
		w.update(now, v)
		w.show(now.Sub(start), now, v.workloads, w.story)
		missing := w.unfinished(now, v.workloads)
		switch {
		case len(missing) > 0:
			good = time.Time{}
		case good.IsZero():
			good = now
		case now.Sub(good) >= w.options.Settle:
			w.done(now, now.Sub(start), v.workloads, w.story)
			summarize(v.workloads, w.story).write(w.out, good.Sub(start))
			return nil
		}
		for _, p := range w.parts {
			if !p.Running() {
				return fmt.Errorf("podfit's %s has ended:\n%s", p.Name, p.Tail(30))
			}
		}
		if now.Sub(start) > w.options.Deadline {
			w.done(now, now.Sub(start), v.workloads, w.story)
			return late{after: now.Sub(start), missing: missing}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case now = <-tick.C:
		}
	}
}

// calm is how long a workload must not have run out of memory.
const calm = 30 * time.Second

// unfinished says what is missing, workload by workload.
func (w *watch) unfinished(now time.Time, ws []workload) []string {
	var out []string
	for i := range ws {
		todo := ws[i].missing()
		if last := w.acts[ws[i].Name].LastKill; todo == "" && !last.IsZero() && now.Sub(last) < calm {
			todo = "was killed for memory just now"
		}
		if todo != "" {
			out = append(out, ws[i].Name+": "+todo)
		}
	}
	return out
}

// keep waits until the user has seen enough.
func keep(ctx context.Context, c *bed.Cluster, out io.Writer) {
	fmt.Fprintf(out, `
The cluster stays up until Ctrl-C. In another terminal:

  export KUBECONFIG=%[1]s
  kubectl -n %[2]s get vpa                               # what podfit recommends
  kubectl -n %[2]s describe vpa worker                   # range, target and conditions of one
  kubectl -n %[2]s get events --field-selector reason=EvictedByVPA
  kubectl -n %[2]s get events --field-selector reason=InPlaceResizedByVPA
  kubectl -n %[2]s get pods -o yaml | grep vpaUpdates    # what the webhook set in new pods
  kubectl -n %[2]s get vpacheckpoint                     # what was learnt, kept over restarts
  kubectl -n %[2]s scale deployment web --replicas=5     # new pods are born with the right size
  kubectl -n %[2]s patch vpa checkout --type=merge -p '{"spec":{"updatePolicy":{"updateMode":"InPlaceOrRecreate"}}}'

podfit's logs are in %[3]s.
`, c.Kubeconfig, namespace, c.Dir)
	<-ctx.Done()
	fmt.Fprintln(out, "\nStopping the cluster.")
}
