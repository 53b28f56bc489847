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
	"podfit.dev/podfit/internal/core/plan"
	"podfit.dev/podfit/internal/edge/kube"
)

// holds are the pauses after announcements that could not be stored. Such a failure holds the actions on the workloads of its object. If the
// writes of many objects of a namespace fail in a row, those of the others would probably fail too, and each would take up to announceTimeout:
// then the namespace has a pause, and likewise the cluster if that happens in many namespaces. The first announcement that succeeds ends the pauses.
type holds struct {
	objects    map[cluster.Workload]hold
	namespaces map[string]*series
	cluster    series
}

// A hold is a pause before the next attempt.
type hold struct {
	count  int // failures in a row
	until  time.Time
	reason decision.Reason
}

// A series are failures of different members without a success in between.
type series struct {
	hold
	weights map[any]int // of each member
	total   int
}

const (
	// announceTimeout limits how long the first action on a workload waits for the write before it.
	announceTimeout = 5 * time.Second
	// stateBackoff is the pause after a failed write of an object. Each further one doubles it. Announcements have a pause of their own.
	stateBackoff     = 10 * time.Second
	stateBackoffMost = 10 * time.Minute
	// A write without an answer in time has a larger weight than one that was refused: it costs announceTimeout.
	refusedWeight, slowWeight = 1, 7
	// namespaceLimit is the total weight from which the writes in a namespace have a pause: 20 refused ones, or three without an answer.
	namespaceLimit = 20
	// clusterLimit is the number of namespaces with writes without an answer from which all writes have a pause.
	clusterLimit = 5
)

// errHeld is the error of an announcement that is not tried during a pause.
var errHeld = errors.New("an announcement could not be stored a short time ago")

func newHolds() holds {
	return holds{objects: map[cluster.Workload]hold{}, namespaces: map[string]*series{}}
}

// of returns why an action on a workload cannot be announced now, and false if that can be tried.
func (h *holds) of(now time.Time, w cluster.Workload) (decision.Reason, bool) {
	for _, x := range []hold{h.objects[w], h.namespace(w.Namespace).hold, h.cluster.hold} {
		if x.isOn(now) {
			return x.reason, true
		}
	}
	return decision.Reason{}, false
}

func (h *holds) namespace(name string) series {
	if s := h.namespaces[name]; s != nil {
		return *s
	}
	return series{}
}

// export returns all holds, for the plan. That of the object of a namespace holds nothing: each workload is then announced in its own object.
func (h *holds) export(now time.Time) plan.Unannounced {
	out := plan.Unannounced{Workloads: map[cluster.Workload]decision.Reason{}, Namespaces: map[string]decision.Reason{}}
	for w, x := range h.objects {
		if x.isOn(now) {
			out.Workloads[w] = x.reason
		}
	}
	for name, s := range h.namespaces {
		if s.isOn(now) {
			out.Namespaces[name] = s.reason
		}
	}
	if h.cluster.isOn(now) {
		out.Cluster = h.cluster.reason
	}
	return out
}

// isOn reports whether the pause has not ended. It has if the clock was set back by much.
func (x hold) isOn(now time.Time) bool {
	return now.Before(x.until) && !x.until.After(now.Add(stateBackoffMost))
}

// next returns the hold after one more failure.
func (x hold) next(now time.Time, text string) hold {
	until := now.Add(attempt.Doubled(stateBackoff, stateBackoffMost, x.count+1))
	return hold{x.count + 1, until, decision.Reason{Code: decision.NotAnnounced, Text: text, Until: until}}
}

// failed records that an announcement could not be stored in an object.
func (h *holds) failed(now time.Time, w cluster.Workload, object string, err error, slow bool) {
	text := "UpdateState " + w.Namespace + "/" + object + ": " + kube.Answer(err)
	weight := refusedWeight
	if slow {
		text = "UpdateState " + w.Namespace + "/" + object + ": no answer within " + announceTimeout.String()
		weight = slowWeight
	}
	h.objects[w] = h.objects[w].next(now, text)
	s := h.namespaces[w.Namespace]
	if s == nil {
		s = new(series)
		h.namespaces[w.Namespace] = s
	}
	s.add(now, w, weight, namespaceLimit, text)
	if slow {
		h.cluster.add(now, w.Namespace, 1, clusterLimit, text)
	}
}

// add records the failure of a member. From the limit on, it begins a pause, if there is none.
func (s *series) add(now time.Time, member any, weight, limit int, text string) {
	if s.weights == nil {
		s.weights = map[any]int{}
	}
	if before := s.weights[member]; before < weight && s.total < limit {
		s.weights[member] = weight
		s.total += weight - before
	}
	if s.total >= limit && !s.isOn(now) {
		s.hold = s.next(now, text)
	}
}

// stored records that an announcement was stored. Other writes of the same object end no pause: a policy may deny announcements only.
func (h *holds) stored(w cluster.Workload) {
	delete(h.objects, w)
	delete(h.namespaces, w.Namespace)
	h.cluster = series{}
}

// holdTTL is how long after its end a hold is kept, so that the next failure doubles the pause.
const holdTTL = time.Hour

func (h *holds) forget(now time.Time) {
	isOver := func(x hold) bool { return now.Sub(x.until) > holdTTL || x.until.Sub(now) > stateBackoffMost }
	maps.DeleteFunc(h.objects, func(_ cluster.Workload, x hold) bool { return isOver(x) })
	failing := map[string]bool{}
	for w := range h.objects {
		failing[w.Namespace] = true
	}
	maps.DeleteFunc(h.namespaces, func(name string, _ *series) bool { return !failing[name] })
	if len(h.namespaces) == 0 {
		h.cluster = series{}
	}
}
