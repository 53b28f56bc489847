// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"time"

	"github.com/spf13/pflag"
	"golang.org/x/sync/semaphore"
	"k8s.io/apimachinery/pkg/util/cache"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/explanation"
	"podfit.dev/podfit/internal/edge/kube"
	report "podfit.dev/podfit/internal/edge/report/explanation"
	"podfit.dev/podfit/internal/edge/web"
)

// The bounds of a Page.
const (
	keepFor     = 30 * time.Second // how long an explanation is shown again, also one that failed
	maxKept     = 64               // explanations
	pageTimeout = 20 * time.Second // for reading the cluster
	patience    = 10 * time.Second // for the explanation of another viewer
)

// A Page explains workloads for the web page. Each explanation reads the cluster, so there is at most one at a time, and it is kept for a
// while. The zero value is not usable.
type Page struct {
	clients  *kube.Clients
	jobs     func() Running
	assumed  bool     // the flags of the jobs are not known, and read from their Deployments
	excluded []string // names and patterns of namespaces whose pods are not named
	log      *slog.Logger

	turn *semaphore.Weighted   // held while the cluster is read
	kept *cache.LRUExpireCache // answer by question
}

// A question is what an explanation is about and what it may contain.
type question struct {
	workload cluster.Workload
	whole    bool
}

type answer struct {
	explanation web.Explanation
	err         error
}

// NewPage returns a Page. jobs returns new settings for each explanation. If assumed is true, the flags of the jobs are read from their
// Deployments, and explanations name those that were assumed. They name no pods of excluded namespaces.
func NewPage(clients *kube.Clients, jobs func() Running, assumed bool, excluded []string, log *slog.Logger) *Page {
	return &Page{clients: clients, jobs: jobs, assumed: assumed, excluded: excluded, log: log, turn: semaphore.NewWeighted(1), kept: cache.NewLRUExpireCache(maxKept)}
}

// errBusy is the error for viewers who waited for the explanation of another viewer.
var errBusy = errors.New("podfit is explaining another workload; try again")

// Explain returns the output of "podfit explain" for a workload. Unless whole is true, it reads nothing outside of the namespace of the
// workload, because the viewer may not see more.
func (p *Page) Explain(ctx context.Context, w cluster.Workload, whole bool) (web.Explanation, error) {
	q := question{w, whole}
	if a, ok := p.recall(q); ok {
		return a.explanation, a.err
	}
	waiting, stop := context.WithTimeout(ctx, patience)
	defer stop()
	if err := p.turn.Acquire(waiting, 1); err != nil {
		return web.Explanation{}, errBusy
	}
	defer p.turn.Release(1)
	if a, ok := p.recall(q); ok { // made while this viewer waited
		return a.explanation, a.err
	}
	var a answer
	a.explanation, a.err = p.make(ctx, q)
	p.kept.Add(q, a, keepFor)
	return a.explanation, a.err
}

// recall returns an explanation that was made before.
func (p *Page) recall(q question) (a answer, ok bool) {
	known, _ := p.kept.Get(q)
	a, ok = known.(answer)
	return a, ok
}

// make reads the cluster and explains a workload. It does not end when the viewer leaves, so that the next one gets the explanation.
func (p *Page) make(ctx context.Context, q question) (out web.Explanation, err error) {
	defer func() {
		if cause := recover(); cause != nil {
			p.log.Error("Cannot explain a workload because of an internal error", slog.String("workload", q.workload.String()), slog.Any("panic", cause), slog.String("stack", string(debug.Stack())))
			err = errors.New("podfit has an internal error; its log has the cause")
		}
	}()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), pageTimeout)
	defer cancel()
	c := Config{jobs: p.jobs(), given: pflag.NewFlagSet("explain", pflag.ContinueOnError), onlyNamespace: !q.whole, known: !p.assumed, excluded: p.excluded}
	if p.assumed {
		c.jobs.Updater.Flags(c.given)
		c.jobs.Recommender.Flags(c.given)
	}
	e, err := c.explain(ctx, time.Now().UTC(), p.clients, q.workload.Namespace, func(s *cluster.Snapshot, _ finder) (explanation.Subject, error) {
		return exactly(q.workload, s)
	})
	if err != nil {
		return web.Explanation{}, err
	}
	var text, data bytes.Buffer
	err = errors.Join(report.WriteText(&text, e, report.Usual, true), report.WriteJSON(&data, e))
	return web.Explanation{Text: text.String(), Data: data.Bytes(), Tags: report.Tags(e), Notes: report.Notes(e), Sections: report.Sections(e)}, err
}

// exactly returns the subject for a workload. Unlike find, it reads no kind as a node or a VPA.
func exactly(w cluster.Workload, s *cluster.Snapshot) (explanation.Subject, error) {
	if w.Group == "" && w.Kind == "Pod" {
		return findPod(reference{name: w.Name, namespace: w.Namespace}, s)
	}
	out := workloadSubject(w, s)
	if len(out.Pods) == 0 && out.Autoscaler == nil {
		return explanation.Subject{}, fmt.Errorf("%s has neither pods with a known controller nor a VPA", w)
	}
	return out, nil
}
