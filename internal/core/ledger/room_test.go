// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"testing"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/decision"
	"podfit.dev/podfit/internal/core/policy"
)

// The ledger forgets a shortage when the pod has its increase or is gone.
func TestLedger_shortageEnds_isForgotten(t *testing.T) {
	fits := func(cpu int64) []policy.Fitted {
		return []policy.Fitted{{Container: "app", Requests: cluster.Resources{}.Set(cluster.CPU, cpu)}}
	}
	p := &cluster.Pod{UID: "1", Containers: []cluster.Container{{Name: "app", Requests: cluster.Amounts(100, 0)}}}
	other := &cluster.Pod{Key: cluster.Key{Name: "other"}, UID: "2"}
	a := &cluster.Autoscaler{}
	l := New()
	l.Done(noon, Attempt{Pod: p, Do: decision.Resize, With: fits(150), Part: true})
	l.Done(noon.Add(time.Minute), Attempt{Pod: other, Do: decision.Evict, RoomFor: p})
	if got := l.lacking["1"]; got.Parts != 1 || got.Moves != 1 || !got.Since.Equal(noon) {
		t.Errorf("recorded %+v", got)
	}
	l.Learn(noon, View{}, []decision.Decision{{Pod: p, Autoscaler: a, With: fits(200)}})
	if len(l.lacking) != 1 {
		t.Error("the shortage was deleted although the pod still lacks a part of the increase")
	}
	l.Learn(noon, View{}, []decision.Decision{{Pod: p, Autoscaler: a, With: fits(100)}})
	if len(l.lacking) != 0 {
		t.Error("the shortage is kept although the pod lacks nothing")
	}
	l.Done(noon, Attempt{Pod: p, Do: decision.Resize, With: fits(150), Part: true})
	l.Learn(noon, View{}, nil)
	if len(l.lacking) != 0 {
		t.Error("the shortage is stored although the pod was deleted")
	}
}
