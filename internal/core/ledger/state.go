// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/decision"
	"podfit.dev/podfit/internal/core/headroom"
	"podfit.dev/podfit/internal/core/policy"
	"podfit.dev/podfit/internal/core/rollout"
)

// A State is the part of a Ledger that concerns one workload, as values that can be stored. Restore reads it back.
//
// It is stored as the status of an UpdateState. The tag "stored" of a field is its name there, with options that package checkpoint describes.
// A name is never changed. Further features add their state here, one field per feature.
//
// The order in which namespaces are served (Ledger.served) is not part of it: it only affects the order of actions, and starts
// anew after a restart.
type State struct {
	Workload cluster.Workload

	// ActingSince is the start of a pass that acts on pods of the workload, and whose outcomes are not part of this state. Zero if
	// all outcomes are. The caller sets it in the state that it stores before it acts. If an updater ends before the outcomes are recorded, the
	// next one changes no pod of the workload for attempt.WatchDelay after it.
	ActingSince time.Time `stored:"actingSince"`

	// ActingNewest is when the newest pod of the workload was created before these actions, by the API server's clock. Pods that were created
	// later may be replacements. If it is zero, the next updater waits, but assumes no eviction. Only set with ActingSince.
	ActingNewest time.Time `stored:"actingNewestPod,seconds"`

	LastEviction time.Time       `stored:"lastEviction"` // when a pod of the workload was last evicted; zero if no refusal depends on it
	Eviction     *EvictionState  `stored:"evictions"`
	Replacements []PendingState  `stored:"missingReplacements,max=4"` // by controller
	Pods         []PodState      `stored:"pods,max=50"`               // the most recent attempt first
	Omitted      int             `stored:"omittedPods"`               // records of pods that are left out because there is no room
	Deletion     *DeletionState  `stored:"lastDeletion"`
	Rounds       *RoundsState    `stored:"evictionRounds"`
	Shortages    []ShortageState `stored:"roomShortages,max=10"` // the most recent first

	// Changes are the requests that were changed in the last hour, the oldest first. Only recorded if their share is limited.
	Changes []rollout.Change `stored:"changes,last=62"`

	// Canary is the state of the canary of the workload; nil if there is none.
	Canary *rollout.State `stored:"canary"`

	Capacity *headroom.State `stored:"capacity"` // nil if no capacity was asked for before an eviction

	// Waiting are the pods that should change and were left unchanged by the last passes, by reason, the most frequent first. Restore does not read
	// it: the next pass decides again.
	Waiting []WaitingState `stored:"waitingPods,max=10"`
}

// A PodState is the last attempt at an action on a pod.
type PodState struct {
	UID      string          `stored:"uid,required"`
	Name     string          `stored:"name"`
	Do       decision.Act    `stored:"action,required"`
	At       time.Time       `stored:"lastTime,required"`
	Next     time.Time       `stored:"nextTime,seconds"` // when the action may be tried again; zero if that is not limited. Restore does not read it
	Attempts int             `stored:"attempts"`         // consecutive failed attempts, or consecutive resizes that were undone before this one
	With     []policy.Fitted `stored:"requested,max=32"` // the requests and limits that were requested
	Failed   *FailedState    `stored:"outcome=Done"`     // nil if the action was carried out
}

// A FailedState describes an attempt that was refused, or whose outcome is unknown.
type FailedState struct {
	decision.Refusal
	Transient int       `stored:"transientFailures"` // consecutive last attempts with a transient failure
	Failing   time.Time `stored:"failingSince"`      // time of the first of these attempts since the API server was last not reached; zero if the last one failed otherwise
	Lost      time.Time `stored:"lastUnanswered"`    // time of the last attempt without an answer; the pod may have been evicted then
	LostSince time.Time `stored:"unansweredSince"`   // time of the first of the consecutive last attempts without an answer; zero if the last one had an answer

	// Ready is the largest number of other ready pods of the group, without those changed in the pass, at the attempts in a row that a
	// disruption budget refused.
	Ready int `stored:"readyPods"`

	// The last amounts that a quota refused, and when. A refusal by a webhook, which is called before, does not replace them.
	OverQuota      []policy.Fitted      `stored:"overQuota,max=32"`
	OverQuotaAt    time.Time            `stored:"overQuotaTime"`
	OverQuotaTotal cluster.PodResources `stored:"overQuotaTotal"` // Attempt.Total of that attempt
}

// An EvictionState is the last eviction of a pod of a workload whose replacement has not been observed with the expected requests.
type EvictionState struct {
	At            time.Time       `stored:"lastTime,required"`
	Newest        time.Time       `stored:"newestPod"`               // creation of the newest pod of the workload at that time, by the API server's clock
	With          []policy.Fitted `stored:"requested,max=32"`        // requests and limits that the replacement should get
	Ineffective   int             `stored:"ineffective"`             // consecutive evictions without effect before this one
	Judged        bool            `stored:"judged"`                  // the effect of this eviction is counted
	Superseded    []policy.Fitted `stored:"superseded,max=32,outer"` // the requests that the replacement of the eviction before should get, if it was not observed and these differ
	Previous      []policy.Fitted `stored:"previous,max=32,outer"`   // the requests with which the evicted pod ran
	UnknownEffect int             `stored:"unknownEffect"`           // the evictions in Ineffective up to the last one with an unknown effect, see eviction.showsNothing
	Uncertain     string          `stored:"unansweredPod,outer"`     // UID of the pod if the eviction had no answer, so that it may not have been carried out
	Before        *EvictionState  `stored:"before,outer"`            // the last eviction whose outcome is certain, if this one is not; nil if there is none
}

// A PendingState lists the evicted pods of a controller whose replacements have not been observed.
type PendingState struct {
	Controller cluster.Workload `stored:"controller,required"`
	Autoscaler cluster.Key      `stored:"verticalPodAutoscaler,required"`
	Evicted    []EvictedPod     `stored:"evicted,max=30"` // oldest first
	Complete   time.Time        `stored:"completeSince"`  // since when there have been as many pods as the controller wants; zero if there are not
	Replaced   int32            `stored:"replaced"`       // pods created after the first of these evictions that replace pods of earlier ones; 0 if it is not known
	Most       int32            `stored:"mostReplicas"`   // maximum number of pods that the controller has wanted since; 0 if it is not known
}

// An EvictedPod is a pod that was evicted, or may have been.
type EvictedPod struct {
	UID    string    `stored:"uid,required"`
	At     time.Time `stored:"time,required"`
	Newest time.Time `stored:"newestPod"` // creation of the newest pod of the workload at that time, by the API server's clock
}

// A RoundsState describes the rounds of evictions of a workload whose recommendation keeps changing.
type RoundsState struct {
	At     time.Time `stored:"lastTime,required"` // of the last eviction
	Newest time.Time `stored:"newestPod"`         // creation of the newest pod when the last round began, by the API server's clock
	Count  int       `stored:"count"`
}

// A DeletionState is the last deletion of a pod by an OOM rescue.
type DeletionState struct {
	At     time.Time `stored:"lastTime,required"`
	Newest time.Time `stored:"newestPod"`    // creation of the newest pod at that time, by the API server's clock
	UID    string    `stored:"uid"`          // of the deleted pod
	Memory int64     `stored:"memory,bytes"` // bytes that the replacement gets: its limit, or its request if it has no limit
	Again  int       `stored:"ineffective"`  // consecutive deletions before it whose replacement was OOM-killed too
}

// A ShortageState is a pod whose node was too full for its resize, and what was done to make room.
type ShortageState struct {
	UID   string          `stored:"uid,required"`
	Name  string          `stored:"name"`
	Since time.Time       `stored:"since,required"`
	With  []policy.Fitted `stored:"requested,max=32"` // what the last resize by a part asked for
	Parts int             `stored:"partialResizes"`   // resizes by a part
	Moves int             `stored:"movedPods"`        // pods that were evicted to make room
}

// Bounds of a State, as in its tags. What exceeds them is left out, the oldest first, and counts as never tried after a restart.
const (
	maxPodStates     = 50 // per workload
	maxPendingStates = 4  // controllers per workload
	maxEvictedPods   = 30 // per controller
)

// LastAction returns the time of the last action on a pod that was carried out, or may have been, and of the last change of a canary; zero
// if there is none.
func (s *State) LastAction() time.Time {
	last := s.ActingSince
	later := func(at time.Time) { last = cluster.Latest(last, at) }
	if s.Canary != nil {
		later(s.Canary.Since)
	}
	if s.Eviction != nil {
		later(s.Eviction.At)
	}
	if s.Deletion != nil {
		later(s.Deletion.At)
	}
	if s.Rounds != nil {
		later(s.Rounds.At)
	}
	if s.Capacity != nil {
		later(s.Capacity.Requested)
	}
	for i := range s.Replacements {
		for _, e := range s.Replacements[i].Evicted {
			later(e.At)
		}
	}
	for i := range s.Pods {
		p := &s.Pods[i]
		if p.Failed == nil {
			later(p.At)
		} else {
			later(p.Failed.Lost)
		}
	}
	return last
}
