// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import "time"

// A Ledger remembers what was tried on which workload and pod, and whether it helped. The executor writes what it did
// (Done, Refused) and each pass writes what it saw (Learn); Plan reads. It is not safe for concurrent use.
type Ledger struct {
	tried map[string]int
}

// NewLedger returns an empty ledger.
func NewLedger() *Ledger { return &Ledger{} }

// Done notes that a decision was executed.
func (l *Ledger) Done(now time.Time, d Decision) {}

// Refused notes that the API server refused a resize because no node of this kind can give as much (HTTP 403).
func (l *Ledger) Refused(now time.Time, d Decision) {}

// Learn notes what a pass saw: whether the replacements of evicted pods are what they should be. It is called with all
// decisions of a pass, after Plan and before they are executed.
func (l *Ledger) Learn(now time.Time, ds []Decision) {}
