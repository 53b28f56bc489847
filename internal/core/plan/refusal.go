// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"strings"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/policy"
)

// A Refusal is an action that the API server did not carry out, or whose outcome is unknown.
type Refusal struct {
	Kind RefusalKind
	Text string // what the API server said
}

// A RefusalKind says why an action was not carried out, as far as it matters for what to do next.
type RefusalKind uint8

// The kinds of refusals.
const (
	Denied           RefusalKind = iota // by an admission plugin or webhook, by validation or by access control
	DeniedByBudget                      // by a PodDisruptionBudget
	DeniedByNode                        // the pod's node can never give as much
	DeniedByQuota                       // by a ResourceQuota or LimitRange, which would refuse a replacement, too
	Unsupported                         // this API server cannot do it
	WebhookFailed                       // the API server could not call an admission webhook
	ServerBusy                          // the API server is overloaded or cannot be reached, or the pod changed meanwhile
	OutcomeIsUnknown                    // there was no answer: the action may have been carried out
)

// keepsBudget reports whether the budget of the action stays spent for this pass: because the action may have been
// carried out, or because an overloaded server should not be asked for the next pod at once.
func (k RefusalKind) keepsBudget() bool { return k == OutcomeIsUnknown || k == ServerBusy }

// goesBySize reports whether less may be allowed where this was not.
func (k RefusalKind) goesBySize() bool { return k == DeniedByNode || k == DeniedByQuota }

// mayPass reports whether the next attempt may succeed though nothing in the cluster changes.
func (k RefusalKind) mayPass() bool {
	return k == WebhookFailed || k == ServerBusy || k == OutcomeIsUnknown
}

// After so many failed resizes in a row, a failure that could have passed counts as a refusal.
const (
	lastingAfter  = 5 // about 15 minutes
	webhookIsDown = 3 // about 3 minutes
)

// A refused is the last attempt on a pod that did not succeed.
type refused struct {
	Refusal
	at    time.Time
	n     int             // attempts in a row that did not succeed
	brief int             // of them the last in a row that failed for what may pass by itself
	lost  time.Time       // when the last attempt without an answer was made; the pod may have been evicted then
	since time.Time       // when the first of the last attempts in a row that had no answer was made; zero when the last had one
	ready int             // pods of the group that were ready, without those changed in that pass
	with  []policy.Fitted // what a resize asked for

	// What a quota refused last, and when. A webhook that answers before the quota is asked says nothing about it.
	overQuota   []policy.Fitted
	overQuotaAt time.Time
}

// A refusedKey names what was refused: evicting or resizing one pod.
type refusedKey struct {
	uid string
	do  Act
}

// maxRefusalText is how many bytes of the API server's text are kept.
const maxRefusalText = 300

// noticeablyLess is by which part a resize must ask for less than the one before for its back-off to begin anew. It bounds how
// often a recommendation that falls step by step does that.
const noticeablyLess = 0.1

// Refused notes that an action was refused. ready is the number of pods of its group that were ready then.
func (l *Ledger) Refused(now time.Time, d Decision, r Refusal, ready int) {
	if len(r.Text) > maxRefusalText {
		r.Text = strings.ToValidUTF8(r.Text[:maxRefusalText], "") + "…"
	}
	l.serve(now, d)
	key := refusedKey{d.Pod.UID, d.Do}
	before := l.refusals[key]
	next := refused{Refusal: r, at: now, n: l.attempts(d.Pod, before) + 1, ready: ready, with: d.With}
	if r.Kind.goesBySize() && asksLessThan(d.With, before.with, noticeablyLess) {
		next.n = 1 // the attempts before were about something else
	}
	if r.Kind.mayPass() {
		next.brief = before.brief + 1
	}
	if r.Kind != DeniedByBudget { // only a disruption budget is checked for a pod that exists
		next.lost = before.lost
	}
	if r.Kind == OutcomeIsUnknown {
		next.lost = now
		next.since = before.since
		if next.since.IsZero() {
			next.since = now
		}
	}
	next.overQuota, next.overQuotaAt = before.overQuota, before.overQuotaAt
	if r.Kind == DeniedByQuota {
		next.overQuota, next.overQuotaAt = d.With, now
	}
	l.refusals[key] = next
	if d.Do == Evict && r.Kind == OutcomeIsUnknown {
		l.owe(now, d)
		l.expectUncertain(now, d)
	}
}

// attempts returns how many attempts in a row count for the back-off. After an eviction of a sibling the disruption
// budget has moved, and counting begins anew.
func (l *Ledger) attempts(p *cluster.Pod, r refused) int {
	if r.Kind == DeniedByBudget && r.n > 1 && !l.progress[workloadOf(p)].Before(r.at) {
		return 1
	}
	return r.n
}

// refusal returns the last attempt at an action that did not succeed, with the attempts in a row that count, and
// whether there is one.
func (l *Ledger) refusal(p *cluster.Pod, do Act) (refused, bool) {
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
	e, r := l.refusals[refusedKey{p.UID, Evict}].at, l.refusals[refusedKey{p.UID, Resize}].at
	if e.After(r) {
		return e
	}
	return r
}

// isLasting reports whether a resize that failed like this counts as refused for good, so that an eviction is the way
// where the mode allows it. A quota never does: it would refuse the replacement, too. Neither does what came after a quota
// had refused no more than this, for as long as the ledger remembers.
func (r refused) isLasting() bool {
	if r.overQuota != nil && r.at.Sub(r.overQuotaAt) < remember && !asksLessThan(r.with, r.overQuota, 0) {
		return false
	}
	switch r.Kind {
	case Denied, DeniedByNode, Unsupported:
		return true
	case WebhookFailed:
		return r.brief >= webhookIsDown
	case ServerBusy, OutcomeIsUnknown:
		return r.brief >= lastingAfter
	case DeniedByBudget, DeniedByQuota:
	}
	return false
}

// answerDue is how long an action on a pod may have no answer before users are told, however seldom it was tried. Single
// lost answers, and short outages of the API server, pass sooner.
const answerDue = 10 * time.Minute

// Unanswered reports whether an action on the pod has had no answer for long, and returns the reason to tell users. The pod may
// be left for another reason, such as that other pods are changed first.
func (p *Pass) Unanswered(d Decision) (Reason, bool) {
	var longest refused
	for _, do := range []Act{Evict, Resize} {
		r, ok := p.w.Ledger.refusal(d.Pod, do)
		if ok && !r.since.IsZero() && (longest.since.IsZero() || r.since.Before(longest.since)) {
			longest = r
		}
	}
	if longest.since.IsZero() || p.now.Before(longest.since.Add(answerDue)) {
		return Reason{}, false
	}
	r := Reason{Code: Unanswered, Text: longest.Text, For: p.now.Sub(longest.since)}
	if until := longest.until(p.b); p.now.Before(until) {
		r.Until = until
	}
	return r, true
}

// saysNothing reports whether the refusal of a resize leaves open whether a replacement of the same size would be refused,
// too. Then one pod is evicted, and the next when that has been replaced.
func (k RefusalKind) saysNothing() bool { return k != DeniedByNode && k != Unsupported }

// until returns when the next attempt may be made.
func (r refused) until(b Budget) time.Time {
	return r.at.Add(doubled(b.RefusalBase, b.RefusalMax, r.n))
}

// reason returns the refusal as the reason to leave a pod.
func (r refused) reason(b Budget, do Act) Reason {
	out := Reason{Code: EvictionRefused, Text: r.Text, Until: r.until(b), Have: r.n}
	switch {
	case r.Kind == OutcomeIsUnknown:
		out.Code = Unanswered
	case r.Kind == DeniedByBudget:
		out.Code = DisruptionBudget
	case r.Kind == DeniedByQuota && do == Resize:
		out.Code = ResizeOverQuota
	case do == Resize:
		out.Code = ResizeRefused
	}
	return out
}

// evictionRefused stands in the way of an eviction that was refused a short while ago. A disruption budget is asked
// again at once when more pods are ready than then.
func (t *turn) evictionRefused() (Reason, bool) {
	r, ok := t.w.Ledger.refusal(t.d.Pod, Evict)
	if !ok || !t.now.Before(r.until(t.b)) {
		return Reason{}, false
	}
	if r.Kind == DeniedByBudget && t.g != nil && t.g.ready > r.ready {
		return Reason{}, false
	}
	return r.reason(t.b, Evict), true
}

// resizeRefused stands in the way of a resize that was refused a short while ago.
func (t *turn) resizeRefused() (Reason, bool) {
	r, ok := t.w.Ledger.refusal(t.d.Pod, Resize)
	if !ok || !t.now.Before(r.until(t.b)) || r.Kind.goesBySize() && t.asksEnoughLess(r) {
		return Reason{}, false
	}
	return r.reason(t.b, Resize), true
}

// asksEnoughLess reports whether a node or quota that refused a resize may be asked again: for less, and when the back-off is not
// over for noticeably less.
func (t *turn) asksEnoughLess(r refused) bool {
	return asksLessThan(t.d.With, r.with, t.b.Threshold) || asksLessThan(t.d.With, r.with, 0) && !t.now.Before(r.until(t.b))
}
