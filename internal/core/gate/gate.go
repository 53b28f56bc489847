// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package gate names the conditions that a change of a pod must meet, and lists those of a decision with their results. It evaluates none.
package gate

import (
	"slices"

	"podfit.dev/podfit/internal/core/decision"
)

// A Name identifies a condition that a change of a pod must meet. It is a stable name for output.
type Name string

// The gates of every pod, before it is a candidate.
const (
	Mode           Name = "UpdateMode"     // the update mode changes running pods
	Recommendation Name = "Recommendation" // there is one for the pod
	Controller     Name = "Controller"     // a controller would replace the pod
	Need           Name = "Need"           // the requests differ enough from the recommendation
	State          Name = "State"          // the state of the pod, its resize and its node allows a change
)

// The gates of candidates, one for each check.
const (
	Interruption    Name = "Interruption"    // it is known which pods the last updater changed
	Window          Name = "Window"          // there is no freeze, and a change window is open
	Surge           Name = "Surge"           // no surge of the workload is in progress
	Size            Name = "Size"            // a replacement would get other requests
	Admission       Name = "Admission"       // the API server would accept the new requests
	Protection      Name = "Protection"      // no annotation of the pod forbids to evict it
	Quota           Name = "Quota"           // the ResourceQuotas have room
	SiblingQuota    Name = "SiblingQuota"    // no quota refused the same change of another pod
	NodeSize        Name = "NodeSize"        // a node can hold the new requests
	Requirements    Name = "Requirements"    // the eviction requirements of the VPA hold
	Replacements    Name = "Replacements"    // evicted pods have their replacements
	EvictionEffect  Name = "EvictionEffect"  // earlier evictions had an effect, or long ago
	ResizeEffect    Name = "ResizeEffect"    // earlier resizes lasted
	Probe           Name = "Probe"           // no other pod is evicted as a test
	Frequency       Name = "Frequency"       // the pods were not replaced too often
	EvictionRefusal Name = "EvictionRefusal" // the API server refused no eviction, or long ago
	ResizeRefusal   Name = "ResizeRefusal"   // the API server refused no resize, or long ago
	Replicas        Name = "Replicas"        // the number of replicas is known
	MinReplicas     Name = "MinReplicas"     // there are enough replicas
	WayBack         Name = "WayBack"         // the previous size can be restored if a canary fails
	Canary          Name = "Canary"          // no canary is tested
	HourlyShare     Name = "HourlyShare"     // the share of requests that may change in an hour is not used up
	SurgeEffect     Name = "SurgeEffect"     // no surge failed, or long ago
	Budget          Name = "Budget"          // the eviction tolerance allows one more pod
	Resizing        Name = "Resizing"        // no resize is in progress
	Started         Name = "Started"         // the pod runs
	Kills           Name = "Kills"           // enough OOM kills for a deletion
	Data            Name = "Data"            // a deletion loses no data
	Rescue          Name = "Rescue"          // no other pod is deleted as a rescue
	Others          Name = "Others"          // the disruption budget lacks only OOM-killed pods
	Announcement    Name = "Announcement"    // the updater can store that it acts, or the action needs no announcement
	DeletionRefusal Name = "DeletionRefusal" // the API server refused no deletion, or long ago
)

// A Gate is the result of a condition for a change of a pod.
type Gate struct {
	Name    Name
	Blocked bool
	Reason  decision.Reason // why the gate blocks; of a gate that does not, only Need has one
}

// Of returns the result of a check, which has a reason if it blocks or not.
func Of(name Name, r decision.Reason, blocked bool) Gate {
	if !blocked {
		return Gate{Name: name}
	}
	return Gate{Name: name, Blocked: true, Reason: r}
}

// All returns all gates of a decision in the order of their evaluation. checked are the results of the checks, of those too that would block
// another change of the pod. If the pod is left, the reason of the first gate that blocks is the reason of the decision.
func All(d *decision.Decision, checked []Gate) []Gate {
	early := []Gate{{Name: Mode}, {Name: Recommendation}, {Name: Controller}, {Name: Need, Reason: d.Wanted}}
	if d.Do != decision.Leave || d.Wanted.Code != decision.Fits {
		return append(early, ofChecks(d, checked)...)
	}
	at, known := ofReason[d.Reason.Code]
	if !known {
		at = State
	}
	i := slices.IndexFunc(early, func(g Gate) bool { return g.Name == at || g.Name == Need })
	return append(early[:i], Gate{Name: at, Blocked: true, Reason: d.Reason})
}

// ofChecks returns the gates of the checks. A reason that follows from no check, but from the state of the pod, its node or the other
// decisions of the pass, is one more gate.
func ofChecks(d *decision.Decision, checked []Gate) []Gate {
	out := slices.Clone(checked)
	if d.Do != decision.Leave { // a check that blocked another change does not block this one
		return slices.DeleteFunc(out, func(g Gate) bool { return g.Blocked })
	}
	first := slices.IndexFunc(out, func(g Gate) bool { return g.Blocked })
	switch {
	case first < 0:
		first = len(out)
	case out[first].Reason == d.Reason:
		return out
	}
	return slices.Insert(out, first, Gate{Name: State, Blocked: true, Reason: d.Reason})
}

// ofReason are the gates at which a pod is left before it is a candidate, by reason. A pod with another reason is left at State.
var ofReason = map[decision.ReasonCode]Name{
	decision.ModeOff: Mode, decision.GateOff: Mode, decision.NoAdvice: Recommendation, decision.NodeSizeUnknown: Recommendation, decision.NoController: Controller,
	decision.Fits: Need, decision.PodTooYoung: Need, decision.AutoscalerTooYoung: Need, decision.SmallChange: Need,
	decision.SameSize: Need, decision.LeftToHPA: Need,
}
