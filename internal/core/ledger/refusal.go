// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"cmp"
	"time"

	"podfit.dev/podfit/internal/core/attempt"
	"podfit.dev/podfit/internal/core/change"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/decision"
	"podfit.dev/podfit/internal/core/policy"
)

// refusalRecords are the actions that were refused, and when a pod of each workload was last evicted.
type refusalRecords struct {
	refusals map[refusedKey]FailedAttempt
	progress map[cluster.Workload]time.Time // when a pod of the workload was last evicted
}

// Number of consecutive failed resizes after which a transient failure counts as a refusal, and the time that they take if each is
// made when its back-off ends. If a pod waits for other pods between two attempts, the time decides.
const (
	lastingAfter  = 5
	lastingFor    = 15 * time.Minute
	webhookIsDown = 3
	webhookDown   = 3 * time.Minute
)

// A FailedAttempt is the last attempt on a pod that did not succeed.
type FailedAttempt struct {
	FailedState
	At       time.Time
	Attempts int             // consecutive failed attempts
	With     []policy.Fitted // what a resize asked for

	// Unconfirmed is whether the only attempt with as many Ready pods was made before the end of the back-off: the status of the disruption
	// budget might not have counted the last of these pods yet.
	Unconfirmed bool
}

// A refusedKey identifies a refused action on a pod.
type refusedKey struct {
	uid string
	do  decision.Act
}

// budgetDelay is how long the status of a PodDisruptionBudget may take to count a pod that is ready.
const budgetDelay = 10 * time.Second

// noticeablyLess is the fraction by which a resize must be smaller than the refused one to restart its back-off. It limits how often
// a slowly falling recommendation restarts it.
const noticeablyLess = 0.1

// Refused records that an action was refused. ready is the number of other ready pods of its group at that time.
func (l *Ledger) Refused(now time.Time, d Attempt, r decision.Refusal, ready int) {
	r.Text = attempt.Shortened(r.Text)
	l.MarkServed(now, d.Pod)
	l.note(d.Pod)
	key := refusedKey{d.Pod.UID, d.Do}
	before := l.refusals[key]
	next := FailedAttempt{FailedState: FailedState{Refusal: r, Ready: max(0, ready)}, At: now, Attempts: l.attemptsOf(d.Pod.Workload(), before) + 1, With: d.With}
	if r.Kind == decision.DeniedByBudget && l.isRepeated(d, before) {
		next.Ready, next.Unconfirmed = before.readyWith(next.Ready, d.Early)
	}
	if d.Early {
		next.Attempts = max(1, next.Attempts-1) // otherwise pods that become ready one by one would let the back-off grow
	}
	if !d.Part && (r.Kind.DependsOnSize() || before.Kind.DependsOnSize()) && change.AsksSmaller(d.With, before.With, noticeablyLess) {
		next.Attempts = 1 // the earlier attempts had other requests
	}
	transient := before.Transient
	if d.Do == decision.Resize && before.IsLasting() && next.Attempts > 1 { // a transient failure does not show that it would be accepted now
		transient = max(transient, lastingAfter)
	}
	switch {
	case r.Kind.IsTransient():
		next.Transient = transient + 1
		next.Failing = cmp.Or(before.Failing, now)
	case r.Kind == decision.NotReached: // the time without a connection is not a time of failures
		next.Transient = transient
	}
	if r.Kind != decision.DeniedByBudget { // only a disruption budget is checked for a pod that exists
		next.Lost = before.Lost
	}
	if r.Kind == decision.OutcomeIsUnknown {
		next.Lost = now
		next.LostSince = cmp.Or(before.LostSince, now)
	}
	next.OverQuota = before.OverQuota
	next.OverQuotaAt = before.OverQuotaAt
	next.OverQuotaTotal = before.OverQuotaTotal
	if r.Kind == decision.DeniedByQuota {
		next.OverQuota = d.With
		next.OverQuotaAt = now
		next.OverQuotaTotal = d.Total
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

// attemptsOf returns the number of consecutive attempts that count for the back-off. After the eviction of another pod of the
// workload, the state of the PodDisruptionBudget has changed, so the count restarts.
func (l *refusalRecords) attemptsOf(w cluster.Workload, r FailedAttempt) int {
	if r.Kind == decision.DeniedByBudget && r.Attempts > 1 && !l.progress[w].Before(r.At) {
		return 1
	}
	return r.Attempts
}

// isRepeated reports whether a disruption budget also refused the attempt before, and would have the same reason to refuse this one: no pod of
// the workload was evicted since, and its number of replicas is not too small for as many other ready pods.
func (l *refusalRecords) isRepeated(d Attempt, before FailedAttempt) bool {
	evicted := !l.progress[d.Pod.Workload()].Before(before.At)
	return before.Kind == decision.DeniedByBudget && !evicted && (d.Replicas == 0 || before.Ready < d.Replicas)
}

// readyWith returns Ready and Unconfirmed after one more attempt in a row with a number of other ready pods.
func (r FailedAttempt) readyWith(ready int, early bool) (most int, unconfirmed bool) {
	switch {
	case ready > r.Ready:
		return ready, early
	case ready == r.Ready:
		return ready, false
	default:
		return r.Ready, r.Unconfirmed
	}
}

// MayAllow reports whether a disruption budget that refused the attempts may allow one with a number of other ready pods: more than at any
// of them, or as many as at a single attempt before the end of the back-off, if its status has had time to count them.
func (r FailedAttempt) MayAllow(now time.Time, ready int) bool {
	return ready > r.Ready || r.Unconfirmed && ready == r.Ready && !now.Before(r.At.Add(budgetDelay))
}

// LastFailure returns the last attempt at an action that did not succeed, with the attempts in a row that count, and
// whether there is one.
func (l *refusalRecords) LastFailure(p *cluster.Pod, do decision.Act) (FailedAttempt, bool) {
	r, ok := l.refusals[refusedKey{p.UID, do}]
	if ok {
		r.Attempts = l.attemptsOf(p.Workload(), r)
	}
	return r, ok
}

// LastFailureAt returns when any action on the pod was refused last; the zero time when none was.
func (l *refusalRecords) LastFailureAt(p *cluster.Pod) time.Time {
	if len(l.refusals) == 0 {
		return time.Time{}
	}
	var latest time.Time
	for _, do := range []decision.Act{decision.Evict, decision.Resize, decision.Delete, decision.Surge} {
		latest = cluster.Latest(latest, l.refusals[refusedKey{p.UID, do}].At)
	}
	return latest
}

// IsLasting reports whether a failed resize counts as permanently refused, so that the pod is evicted if the mode allows it. A
// refusal by a quota does not, because the quota would refuse the replacement too. Neither does a later failure of a resize of at
// least the size that a quota refused, within HistoryTTL. A resize without an answer may have been done, which the watch shows within WatchDelay.
func (r FailedAttempt) IsLasting() bool {
	if r.IsOverQuota(r.At, r.With) {
		return false
	}
	switch r.Kind {
	case decision.Denied, decision.DeniedByNode, decision.Unsupported:
		return true
	case decision.WebhookFailed:
		return r.Transient >= webhookIsDown || r.At.Sub(r.Failing) >= webhookDown
	case decision.ServerBusy, decision.OutcomeIsUnknown:
		lasts := r.Transient >= lastingAfter || r.At.Sub(r.Failing) >= lastingFor
		return lasts && (r.LostSince.IsZero() || r.At.Sub(r.LostSince) >= attempt.WatchDelay)
	case decision.DeniedByBudget, decision.DeniedByQuota, decision.NotReached, decision.NotReadyInTime:
	}
	return false
}

// IsOverQuota reports whether a quota refused a resize within HistoryTTL, and the given requests are not smaller.
func (r FailedAttempt) IsOverQuota(now time.Time, with []policy.Fitted) bool {
	return r.OverQuota != nil && now.Sub(r.OverQuotaAt) < attempt.HistoryTTL && !change.AsksSmaller(with, r.OverQuota, 0)
}

// Until returns when the next attempt may be made. If the first one without an answer follows a lasting refusal, it is the time by which the
// watch shows whether it was done: only then, the pod may be evicted instead.
func (r FailedAttempt) Until(b attempt.Delays) time.Time {
	delay := attempt.Doubled(b.RefusalBase, b.RefusalMax, r.Attempts)
	if r.Transient >= lastingAfter && r.LostSince.Equal(r.At) {
		delay = min(delay, attempt.WatchDelay)
	}
	return r.At.Add(max(delay, r.RetryAfter))
}

// Reason returns the refusal as the reason to leave a pod.
func (r FailedAttempt) Reason(b attempt.Delays, do decision.Act) decision.Reason {
	out := decision.Reason{Code: decision.EvictionRefused, Text: r.Text, Until: r.Until(b), Have: r.Attempts}
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

// SurgeFailed records that the surge of a pod ended without its removal. The next one is tried after a back-off.
func (l *Ledger) SurgeFailed(now time.Time, p *cluster.Pod, why decision.Refusal) {
	l.Refused(now, Attempt{Pod: p, Do: decision.Surge}, why, 0)
}
