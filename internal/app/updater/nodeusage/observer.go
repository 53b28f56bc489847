// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package nodeusage reads the memory usage of pods and the memory pressure of nodes in parallel to the passes of the updater, and shows them to the node
// guard. It does not judge them: package guard does.
package nodeusage

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"time"

	"podfit.dev/podfit/internal/app/process"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/guard"
	"podfit.dev/podfit/internal/core/plan"
	"podfit.dev/podfit/internal/edge/kube"
	"podfit.dev/podfit/internal/edge/metrics"
)

const (
	// interval is the time between two readings of usage while nodes are watched, and retry that after a failure.
	interval = 15 * time.Second
	retry    = time.Minute
	// Wait is how long a pass waits for usage if the next one is early. Usage that takes longer is used by that one.
	Wait = time.Second
	// LongWait is the same if the next one is not early: that would be too late for the usage.
	LongWait = 5 * time.Second
	// kubeletTimeout is the time for pressure from kubelets, of maxKubelets nodes at the same time, in turn if there are more.
	kubeletTimeout = 3 * time.Second
	maxKubelets    = 20
)

// Reader reads the present usage of the containers of all pods.
type Reader interface {
	Read(ctx context.Context) (metrics.Reading, error)
}

// Kubelets report the memory pressure of their nodes, or not. The error is that of one.
type Kubelets interface {
	Pressures(ctx context.Context, nodes []cluster.Node) (map[string]guard.Pressure, error)
}

// An Observer watches the memory that is in use on the nodes of pods whose memory limits follow the highest usage, and so are far above their requests.
// A nil Observer watches none.
type Observer struct {
	reader   Reader
	kubelets Kubelets
	wait     time.Duration // Wait or LongWait
	health   *process.Health
	log      *slog.Logger
	samples  map[cluster.Key]guard.Sample
	next     time.Time              // when usage is read next; zero if no node is watched
	reading  *task[metrics.Reading] // nil: none is in progress
	failing  bool                   // the last reading failed, which was logged
	unknown  []string               // the nodes whose usage is not known, which was logged

	pressing *task[map[string]guard.Pressure] // reads pressure; nil: none is in progress
	turn     int                              // the node with which it begins, if there are too many
	failed   time.Time                        // when it was logged that pressure could not be read
	silent   bool                             // no kubelet reported pressure, which was logged
}

// New returns an observer that has read nothing.
func New(reader Reader, kubelets Kubelets, wait time.Duration, h *process.Health, log *slog.Logger) *Observer {
	return &Observer{reader: reader, kubelets: kubelets, wait: wait, health: h, log: log}
}

// NextRead returns when usage is read next. The zero time means that no node is watched.
func (o *Observer) NextRead() time.Time {
	if o == nil {
		return time.Time{}
	}
	return o.next
}

// Watch shows what the pods of a pass use on the nodes that need it to the node guard. If permitted is false, or no node needs it, the guard forgets its
// alarms, and nothing is read. It returns the number of nodes that need the guard and are without it: all if it is not permitted, and else those whose usage
// has not been known for five minutes.
func (o *Observer) Watch(ctx context.Context, now time.Time, w *plan.World, book *guard.Book, permitted bool) (unguarded int) {
	if o == nil {
		return 0
	}
	watched := needing(w)
	if !permitted || len(watched) == 0 {
		book.Alarms = nil
		*o = *New(o.reader, o.kubelets, o.wait, o.health, o.log)
		return len(watched)
	}
	o.read(ctx, now, w.Nodes, book)
	book.Observe(now, w.Nodes, watched, w.Pods, o.samples)
	unguarded = len(book.Unknown)
	if o.failing {
		book.Unknown = nil // the failure is logged
	}
	if len(book.Unknown) > len(o.unknown) {
		o.log.Warn("The memory usage of nodes is not known, so no pod moves from them when they are nearly out of memory", slog.Int("count", len(book.Unknown)), slog.String("node", book.Unknown[0]),
			slog.String("remedy", "check with kubectl top pods whether metrics-server measures their pods, and the clocks of these nodes: a sample counts for a minute. With --early-passes=false, set --metric-resolution=30s or less on metrics-server"))
	}
	o.unknown = book.Unknown
	return unguarded
}

// needing returns the nodes with a pod whose memory limits follow the highest usage.
func needing(w *plan.World) map[string]bool {
	watched := map[string]bool{}
	for i := range w.Governed {
		for _, p := range w.Governed[i].Pods {
			if w.Governed[i].Autoscaler.MemoryLimits.Peaks && p.Node != "" && p.Live() {
				watched[p.Node] = true
			}
		}
	}
	return watched
}

// read reads usage and pressure if it is time. A pass does not wait for an earlier request.
func (o *Observer) read(ctx context.Context, now time.Time, nodes []cluster.Node, book *guard.Book) {
	within := time.Millisecond
	if o.reading == nil && (now.After(o.next) || now.Before(o.next.Add(-retry))) {
		within = o.wait
		o.readPressure(ctx, now, nodes, book)
		o.reading = begin(o.log, o.health, "the usage of pods", func() (metrics.Reading, error) {
			ctx, cancel := context.WithTimeout(ctx, process.UsageTimeout)
			defer cancel()
			return o.reader.Read(ctx)
		})
	}
	if o.reading != nil {
		o.next = now.Add(interval)
		if o.reading.ends(within) {
			o.took(now)
		}
	}
}

// took takes what was read. A failure leaves the last samples, which soon are too old to count.
func (o *Observer) took(now time.Time) {
	read := o.reading
	o.reading = nil
	switch {
	case read.err != nil:
		o.next = now.Add(retry)
		if !o.failing {
			o.log.Warn("Cannot read the memory usage of pods, so no pod moves from nodes that are nearly out of memory", slog.String("error", kube.Answer(read.err)),
				slog.String("remedy", "check that metrics-server runs, and apply deploy/rights/node-guard; or set --node-guard=false"))
		}
	case o.failing:
		o.log.Info("Read the memory usage of pods after earlier failures")
	}
	o.failing = read.err != nil
	if o.failing {
		return
	}
	o.samples = make(map[cluster.Key]guard.Sample, len(read.result.Samples))
	for i := range read.result.Samples {
		if s := &read.result.Samples[i]; s.Has.Has(cluster.Memory) {
			of := o.samples[s.Pod]
			o.samples[s.Pod] = guard.Sample{At: cluster.Earliest(of.At, s.At), Bytes: of.Bytes + int64(s.Memory)}
		}
	}
}

// readPressure takes the pressure that was read, and begins to read again. No pass waits for it.
func (o *Observer) readPressure(ctx context.Context, now time.Time, nodes []cluster.Node, book *guard.Book) {
	if last := o.pressing; last != nil {
		if !last.ends(time.Millisecond) {
			return
		}
		o.pressing = nil
		for node, p := range last.result { // the others keep theirs until it is too old
			cluster.Put(&book.Pressure, node, p)
		}
		maps.DeleteFunc(book.Pressure, func(node string, _ guard.Pressure) bool { return !book.Filling[node] })
		switch {
		case last.err != nil && now.Sub(o.failed) >= guard.Rest:
			o.failed = now
			o.log.Warn("Cannot read the memory pressure of nodes from their kubelets; the node guard uses only the memory usage of these nodes", slog.String("error", kube.Answer(last.err)),
				slog.String("remedy", "after 401, set authentication.webhook.enabled=true in the configuration of the kubelets. After 403, apply deploy/rights/node-guard. If the certificate is not trusted, set serverTLSBootstrap=true in the configuration of the kubelets, or --kubelet-insecure-tls on podfit. Or set --node-guard-pressure=0"))
		case last.err == nil && len(last.result) == 0 && !o.silent:
			o.silent = true
			o.log.Debug("Kubelets report no memory pressure (PSI) of nodes; the node guard uses only the memory usage of these nodes")
		}
	}
	due := slices.DeleteFunc(slices.Clone(nodes), func(n cluster.Node) bool { return !book.Filling[n.Name] || n.Kubelet == "" })
	if len(due) == 0 || book.PressureLine == 0 {
		return
	}
	o.turn = (o.turn + maxKubelets) % len(due)
	due = slices.Concat(due[o.turn:], due[:o.turn])[:min(len(due), maxKubelets)]
	kubelets := o.kubelets
	o.pressing = begin(o.log, o.health, "the memory pressure of nodes", func() (map[string]guard.Pressure, error) {
		ctx, cancel := context.WithTimeout(ctx, kubeletTimeout)
		defer cancel()
		return kubelets.Pressures(ctx, due)
	})
}

// A task is a call that runs beside the passes of a job. After ends, it has the outcome.
type task[Result any] struct {
	result Result
	err    error
	end    chan struct{}
}

// begin begins a call about an object, which must end by itself. A panic is an error.
func begin[Result any](log *slog.Logger, h *process.Health, object string, do func() (Result, error)) *task[Result] {
	t := &task[Result]{end: make(chan struct{})}
	go func() {
		defer close(t.end)
		t.err = process.Try(log, h, object, func() (err error) {
			t.result, err = do()
			return err
		})
	}()
	return t
}

// ends reports whether the call ends within some time.
func (t *task[Result]) ends(within time.Duration) bool {
	select {
	case <-t.end:
	case <-time.After(within):
	}
	select {
	case <-t.end: // at the same time
		return true
	default:
		return false
	}
}
