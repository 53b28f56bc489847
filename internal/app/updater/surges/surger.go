// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package surges carries out surges, which replace a pod without taking it out of service first. A Surger begins a surge, and takes one
// step of each surge in progress before the decisions of a pass. Package surge decides which step that is.
//
// It does not decide which pods are surged: that is a decision of package plan.
package surges

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

	"github.com/prometheus/client_golang/prometheus"

	"podfit.dev/podfit/internal/app/process"
	"podfit.dev/podfit/internal/app/updater/freeze"
	"podfit.dev/podfit/internal/core/attempt"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/decision"
	"podfit.dev/podfit/internal/core/rollout"
	"podfit.dev/podfit/internal/core/surge"
	"podfit.dev/podfit/internal/edge/kube"
)

// Writer reads and writes the replicas of Deployments.
type Writer interface {
	Read(ctx context.Context, of cluster.Workload) (cluster.Deployment, error)
	Write(ctx context.Context, d *cluster.Deployment, replicas int32, s *cluster.Surge) error
}

// Annotator sets and removes annotations of pods.
type Annotator interface {
	Annotate(ctx context.Context, p *cluster.Pod, set map[string]string, remove ...string) error
}

// Source is the part of the watched state that surges need.
type Source interface {
	Snapshot() *cluster.Snapshot
	Surging() []cluster.Workload // with the annotation podfit.dev/surge
	Scaled() (scaled map[cluster.Workload]bool, known bool)
	Rules(*cluster.Autoscaler) rollout.Rules // the current ones
}

// maxSteps is the number of surges whose steps are carried out at the same time.
const maxSteps = 10

// A Surger carries out surges. The record of a surge is on its Deployment, so that the next updater goes on with it.
type Surger struct {
	source  Source
	writer  Writer
	pods    Annotator
	scope   *process.Common
	counter *prometheus.CounterVec // of surges, by result
	health  *process.Health
	log     *slog.Logger

	mu        sync.Mutex                         // guards the following while pods are changed
	known     map[cluster.Workload]*progress     // by Deployment
	active    map[cluster.Workload]cluster.Surge // of this pass
	ended     []Failure                          // in this pass
	forbidden bool                               // a missing right was logged
}

// progress is what is known of the surge of a Deployment. The worker that carries out its step or begins it owns it.
type progress struct {
	begun    bool             // the watch may not show it yet
	record   *lastRecord      // what the Deployment had when it was last read or written; nil if nothing
	attempts attempt.Failures // of steps
	invalid  bool             // the record is invalid, which was logged
	held     bool             // a freeze stops it, which was logged
	tried    time.Time        // when the last step was tried
	dueAt    time.Time        // when the next step is due, if that is known
}

// of returns the progress of a Deployment.
func (s *Surger) of(w cluster.Workload) *progress {
	s.mu.Lock()
	defer s.mu.Unlock()
	return cluster.Memo(&s.known, w, func() *progress { return new(progress) })
}

// New returns a Surger that carries out surges in the namespaces that the scope serves.
func New(source Source, writer Writer, pods Annotator, scope *process.Common, counter *prometheus.CounterVec, h *process.Health, log *slog.Logger) *Surger {
	return &Surger{source: source, writer: writer, pods: pods, scope: scope, counter: counter, health: h, log: log}
}

// A lastRecord is the record that a Deployment had when podfit last read or wrote it.
type lastRecord struct {
	uid   string // of the Deployment
	surge cluster.Surge
}

// A Failure is a surge that ended without the removal of its pod.
type Failure struct {
	Pod    *cluster.Pod // nil if it is gone
	Reason decision.Refusal
}

const (
	surgeTimeout     = 10 * time.Second // of all requests of one step
	surgesTimeout    = 20 * time.Second // of all steps of one pass, so that steps without an answer do not delay other changes
	surgeBackoff     = 15 * time.Second // after the first failed step; doubled by each further one
	surgeBackoffMost = 10 * time.Minute
	maxSurgeSteps    = 100 // Deployments with a record that one pass reads
	surgesPerSecond  = 10  // Deployments with a record that are read in a second in one namespace, on average
)

// Advance carries out the next step of each surge in progress. It returns what the plan must know about surges, nil if no surge may begin,
// and the surges that have failed.
func (s *Surger) Advance(ctx context.Context, now time.Time) (*surge.State, []Failure) {
	scaled, known := s.source.Scaled()
	s.active = map[cluster.Workload]cluster.Surge{}
	s.ended = nil
	due := s.due(now)
	if len(due) > 0 {
		pods := s.source.Snapshot()
		gates := s.gates(pods.Autoscalers, due)
		steps, cancel := context.WithTimeout(ctx, surgesTimeout)
		defer cancel()
		process.Each(maxSteps, due, func(w cluster.Workload) {
			process.Attempt(s.log, s.health, w.String(), func() { s.step(steps, now, w, pods.PodsOf(w), scaled[w], gates[w]) })
		})
	}
	if !known {
		return nil, s.ended
	}
	return &surge.State{Active: s.active, Scaled: scaled, Due: s.nextDue(now)}, s.ended
}

// nextDue returns the earliest time at which the next step of a surge is due; zero if none is known.
func (s *Surger) nextDue(now time.Time) time.Time {
	var next time.Time
	for _, p := range s.known {
		if p.dueAt.After(now) {
			next = cluster.Earliest(next, p.dueAt)
		}
	}
	return next
}

// gates returns the gate of each Deployment. It is closed while a freeze stops the surge: each step removes a pod, or prepares that.
func (s *Surger) gates(all []*cluster.Autoscaler, due []cluster.Workload) map[cluster.Workload]freeze.Gate {
	isDue := cluster.SetOf(due, func(w cluster.Workload) cluster.Workload { return w })
	autoscalers := map[cluster.Workload][]*cluster.Autoscaler{}
	for _, a := range all {
		if isDue[a.Target] {
			autoscalers[a.Target] = append(autoscalers[a.Target], a)
		}
	}
	out := make(map[cluster.Workload]freeze.Gate, len(due))
	for _, w := range due {
		out[w] = freeze.NewGate(s.source, w.Namespace, autoscalers[w]...)
	}
	return out
}

// due returns the Deployments with a surge whose next step is tried now, and marks all of them as active.
func (s *Surger) due(now time.Time) []cluster.Workload {
	shown := map[cluster.Workload]bool{}
	for _, w := range s.source.Surging() {
		shown[w] = true
		s.of(w)
	}
	maps.DeleteFunc(s.known, func(w cluster.Workload, p *progress) bool { return !shown[w] && !p.begun && p.record == nil }) // others may have removed the annotation
	count := map[string]int{}
	for w := range s.known {
		count[w.Namespace]++
	}
	var due []cluster.Workload
	for w, p := range s.known {
		if !s.scope.Serves(w.Namespace) {
			continue
		}
		s.active[w] = cluster.Surge{}
		if p.record != nil { // until it is read
			s.active[w] = p.record.surge
		}
		retry := p.attempts.Retry
		isPaused := now.Before(retry) && !retry.After(now.Add(surgeBackoffMost)) // after it, the clock was set back
		pause := time.Duration(count[w.Namespace]/surgesPerSecond) * time.Second
		wasRead := now.Before(p.tried.Add(pause)) && !now.Before(p.tried)
		if !isPaused && !wasRead {
			due = append(due, w)
		}
	}
	due = s.inTurn(due)
	for _, w := range due {
		s.known[w].tried = now
	}
	return due
}

// inTurn returns at most maxSurgeSteps Deployments. The namespaces alternate, and the least recently tried Deployment comes first, so that
// many records in one namespace do not delay the surges of others.
func (s *Surger) inTurn(due []cluster.Workload) []cluster.Workload {
	slices.SortFunc(due, func(a, b cluster.Workload) int {
		return cmp.Or(s.known[a].tried.Compare(s.known[b].tried), a.Compare(b))
	})
	count := map[string]int{}
	round := make(map[cluster.Workload]int, len(due))
	for _, w := range due {
		round[w] = count[w.Namespace]
		count[w.Namespace]++
	}
	slices.SortStableFunc(due, func(a, b cluster.Workload) int { return cmp.Compare(round[a], round[b]) })
	return due[:min(len(due), maxSurgeSteps)]
}

// step reads a Deployment and carries out the next step of its surge.
func (s *Surger) step(ctx context.Context, now time.Time, w cluster.Workload, pods []*cluster.Pod, scaled bool, gate freeze.Gate) {
	p := s.of(w)
	resumed := p.held || p.record == nil
	if s.isFrozen(w, p, gate) {
		return
	}
	limited, cancel := context.WithTimeout(kube.WithGate(ctx, gate), surgeTimeout)
	defer cancel()
	d, err := s.writer.Read(limited, w)
	lost, isLost := p.lost(&d)
	switch {
	case err != nil && !errors.Is(err, kube.ErrNotFound):
		s.fail(ctx, now, w, err)
		return
	case err == nil && isLost:
		if err := s.restore(limited, &d, lost, pods); err != nil {
			s.fail(ctx, now, w, err)
		}
		return
	case err != nil, !d.Recorded:
		s.forget(w)
		return
	case d.Surge == nil:
		p.attempts = attempt.Failures{Retry: now.Add(surgeBackoffMost)} // podfit does not change the Deployment
		s.reportInvalid(w, p)
		return
	}
	s.mu.Lock()
	s.active[w] = *d.Surge
	s.mu.Unlock()
	p.remember(&d, *d.Surge)
	move := surge.Next(now, &d, pods, scaled, resumed)
	if err := s.carryOut(limited, now, &d, &move); err != nil {
		s.fail(ctx, now, w, err)
		return
	}
	p.dueAt = move.At
	p.attempts = attempt.Failures{}
	if d.Deleting {
		p.attempts.Retry = now.Add(surgeBackoffMost) // nothing is due any more
	}
	s.report(&d, &move)
}

// isFrozen reports whether a freeze stops the surge of a Deployment, and logs it once.
func (s *Surger) isFrozen(w cluster.Workload, p *progress, gate freeze.Gate) bool {
	err := gate.Closed()
	if err != nil && !p.held {
		s.log.Info("A freeze stops a surge; the Deployment has one replica more until the freeze ends", slog.String("workload", w.String()), slog.String("reason", err.Error()))
	}
	p.held = err != nil
	return p.held
}

// remember keeps the record of a Deployment, in case that others remove it.
func (p *progress) remember(d *cluster.Deployment, record cluster.Surge) {
	if !d.Foreign {
		p.record = &lastRecord{d.UID, record}
	}
}

// lost returns the record that others have removed from a Deployment or replaced, if it still has the additional replica of podfit. "kubectl
// rollout undo" replaces all annotations by those of a ReplicaSet, for example.
func (p *progress) lost(d *cluster.Deployment) (cluster.Surge, bool) {
	last := p.record
	if last == nil || last.uid != d.UID || d.Deleting || d.Recorded && !d.Foreign {
		return cluster.Surge{}, false
	}
	return last.surge, !last.surge.Lowered && d.Replicas == last.surge.Replicas+1
}

// restore sets spec.replicas and the deletion cost back after others have removed the record of a surge.
func (s *Surger) restore(ctx context.Context, d *cluster.Deployment, lost cluster.Surge, pods []*cluster.Pod) error {
	for _, p := range pods {
		if p.UID == lost.UID && p.Live() && p.DeletionCost == cluster.LowestDeletionCost {
			if err := s.setCost(ctx, p, lost.Cost); err != nil {
				return err
			}
		}
	}
	if err := s.writer.Write(ctx, d, lost.Replicas, nil); err != nil {
		return err
	}
	s.forget(d.Workload)
	s.counter.WithLabelValues(resultFailed).Inc()
	s.log.Warn("Another client removed the record of a surge; podfit restores spec.replicas", slog.String("workload", d.Workload.String()), slog.String("pod", lost.Pod))
	return nil
}

func (s *Surger) carryOut(ctx context.Context, now time.Time, d *cluster.Deployment, move *surge.Move) error {
	record := *d.Surge
	if move.Unmark {
		if err := s.setCost(ctx, move.Pod, record.Cost); err != nil {
			return err
		}
	}
	switch move.Do {
	case surge.Mark:
		return s.setCost(ctx, move.Pod, cluster.LowestDeletionCost)
	case surge.Lower:
		record.Lowered, record.Deadline = true, now.Add(surge.RemoveWithin)
		if err := s.writer.Write(ctx, d, record.Replicas, &record); err != nil {
			return err
		}
		s.of(d.Workload).remember(d, record)
	case surge.TakeBack:
		return s.writer.Write(ctx, d, record.Replicas, nil)
	case surge.Forget:
		return s.writer.Write(ctx, d, d.Replicas, nil)
	case surge.Wait:
	}
	return nil
}

// Refused is the error of a surge that does not begin.
type Refused struct{ decision.Refusal }

func (r Refused) Error() string { return r.Text }

// Start begins the surge of a pod: it writes the record and the additional replica in one request, and then gives the pod the lowest
// deletion cost. If that fails, the next pass does it.
func (s *Surger) Start(ctx context.Context, now time.Time, p *cluster.Pod) error {
	ctx, cancel := context.WithTimeout(ctx, surgeTimeout)
	defer cancel()
	d, err := s.writer.Read(ctx, p.Top)
	if err != nil {
		return s.refusalOf(err)
	}
	record, refusal := surge.Start(now, &d, p)
	if refusal != nil {
		return Refused{*refusal}
	}
	known := s.of(p.Top)
	known.begun = true
	if err := s.writer.Write(ctx, &d, record.Replicas+1, &record); err != nil {
		return s.refusalOf(err)
	}
	known.remember(&d, record)
	if err := s.setCost(ctx, p, cluster.LowestDeletionCost); err != nil {
		s.log.Debug("Failed to set the deletion cost of a pod; the next pass tries again", slog.String("pod", p.Key.String()), slog.String("error", kube.Answer(err)))
	}
	s.counter.WithLabelValues(resultBegun).Inc()
	return nil
}

// refusalOf returns the error of a surge that could not begin. A Deployment that has changed or is gone is no
// refusal of the pod: the next pass decides again.
func (s *Surger) refusalOf(err error) error {
	switch {
	case errors.Is(err, kube.ErrForbidden):
		s.reportForbidden(err)
	case errors.Is(err, kube.ErrNotFound), errors.Is(err, kube.ErrConflict), errors.Is(err, kube.ErrInvalid):
		return Refused{decision.Refusal{Kind: decision.ServerBusy, Text: "the Deployment changed meanwhile: " + kube.Answer(err)}}
	}
	return err
}

// reportForbidden logs once that surges are not allowed.
func (s *Surger) reportForbidden(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.forbidden {
		return
	}
	s.forbidden = true
	s.log.Warn("Cannot surge a Deployment; its pods are evicted instead", slog.String("error", kube.Answer(err)),
		slog.String("remedy", "kubectl apply -f deploy/rights/surges/surges.yaml (rights.surges=true in the chart), or set --mover=evict"))
}

// setCost sets the deletion cost of a pod. A pod that is gone needs none.
func (s *Surger) setCost(ctx context.Context, p *cluster.Pod, cost int32) error {
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

func (s *Surger) forget(w cluster.Workload) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.active, w)
	p := s.known[w]
	p.begun = false
	p.record = nil
	p.attempts = attempt.Failures{}
}

// fail records a failed step, unless ctx, the context of all steps, has ended. The next pass after the back-off tries again with the
// Deployment as it is then.
func (s *Surger) fail(ctx context.Context, now time.Time, w cluster.Workload, err error) {
	var frozen *freeze.Error
	if ctx.Err() != nil || errors.As(err, &frozen) {
		return
	}
	a := &s.of(w).attempts
	a.Add(now, surgeBackoff, surgeBackoffMost)
	if a.Count == surgeFailuresToLog {
		s.log.Warn("Cannot continue a surge; the Deployment has one replica more until podfit can write it", slog.String("workload", w.String()),
			slog.Int("attempt", a.Count), slog.String("error", kube.Answer(err)),
			slog.String("remedy", "grant the updater get and patch on deployments.apps, or restore spec.replicas and remove the annotation podfit.dev/surge"))
	}
}

// surgeFailuresToLog is the number of failed steps in a row that is logged. A single one is usually a concurrent write.
const surgeFailuresToLog = 3

// report logs the step of a surge, and records its end.
func (s *Surger) report(d *cluster.Deployment, move *surge.Move) {
	log := s.log.With(slog.String("workload", d.Workload.String()), slog.String("pod", d.Surge.Pod))
	switch move.Do {
	case surge.Wait, surge.Mark:
		return
	case surge.Lower:
		log.Info("All pods of a surge are ready; its ReplicaSet removes the pod")
		return
	case surge.TakeBack, surge.Forget:
	}
	s.forget(d.Workload)
	if move.Failed == nil {
		s.counter.WithLabelValues(resultCompleted).Inc()
		log.Info("Completed a surge")
		return
	}
	s.counter.WithLabelValues(resultFailed).Inc()
	log.Warn("Ended a surge without replacing the pod; spec.replicas of the Deployment is restored", slog.String("reason", move.Failed.Text))
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = append(s.ended, Failure{move.Pod, *move.Failed})
}

// reportInvalid logs once that a record is invalid.
func (s *Surger) reportInvalid(w cluster.Workload, p *progress) {
	if !p.invalid {
		p.invalid = true
		s.log.Warn("The annotation podfit.dev/surge of a Deployment is invalid; no pod of it is surged", slog.String("workload", w.String()),
			slog.String("remedy", "restore spec.replicas and remove the annotation"))
	}
}

// The values of the label result.
const (
	resultBegun     = "begun"
	resultCompleted = "completed"
	resultFailed    = "failed"
)

// NewCounter registers the metric of surges.
func NewCounter(reg prometheus.Registerer) *prometheus.CounterVec {
	v := process.NewCounter(reg, "podfit_updater", "surges_total",
		"Number of surges, by result: begun, completed or failed. The number of replicas is as before in the last two cases.", "result")
	for _, result := range []string{resultBegun, resultCompleted, resultFailed} {
		v.WithLabelValues(result).Add(0)
	}
	return v
}
