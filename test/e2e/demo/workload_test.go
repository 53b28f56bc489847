// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"
	"time"
)

func TestWorkload_missing_namesWhatIsNotConverged(t *testing.T) {
	const mi = 1 << 20
	advised := []container{{Name: "app", Before: amount{1000, 1024 * mi}, Advice: &advice{Target: amount{200, 300 * mi}}}}
	had := func(cpu, memory int64) map[string]amount { return map[string]amount{"app": {cpu, memory * mi}} }
	day := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		w    workload
		want string
	}{
		"no recommendation": {
			workload{Mode: "Recreate", Want: 1, Containers: []container{{Name: "app"}}},
			"no recommendation for container app yet"},
		"mode Off needs only a recommendation": {
			workload{Mode: "Off", Want: 1, Containers: advised, Pods: []pod{{Has: had(1000, 1024)}}}, ""},
		"one pod is missing": {
			workload{Mode: "Recreate", Want: 2, Containers: advised, Pods: []pod{{Ready: true, Has: had(200, 300)}}}, "1 of 2 pods"},
		"a pod that is being deleted does not count": {
			workload{Mode: "Recreate", Want: 1, Containers: advised, Pods: []pod{{Ending: true, Has: had(1000, 1024)}, {Ready: true, Has: had(200, 300)}}}, ""},
		"a pod is not ready": {
			workload{Mode: "Recreate", Want: 1, Containers: advised, Pods: []pod{{Name: "a", Has: had(200, 300)}}}, "pod a is not ready"},
		"a pod has its old size": {
			workload{Mode: "InPlaceOrRecreate", Want: 1, Containers: advised, Pods: []pod{{Name: "a", Ready: true, Has: had(1000, 1024)}}},
			"pod a does not have its size yet"},
		"the differences of both resources add up": {
			workload{Mode: "Recreate", Want: 1, Containers: advised, Pods: []pod{{Name: "a", Ready: true, Has: had(212, 318)}}},
			"pod a does not have its size yet"},
		"difference below the threshold": {
			workload{Mode: "Recreate", Want: 1, Containers: advised, Pods: []pod{{Ready: true, Has: had(205, 305)}}}, ""},
		"a job's last pod has its old size": {
			workload{Kind: "CronJob", Mode: "Initial", Want: 1, Containers: advised, Pods: []pod{{Created: day, Ended: true, Has: had(1000, 1024)}}},
			"no new pod since the recommendation"},
		"a job's next pod has the new size": {
			workload{Kind: "CronJob", Mode: "Initial", Want: 1, Containers: advised, Pods: []pod{
				{Created: day, Ended: true, Has: had(1000, 1024)}, {Created: day.Add(time.Minute), Has: had(200, 300)}}}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			if got := c.w.missing(); got != c.want {
				t.Errorf("missing %q, want %q", got, c.want)
			}
		})
	}
}

func TestWorkload_requestedByCronJob_countsOnePod(t *testing.T) {
	w := workload{Kind: "CronJob", Mode: "Initial", Want: 1, Containers: []container{{Name: "app", Before: amount{100, 10}}}, Pods: []pod{
		{Ended: true, Has: map[string]amount{"app": {100, 10}}}, {Ended: true, Has: map[string]amount{"app": {50, 5}}},
	}}
	before, now := w.requested()
	if before != (amount{100, 10}) || now != (amount{50, 5}) {
		t.Errorf("requested %v before and %v now", before, now)
	}
}
