// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package scalepoint keeps the targets of HorizontalPodAutoscalers (HPAs) in step with the requests of pods, so that an HPA scales at the
// same usage as before. An Adjuster writes the targets for the actions of a pass, and its Guard holds back the actions whose target could
// not be written.
//
// Package policy decides which target an HPA gets.
package scalepoint

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"time"

	"podfit.dev/podfit/internal/app/process"
	"podfit.dev/podfit/internal/app/updater/freeze"
	"podfit.dev/podfit/internal/core/attempt"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/decision"
	"podfit.dev/podfit/internal/core/integer"
	"podfit.dev/podfit/internal/core/policy"
	"podfit.dev/podfit/internal/core/rollout"
	"podfit.dev/podfit/internal/core/scalepoint"
	"podfit.dev/podfit/internal/edge/kube"
)

// Writer changes HorizontalPodAutoscalers (HPAs).
type Writer interface {
	Record(ctx context.Context, h *cluster.HorizontalAutoscaler, points []cluster.ScalePoint) error
	SetTargets(ctx context.Context, h *cluster.HorizontalAutoscaler, percent map[int]int32, points []cluster.ScalePoint) error
}

// Source is the part of the watched state that an Adjuster needs.
type Source interface {
	Horizontals() []*cluster.HorizontalAutoscaler
	Rules(*cluster.Autoscaler) rollout.Rules // the current ones
}

// maxWrites is the number of HPAs that are written at the same time.
const maxWrites = 10

// An Adjuster keeps the targets of HPAs in step with the requests of pods, for VPAs that ask for it. A nil Adjuster changes no HPA.
type Adjuster struct {
	source       Source
	writer       Writer
	scope        *process.Common
	startupBoost bool // startup boosts are enabled, which determines the governing VPA
	health       *process.Health
	log          *slog.Logger

	bases     map[metricKey]recordedBase // of the passes
	forbidden bool                       // the right to change HPAs is missing
	attempts  map[string]*hpaAttempt     // by UID of the HPA
}

// New returns an Adjuster for the HPAs in the namespaces that the scope serves.
func New(source Source, writer Writer, scope *process.Common, startupBoost bool, h *process.Health, log *slog.Logger) *Adjuster {
	return &Adjuster{source: source, writer: writer, scope: scope, startupBoost: startupBoost, health: h, log: log, attempts: map[string]*hpaAttempt{}, bases: map[metricKey]recordedBase{}}
}

// An hpaAttempt is what is known about the last writes to an HPA. While steps are carried out, the one of its HPA owns it.
type hpaAttempt struct {
	attempt.Failures
	recorded time.Time // when the first record was written; the watch may not show it yet
	changed  time.Time // when a target was written last
}

const (
	hpaTimeout     = 10 * time.Second // of all requests of a pass
	hpaBackoff     = time.Minute      // after the first failure; doubled by each further one
	hpaBackoffMost = 30 * time.Minute
	recordDelay    = 5 * time.Minute  // how long the watch may take to show a record
	lowerPause     = 30 * time.Second // from a write until a target is lowered; the HPA delays a scale-down by minutes
)

// A Guard holds back changes of pods whose HPA does not have the target for them.
type Guard struct {
	metrics map[cluster.Workload][]guardedMetric
	planned map[string]bool // UIDs of the pods whose changes the targets account for
}

type guardedMetric struct {
	*cluster.UtilizationTarget
	held bool // the target could not be set
}

// Holds reports whether a decision must wait for the target of an HPA.
func (g *Guard) Holds(d *decision.Decision) bool {
	if g == nil {
		return false
	}
	return slices.ContainsFunc(g.metrics[d.Autoscaler.Target], func(m guardedMetric) bool {
		return (m.held || !g.planned[d.Pod.UID]) && policy.ChangesRequest(m.UtilizationTarget, d.Pod, d.With)
	})
}

// Prepare sets the targets of HPAs for the actions of a pass, before they are carried out. It returns the guard of the pass.
func (s *Adjuster) Prepare(ctx context.Context, now time.Time, snapshot *cluster.Snapshot, governed []cluster.Governed, decisions []decision.Decision) *Guard {
	if s == nil {
		return nil
	}
	g := &Guard{metrics: map[cluster.Workload][]guardedMetric{}, planned: map[string]bool{}}
	changes := map[string][]policy.Fitted{}
	for i := range decisions {
		if d := &decisions[i]; d.Do != decision.Leave {
			changes[d.Pod.UID] = d.With
			g.planned[d.Pod.UID] = true
		}
	}
	governing := map[cluster.Workload]*cluster.Autoscaler{}
	for i := range governed {
		if a := governed[i].Autoscaler; len(governed[i].Pods) > 0 {
			governing[a.Target] = a
		}
	}
	var jobs []*hpaJob
	exists := map[string]bool{}
	for _, h := range s.source.Horizontals() {
		exists[h.UID] = true
		a := governing[h.Target]
		if !s.scope.Serves(h.Namespace) || len(h.Points) == 0 && (a == nil || !a.PreserveScalePoint) {
			continue
		}
		s.rememberBases(now, h)
		requests := make([]scalepoint.Request, len(h.Utilization))
		for i := range h.Utilization {
			u := &h.Utilization[i]
			requests[i] = scalepoint.Request{Average: policy.AverageOf(u, snapshot.PodsOf(h.Target), changes), Wanted: policy.PreservesScalePoint(a, u), Base: s.baseOf(h, u)}
		}
		step, due := scalepoint.Next(now, h, requests)
		last := cluster.Memo(&s.attempts, h.UID, func() *hpaAttempt { return new(hpaAttempt) })
		jobs = append(jobs, &hpaJob{h: h, step: step, last: last, gate: s.gateOf(snapshot, h.Target), held: due && !last.mayWait(now, h, &step), isPreserved: a != nil && a.PreserveScalePoint})
	}
	s.carryOut(ctx, now, jobs)
	for _, j := range jobs {
		for k := range j.h.Utilization {
			if u := &j.h.Utilization[k]; j.h.Of(u) != nil {
				g.metrics[j.h.Target] = append(g.metrics[j.h.Target], guardedMetric{u, j.held})
			}
		}
	}
	maps.DeleteFunc(s.attempts, func(uid string, _ *hpaAttempt) bool { return !exists[uid] })
	s.forgetBases(now)
	return g
}

// gateOf returns the gate of the requests about the HPA of a workload. If no autoscaler targets the workload, the freezes of its namespace
// and of the cluster count.
func (s *Adjuster) gateOf(snapshot *cluster.Snapshot, w cluster.Workload) freeze.Gate {
	a := cluster.Responsible(snapshot.AutoscalersOf(w), s.startupBoost)
	if a == nil {
		return freeze.NewGate(s.source, w.Namespace)
	}
	return freeze.NewGate(s.source, w.Namespace, a)
}

// An hpaJob is an HPA with its next step.
type hpaJob struct {
	h           *cluster.HorizontalAutoscaler
	step        scalepoint.Step
	last        *hpaAttempt
	gate        freeze.Gate
	held        bool // the step is due, and is not carried out yet
	isPreserved bool // its workload has a VPA that asks for it
}

// carryOut carries out the steps that are due, for at most hpaTimeout, because the changes of pods wait for them. HPAs of VPAs come
// first: anyone can create an HPA with the annotation podfit.dev/scale-point. A later pass carries out the others.
func (s *Adjuster) carryOut(ctx context.Context, now time.Time, jobs []*hpaJob) {
	ctx, cancel := context.WithTimeout(ctx, hpaTimeout)
	defer cancel()
	slices.SortStableFunc(jobs, func(x, y *hpaJob) int { return integer.FalseFirst(y.isPreserved, x.isPreserved) })
	process.Each(maxWrites, jobs, func(j *hpaJob) {
		if j.held && ctx.Err() == nil {
			process.Attempt(s.log, s.health, j.h.Key.String(), func() { j.held = !s.write(ctx, now, j) })
		}
	})
}

// mayWait reports whether a step only lowers targets shortly after another write. A target that is too high for a short time causes
// nothing. So requests that change all the time cause few writes.
func (a *hpaAttempt) mayWait(now time.Time, h *cluster.HorizontalAutoscaler, step *scalepoint.Step) bool {
	if age := now.Sub(a.changed); age < 0 || age >= lowerPause || len(step.Targets) == 0 || len(step.Points) == 0 || step.Stopped {
		return false
	}
	for i := range h.Utilization {
		u := &h.Utilization[i]
		if to, changes := step.Targets[u.Index]; changes && to > u.Percent {
			return false
		}
	}
	return true
}

// write carries out a step, unless there is a freeze. It reports whether the HPA is now as the step wants it.
func (s *Adjuster) write(ctx context.Context, now time.Time, j *hpaJob) bool {
	h := j.h
	step := &j.step
	last := j.last
	isRecord := step.IsRecord(h)
	if s.forbidden || now.Before(last.Retry) || isRecord && now.Before(last.recorded.Add(recordDelay)) || j.gate.Closed() != nil {
		return false
	}
	ctx = kube.WithGate(ctx, j.gate)
	var err error
	if isRecord {
		err = s.writer.Record(ctx, h, step.Points)
	} else {
		err = s.writer.SetTargets(ctx, h, step.Targets, step.Points)
	}
	log := s.log.With(slog.String("object", h.Key.String()), slog.String("workload", h.Target.String()))
	var stopped *freeze.Error
	if errors.Is(err, kube.ErrNotSent) || errors.As(err, &stopped) {
		return false // the rate limit of the client allows no more in this pass, or a freeze has begun
	}
	if err != nil {
		last.Add(now, hpaBackoff, hpaBackoffMost)
		log.Warn("Cannot change a HorizontalPodAutoscaler; the requests that it depends on are not changed until this succeeds",
			slog.Int("attempt", last.Count), slog.Time("retryAfter", last.Retry), slog.String("error", kube.Answer(err)),
			slog.String("remedy", "kubectl apply -f deploy/rights/hpa-targets/hpa-targets.yaml (rights.hpaTargets=true in the chart), or remove the annotation podfit.dev/hpa from the VPA"))
		return false
	}
	last.Failures = attempt.Failures{}
	if isRecord {
		last.recorded = now
	} else {
		last.changed = now
	}
	switch {
	case step.Stopped:
		log.Warn("Another client overwrites the target of a HorizontalPodAutoscaler; podfit stops changing it",
			slog.String("remedy", "exclude spec.metrics of the HPA from the tool that overwrites it, then remove the annotation podfit.dev/scale-point of the HPA"))
	case isRecord:
		log.Info("Recorded the scale point of a HorizontalPodAutoscaler")
	case len(step.Points) == 0:
		log.Info("Restored the target of a HorizontalPodAutoscaler")
	default:
		log.Info("Changed the target of a HorizontalPodAutoscaler")
	}
	return true
}

// Forbid sets whether the right to change HPAs is missing. Then none is written, and the requests by which they scale are left alone.
func (s *Adjuster) Forbid(missing bool) {
	if s != nil {
		s.forbidden = missing
	}
}

// MarkUnwritable marks the HPAs of autoscalers that could not be written, until the next attempt. So only the requests by which such an HPA
// scales wait for it, and the others are changed.
func (s *Adjuster) MarkUnwritable(now time.Time, all []*cluster.Autoscaler) []*cluster.Autoscaler {
	if s == nil {
		return all
	}
	unwritable := func(h *cluster.HorizontalAutoscaler) bool {
		last := s.attempts[h.UID]
		return s.forbidden || last != nil && now.Before(last.Retry)
	}
	for i, a := range all {
		if !slices.ContainsFunc(a.Horizontal, unwritable) {
			continue
		}
		b := *a
		b.Horizontal = slices.Clone(a.Horizontal)
		for j, h := range b.Horizontal {
			if unwritable(h) {
				marked := *h
				marked.Unwritable = true
				b.Horizontal[j] = &marked
			}
		}
		all[i] = &b
	}
	return all
}

// A tool that deletes an HPA and creates it again from its manifest removes the record of podfit with it. The target of the manifest belongs to
// the request that the record has, and not to the one that podfit has given to the pods since: with that one, each recreation would move the
// scale point further. So the recorded requests are kept after the end of an HPA, for another one that scales the same workload.

const (
	// baseTTL is how long a recorded request is kept after the HPA with the record was last seen.
	baseTTL = 24 * time.Hour
	// maxBases bounds the number of recorded requests that are kept.
	maxBases = 10000
)

// A metricKey identifies a request on which HPAs of a workload depend.
type metricKey struct {
	workload  cluster.Workload
	resource  cluster.Resource
	container string
}

// A recordedBase is the request of a record that an HPA has or had.
type recordedBase struct {
	uid    string // of the HPA
	amount int64
	seen   time.Time
}

// rememberBases keeps the recorded requests of an HPA. If the user has removed a record, its request is forgotten.
func (s *Adjuster) rememberBases(now time.Time, h *cluster.HorizontalAutoscaler) {
	for i := range h.Utilization {
		u := &h.Utilization[i]
		key := metricKey{h.Target, u.Resource, u.Container}
		p := h.Of(u)
		last, known := s.bases[key]
		switch {
		case p != nil && p.Base > 0 && (known || len(s.bases) < maxBases):
			s.bases[key] = recordedBase{h.UID, p.Base, now}
		case p == nil && last.uid == h.UID:
			delete(s.bases, key)
		}
	}
}

// baseOf returns the request to which the target of an HPA without a record belongs; 0 if it is the one that the pods have.
func (s *Adjuster) baseOf(h *cluster.HorizontalAutoscaler, u *cluster.UtilizationTarget) int64 {
	return s.bases[metricKey{h.Target, u.Resource, u.Container}].amount
}

// forgetBases forgets recorded requests of HPAs that are gone for long.
func (s *Adjuster) forgetBases(now time.Time) {
	maps.DeleteFunc(s.bases, func(_ metricKey, b recordedBase) bool {
		age := now.Sub(b.seen)
		return age > baseTTL || age < -baseTTL
	})
}
