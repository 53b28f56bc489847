// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package attempt

import (
	"maps"
	"time"
)

// Turns are when something was last done of which a pass does a limited amount: for a namespace, under the name "", and for what takes turns in
// the namespace. They are not stored: after a restart, all begin again.
type Turns map[[2]string]time.Time // by namespace and name

// Last returns the last turn of a namespace; zero if it had none.
func (t Turns) Last(namespace string) time.Time { return t[[2]string{namespace}] }

// LastOf returns the last turn of what has a name in a namespace; zero if it had none.
func (t Turns) LastOf(namespace, name string) time.Time { return t[[2]string{namespace, name}] }

// Took records a turn of what has a name in a namespace, and of the namespace.
func (t Turns) Took(at time.Time, namespace, name string) {
	for _, key := range [...][2]string{{namespace}, {namespace, name}} {
		if at.After(t[key]) {
			t[key] = at
		}
	}
}

// Forget forgets turns that were longer ago than HistoryTTL.
func (t Turns) Forget(now time.Time) {
	maps.DeleteFunc(t, func(_ [2]string, at time.Time) bool { return now.Sub(at) > HistoryTTL })
}
