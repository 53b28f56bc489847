// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package updater

import (
	"fmt"
	"log/slog"
	"maps"
	"strings"
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
		class, mode := e.sizeClass[g.Autoscaler.Key], g.Autoscaler.Mode.String()
		controlled.Add(class, mode, len(g.Pods))
		if len(g.Pods) > 0 {
			evictable.Add(class, mode, 0)
		}
		m.initCounters(g.Autoscaler, len(g.Pods))
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
		class, mode := e.sizeClass[d.Autoscaler.Key], d.Autoscaler.Mode.String()
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
	controlled.Publish(true)
	evictable.Publish(true)
	withEvictable.Publish(true)
	resizable.Publish(false)
	withResizable.Publish(false)
}

// publishOutcome publishes the decisions after they were carried out, and reports why pods were left unchanged.
func (e *execution) publishOutcome(decisions []decision.Decision) {
	e.metrics.publishDecisions(decisions)
	current := make(map[string]notice, len(e.lastNotices))
	for i := range decisions {
		d := &decisions[i]
		if d.Do == decision.Leave {
			n := e.noticeOf(d)
			current[d.Pod.UID] = n
			e.reportLeft(d, n)
		}
	}
	e.lastNotices = current
	maps.DeleteFunc(e.unknownSince, func(uid string, _ time.Time) bool { return current[uid].code != decision.ReplicasUnknown })
}

// A notice is what the log and the events report about a pod that is left unchanged. It is reported again only when it changes.
type notice struct {
	code       decision.ReasonCode
	persists   bool                // the reason usually ends by itself, and has not for longer than usual
	refused    decision.ReasonCode // why the resize was refused in this pass, if code is why the pod is not evicted instead
	unanswered bool                // actions on the pod have been without an answer for long, whatever the current reason is
	replacing  bool                // there are too few pods because the updater has evicted one that is being replaced
}

func (e *execution) noticeOf(d *decision.Decision) notice {
	n := notice{code: d.Reason.Code, refused: d.Refused.Code}
	if d.Reason.Code == decision.ReplicasUnknown {
		n.persists = e.hasBeenUnknown(d.Pod.UID)
	}
	if d.Reason.Code == decision.RescueInProgress {
		n.persists = d.Reason.For >= rescueTakesTooLong
	}
	_, n.unanswered = e.pass.Unanswered(*d)
	n.replacing = n.code == decision.TooFewReplicas && e.ledger.Missing(d.Pod.Controller) > 0
	return n
}

// rescueTakesTooLong is how long OOM-killed pods may wait for the replacement of a deleted pod before an event is written. The wait ends
// after plan.Budget.StuckFor unless the replacement does not start, for example because no node has room for it.
const rescueTakesTooLong = 15 * time.Minute

// hasBeenUnknown reports whether the number of replicas of a pod's controller has been unknown for about an interval.
func (e *execution) hasBeenUnknown(uid string) bool {
	last := e.lastNotices[uid]
	if last.code != decision.ReplicasUnknown {
		e.unknownSince[uid] = e.now
		return false
	}
	return last.persists || e.now.Sub(e.unknownSince[uid]) >= e.config.Interval*9/10
}

// reportLeft logs why a pod that should change is left, when the reason is new. It writes an event for the autoscaler if
// users may have to act.
func (e *execution) reportLeft(d *decision.Decision, n notice) {
	if d.Wanted.Code == decision.Fits || e.lastNotices[d.Pod.UID] == n {
		return
	}
	if n.code == decision.NotSmallerThanRefused {
		e.events.ResizeSkipped(d.Pod)
	}
	e.log.Info("Left a pod unchanged", slog.String("action", d.Do.String()), slog.String("pod", d.Pod.Key.String()), slog.String("vpa", d.Autoscaler.Key.String()),
		slog.String("reason", d.Reason.String()), slog.String("wanted", d.Wanted.String()))
	if n.code.NeedsAttention() && !n.replacing || n.persists {
		e.reportHeld(d, d.Reason)
	}
	if n.refused.NeedsAttention() {
		e.reportHeld(d, d.Refused)
	}
	if n.unanswered {
		reason, _ := e.pass.Unanswered(*d)
		e.reportHeld(d, reason)
	}
}

// reportHeld writes an event with the reason why a pod is left unchanged: one for each autoscaler and reason until a pod is changed.
func (e *execution) reportHeld(d *decision.Decision, reason decision.Reason) {
	reported := e.heldReported[d.Autoscaler.Key]
	if reported[reason.Code] {
		return
	}
	if reported == nil {
		reported = map[decision.ReasonCode]bool{}
		e.heldReported[d.Autoscaler.Key] = reported
	}
	reported[reason.Code] = true
	e.events.Autoscaler(d.Autoscaler, event.UpdateHeld, "Pod "+d.Pod.Name+" is not updated. "+reason.String())
}

// reportFallback writes an event when pods are evicted because they cannot be resized: one until a resize succeeds.
func (e *execution) reportFallback(d *decision.Decision, refusal string) {
	e.mu.Lock()
	reported := e.fallbackReported[d.Autoscaler.Key]
	e.fallbackReported[d.Autoscaler.Key] = true
	e.mu.Unlock()
	if !reported {
		e.events.Autoscaler(d.Autoscaler, event.ResizeRefused,
			"Pod "+d.Pod.Name+" will be evicted, because the API server refused to resize it: "+strings.TrimRight(refusal, ". ")+".")
	}
}

// reportShortages reports controllers whose pods are missing after an eviction, once until all exist.
func (e *execution) reportShortages(shortages []ledger.Shortage) {
	current := make(map[cluster.Workload]bool, len(shortages))
	for _, s := range shortages {
		current[s.Controller] = true
		if e.shortReported[s.Controller] {
			continue
		}
		e.log.Warn("Pods are missing after an eviction", slog.String("workload", s.Controller.String()), slog.Int("pods", s.Present), slog.Int("wanted", s.Wanted))
		if s.Autoscaler != nil {
			e.events.Autoscaler(s.Autoscaler, event.ReplacementMissing, fmt.Sprintf(
				"%s %s has %d of %d pods since %s, after an eviction. None of its pods is evicted until all of them exist again. "+
					"Check its events for the cause, such as a ResourceQuota or an admission webhook.",
				s.Controller.Kind, s.Controller.Name, s.Present, s.Wanted, s.Since.UTC().Format(time.RFC3339)))
		}
	}
	e.shortReported = current
}

// reportRooms logs the plans for nodes that are too full for the resizes of their pods, before the first step: a record for each node and one
// for each step in its order, when the plan is new. A dry run also writes them as tables.
func (u *updater) reportRooms(plans []room.Plan) {
	current := make(map[string]string, len(plans))
	for _, p := range plans {
		key := p.Key()
		current[p.Node] = key
		if u.roomReported[p.Node] == key {
			continue
		}
		rows := p.Rows()
		u.log.Info("Node has too little room for the resizes of its pods", slog.String("node", p.Node), slog.String("free", p.Free.String()), slog.Int("count", len(rows)))
		for i, r := range rows {
			u.log.Info("Planned step for a node with too little room", slog.String("node", p.Node), slog.Int("step", i+1), slog.String("action", r.Action),
				slog.String("pod", r.Pod), slog.String("from", r.From), slog.String("to", r.To), slog.String("reason", r.Reason))
		}
		if u.config.DryRun && u.config.Tables != nil {
			fmt.Fprint(u.config.Tables, p.Table())
		}
	}
	u.roomReported = current
}

// reportUnknownRoom logs that no room is made because the pods of some namespaces are not watched.
func (u *updater) reportUnknownRoom() {
	if u.budget.MakeRoom != room.Off && !u.config.WatchesAllPods() {
		u.log.Info("Not all namespaces are watched, so the free room on nodes is unknown and --make-room has no effect")
	}
}

// reportInvalidAnnotations logs annotations of autoscalers without a valid value, once for each value.
func (u *updater) reportInvalidAnnotations(served []*cluster.Autoscaler) {
	current := map[string]bool{}
	isNew := func(a *cluster.Autoscaler, name, value string, valid bool) bool {
		if valid || value == "" {
			return false
		}
		key := a.Key.String() + " " + name + " " + value
		current[key] = true
		return !u.invalidReported[key]
	}
	for _, a := range served {
		if _, valid := room.ParseAllowed(a.MakeRoom); isNew(a, "make-room", a.MakeRoom, valid) {
			u.log.Warn("The annotation podfit.dev/make-room is invalid, so --make-room applies; it must be off, shrink, split or move",
				slog.String("vpa", a.Key.String()), slog.String("used", a.MakeRoom))
		}
		if _, valid := surge.ParseMover(a.Mover); isNew(a, "mover", a.Mover, valid) {
			u.log.Warn("The annotation podfit.dev/mover is invalid, so --mover applies; it must be evict, room or surge",
				slog.String("vpa", a.Key.String()), slog.String("used", a.Mover))
		}
	}
	u.invalidReported = current
}
