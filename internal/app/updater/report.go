// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package updater

import (
	"fmt"
	"io"
	"log/slog"
	"maps"
	"strings"
	"sync"
	"time"

	"podfit.dev/podfit/internal/app/process"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/decision"
	"podfit.dev/podfit/internal/core/ledger"
	"podfit.dev/podfit/internal/core/plan"
	"podfit.dev/podfit/internal/core/room"
	"podfit.dev/podfit/internal/core/surge"
	"podfit.dev/podfit/internal/edge/kube/event"
)

// publishPlan publishes the decisions before they are carried out.
func (e *execution) publishPlan(w plan.World, decisions []decision.Decision) {
	m := e.metrics
	controlled := process.NewTally(m.controlled)
	evictable := process.NewTally(m.evictable)
	for i := range w.Governed {
		g := &w.Governed[i]
		class := e.sizeClass[g.Autoscaler.Key]
		mode := g.Autoscaler.Mode.String()
		controlled.Add(class, mode, len(g.Pods))
		if len(g.Pods) > 0 {
			evictable.Add(class, mode, 0)
		}
		size := process.SizeLog2(len(g.Pods)) // the counters exist before the first action
		m.evicted.WithLabelValues(size, mode, g.Autoscaler.Name, g.Autoscaler.Namespace).Add(0)
		m.resized.WithLabelValues(size, g.Autoscaler.Name, g.Autoscaler.Namespace).Add(0)
	}
	withEvictable := process.NewTally(m.withEvictable)
	resizable := process.NewTally(m.resizable)
	withResizable := process.NewTally(m.withResizable)
	type action struct {
		autoscaler cluster.Key
		do         decision.Act
	}
	counted := map[action]bool{}
	for i := range decisions {
		d := &decisions[i]
		class := e.sizeClass[d.Autoscaler.Key]
		mode := d.Autoscaler.Mode.String()
		key := action{d.Autoscaler.Key, d.Do}
		first := 0
		if !counted[key] {
			first = 1
		}
		counted[key] = true
		switch d.Do {
		case decision.Evict, decision.Delete, decision.Surge:
			evictable.Add(class, mode, 1)
			withEvictable.Add(class, mode, first)
		case decision.Resize:
			resizable.Add(class, "", 1)
			withResizable.Add(class, "", first)
		case decision.Leave:
			if d.Reason.Code == decision.NotSmallerThanRefused {
				m.infeasibleSkip.WithLabelValues(class, d.Autoscaler.Name, d.Autoscaler.Namespace).Inc()
			}
		}
	}
	controlled.Publish()
	evictable.Publish()
	withEvictable.Publish()
	resizable.Publish()
	withResizable.Publish()
}

// publishOutcome publishes the decisions after they were carried out, and reports why pods were left unchanged.
func (e *execution) publishOutcome(decisions []decision.Decision) {
	e.metrics.publishDecisions(decisions)
	current := make(map[string]notice, len(e.report.notices))
	for i := range decisions {
		d := &decisions[i]
		if d.Do == decision.Leave {
			n, unanswered := e.noticeOf(d)
			current[d.Pod.UID] = n
			e.report.left(d, n, unanswered)
		}
	}
	e.report.forget(current, e.exists, e.governs)
}

// A notice is what the log and the events report about a pod that is left unchanged. It is reported again only when it changes.
type notice struct {
	code       decision.ReasonCode
	since      time.Time           // when the number of replicas became unknown, if code is ReplicasUnknown
	persists   bool                // the reason usually ends by itself, and has not for longer than usual
	refused    decision.ReasonCode // why the resize was refused in this pass, if code is why the pod is not evicted instead
	unanswered bool                // actions on the pod have been without an answer for long, whatever the current reason is
	replacing  bool                // there are too few pods because the updater has evicted one that is being replaced
}

// noticeOf also returns the reason to report if actions on the pod have been without an answer for long.
func (e *execution) noticeOf(d *decision.Decision) (n notice, unanswered decision.Reason) {
	n = notice{code: d.Reason.Code, refused: d.Refused.Code}
	if n.code == decision.ReplicasUnknown {
		n.since = e.now
		if last := e.report.notices[d.Pod.UID]; last.code == n.code {
			n.since = last.since
			n.persists = last.persists || e.now.Sub(n.since) >= e.config.Interval*9/10
		}
	}
	if d.Reason.Code == decision.RescueInProgress {
		n.persists = d.Reason.For >= rescueTakesTooLong
	}
	unanswered, n.unanswered = e.pass.Unanswered(*d)
	n.replacing = n.code == decision.TooFewReplicas && e.ledger.Missing(d.Pod.Controller) > 0
	return n, unanswered
}

// rescueTakesTooLong is how long OOM-killed pods may wait for the replacement of a deleted pod before an event is written. The wait ends
// after plan.Budget.StuckFor unless the replacement does not start, for example because no node has room for it.
const rescueTakesTooLong = 15 * time.Minute

// A reporter writes logs and events about what passes decide and do. It remembers what it has reported, so that it is not reported again in
// each pass.
type reporter struct {
	log       *slog.Logger
	events    eventRecorder
	tables    io.Writer                 // where a dry run writes tables; nil: nowhere
	dryRuns   map[string]intent         // the last action that a dry run logged for each pod, by UID
	notices   map[string]notice         // pods that were left in the last pass, by UID
	shortages map[cluster.Workload]bool // controllers without replacements of evicted pods
	unowned   map[string]bool           // pods without a controller, by UID
	rooms     map[string]string         // the plan that was logged for a node, by node
	invalid   map[string]bool           // annotations without a valid value

	mu        sync.Mutex                                   // guards the following while pods are changed
	held      map[cluster.Key]map[decision.ReasonCode]bool // reasons for which pods are left, since one was changed
	fallbacks map[cluster.Key]bool                         // autoscalers whose pods are evicted because they cannot be resized
}

func newReporter(c *Config, events eventRecorder, log *slog.Logger) *reporter {
	r := &reporter{
		log: log, events: events, dryRuns: map[string]intent{},
		held: map[cluster.Key]map[decision.ReasonCode]bool{}, fallbacks: map[cluster.Key]bool{},
	}
	if c.DryRun {
		r.events = noEvents{}
		r.tables = c.Tables
	}
	return r
}

// left logs why a pod that should change is left, when the reason is new. It writes an event for the autoscaler if users may have to act.
func (r *reporter) left(d *decision.Decision, n notice, unanswered decision.Reason) {
	if d.Wanted.Code == decision.Fits || r.notices[d.Pod.UID] == n {
		return
	}
	if n.code == decision.NotSmallerThanRefused {
		r.events.ResizeSkipped(d.Pod)
	}
	r.logger(d).Info("Left a pod unchanged", slog.String("wanted", d.Wanted.String()))
	if n.code.NeedsAttention() && !n.replacing || n.persists {
		r.leftFor(d, d.Reason)
	}
	if n.refused.NeedsAttention() {
		r.leftFor(d, d.Refused)
	}
	if n.unanswered {
		r.leftFor(d, unanswered)
	}
}

// leftFor writes an event with the reason why a pod is left unchanged: one for each autoscaler and reason until a pod is changed.
func (r *reporter) leftFor(d *decision.Decision, reason decision.Reason) {
	reported := r.held[d.Autoscaler.Key]
	if reported[reason.Code] {
		return
	}
	if reported == nil {
		reported = map[decision.ReasonCode]bool{}
		r.held[d.Autoscaler.Key] = reported
	}
	reported[reason.Code] = true
	r.events.Autoscaler(d.Autoscaler, event.UpdateHeld, "Pod "+d.Pod.Name+" is not updated. "+reason.String())
}

// fallback writes an event when pods are evicted because they cannot be resized: one until a resize succeeds.
func (r *reporter) fallback(d *decision.Decision, refusal string) {
	r.mu.Lock()
	reported := r.fallbacks[d.Autoscaler.Key]
	r.fallbacks[d.Autoscaler.Key] = true
	r.mu.Unlock()
	if !reported {
		r.events.Autoscaler(d.Autoscaler, event.ResizeRefused,
			"Pod "+d.Pod.Name+" will be evicted, because the API server refused to resize it: "+strings.TrimRight(refusal, ". ")+".")
	}
}

// changed reports a decision that was carried out.
func (r *reporter) changed(d *decision.Decision) {
	a := d.Autoscaler
	r.mu.Lock()
	if d.Do == decision.Resize {
		delete(r.fallbacks, a.Key)
	}
	delete(r.held, a.Key)
	r.mu.Unlock()
	if d.Rescue {
		r.events.Autoscaler(a, event.OOMRescued, rescueText(d))
	}
	r.events.Changed(d)
	log := r.logger(d)
	switch d.Do {
	case decision.Delete:
		log.Info("Deleted a pod")
	case decision.Surge:
		log.Info("Began a surge")
	case decision.Evict:
		log.Info("Evicted a pod")
	case decision.Resize, decision.Leave:
		log.Info("Resized a pod in place")
	}
}

// An intent is the action that a dry run logs for a pod, and its reason.
type intent struct {
	do   decision.Act
	code decision.ReasonCode
}

// dryRun logs the action for a pod, and logs it again only when the action or its reason changes.
func (r *reporter) dryRun(d *decision.Decision) {
	current := intent{d.Do, d.Reason.Code}
	if r.dryRuns[d.Pod.UID] == current {
		return
	}
	r.dryRuns[d.Pod.UID] = current
	r.logger(d).Info("Would change a pod")
}

// missing reports controllers whose pods are missing after an eviction, once until all exist.
func (r *reporter) missing(shortages []ledger.Shortage) {
	current := make(map[cluster.Workload]bool, len(shortages))
	for _, s := range shortages {
		current[s.Controller] = true
		if r.shortages[s.Controller] {
			continue
		}
		r.log.Warn("Pods are missing after an eviction", slog.String("workload", s.Controller.String()), slog.Int("pods", s.Present), slog.Int("wanted", s.Wanted))
		if s.Autoscaler != nil {
			r.events.Autoscaler(s.Autoscaler, event.ReplacementMissing, fmt.Sprintf(
				"%s %s has %d of %d pods since %s, after an eviction. None of its pods is evicted until all of them exist again. "+
					"Exceptions: a pod that has not been ready for 10 minutes, if the StatefulSet may wait for it, and a pod whose eviction makes room for the missing pods in a ResourceQuota that podfit may read. "+
					"Check its events for the cause, such as a ResourceQuota or an admission webhook.",
				s.Controller.Kind, s.Controller.Name, s.Present, s.Wanted, s.Since.UTC().Format(time.RFC3339)))
		}
	}
	r.shortages = current
}

// unownedPods writes one event for each pod without a controller in a namespace with autoscalers, because its owner may expect
// an autoscaler to size it.
func (r *reporter) unownedPods(pods []*cluster.Pod, served []*cluster.Autoscaler) {
	autoscaled := cluster.SetOf(served, func(a *cluster.Autoscaler) string { return a.Namespace })
	current := map[string]bool{}
	for _, p := range pods {
		if !p.Controller.IsZero() || p.Placeholder || !autoscaled[p.Namespace] || !p.Live() {
			continue
		}
		current[p.UID] = true
		if !r.unowned[p.UID] {
			r.events.Pod(p, event.NotAutoscaled, "No controller owns this pod, so no VerticalPodAutoscaler can size it.")
		}
	}
	r.unowned = current
}

// planned logs the plans for nodes that are too full for the resizes of their pods, before the first step: a record for each node and one
// for each step in its order, when the plan is new. A dry run also writes them as tables.
func (r *reporter) planned(plans []room.Plan) {
	current := make(map[string]string, len(plans))
	for _, p := range plans {
		key := p.Key()
		current[p.Node] = key
		if r.rooms[p.Node] == key {
			continue
		}
		rows := p.Rows()
		r.log.Info("Node has too little room for the resizes of its pods", slog.String("node", p.Node), slog.String("free", p.Free.String()), slog.Int("count", len(rows)))
		for i, row := range rows {
			r.log.Info("Planned step for a node with too little room", slog.String("node", p.Node), slog.Int("step", i+1), slog.String("action", row.Action),
				slog.String("pod", row.Pod), slog.String("from", row.From), slog.String("to", row.To), slog.String("reason", row.Reason))
		}
		if r.tables != nil {
			fmt.Fprint(r.tables, p.Table())
		}
	}
	r.rooms = current
}

// reportUnknownRoom logs that no room is made because the pods of some namespaces are not watched.
func (u *updater) reportUnknownRoom() {
	if u.budget.MakeRoom != room.Off && !u.config.WatchesAllPods() {
		u.log.Info("Not all namespaces are watched, so the free room on nodes is unknown and --make-room has no effect")
	}
}

// annotations logs those of autoscalers without a valid value, once for each value.
func (r *reporter) annotations(served []*cluster.Autoscaler) {
	current := map[string]bool{}
	isNew := func(a *cluster.Autoscaler, name, value string, valid bool) bool {
		if valid || value == "" {
			return false
		}
		key := a.Key.String() + " " + name + " " + value
		current[key] = true
		return !r.invalid[key]
	}
	for _, a := range served {
		if _, valid := room.ParseAllowed(a.MakeRoom); isNew(a, "make-room", a.MakeRoom, valid) {
			r.log.Warn("The annotation podfit.dev/make-room is invalid, so --make-room applies; it must be off, shrink, split or move",
				slog.String("vpa", a.Key.String()), slog.String("used", a.MakeRoom))
		}
		if isNew(a, "mover", a.Mover, surge.Mover(a.Mover).IsValid()) {
			r.log.Warn("The annotation podfit.dev/mover is invalid, so --mover applies; it must be evict, room or surge",
				slog.String("vpa", a.Key.String()), slog.String("used", a.Mover))
		}
	}
	r.invalid = current
}

// rollout logs what is new in a report, and writes a warning event about it.
func (r *reporter) rollout(a *cluster.Autoscaler, report, before rolloutReport) {
	if report.problem != "" && report.problem != before.problem {
		r.log.Warn("A VPA has an invalid annotation; its condition AnnotationInvalid has the details",
			slog.String("vpa", a.Key.String()), slog.String("error", report.problem))
		r.events.Autoscaler(a, event.InvalidAnnotation, report.problem)
	}
	if report.reverted != "" && report.reverted != before.reverted {
		r.log.Warn("Reverted a recommendation", slog.String("vpa", a.Key.String()), slog.String("reason", report.reverted))
		r.events.Autoscaler(a, event.Reverted, report.reverted)
	}
}

// forget removes pods and autoscalers that are gone. notices are those of the pass.
func (r *reporter) forget(notices map[string]notice, exists map[string]bool, governs func(cluster.Key) bool) {
	r.notices = notices
	maps.DeleteFunc(r.dryRuns, func(uid string, _ intent) bool { return !exists[uid] })
	maps.DeleteFunc(r.fallbacks, func(key cluster.Key, _ bool) bool { return !governs(key) })
	maps.DeleteFunc(r.held, func(key cluster.Key, _ map[decision.ReasonCode]bool) bool { return !governs(key) })
}

func (r *reporter) logger(d *decision.Decision) *slog.Logger {
	return r.log.With(slog.String("action", d.Do.String()), slog.String("pod", d.Pod.Key.String()), slog.String("vpa", d.Autoscaler.Key.String()), slog.String("reason", d.Reason.String()))
}
