// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"

	"podfit.dev/podfit/test/e2e/bed"
	"podfit.dev/podfit/test/e2e/invariant"
)

// A bench is one run of the benchmark: its options, the processes, and the measurements.
type bench struct {
	options
	out     io.Writer
	root    string
	binary  string // of podfit
	other   string // folder of upstream's executables, or ""
	cluster *bed.Cluster
	client  kubernetes.Interface // as administrator

	node    *node
	tracker *tracker
	pods    <-chan watch.Event

	admission, updater *bed.Podfit
	witness            *bed.Witness
}

// measure runs the benchmark. The result is nil if it failed before the updater was started.
func measure(ctx context.Context, o options, out io.Writer) (_ *result, err error) {
	b := &bench{options: o, out: out, tracker: newTracker(replicas, minReady)}
	if err := stage(out, "Building podfit and the local cluster", func() error { return b.build(ctx) }); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if err := stage(out, "Starting a control plane, podfit's admission controller and a hollow node", func() error { return b.startCluster(ctx) }); err != nil {
		return nil, err
	}
	defer func() {
		cancel() // ends the watches
		err = errors.Join(err, b.cluster.Down())
	}()
	create := func() error { return b.createFleet(ctx) }
	if err := stage(out, fmt.Sprintf("Creating %d ReplicaSets with %d pods each, and their VPAs", o.VPAs, replicas), create); err != nil {
		return nil, err
	}
	fmt.Fprintf(out, "==> Starting the updater: %s\n", o)
	r, err := b.update(ctx)
	if err != nil {
		return r, err
	}
	if o.Audit {
		err = stage(out, "Checking the audit log", func() error { return b.judge(ctx) })
	}
	return r, err
}

// String describes the updater.
func (o options) String() string {
	text := o.Updater
	for _, a := range o.Args {
		text += " " + a
	}
	return text
}

func (b *bench) build(ctx context.Context) (err error) {
	if b.root, err = bed.Root(); err != nil {
		return err
	}
	if b.binary, err = bed.Build(ctx, b.root, b.out); err != nil {
		return err
	}
	if _, err = bed.BuildCluster(ctx, b.root, b.out); err != nil || b.Updater != upstreams {
		return err
	}
	b.other, err = bed.BuildUpstream(ctx, b.root, b.out)
	return err
}

// idleParts are stopped, because they have nothing to do with what is measured and share its machine: the pods are created on the hollow
// node, which has no kubelet to scrape.
var idleParts = []bed.Part{bed.Scheduler, bed.MetricsServer}

// startCluster starts everything but the updater. If it fails, nothing is left running.
func (b *bench) startCluster(ctx context.Context) (err error) {
	tool := filepath.Join(b.root, ".cache", "bin", "localcluster")
	b.cluster, err = bed.Up(ctx, bed.Options{Root: b.root, Tool: tool, Nodes: 0, NodeCPU: 1, NodeMemory: "1Gi", Metrics: 15 * time.Second, Audit: b.Audit})
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, b.cluster.Down())
		}
	}()
	if b.client, err = newClient(b.cluster.Kubeconfig); err != nil {
		return err
	}
	if err := b.cluster.Install(ctx, filepath.Join(b.root, "deploy")); err != nil {
		return err
	}
	serving, err := bed.Serving()
	if err != nil {
		return err
	}
	b.admission, err = b.cluster.Run(ctx, b.binary, bed.Admission().With(serving...).With("--kube-api-qps=200", "--kube-api-burst=400"))
	if err != nil {
		return err
	}
	ready, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	if err := bed.Until(ready, 100*time.Millisecond, b.admission.Healthy); err != nil {
		return err
	}
	if err := bed.Until(ready, 100*time.Millisecond, b.cluster.Registered); err != nil {
		return err
	}
	for _, part := range idleParts {
		if err := b.cluster.StopPart(ctx, part); err != nil {
			return err
		}
	}
	if b.node, err = startNode(ctx, b.client, b.Starts); err != nil {
		return err
	}
	if b.Audit {
		b.witness, err = b.cluster.Witness(ctx)
	}
	return err
}

// createFleet creates the workloads, waits until all pods are ready, and creates the VPAs.
func (b *bench) createFleet(ctx context.Context) error {
	object := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
	if _, err := b.client.CoreV1().Namespaces().Create(ctx, object, metav1.CreateOptions{}); err != nil {
		return err
	}
	if err := b.watchPods(ctx); err != nil {
		return err
	}
	if err := b.createWorkloads(ctx); err != nil {
		return err
	}
	limited, cancel := context.WithTimeout(ctx, b.Deadline)
	defer cancel()
	if err := b.follow(limited, func() bool { return b.readyPods() == b.VPAs*replicas }, "pods are ready"); err != nil {
		return err
	}
	kubeconfig, err := b.cluster.Identity(ctx, bed.Recommender().Account)
	if err != nil {
		return err
	}
	recommender, err := bed.NewKube(kubeconfig)
	if err != nil {
		return err
	}
	return b.recommend(ctx, recommender.Dynamic)
}

// watchPods starts the watch of all pods. Its events are in the order of the changes.
func (b *bench) watchPods(ctx context.Context) error {
	pods, err := b.client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	start := &cache.ListWatch{WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
		return b.client.CoreV1().Pods(namespace).Watch(ctx, o)
	}}
	w, err := watchtools.NewRetryWatcherWithContext(ctx, pods.ResourceVersion, start)
	if err != nil {
		return err
	}
	b.pods = w.ResultChan()
	return nil
}

func (b *bench) readyPods() (n int) {
	for _, ready := range b.tracker.ready {
		n += ready
	}
	return n
}

// follow passes the states of pods to the hollow node and the tracker until done returns true, and prints the progress.
func (b *bench) follow(ctx context.Context, done func() bool, goal string) error {
	t := time.NewTicker(3 * time.Second)
	defer t.Stop()
	start := time.Now()
	for !done() {
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w before all %s", ctx.Err(), goal)
		case <-t.C:
			fmt.Fprintf(b.out, "    %3.0fs: %d pods, %d ready, %d ready with the recommended requests\n", time.Since(start).Seconds(), len(b.tracker.pods), b.readyPods(), b.rightPods())
			if err := b.node.failure(); err != nil {
				return err
			}
		case e, open := <-b.pods:
			if !open || e.Type == watch.Error {
				return fmt.Errorf("the watch of pods ended: %v", e.Object)
			}
			pod, isPod := e.Object.(*corev1.Pod)
			if !isPod {
				continue // a bookmark
			}
			if e.Type != watch.Deleted {
				b.node.saw(ctx, pod)
			}
			b.tracker.saw(time.Now(), sight{
				UID: string(pod.UID), Workload: pod.Labels[appLabel], Ready: isReady(pod), Right: isRight(pod), Gone: e.Type == watch.Deleted,
			})
		}
	}
	return nil
}

func (b *bench) rightPods() (n int) {
	for _, right := range b.tracker.right {
		n += right
	}
	return n
}

func isReady(pod *corev1.Pod) bool {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue && pod.DeletionTimestamp == nil
		}
	}
	return false
}

// update starts the updater, waits until all pods have the recommended requests, and returns what it measured.
func (b *bench) update(ctx context.Context) (*result, error) {
	r := &result{options: b.options, loadBefore: loadAverage()}
	before, err := requestCounts(ctx, b.client)
	if err != nil {
		return nil, err
	}
	cpu := b.usedCPU()
	b.tracker.begin(time.Now())
	if err := b.startUpdater(ctx); err != nil {
		return nil, err
	}
	limited, cancel := context.WithTimeout(ctx, b.Deadline)
	defer cancel()
	err = b.follow(limited, func() bool { return b.tracker.done(b.VPAs) || !b.updater.Running() }, "pods have the recommended requests")
	r.took = time.Since(b.tracker.start)
	r.loadAfter = loadAverage()
	r.tracker = b.tracker
	if !b.updater.Running() {
		return r, fmt.Errorf("the updater exited: %w\n%s", b.updater.Err(), b.updater.Tail(40))
	}
	r.cpu = b.usedCPU().minus(cpu)
	if err != nil {
		return r, fmt.Errorf("%w\n%s", err, b.updater.Tail(40))
	}
	after, err := requestCounts(ctx, b.client)
	if err != nil {
		return r, err
	}
	r.requests = after.minus(before)
	return r, b.tracker.violation()
}

// The processes that are not parts of the control plane.
const (
	updaterProcess   = "updater"
	admissionProcess = "podfit admission-controller"
	benchProcess     = "this benchmark (kubelet of the hollow node, checker)"
)

// usedCPU returns the CPU time of all processes.
func (b *bench) usedCPU() cpuTimes {
	used := cpuTimes{admissionProcess: cpuSeconds(b.admission.PID()), benchProcess: cpuSeconds(os.Getpid())}
	if b.updater != nil {
		used[updaterProcess] = cpuSeconds(b.updater.PID())
	}
	for part, pid := range b.cluster.Parts() {
		if slices.Contains(idleParts, part) {
			continue
		}
		used[string(part)] = cpuSeconds(pid)
	}
	return used
}

func (b *bench) startUpdater(ctx context.Context) (err error) {
	if b.Updater == podfits {
		b.updater, err = b.cluster.Run(ctx, b.binary, bed.Updater().With(b.Args...))
		return err
	}
	port, err := bed.FreePort()
	if err != nil {
		return err
	}
	address := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	process, err := bed.Start(bed.Command{
		Name: "upstream-updater", Path: filepath.Join(b.other, "updater"), Log: filepath.Join(b.cluster.Dir, "upstream-updater.log"),
		Args: append([]string{"--kubeconfig=" + b.cluster.Kubeconfig, "--address=" + address}, b.Args...),
	})
	b.updater = &bed.Podfit{Process: process, Address: address}
	return err
}

// judge checks the invariants of the end-to-end tests. A pass takes as long as the evictions that it decides on.
func (b *bench) judge(ctx context.Context) error {
	log, err := b.witness.Log(ctx)
	if err != nil {
		return err
	}
	limits := invariant.DefaultLimits()
	limits.Stale = time.Minute
	for _, v := range invariant.Judge(log, limits) {
		err = errors.Join(err, errors.New(v.String()))
	}
	return err
}
