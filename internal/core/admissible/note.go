// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package admissible

import "podfit.dev/podfit/internal/core/cluster"

// A Note is a change between a recommendation and the size that a container gets, or a reason why an amount was not set.
type Note struct {
	Resource cluster.Resource
	Kind     NoteKind
}

// NoteKind is the kind of a note.
type NoteKind uint8

// The kinds of notes.
const (
	RaisedToRangeMin   NoteKind = iota // to Min of the container LimitRange
	LoweredToRangeMax                  // to Max of the container LimitRange
	RaisedToMinAllowed                 // by the container policy
	LoweredToMaxAllowed
	LoweredToLimit       // the policy keeps limits, and a request must not be above its limit
	NoLimitOriginally    // the container has no limit, so none is set
	NoRequestRecommended // so no limit is derived from it
	LimitOverflow        // the proportional limit does not fit into an int64
	HeldToAdmitted       // the API server would refuse the pod otherwise
	HeldToScalePoint     // the target of an HPA cannot follow a further change
	HeldToNode           // the pod would fit on no node otherwise
	HeldToQuota          // the pod would exceed a ResourceQuota even if no other pod used it
	RaisedOutOfBand      // a JVM could read the request as all cores of the node
	LoweredOutOfBand     // the same, and a bound does not allow more
	RaisedToHeap         // the options of a JVM set a larger heap
)

// Tools read these texts in the annotation vpaUpdates. They are identical to upstream's, except the last seven, which upstream does
// not have.
var noteTexts = [...]string{
	RaisedToRangeMin:     " capped to fit Min in container LimitRange",
	LoweredToRangeMax:    " capped to fit Max in container LimitRange",
	RaisedToMinAllowed:   " capped to minAllowed",
	LoweredToMaxAllowed:  " capped to maxAllowed",
	LoweredToLimit:       " capped to container limit",
	NoLimitOriginally:    ": limit NOT set since originalLimit is nil or 0",
	NoRequestRecommended: ": limit NOT set since recommendedRequest is nil or 0",
	LimitOverflow:        ": failed to keep limit to request ratio; capping limit to int64",
	HeldToAdmitted:       " capped to what the API server admits",
	HeldToScalePoint:     " capped to keep the scale point of the HorizontalPodAutoscaler",
	HeldToNode:           " capped to the largest node for the pod",
	HeldToQuota:          " capped to what the ResourceQuota allows",
	RaisedOutOfBand:      " raised above a range that a JVM misreads",
	LoweredOutOfBand:     " lowered below a range that a JVM misreads",
	RaisedToHeap:         " raised to the heap of the JVM",
}

// String returns the text of the note in the annotation vpaUpdates.
func (n Note) String() string {
	if int(n.Kind) >= len(noteTexts) {
		return n.Resource.String()
	}
	return n.Resource.String() + noteTexts[n.Kind]
}
