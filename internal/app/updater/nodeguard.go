// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package updater

import (
	"context"
	"log/slog"
	"time"

	"podfit.dev/podfit/internal/app/process"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/guard"
	"podfit.dev/podfit/internal/core/plan"
	"podfit.dev/podfit/internal/edge/kube"
	"podfit.dev/podfit/internal/edge/metrics"
)

const (
	// guardInterval is the time between two readings of usage while nodes are watched, and guardRetry that after a failure.
	guardInterval = 15 * time.Second
	guardRetry    = time.Minute
	// guardWait is how long a pass waits for usage. Usage that takes longer is used by a later pass.
	guardWait = time.Second
)

// usageReader reads the present usage of the containers of all pods.
type usageReader interface {
	Read(ctx context.Context) (metrics.Reading, error)
}

// nodeGuard watches the memory that is in use on the nodes of pods whose memory limits follow the highest usage, and so are far above their requests
// (package guard). The zero value watches none.
type nodeGuard struct {
	reader  usageReader // nil: nodes are not watched
	samples map[cluster.Key]guard.Sample
	next    time.Time                      // when usage is read next; zero if no node is watched
	reading *process.Task[metrics.Reading] // nil: none is in progress
	failing bool                           // the last reading failed, which was logged
	unknown []string                       // the nodes whose usage is not known, which was logged
}

// guardsNodes reports whether nodes are watched. podfit must see the pods of all namespaces to know what a node uses.
func (c *Config) guardsNodes() bool {
	return c.NodeGuard && c.WatchesAllPods() && c.Rules == rulesPodfit
}

// guardNodes adds the nodes that are nearly out of memory to the input of a pass.
func (u *updater) guardNodes(ctx context.Context, now time.Time, w *plan.World) {
	g, reader := &u.guard, u.guard.reader
	watched := map[string]bool{}
	if reader != nil && u.config.guardsNodes() && !u.rights.missing[featureNodeGuard] && len(w.Pods) > 0 {
		watched = watchedNodes(w)
	}
	if len(watched) == 0 {
		u.ledger.Guard.Alarms = nil
		*g = nodeGuard{reader: reader}
		u.metrics.publishReserves(nil)
		return
	}
	wait := time.Millisecond // a pass does not wait for an earlier request
	if g.reading == nil && (now.After(g.next) || now.Before(g.next.Add(-guardRetry))) {
		wait = guardWait
		g.reading = process.Begin(u.log, u.health, "the usage of pods", func() (metrics.Reading, error) {
			ctx, cancel := context.WithTimeout(ctx, process.UsageTimeout)
			defer cancel()
			return reader.Read(ctx)
		})
	}
	if g.reading != nil {
		g.next = now.Add(guardInterval)
		if g.reading.Ends(wait) {
			g.took(now, u.log)
		}
	}
	book := &u.ledger.Guard
	book.Observe(now, w.Nodes, watched, w.Pods, g.samples)
	u.metrics.publishReserves(book.Alarms)
	if g.failing {
		book.Unknown = nil // the failure is logged
	}
	if len(book.Unknown) > len(g.unknown) {
		u.log.Warn("The memory usage of nodes is not known, so no pod moves from them when they are nearly out of memory", slog.Int("count", len(book.Unknown)), slog.String("node", book.Unknown[0]),
			slog.String("remedy", "check with kubectl top pods whether metrics-server measures their pods, and the clocks of these nodes: a sample counts for two minutes"))
	}
	g.unknown = book.Unknown
}

// watchedNodes returns the nodes with a pod whose memory limits follow the highest usage.
func watchedNodes(w *plan.World) map[string]bool {
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

// took takes what was read. A failure leaves the last samples, which soon are too old to count.
func (g *nodeGuard) took(now time.Time, log *slog.Logger) {
	read := g.reading
	g.reading = nil
	switch {
	case read.Err != nil:
		g.next = now.Add(guardRetry)
		if !g.failing {
			log.Warn("Cannot read the memory usage of pods, so no pod moves from nodes that are nearly out of memory", slog.String("error", kube.Answer(read.Err)),
				slog.String("remedy", "check that metrics-server runs, and apply deploy/rights/node-guard; or set --node-guard=false"))
		}
	case g.failing:
		log.Info("Read the memory usage of pods after earlier failures")
	}
	g.failing = read.Err != nil
	if g.failing {
		return
	}
	g.samples = make(map[cluster.Key]guard.Sample, len(read.Result.Samples))
	for i := range read.Result.Samples {
		if s := &read.Result.Samples[i]; s.Has.Has(cluster.Memory) {
			of := g.samples[s.Pod]
			g.samples[s.Pod] = guard.Sample{At: cluster.Earliest(of.At, s.At), Bytes: of.Bytes + int64(s.Memory)}
		}
	}
}
