// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"testing"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
)

// An outage of the API server says nothing about the pod: its resize is tried again and is not replaced by an eviction.
func TestPass_apiServerNotReached_neverEvictsInsteadOfResizing(t *testing.T) {
	y := &tenancy{template: 100, want: 700, hard: 100000, mode: cluster.InPlaceOrRecreate}
	y.pods = []*cluster.Pod{y.pod(noon.AddDate(0, 0, -2), 400), y.pod(noon.AddDate(0, 0, -2), 400)}
	l := NewLedger()
	tried := 0
	for minute := range 240 {
		p := Begin(noon.Add(time.Duration(minute)*time.Minute), y.world(2, l), y.budget())
		for queue := p.Decisions(); len(queue) > 0; {
			d := queue[0]
			queue = queue[1:]
			if d.Do == Evict {
				t.Fatalf("minute %d: evicts %s after %d attempts: %s", minute, d.Pod.Name, tried, d.Reason)
			}
			if d.Do == Resize {
				tried++
				queue = append(queue, p.Refused(d, Refusal{Kind: NotReached, Text: "connection refused"})...)
			}
		}
	}
	if tried < 10 {
		t.Errorf("%d attempts in four hours", tried)
	}
}
