// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package policy

import "podfit.dev/podfit/internal/core/cluster"

// A Note says what was changed on the way from a recommendation to what a container gets, or why something was not set.
type Note struct {
	Resource cluster.Resource
	Kind     NoteKind
}

// NoteKind tells notes apart.
type NoteKind uint8

// The kinds of notes.
const (
	RaisedToRangeMin   NoteKind = iota // to what the container LimitRange's Min allows
	LoweredToRangeMax                  // to what the container LimitRange's Max allows
	RaisedToMinAllowed                 // by the container policy
	LoweredToMaxAllowed
	LoweredToLimit       // the policy leaves limits alone, and a request may not be above its limit
	NoLimitOriginally    // so none is set
	NoRequestRecommended // so no limit follows from it
	LimitOverflow        // the proportional limit does not fit an int64
	HeldToAdmitted       // else the API server would refuse the pod
)

// Tools read these texts in the annotation vpaUpdates. They are upstream's, to the letter, but for the last one, which
// upstream does not have.
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
}

// String returns the note as it stands in the annotation vpaUpdates.
func (n Note) String() string {
	if int(n.Kind) >= len(noteTexts) {
		return n.Resource.String()
	}
	return n.Resource.String() + noteTexts[n.Kind]
}
