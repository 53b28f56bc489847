// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"testing"
	"time"
)

func TestPod_startOfAContainer_isThatOfItsLastRun(t *testing.T) {
	start := time.Date(2026, 3, 1, 10, 0, 0, 0, time.UTC)
	at := start.Unix()
	for name, c := range map[string]struct {
		started int64 // first start of the container
		exit    *Exit
		want    int64
	}{
		"with the pod":                         {at, nil, at},
		"after its images were pulled":         {at + 240, nil, at + 240},
		"18 hours after the pod":               {at + 18*3600, nil, at + 18*3600},
		"19 hours after the pod":               {at + 19*3600, nil, 0},
		"before the pod, by another clock":     {at - 1, nil, 0},
		"restarted days later":                 {at, &Exit{Resumed: at + 5*86400}, at + 5*86400},
		"terminated and not running again yet": {at, &Exit{Now: true}, 0},
	} {
		p := &Pod{Started: start, Containers: []Container{{Exit: c.exit}}}
		p.Containers[0].Delay = p.DelayOf(c.started)
		if got := p.StartOf(&p.Containers[0]); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
	var waiting Pod
	if got := waiting.DelayOf(at); got != 0 {
		t.Errorf("a pod that the kubelet has not seen: delay %d", got)
	}
}
