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
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"podfit.dev/podfit/test/e2e/bed"
)

//go:embed workloads.yaml
var manifests []byte

// namespace is the namespace of the demo's workloads.
const namespace = "shop"

// metricResolution is the scrape interval of metrics-server. The usual value is 15s.
const metricResolution = 5 * time.Second

// These flags shorten podfit's intervals, because the demo takes minutes instead of weeks. All other flags have their defaults.
var (
	fastRecommender = []string{
		"--recommender-interval=5s",
		// Length of history at which the confidence is full, 24h by default. With less history, the range around the target is
		// wide, and pods within it are not changed.
		"--confidence-interval-cpu=1m", "--confidence-interval-memory=1m",
	}
	fastUpdater = []string{
		"--updater-interval=5s",
		// Minimum age of a pod that is within the range but far from the target, 12h by default.
		"--in-recommendation-bounds-eviction-lifetime-threshold=30s",
		"--log-format=json",
	}
)

// late is the error for workloads that did not converge by the deadline.
type late struct {
	after   time.Duration
	missing []string
}

func (l late) Error() string {
	return fmt.Sprintf("Not converged after %s (minutes:seconds):\n  %s", clock(l.after), strings.Join(l.missing, "\n  "))
}

// show runs the demo from the build to the summary.
func show(ctx context.Context, o options, out *os.File) error {
	f, err := findFiles()
	if err != nil {
		return err
	}
	objects, err := bed.Parse(manifests)
	if err != nil {
		return err
	}
	shape, err := shapeOf(objects, o.Nodes)
	if err != nil {
		return err
	}
	f.introduce(out, o, len(shape))
	if err := f.build(ctx, out); err != nil {
		return err
	}
	var c *bed.Cluster
	start := func() (err error) {
		c, err = bed.Up(ctx, bed.Options{
			Root: f.root, Tool: f.tool, Executables: f.executables, Nodes: o.Nodes, NodeCPU: 4, NodeMemory: "16Gi", Metrics: metricResolution,
		})
		return err
	}
	if err := stage(out, fmt.Sprintf("Starting a cluster with %d nodes", o.Nodes), start); err != nil {
		return err
	}
	defer func() { _ = c.Down() }()
	fmt.Fprintf(out, "    Its files are in %s, which is removed at the end.\n", c.Dir)
	var parts []*bed.Podfit
	defer func() { stop(parts) }() // before the cluster, because the admission controller deletes its registration
	install := func() (err error) { parts, err = install(ctx, c, f); return err }
	if err := stage(out, "Installing CRDs and RBAC rules, starting recommender, updater and admission controller", install); err != nil {
		return err
	}
	fmt.Fprintf(out, "    These flags shorten podfit's intervals, because the demo takes minutes instead of weeks:\n")
	fmt.Fprintf(out, "      recommender %s\n      updater     %s\n", strings.Join(fastRecommender, " "), strings.Join(fastUpdater, " "))

	if err := stage(out, fmt.Sprintf("Creating %d workloads with wrong requests", len(shape)), func() error { return create(ctx, c, objects) }); err != nil {
		return err
	}
	fmt.Fprintf(out, "==> Watching podfit change them, until all have had their size for %s (about 2 minutes, at most %s)\n\n", o.Settle, o.Deadline)
	w := watch{
		observer: &observer{kube: c.Kube, namespace: namespace, shape: shape},
		story:    newStory(shape, filepath.Join(c.Dir, bed.Updater().Name+".log")),
		screen:   newScreen(o, out), parts: parts, options: o,
	}
	err = w.run(ctx)
	if err == nil {
		err = explain(ctx, f.podfit, c.Kubeconfig, out)
	}
	if o.Keep && ctx.Err() == nil {
		if err != nil {
			fmt.Fprintf(out, "\n%v\n", err)
		}
		keep(ctx, c, f.podfit, out)
		return err
	}
	if err == nil {
		fmt.Fprint(out, f.next())
	}
	return err
}

// install installs podfit and starts its three components. It returns those that it started, also with an error.
func install(ctx context.Context, c *bed.Cluster, f *files) ([]*bed.Podfit, error) {
	if err := c.Install(ctx, f.deploy); err != nil {
		return nil, err
	}
	serving, err := bed.Serving()
	if err != nil {
		return nil, err
	}
	var parts []*bed.Podfit
	for _, component := range components(serving) {
		p, err := c.Run(ctx, f.podfit, component)
		if err != nil {
			return parts, err
		}
		parts = append(parts, p)
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for _, p := range parts {
		if err := bed.Until(ctx, 100*time.Millisecond, p.Healthy); err != nil {
			return parts, fmt.Errorf("%w\n%s", err, p.Tail(20))
		}
	}
	return parts, bed.Until(ctx, 100*time.Millisecond, c.Registered)
}

// components returns podfit's three components. As in deploy/, recommender and updater elect a leader: their leases show the web page that they
// work.
func components(serving []string) []bed.Component {
	return []bed.Component{
		bed.Admission().With(serving...), bed.Recommender().With("--leader-elect").With(fastRecommender...), bed.Updater().With("--leader-elect").With(fastUpdater...),
	}
}

// stop stops components at the same time.
func stop(parts []*bed.Podfit) {
	var wg sync.WaitGroup
	for _, p := range parts {
		wg.Go(func() { _ = p.Stop() }) // what does not stop is killed
	}
	wg.Wait()
}

func create(ctx context.Context, c *bed.Cluster, objects []*unstructured.Unstructured) error {
	if err := c.ApplyYAML(ctx, "", "{apiVersion: v1, kind: Namespace, metadata: {name: "+namespace+"}}"); err != nil {
		return err
	}
	return c.Apply(ctx, namespace, objects...)
}

// A watch observes the workloads until they have converged.
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
	var converged time.Time // zero while something is missing
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
			converged = time.Time{}
		case converged.IsZero():
			converged = now
		case now.Sub(converged) >= w.options.Settle:
			w.done(now, now.Sub(start), v.workloads, w.story)
			summarize(v.workloads, w.story).write(w.out, converged.Sub(start))
			return nil
		}
		for _, p := range w.parts {
			if !p.Running() {
				return fmt.Errorf("podfit's %s exited unexpectedly:\n%s", p.Name, p.Tail(30))
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

// calm is the time without an OOM kill after which a workload counts as converged.
const calm = 30 * time.Second

// unfinished returns what is missing, one line per workload.
func (w *watch) unfinished(now time.Time, ws []workload) []string {
	var out []string
	for i := range ws {
		todo := ws[i].missing()
		if last := w.acts[ws[i].Name].LastKill; todo == "" && !last.IsZero() && now.Sub(last) < calm {
			todo = "OOM killed less than 30s ago"
		}
		if todo != "" {
			out = append(out, ws[i].Name+": "+todo)
		}
	}
	return out
}

// keep serves the web page, prints commands to try and waits for Ctrl-C.
func keep(ctx context.Context, c *bed.Cluster, binary string, out io.Writer) {
	fmt.Fprint(out, "\nThe cluster runs until Ctrl-C.\n")
	page, web, err := servePage(ctx, c, binary)
	if err != nil {
		fmt.Fprintf(out, "The web page is not served: %v\n", err)
	} else {
		fmt.Fprintf(out, "\n  The web page: %s\n", page)
	}
	fmt.Fprintf(out, `
Try in another terminal:

  export KUBECONFIG=%[1]s
  %[4]s %[5]s
  %[4]s explain    # the workloads that need attention
  %[4]s recommend -n %[2]s    # present requests compared with recommended ones
  kubectl -n %[2]s get vpa                               # recommendations
  kubectl -n %[2]s describe vpa worker                   # range, target and conditions of one VPA
  kubectl -n %[2]s get events --field-selector source=vpa-updater -o custom-columns='TIME:.lastTimestamp,POD:.involvedObject.name,EVENT:.reason,CHANGE:.metadata.annotations.podfit\.dev/change'
  kubectl -n %[2]s get pods -o custom-columns='POD:.metadata.name,SET AT ADMISSION:.metadata.annotations.vpaUpdates'
  kubectl -n %[2]s get vpacheckpoint                     # usage history that survives restarts
  kubectl -n %[2]s scale deployment web --replicas=5     # new pods are created with the right size
  kubectl -n %[2]s patch vpa checkout --type=merge -p '{"spec":{"updatePolicy":{"updateMode":"InPlaceOrRecreate"}}}'

podfit's logs are in %[3]s. It runs as processes here, so do not install deploy/ in this cluster.
`, c.Kubeconfig, namespace, c.Dir, binary, strings.Join(explainArgs(), " "))
	<-ctx.Done()
	fmt.Fprintln(out, "\nStopping the cluster.")
	if web != nil {
		_ = web.Stop() // what does not stop is killed
	}
}
