// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

// A Taint keeps pods off a node that do not tolerate it. Only those with the effect NoSchedule or NoExecute count.
type Taint struct{ Key, Value, Effect string }

// A Tolerance says which taints a pod tolerates: it names Tolerations, by their place in the list of all there are. Most
// pods have none.
type Tolerance uint8

// The tolerances that are always there.
const (
	NoTaint     Tolerance = 0
	FirstListed Tolerance = 1   // the first of the list
	AnyTaint    Tolerance = 255 // all taints, or it is not known which
)

// Tolerations are what lets a pod on a tainted node.
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
