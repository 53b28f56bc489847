// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package decision declares what a decision of the updater consists of: the acts, the reasons with their texts, and the refusals of the
// API server. It decides nothing; package plan does.
package decision

import (
	"cmp"
	"slices"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/integer"
	"podfit.dev/podfit/internal/core/policy"
)

// Act is an action on a pod.
type Act uint8

// The acts.
const (
	Leave Act = iota
	Resize
	Evict
	Delete // of a pod that is OOM-killed again and again, if a disruption budget does not allow its eviction
	Surge  // begin a surge: one replica more, and the pod is removed when that is ready
)

// String returns the act as a verb.
func (a Act) String() string { return cmp.Or(verbs[a], "leave") }

var verbs = map[Act]string{Resize: "resize", Evict: "evict", Delete: "delete", Surge: "surge"}

// A Decision is the action on one pod and its reason.
type Decision struct {
	Pod        *cluster.Pod
	Autoscaler *cluster.Autoscaler
	Do         Act
	With       []policy.Fitted // the recommended requests and limits of the containers; nil if the update mode changes no pods
	Init       []policy.Fitted // the sizes of ordinary init containers that make a replacement larger or smaller (policy.FitInit)

	// Reason is the cause of the action, or why the pod is left.
	Reason Reason

	// Wanted is why the pod should change, whether or not it does now. Its Code is Fits if the pod should not change.
	Wanted Reason

	// Refused is why the API server refused the resize in this pass, if Reason is why the pod is not evicted instead. Its Code is
	// Fits otherwise.
	Refused Reason

	// Fallback allows an eviction of the pod if the API server refuses the resize. Only set on Resize.
	Fallback bool

	// Unboost names the containers whose startup boost has ended: With has the amounts without the boost, and the executor
	// removes the annotation with the original amounts (policy.BoostAnnotation). Only set on Resize.
	Unboost []string

	// Rescue is true if a container of the pod was OOM-killed and gets more memory by the change. The age of the pod and the minimum
	// number of replicas do not block it.
	Rescue bool

	Priority Priority

	// Request is the request for capacity for the replacement, provided or not; nil if there is none. Only set on Evict. It is deleted
	// after the eviction.
	Request *cluster.CapacityRequest
}

// Replacement returns the sizes that a replacement of the pod would get.
func (d *Decision) Replacement() []policy.Fitted { return append(slices.Clip(d.With), d.Init...) }

// Priority orders pods that should change.
type Priority struct {
	Up   bool    // at least one container should grow
	Diff float64 // relative change of the pod's requests, summed over the resources
}

// Compare orders pods that should grow before others, and then larger changes before smaller ones.
func (p Priority) Compare(o Priority) int {
	return cmp.Or(integer.FalseFirst(o.Up, p.Up), cmp.Compare(o.Diff, p.Diff))
}

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
