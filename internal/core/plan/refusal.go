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

	// RetryAfter is the delay before the next attempt that the API server asks for; 0 if it asks for none.
	RetryAfter time.Duration
}

// A RefusalKind is the cause for which an action was not carried out.
type RefusalKind uint8

// The kinds of refusals.
const (
	Denied           RefusalKind = iota // by an admission plugin or webhook, by validation or by access control
	DeniedByBudget                      // by a PodDisruptionBudget
	DeniedByNode                        // the pod's node can never provide the requests
	DeniedByQuota                       // by a ResourceQuota or LimitRange, which would refuse a replacement too
	Unsupported                         // this API server cannot do it
	WebhookFailed                       // the API server could not call an admission webhook
	ServerBusy                          // the API server is overloaded, or the pod changed meanwhile
	NotReached                          // the API server got no request, so this says nothing about the pod
	OutcomeIsUnknown                    // there was no answer: the action may have been carried out
	NotReadyInTime                      // the additional pod of a surge was not ready in time
)

// keepsBudget reports whether the budget of the action stays spent for this pass: because the action may have been
// carried out, or because an overloaded or unreachable server should not be asked for the next pod at once.
func (k RefusalKind) keepsBudget() bool {
	return k == OutcomeIsUnknown || k == ServerBusy || k == NotReached
}

// dependsOnSize reports whether a smaller size may be allowed.
func (k RefusalKind) dependsOnSize() bool { return k == DeniedByNode || k == DeniedByQuota }

// isTransient reports whether the next attempt may succeed without a change in the cluster.
func (k RefusalKind) isTransient() bool {
	return k == WebhookFailed || k == ServerBusy || k == OutcomeIsUnknown
}

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
	Refusal
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
	do  Act
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
func (l *Ledger) Refused(now time.Time, d Decision, r Refusal, ready int) {
	r.Text = shortened(r.Text)
	l.markServed(now, d)
	l.note(d.Pod)
	key := refusedKey{d.Pod.UID, d.Do}
	before := l.refusals[key]
	next := refused{Refusal: r, at: now, n: l.attempts(d.Pod, before) + 1, ready: max(0, ready), with: d.With}
	if (r.Kind.dependsOnSize() || before.Kind.dependsOnSize()) && asksSmaller(d.With, before.with, noticeablyLess) {
		next.n = 1 // the earlier attempts had other requests
	}
	switch {
	case r.Kind.isTransient():
		next.transient = before.transient + 1
		next.failing = before.failing
		if next.failing.IsZero() {
			next.failing = now
		}
	case r.Kind == NotReached: // the time without a connection is not a time of failures
		next.transient = before.transient
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
	if d.Do == Delete && r.Kind == OutcomeIsUnknown {
		l.recordRescue(now, d)
	}
	if (d.Do == Evict || d.Do == Delete) && r.Kind == OutcomeIsUnknown {
		l.noteRound(now, d)
		l.addPending(now, d)
		l.expectUncertain(now, d)
	}
}

// attempts returns the number of consecutive attempts that count for the back-off. After the eviction of another pod of the
// workload, the state of the PodDisruptionBudget has changed, so the count restarts.
func (l *Ledger) attempts(p *cluster.Pod, r refused) int { return l.attemptsOf(workloadOf(p), r) }

func (l *Ledger) attemptsOf(w cluster.Workload, r refused) int {
	if r.Kind == DeniedByBudget && r.n > 1 && !l.progress[w].Before(r.at) {
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
	var latest time.Time
	for _, do := range []Act{Evict, Resize, Delete, Surge} {
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
	if r.isOverQuota(r.at, r.with) {
		return false
	}
	switch r.Kind {
	case Denied, DeniedByNode, Unsupported:
		return true
	case WebhookFailed:
		return r.transient >= webhookIsDown || r.at.Sub(r.failing) >= webhookDown
	case ServerBusy, OutcomeIsUnknown:
		return r.transient >= lastingAfter || r.at.Sub(r.failing) >= lastingFor
	case DeniedByBudget, DeniedByQuota, NotReached, NotReadyInTime:
	}
	return false
}

// isOverQuota reports whether a quota refused a resize within historyTTL, and the given requests are not smaller.
func (r refused) isOverQuota(now time.Time, with []policy.Fitted) bool {
	return r.overQuota != nil && now.Sub(r.overQuotaAt) < historyTTL && !asksSmaller(with, r.overQuota, 0)
}

// unansweredAfter is how long actions on a pod may be without an answer before an event is written. Single lost answers and short
// outages of the API server are shorter.
const unansweredAfter = 10 * time.Minute

// Unanswered reports whether actions on the pod have been without an answer for longer than unansweredAfter, and returns the reason
// to report. The pod may currently be left for another reason, such as the disruption budget.
func (p *Pass) Unanswered(d Decision) (Reason, bool) {
	var longest refused
	for _, do := range []Act{Evict, Resize, Delete, Surge} {
		r, ok := p.w.Ledger.refusal(d.Pod, do)
		if ok && !r.since.IsZero() && (longest.since.IsZero() || r.since.Before(longest.since)) {
			longest = r
		}
	}
	if longest.since.IsZero() || p.now.Before(longest.since.Add(unansweredAfter)) {
		return Reason{}, false
	}
	r := Reason{Code: Unanswered, Text: longest.Text, For: p.now.Sub(longest.since)}
	if until := longest.until(p.b); p.now.Before(until) {
		r.Until = until
	}
	return r, true
}

// leavesReplacementOpen reports whether it is unknown after the refusal of a resize if a replacement would be refused too. In that
// case one pod is evicted, and the next one when that pod has been replaced.
func (k RefusalKind) leavesReplacementOpen() bool { return k != DeniedByNode && k != Unsupported }

// until returns when the next attempt may be made.
func (r refused) until(b Budget) time.Time {
	return r.at.Add(max(doubled(b.RefusalBase, b.RefusalMax, r.n), r.RetryAfter))
}

// reason returns the refusal as the reason to leave a pod.
func (r refused) reason(b Budget, do Act) Reason {
	out := Reason{Code: EvictionRefused, Text: r.Text, Until: r.until(b), Have: r.n}
	switch {
	case r.Kind == OutcomeIsUnknown:
		out.Code = Unanswered
	case r.Kind == NotReached:
		out.Code = ServerNotReached
	case r.Kind == DeniedByBudget && do != Surge:
		out.Code = DisruptionBudget
	case r.Kind == DeniedByQuota && do == Resize:
		out.Code = ResizeOverQuota
	case do == Resize:
		out.Code = ResizeRefused
	case do == Delete:
		out.Code = DeletionRefused
	case do == Surge:
		out.Code = SurgeFailed
	}
	return out
}

// evictionRefused blocks an eviction during the back-off after a refusal. If a PodDisruptionBudget refused it, the eviction is tried
// again at once when more pods are ready.
func (t *candidate) evictionRefused() (Reason, bool) {
	r, ok := t.w.Ledger.refusal(t.d.Pod, Evict)
	if !ok || !t.now.Before(r.until(t.b)) {
		return Reason{}, false
	}
	if r.Kind == DeniedByBudget && t.g != nil && t.g.ready > r.ready && !t.now.Before(r.at.Add(r.RetryAfter)) {
		return Reason{}, false
	}
	return r.reason(t.b, Evict), true
}

// resizeRefused blocks a resize during the back-off after a refusal.
func (t *candidate) resizeRefused() (Reason, bool) {
	r, ok := t.w.Ledger.refusal(t.d.Pod, Resize)
	if !ok || !t.now.Before(r.until(t.b)) || r.Kind.dependsOnSize() && t.asksEnoughLess(r) {
		return Reason{}, false
	}
	return r.reason(t.b, Resize), true
}

// asksEnoughLess reports whether a resize that a node or quota refused may be tried again: with smaller requests after the back-off,
// or with much smaller requests during it. What a quota refused is tried again during the back-off only if no request is higher:
// otherwise a resize by a part, which shrinks no container, and one in full, which does, would be tried in turn.
func (t *candidate) asksEnoughLess(r refused) bool {
	if r.Kind == DeniedByQuota {
		return asksSmaller(t.d.With, r.with, t.b.Threshold)
	}
	return asksLessThan(t.d.With, r.with, t.b.Threshold) || asksLessThan(t.d.With, r.with, 0) && !t.now.Before(r.until(t.b))
}
