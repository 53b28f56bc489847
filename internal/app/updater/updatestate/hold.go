// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package updatestate

import (
	"errors"
	"maps"
	"time"

	"podfit.dev/podfit/internal/core/attempt"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/decision"
	"podfit.dev/podfit/internal/core/ledger"
	"podfit.dev/podfit/internal/edge/kube"
)

// holds are the pauses after announcements that could not be stored. Such a failure holds the actions on the workloads of its object. If the
// writes of many objects of a namespace fail in a row, those of the others would probably fail too, and each would take up to announceTimeout:
// then the namespace has a pause, and likewise the cluster if that happens in many namespaces. The first announcement that succeeds ends the pauses.
//
// The keys are those of ledger.AnnouncementScopes.
type holds map[cluster.Workload]hold

// A hold counts the failed writes of an object, a namespace or the cluster since the last successful one, and has the pause after them.
type hold struct {
	weights map[cluster.Workload]int // of the objects that failed, or of the namespaces if it is the hold of the cluster
	total   int
	count   int       // pauses in a row
	until   time.Time // end of the last pause
	reason  decision.Reason
}

const (
	// announceTimeout limits how long the first action on a workload waits for the write before it.
	announceTimeout = 5 * time.Second
	// stateBackoff is the pause after a failed write of an object. Each further one doubles it. Announcements have a pause of their own.
	stateBackoff     = 10 * time.Second
	stateBackoffMost = 10 * time.Minute
	// A write without an answer in time has a larger weight than one that was refused: it costs announceTimeout.
	refusedWeight, slowWeight = 1, 7
	// objectLimit is the total weight at which the writes of an object pause: one failed write is enough.
	objectLimit = 1
	// namespaceLimit is the total weight from which the writes in a namespace have a pause: 20 refused ones, or three without an answer.
	namespaceLimit = 20
	// clusterLimit is the number of namespaces with writes without an answer from which all writes have a pause.
	clusterLimit = 5
)

// errHeld is the error of an announcement that is not tried during a pause.
var errHeld = errors.New("an announcement could not be stored a short time ago")

// of returns why an action on a workload cannot be announced now, and false if that can be tried.
func (h holds) of(now time.Time, w cluster.Workload) (decision.Reason, bool) {
	for _, scope := range ledger.AnnouncementScopes(w) {
		if x := h[scope]; x.isOn(now) {
			return x.reason, true
		}
	}
	return decision.Reason{}, false
}

// export returns all holds, for the plan.
func (h holds) export(now time.Time) ledger.Unannounced {
	out := ledger.Unannounced{}
	for scope, x := range h {
		if x.isOn(now) {
			out[scope] = x.reason
		}
	}
	return out
}

// isOn reports whether the pause has not ended. It has if the clock was set back by much.
func (x hold) isOn(now time.Time) bool {
	return now.Before(x.until) && !x.until.After(now.Add(stateBackoffMost))
}

// failed records that an announcement could not be stored in an object.
func (h holds) failed(now time.Time, w cluster.Workload, object string, err error, slow bool) {
	text := "UpdateState " + w.Namespace + "/" + object + ": " + kube.Answer(err)
	weight := refusedWeight
	if slow {
		text = "UpdateState " + w.Namespace + "/" + object + ": no answer within " + announceTimeout.String()
		weight = slowWeight
	}
	scopes := ledger.AnnouncementScopes(w)
	of, namespace, all := scopes[0], scopes[1], scopes[2]
	h[of] = h[of].after(now, w, weight, objectLimit, text)
	h[namespace] = h[namespace].after(now, w, weight, namespaceLimit, text)
	if slow {
		h[all] = h[all].after(now, namespace, 1, clusterLimit, text)
	}
}

// after returns the hold after one more failed write. If the total weight is at the limit and there is no pause, a pause begins.
func (x hold) after(now time.Time, member cluster.Workload, weight, limit int, text string) hold {
	if x.weights == nil {
		x.weights = map[cluster.Workload]int{}
	}
	if before := x.weights[member]; before < weight && x.total < limit {
		x.weights[member] = weight
		x.total += weight - before
	}
	if x.total >= limit && !x.isOn(now) {
		x.count++
		x.until = now.Add(attempt.Doubled(stateBackoff, stateBackoffMost, x.count))
		x.reason = decision.Reason{Code: decision.NotAnnounced, Text: text, Until: x.until}
	}
	return x
}

// stored records that an announcement was stored. Other writes of the same object end no pause: a policy may deny announcements only.
func (h holds) stored(w cluster.Workload) {
	for _, scope := range ledger.AnnouncementScopes(w) {
		delete(h, scope)
	}
}

// holdTTL is how long after its end a hold is kept, so that the next failure doubles the pause.
const holdTTL = time.Hour

// forget forgets old holds of objects, and the others without any of them.
func (h holds) forget(now time.Time) {
	failing := map[cluster.Workload]bool{}
	for of, x := range h {
		if of.Name == "" || now.Sub(x.until) > holdTTL || x.until.Sub(now) > stateBackoffMost {
			continue
		}
		failing[of] = true
		namespace := cluster.Workload{Namespace: of.Namespace}
		if _, held := h[namespace]; held {
			failing[namespace] = true
			failing[cluster.Workload{}] = true
		}
	}
	maps.DeleteFunc(h, func(scope cluster.Workload, _ hold) bool { return !failing[scope] })
}
