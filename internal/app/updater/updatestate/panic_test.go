// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package updatestate

import (
	"context"
	"testing"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/ledger"
)

// panickingStates is a store whose writes panic.
type panickingStates struct{ *memoryStates }

func (panickingStates) Write(context.Context, time.Time, *ledger.State) (bool, error) {
	panic("bug")
}

// An internal error in the write of an announcement stops the action of its pod only. The other actions on the workload are not announced
// either.
func TestAnnounce_writePanics_nothingIsAnnounced(t *testing.T) {
	r, _ := logged(panickingStates{newMemoryStates()})
	now := time.Now()
	r.Begin(now, ledger.New(), delays, map[cluster.Workload]time.Time{web: {}})
	func() {
		defer func() { _ = recover() }()
		r.Announce(t.Context(), now, web)
	}()
	if why, announced := r.Announce(t.Context(), now, web); announced {
		t.Errorf("announced after a panic: %v", why)
	}
}
