// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

// A Taint keeps pods that do not tolerate it off a node. Only taints with the effect NoSchedule or NoExecute count.
type Taint struct{ Key, Value, Effect string }

// A Tolerance identifies the taints that a pod tolerates: an index into the list of all Tolerations. Most pods have no tolerations.
type Tolerance uint8

// The predefined tolerances.
const (
	NoTaint     Tolerance = 0
	FirstListed Tolerance = 1   // the first of the list
	Unlisted    Tolerance = 254 // not known, because the list is full
	AnyTaint    Tolerance = 255 // all taints
)

// Tolerations are the tolerations of a pod.
type Tolerations []Toleration

// A Toleration matches taints. An empty Key matches all keys, an empty Effect all effects.
type Toleration struct {
	Key    string
	Value  string
	Exists bool // any value
	Effect string
}

// Tolerate reports whether all of the taints are tolerated.
func (ts Tolerations) Tolerate(taints []Taint) bool {
	for _, taint := range taints {
		tolerated := false
		for _, t := range ts {
			tolerated = tolerated || (t.Effect == "" || t.Effect == taint.Effect) &&
				(t.Key == "" && t.Exists || t.Key == taint.Key && (t.Exists || t.Value == taint.Value))
		}
		if !tolerated {
			return false
		}
	}
	return true
}
