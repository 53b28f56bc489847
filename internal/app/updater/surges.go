// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package updater

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"podfit.dev/podfit/internal/app/process"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/plan"
	"podfit.dev/podfit/internal/edge/kube"
)

// deploymentWriter reads and writes the replicas of Deployments.
type deploymentWriter interface {
	Read(ctx context.Context, of cluster.Workload) (cluster.Deployment, error)
	Write(ctx context.Context, d *cluster.Deployment, replicas int32, s *cluster.Surge) error
}

// surgeSource is the part of the watched state that surges need.
type surgeSource interface {
	Surging() []cluster.Workload // with the annotation podfit.dev/surge
	Scaled() (scaled map[cluster.Workload]bool, known bool)
}

// surges carries out surges. The record of a surge is on its Deployment, so that the next updater goes on with it.
type surges struct {
	source  surgeSource
	writer  deploymentWriter
	pods    podChanger
	metrics *Metrics
	health  *process.Health
	log     *slog.Logger

	mu       sync.Mutex                         // guards the following while pods are changed
	begun    map[cluster.Workload]bool          // surges that the watch may not show yet
	attempts map[cluster.Workload]surgeAttempt  // failed steps
	visited  map[cluster.Workload]surgeVisit    // Deployments with a record
	active   map[cluster.Workload]cluster.Surge // of this pass
	ended    []endedSurge                       // in this pass
	invalid  map[cluster.Workload]bool          // Deployments with an invalid record, which was logged

	forbidden bool // a missing right was logged
}

func newSurges(source surgeSource, writer deploymentWriter, u *updater) *surges {
	return &surges{
		source: source, writer: writer, pods: u.pods, metrics: u.metrics, health: u.health, log: u.log,
		begun: map[cluster.Workload]bool{}, attempts: map[cluster.Workload]surgeAttempt{}, invalid: map[cluster.Workload]bool{}, visited: map[cluster.Workload]surgeVisit{},
	}
}

// A surgeAttempt is what is known about failed steps of a surge.
type surgeAttempt struct {
	failures   int
	retryAfter time.Time
}

// A surgeVisit is the last read of a Deployment with a record.
type surgeVisit struct {
	at    time.Time
	surge cluster.Surge // the record; empty if it is not known
}

// An endedSurge is a surge that ended without the removal of its pod.
type endedSurge struct {
	pod *cluster.Pod
	why plan.Refusal
}

const (
	surgeTimeout     = 10 * time.Second // of all requests of one step
	surgeBackoff     = 15 * time.Second // after the first failed step; doubled by each further one
	surgeBackoffMost = 10 * time.Minute
	maxSurgeSteps    = 100 // Deployments with a record that one pass reads
	surgesPerSecond  = 10  // Deployments with a record that are read in a second, on average
)

// advance carries out the next step of each surge in progress. It returns what the plan must know about surges; nil if no surge may
// begin.
func (s *surges) advance(ctx context.Context, now time.Time, snapshot func() *cluster.Snapshot, serves func(namespace string) bool, ledger *plan.Ledger) *plan.Surges {
	if s == nil {
		return nil
	}
	scaled, known := s.source.Scaled()
	s.active, s.ended = map[cluster.Workload]cluster.Surge{}, nil
	due := s.due(now, serves)
	if len(due) > 0 {
		pods := snapshot()
		var workers errgroup.Group
		workers.SetLimit(maxWorkers)
		for _, w := range due {
			workers.Go(func() error {
				process.Attempt(s.log, s.health, w.String(), func() { s.step(ctx, now, w, pods.PodsOf(w), scaled[w]) })
				return nil
			})
		}
		_ = workers.Wait() // errors are logged where they occur
	}
	for _, e := range s.ended {
		if e.pod != nil {
			ledger.SurgeFailed(now, e.pod, e.why)
		}
	}
	if !known {
		return nil
	}
	return &plan.Surges{Active: s.active, Scaled: scaled}
}

// due returns the Deployments with a surge whose next step may be tried now, and marks all of them as active. Those that were read longest
// ago come first, because any tenant can put the annotation on many Deployments.
func (s *surges) due(now time.Time, serves func(namespace string) bool) []cluster.Workload {
	all := s.source.Surging()
	for w := range s.begun {
		if !slices.Contains(all, w) {
			all = append(all, w)
		}
	}
	slices.SortFunc(all, func(x, y cluster.Workload) int {
		return cmp.Or(s.visited[x].at.Compare(s.visited[y].at), x.Compare(y))
	})
	pause := time.Duration(len(all)/surgesPerSecond) * time.Second
	recorded := make(map[cluster.Workload]bool, len(all))
	var due []cluster.Workload
	for _, w := range all {
		recorded[w] = true
		if !serves(w.Namespace) {
			continue
		}
		last := s.visited[w]
		s.active[w] = last.surge
		isPaused := now.Before(s.attempts[w].retryAfter) || now.Before(last.at.Add(pause)) && !now.Before(last.at)
		if !isPaused && len(due) < maxSurgeSteps {
			due = append(due, w)
			s.visited[w] = surgeVisit{now, last.surge}
		}
	}
	maps.DeleteFunc(s.visited, func(w cluster.Workload, _ surgeVisit) bool { return !recorded[w] })
	for w := range s.attempts {
		if !recorded[w] {
			delete(s.attempts, w)
		}
	}
	for w := range s.invalid {
		if !recorded[w] {
			delete(s.invalid, w)
		}
	}
	return due
}

// step reads a Deployment and carries out the next step of its surge.
func (s *surges) step(ctx context.Context, now time.Time, w cluster.Workload, pods []*cluster.Pod, scaled bool) {
	ctx, cancel := context.WithTimeout(ctx, surgeTimeout)
	defer cancel()
	d, err := s.writer.Read(ctx, w)
	if errors.Is(err, kube.ErrNotFound) || err == nil && !d.Recorded {
		s.forget(w)
		return
	}
	if err != nil {
		s.fail(ctx, now, w, err)
		return
	}
	if d.Surge == nil {
		s.reportInvalid(w)
		return
	}
	s.mu.Lock()
	s.active[w] = *d.Surge
	s.visited[w] = surgeVisit{now, *d.Surge}
	s.mu.Unlock()
	move := plan.NextSurge(now, &d, pods, scaled)
	if err := s.carryOut(ctx, now, &d, &move); err != nil {
		s.fail(ctx, now, w, err)
		return
	}
	s.mu.Lock()
	delete(s.attempts, w)
	s.mu.Unlock()
	s.report(&d, &move)
}

// carryOut carries out one step of a surge.
func (s *surges) carryOut(ctx context.Context, now time.Time, d *cluster.Deployment, move *plan.SurgeMove) error {
	record := *d.Surge
	if move.Unmark {
		if err := s.setCost(ctx, move.Pod, record.Cost); err != nil {
			return err
		}
	}
	switch move.Do {
	case plan.SurgeMark:
		return s.setCost(ctx, move.Pod, cluster.LowestDeletionCost)
	case plan.SurgeLower:
		record.Lowered, record.Deadline = true, plan.RemovalDeadline(now)
		return s.writer.Write(ctx, d, record.Replicas, &record)
	case plan.SurgeTakeBack:
		return s.writer.Write(ctx, d, record.Replicas, nil)
	case plan.SurgeForget:
		return s.writer.Write(ctx, d, d.Replicas, nil)
	case plan.SurgeWait:
	}
	return nil
}

// A refusedSurge is the error of a surge that does not begin.
type refusedSurge struct{ plan.Refusal }

func (r refusedSurge) Error() string { return r.Text }

// start begins the surge of a pod: it writes the record and the additional replica in one request, and then gives the pod the lowest
// deletion cost. If that fails, the next pass does it.
func (s *surges) start(ctx context.Context, now time.Time, p *cluster.Pod) error {
	ctx, cancel := context.WithTimeout(ctx, surgeTimeout)
	defer cancel()
	d, err := s.writer.Read(ctx, p.Top)
	if err != nil {
		return s.refusalOf(err)
	}
	record, refusal := plan.StartSurge(now, &d, p)
	if refusal != nil {
		return refusedSurge{*refusal}
	}
	s.mu.Lock()
	s.begun[p.Top] = true
	s.mu.Unlock()
	if err := s.writer.Write(ctx, &d, record.Replicas+1, &record); err != nil {
		return s.refusalOf(err)
	}
	if err := s.setCost(ctx, p, cluster.LowestDeletionCost); err != nil {
		s.log.Debug("Failed to set the deletion cost of a pod; the next pass tries again", slog.String("pod", p.Key.String()), slog.String("error", kube.Answer(err)))
	}
	s.metrics.surges.WithLabelValues(surgeBegun).Inc()
	return nil
}

// refusalOf returns the error of a surge that could not begin. A Deployment that has changed or is gone says nothing about the pod.
func (s *surges) refusalOf(err error) error {
	switch {
	case errors.Is(err, kube.ErrForbidden):
		s.reportForbidden(err)
	case errors.Is(err, kube.ErrNotFound), errors.Is(err, kube.ErrConflict), errors.Is(err, kube.ErrInvalid):
		return refusedSurge{plan.Refusal{Kind: plan.ServerBusy, Text: "the Deployment changed meanwhile: " + kube.Answer(err)}}
	}
	return err
}

// reportForbidden logs once that surges are not allowed.
func (s *surges) reportForbidden(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.forbidden {
		return
	}
	s.forbidden = true
	s.log.Warn("Cannot surge a Deployment; its pods are evicted instead", slog.String("error", kube.Answer(err)),
		slog.String("remedy", "grant the updater get and patch on deployments.apps, as deploy/10-rbac.yaml does, or set --mover=evict"))
}

// setCost sets the deletion cost of a pod. A pod that is gone needs none.
func (s *surges) setCost(ctx context.Context, p *cluster.Pod, cost int32) error {
	var err error
	if cost == 0 {
		err = s.pods.Annotate(ctx, p, nil, annotationDeletionCost)
	} else {
		err = s.pods.Annotate(ctx, p, map[string]string{annotationDeletionCost: strconv.Itoa(int(cost))})
	}
	if errors.Is(err, kube.ErrNotFound) || errors.Is(err, kube.ErrConflict) {
		return nil
	}
	return err
}

// annotationDeletionCost determines which pods a ReplicaSet removes first.
const annotationDeletionCost = "controller.kubernetes.io/pod-deletion-cost"

// forget removes a surge that has ended.
func (s *surges) forget(w cluster.Workload) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.begun, w)
	delete(s.active, w)
	delete(s.visited, w)
	delete(s.attempts, w)
}

// fail records a failed step. The next pass after the back-off tries again with the Deployment as it is then.
func (s *surges) fail(ctx context.Context, now time.Time, w cluster.Workload, err error) {
	if ctx.Err() != nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	a := s.attempts[w]
	a.failures++
	a.retryAfter = now.Add(min(surgeBackoff<<min(a.failures-1, 10), surgeBackoffMost))
	s.attempts[w] = a
	if a.failures == surgeFailuresToLog {
		s.log.Warn("Cannot go on with a surge; the Deployment has one replica more until podfit can write it", slog.String("workload", w.String()),
			slog.Int("attempt", a.failures), slog.String("error", kube.Answer(err)),
			slog.String("remedy", "grant the updater get and patch on deployments.apps, or restore spec.replicas and remove the annotation podfit.dev/surge"))
	}
}

// surgeFailuresToLog is the number of failed steps in a row that is logged. A single one is usually a concurrent write.
const surgeFailuresToLog = 3

// report logs the step of a surge, and records its end.
func (s *surges) report(d *cluster.Deployment, move *plan.SurgeMove) {
	log := s.log.With(slog.String("workload", d.Workload.String()), slog.String("pod", d.Surge.Pod))
	switch move.Do {
	case plan.SurgeWait, plan.SurgeMark:
		return
	case plan.SurgeLower:
		log.Info("All pods of a surge are ready; its ReplicaSet removes the pod")
		return
	case plan.SurgeTakeBack, plan.SurgeForget:
	}
	s.forget(d.Workload)
	if move.Failed == nil {
		s.metrics.surges.WithLabelValues(surgeCompleted).Inc()
		log.Info("Completed a surge")
		return
	}
	s.metrics.surges.WithLabelValues(surgeFailed).Inc()
	log.Warn("Took back a surge", slog.String("reason", move.Failed.Text))
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = append(s.ended, endedSurge{move.Pod, *move.Failed})
}

// reportInvalid logs once that a record is invalid. podfit does not change the Deployment then.
func (s *surges) reportInvalid(w cluster.Workload) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.invalid[w] {
		s.invalid[w] = true
		s.log.Warn("The annotation podfit.dev/surge of a Deployment is invalid; no pod of it is surged", slog.String("workload", w.String()),
			slog.String("remedy", "restore spec.replicas and remove the annotation"))
	}
}

// reportInvalidMovers logs annotations podfit.dev/mover without a valid value, once for each value.
func (u *updater) reportInvalidMovers(served []*cluster.Autoscaler) {
	var current map[cluster.Key]string
	for _, a := range served {
		if _, ok := plan.ParseMover(a.Mover); ok || a.Mover == "" {
			continue
		}
		if current == nil {
			current = map[cluster.Key]string{}
		}
		current[a.Key] = a.Mover
		if u.moverInvalid[a.Key] != a.Mover {
			u.log.Warn("The annotation podfit.dev/mover is invalid, so --mover applies; it must be evict, room or surge",
				slog.String("vpa", a.Key.String()), slog.String("used", a.Mover))
		}
	}
	u.moverInvalid = current
}

// The values of the label result of surges.
const (
	surgeBegun     = "begun"
	surgeCompleted = "completed"
	surgeFailed    = "failed"
)
