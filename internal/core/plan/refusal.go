// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"strings"
	"time"

	"podfit.dev/podfit/internal/core/change"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/decision"
	"podfit.dev/podfit/internal/core/policy"
)

// Number of consecutive failed resizes after which a transient failure counts as a refusal, and the time that they take if each is
// made when its back-off ends. If a pod waits for other pods between two attempts, the time decides.
const (
	lastingAfter  = 5
	lastingFor    = 15 * time.Minute
	webhookIsDown = 3
	webhookDown   = 3 * time.Minute
)

// A refused is the last attempt on a pod that did not succeed.
type refused struct {
	decision.Refusal
	at        time.Time
	n         int             // consecutive failed attempts
	transient int             // consecutive last attempts with a transient failure
	failing   time.Time       // time of the first of these attempts since the API server was last not reached; zero if the last one failed otherwise
	lost      time.Time       // time of the last attempt without an answer; the pod may have been evicted then
	since     time.Time       // time of the first of the consecutive last attempts without an answer; zero if the last one had an answer
	ready     int             // pods of the group that were ready, without those changed in that pass
	with      []policy.Fitted // what a resize asked for

	// The last amounts that a quota refused, and when. A refusal by a webhook, which is called before, does not replace them.
	overQuota   []policy.Fitted
	overQuotaAt time.Time
}

// A refusedKey identifies a refused action on a pod.
type refusedKey struct {
	uid string
	do  decision.Act
}

// maxRefusalText is how many bytes of the API server's text are kept.
const maxRefusalText = 300

// noticeablyLess is the fraction by which a resize must be smaller than the refused one to restart its back-off. It limits how often
// a slowly falling recommendation restarts it.
const noticeablyLess = 0.1

// shortened cuts a text to maxRefusalText.
func shortened(text string) string {
	if len(text) > maxRefusalText {
		return strings.ToValidUTF8(text[:maxRefusalText], "") + "…"
	}
	return text
}

// Refused records that an action was refused. ready is the number of ready pods of its group at that time.
func (l *Ledger) Refused(now time.Time, d Attempt, r decision.Refusal, ready int) {
	r.Text = shortened(r.Text)
	l.markServed(now, d.Pod)
	l.note(d.Pod)
	key := refusedKey{d.Pod.UID, d.Do}
	before := l.refusals[key]
	next := refused{Refusal: r, at: now, n: l.attempts(d.Pod, before) + 1, ready: max(0, ready), with: d.With}
	if (r.Kind.DependsOnSize() || before.Kind.DependsOnSize()) && change.AsksLessThan(d.With, before.with, noticeablyLess) {
		next.n = 1 // the earlier attempts had other requests
	}
	switch {
	case r.Kind.IsTransient():
		next.transient = before.transient + 1
		next.failing = before.failing
		if next.failing.IsZero() {
			next.failing = now
		}
	case r.Kind == decision.NotReached: // the time without a connection is not a time of failures
		next.transient = before.transient
	}
	if r.Kind != decision.DeniedByBudget { // only a disruption budget is checked for a pod that exists
		next.lost = before.lost
	}
	if r.Kind == decision.OutcomeIsUnknown {
		next.lost = now
		next.since = before.since
		if next.since.IsZero() {
			next.since = now
		}
	}
	next.overQuota, next.overQuotaAt = before.overQuota, before.overQuotaAt
	if r.Kind == decision.DeniedByQuota {
		next.overQuota, next.overQuotaAt = d.With, now
	}
	l.refusals[key] = next
	if d.Do == decision.Delete && r.Kind == decision.OutcomeIsUnknown {
		l.recordRescue(now, d)
	}
	if (d.Do == decision.Evict || d.Do == decision.Delete) && r.Kind == decision.OutcomeIsUnknown {
		l.noteRound(now, d)
		l.addPending(now, d)
		l.expectUncertain(now, d)
	}
}

// attempts returns the number of consecutive attempts that count for the back-off. After the eviction of another pod of the
// workload, the state of the PodDisruptionBudget has changed, so the count restarts.
func (l *Ledger) attempts(p *cluster.Pod, r refused) int { return l.attemptsOf(workloadOf(p), r) }

func (l *Ledger) attemptsOf(w cluster.Workload, r refused) int {
	if r.Kind == decision.DeniedByBudget && r.n > 1 && !l.progress[w].Before(r.at) {
		return 1
	}
	return r.n
}

// refusal returns the last attempt at an action that did not succeed, with the attempts in a row that count, and
// whether there is one.
func (l *Ledger) refusal(p *cluster.Pod, do decision.Act) (refused, bool) {
	if l == nil {
		return refused{}, false
	}
	r, ok := l.refusals[refusedKey{p.UID, do}]
	if ok {
		r.n = l.attempts(p, r)
	}
	return r, ok
}

// lastRefused returns when any action on the pod was refused last; the zero time when none was.
func (l *Ledger) lastRefused(p *cluster.Pod) time.Time {
	if l == nil || len(l.refusals) == 0 {
		return time.Time{}
	}
	var latest time.Time
	for _, do := range []decision.Act{decision.Evict, decision.Resize, decision.Delete, decision.Surge} {
		if at := l.refusals[refusedKey{p.UID, do}].at; at.After(latest) {
			latest = at
		}
	}
	return latest
}

// isLasting reports whether a failed resize counts as permanently refused, so that the pod is evicted if the mode allows it. A
// refusal by a quota does not, because the quota would refuse the replacement too. Neither does a later failure of a resize of at
// least the size that a quota refused, within historyTTL.
func (r refused) isLasting() bool {
	if r.overQuota != nil && r.at.Sub(r.overQuotaAt) < historyTTL && !change.AsksLessThan(r.with, r.overQuota, 0) {
		return false
	}
	switch r.Kind {
	case decision.Denied, decision.DeniedByNode, decision.Unsupported:
		return true
	case decision.WebhookFailed:
		return r.transient >= webhookIsDown || r.at.Sub(r.failing) >= webhookDown
	case decision.ServerBusy, decision.OutcomeIsUnknown:
		return r.transient >= lastingAfter || r.at.Sub(r.failing) >= lastingFor
	case decision.DeniedByBudget, decision.DeniedByQuota, decision.NotReached, decision.NotReadyInTime:
	}
	return false
}

// unansweredAfter is how long actions on a pod may be without an answer before an event is written. Single lost answers and short
// outages of the API server are shorter.
const unansweredAfter = 10 * time.Minute

// Unanswered reports whether actions on the pod have been without an answer for longer than unansweredAfter, and returns the reason
// to report. The pod may currently be left for another reason, such as the disruption budget.
func (p *Pass) Unanswered(d decision.Decision) (decision.Reason, bool) {
	var longest refused
	for _, do := range []decision.Act{decision.Evict, decision.Resize, decision.Delete, decision.Surge} {
		r, ok := p.w.Ledger.refusal(d.Pod, do)
		if ok && !r.since.IsZero() && (longest.since.IsZero() || r.since.Before(longest.since)) {
			longest = r
		}
	}
	if longest.since.IsZero() || p.now.Before(longest.since.Add(unansweredAfter)) {
		return decision.Reason{}, false
	}
	r := decision.Reason{Code: decision.Unanswered, Text: longest.Text, For: p.now.Sub(longest.since)}
	if until := longest.until(p.b); p.now.Before(until) {
		r.Until = until
	}
	return r, true
}

// until returns when the next attempt may be made.
func (r refused) until(b Budget) time.Time {
	return r.at.Add(max(doubled(b.RefusalBase, b.RefusalMax, r.n), r.RetryAfter))
}

// reason returns the refusal as the reason to leave a pod.
func (r refused) reason(b Budget, do decision.Act) decision.Reason {
	out := decision.Reason{Code: decision.EvictionRefused, Text: r.Text, Until: r.until(b), Have: r.n}
	switch {
	case r.Kind == decision.OutcomeIsUnknown:
		out.Code = decision.Unanswered
	case r.Kind == decision.NotReached:
		out.Code = decision.ServerNotReached
	case r.Kind == decision.DeniedByBudget && do != decision.Surge:
		out.Code = decision.DisruptionBudget
	case r.Kind == decision.DeniedByQuota && do == decision.Resize:
		out.Code = decision.ResizeOverQuota
	case do == decision.Resize:
		out.Code = decision.ResizeRefused
	case do == decision.Delete:
		out.Code = decision.DeletionRefused
	case do == decision.Surge:
		out.Code = decision.SurgeFailed
	}
	return out
}

// evictionRefused blocks an eviction during the back-off after a refusal. If a PodDisruptionBudget refused it, the eviction is tried
// again at once when more pods are ready.
func (t *candidate) evictionRefused() (decision.Reason, bool) {
	r, ok := t.w.Ledger.refusal(t.d.Pod, decision.Evict)
	if !ok || !t.now.Before(r.until(t.b)) {
		return decision.Reason{}, false
	}
	if r.Kind == decision.DeniedByBudget && t.g != nil && t.g.ready > r.ready && !t.now.Before(r.at.Add(r.RetryAfter)) {
		return decision.Reason{}, false
	}
	return r.reason(t.b, decision.Evict), true
}

// resizeRefused blocks a resize during the back-off after a refusal.
func (t *candidate) resizeRefused() (decision.Reason, bool) {
	r, ok := t.w.Ledger.refusal(t.d.Pod, decision.Resize)
	if !ok || !t.now.Before(r.until(t.b)) || r.Kind.DependsOnSize() && t.asksEnoughLess(r) {
		return decision.Reason{}, false
	}
	return r.reason(t.b, decision.Resize), true
}

// asksEnoughLess reports whether a resize that a node or quota refused may be tried again: with smaller requests after the back-off,
// or with much smaller requests during it.
func (t *candidate) asksEnoughLess(r refused) bool {
	return change.AsksLessThan(t.d.With, r.with, t.b.Threshold) || change.AsksLessThan(t.d.With, r.with, 0) && !t.now.Before(r.until(t.b))
}
