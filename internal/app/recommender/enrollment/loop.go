// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package enrollment maintains an autoscaler for each workload of the namespaces that opt in by a label (--namespace-opt-in). Package optin
// decides; this package reports.
package enrollment

import (
	"context"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/optin"
	"podfit.dev/podfit/internal/edge/kube"
)

type world interface {
	Autoscalers() []*cluster.Autoscaler
	Stale(time.Time) []string
	TargetProblem(*cluster.Autoscaler) (problem string, known bool)
	Workloads(group, kind, namespace string) []cluster.Workload
}

type client interface {
	Namespaces(context.Context) ([]optin.Namespace, error)
	Write(context.Context, time.Time, *optin.Change) error
}

// A Loop maintains the autoscalers in one term of leadership. One goroutine owns it.
type Loop struct {
	World  world
	Client client
	Serves func(namespace string) bool
	Writes *prometheus.CounterVec
	DryRun bool // nothing is written
	Log    *slog.Logger
	Book   optin.Book

	failing bool                       // the last pass could not read the namespaces, which was logged
	served  map[string]optin.Namespace // of the last pass
}

// Pass reads, plans and writes. It does nothing unless all of the cluster is known: what is missing would look deleted.
func (l *Loop) Pass(term context.Context, now time.Time) {
	ctx, cancel := context.WithTimeout(term, 50*time.Second) // what is left is written in the next pass
	defer cancel()
	if len(l.World.Stale(now)) > 0 {
		return
	}
	all, err := l.Client.Namespaces(ctx)
	if err != nil && !l.failing && term.Err() == nil {
		l.Log.Warn("Cannot maintain the VPAs of namespaces that opt in", slog.Any("error", err), slog.String("remedy",
			"kubectl apply -f deploy/rights/namespace-opt-in/namespace-opt-in.yaml (rights.namespaceOptIn=true in the chart), or set --namespace-opt-in=false"))
	}
	l.failing = err != nil
	if l.failing {
		return
	}
	served := map[string]optin.Namespace{}
	for _, n := range all {
		if !l.Serves(n.Name) {
			continue
		}
		if n.Problem != "" && n.Problem != l.served[n.Name].Problem {
			l.Log.Warn("A label or annotation of a namespace is not valid; podfit leaves its VPAs as they are", slog.String("namespace", n.Name), slog.String("reason", n.Problem))
		}
		served[n.Name] = n
	}
	l.served = served
	var workloads []cluster.Workload
	for _, kind := range optin.Kinds {
		for _, w := range l.World.Workloads(kind[0], kind[1], "") {
			if !served[w.Namespace].On {
				continue
			}
			if problem, known := l.World.TargetProblem(&cluster.Autoscaler{Target: w}); known && problem == "" {
				workloads = append(workloads, w)
			}
		}
	}
	for _, c := range l.Book.Plan(now, served, workloads, l.World.Autoscalers()) {
		if ctx.Err() == nil {
			l.write(ctx, now, &c)
		}
	}
}

// write sends a change and reports its outcome. In a dry run, it only reports it.
func (l *Loop) write(ctx context.Context, now time.Time, c *optin.Change) {
	log := l.Log.With(slog.String("action", c.Act), slog.String("vpa", optin.Key(c.Target).String()), slog.String("workload", c.Target.String()), slog.String("reason", c.Reason))
	if l.DryRun {
		l.Book.Tried(now, c, false)
		log.Info("Would write the VPA of a workload, because its namespace opts in")
		return
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	outcome := "done"
	err := l.Client.Write(ctx, now, c)
	switch n := l.Book.Tried(now, c, err == nil); {
	case err != nil:
		outcome = "failed"
		log.Warn("Cannot write the VPA of a workload; podfit tries again after a delay of at most one hour", slog.String("error", kube.Answer(err)))
	case n > 2:
		log.Warn("Another client undoes this change of a VPA, or replaces its workload; podfit repeats the change less and less often")
	default:
		log.Info("Wrote the VPA of a workload, because its namespace opts in")
	}
	l.Writes.WithLabelValues(c.Act, outcome).Inc()
}
