// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package decision

import "time"

// A Refusal is an action that the API server did not carry out, or whose outcome is unknown.
type Refusal struct {
	Kind RefusalKind `stored:"outcome,required"`
	Text string      `stored:"message"` // from the API server

	// QuotaUsed is true if a ResourceQuota would allow the action if other pods requested less. It is set only if Kind is DeniedByQuota.
	QuotaUsed bool

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
	NotReached                          // the API server got no request, so the pod was not refused
	OutcomeIsUnknown                    // there was no answer: the action may have been carried out
	NotReadyInTime                      // the additional pod of a surge was not ready in time
)

// KeepsBudget reports whether the budget of the action stays spent for this pass: because the action may have been
// carried out, or because an overloaded or unreachable server should not be asked for the next pod at once.
func (k RefusalKind) KeepsBudget() bool {
	return k == OutcomeIsUnknown || k == ServerBusy || k == NotReached
}

// DependsOnSize reports whether a smaller size may be allowed.
func (k RefusalKind) DependsOnSize() bool { return k == DeniedByNode || k == DeniedByQuota }

// IsTransient reports whether the next attempt may succeed without a change in the cluster.
func (k RefusalKind) IsTransient() bool {
	return k == WebhookFailed || k == ServerBusy || k == OutcomeIsUnknown
}

// LeavesReplacementOpen reports whether it is unknown after the refusal of a resize if a replacement would be refused too. In that
// case one pod is evicted, and the next one when that pod has been replaced.
func (k RefusalKind) LeavesReplacementOpen() bool { return k != DeniedByNode && k != Unsupported }

// AllowsEviction reports whether the pod may be evicted after a surge has failed.
func (k RefusalKind) AllowsEviction() bool {
	return k == Denied || k == DeniedByNode || k == DeniedByQuota || k == Unsupported || k == DeniedByBudget
}
