// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
)

// A quotaRun is an hour in which a quota admits few replacements of evicted pods, and in which the workload is scaled down.
type quotaRun struct {
	tolerance float64
	admitted  int  // replacements that the quota admits
	lag       int  // minutes by which the watch is behind
	at, to    int  // minute of the scale-down, and the number of replicas from then on; at 0: none
	oldest    bool // the scale-down removes the oldest pods; otherwise the newest
}

// evictions returns the number of evictions in an hour of passes each minute. With restarts, each pass is that of a new updater.
func (r quotaRun) evictions(restarts bool) (n int) {
	const replicas = 6
	w, a := shrinking(replicas)
	b := DefaultBudget()
	b.Tolerance = r.tolerance
	controller := w.Governed[0].Pods[0].Controller
	pods := slices.Clone(w.Governed[0].Pods) // as the API server has them
	shown := [][]*cluster.Pod{pods}          // in each of the last minutes, as the watch shows them
	wanted := replicas
	for minute := range 60 {
		now := noon.Add(time.Duration(minute) * time.Minute)
		if r.at > 0 && minute == r.at {
			wanted = r.to
			surplus := max(0, len(pods)-wanted)
			if r.oldest {
				pods = pods[surplus:]
			}
			pods = slices.Clone(pods[:min(len(pods), wanted)])
		}
		for i := len(pods); i < wanted && r.admitted > 0; i++ {
			p := *pods[0]
			p.Name, p.UID, p.Created, p.Started, p.ReadySince = fmt.Sprint("new-", minute, "-", i), fmt.Sprint("new-", minute, "-", i), now, now, now
			p.Containers = slices.Clone(p.Containers)
			p.Containers[0].Requests = a.Advice[0].Estimate.Target
			pods = append(slices.Clone(pods), &p)
			r.admitted--
		}
		shown = append(shown, pods)
		w.Governed[0].Pods = shown[max(0, len(shown)-1-r.lag)]
		w.Scales = map[cluster.Workload]cluster.Scale{controller: {Known: true, Replicas: int32(wanted)}}
		if restarts {
			w.Ledger = restored(now, w.Ledger, b)
		}
		pass := Begin(now, w, b)
		pass.Learn()
		for _, d := range evictions(pass) {
			pass.Done(d)
			n++
			pods = slices.DeleteFunc(slices.Clone(pods), func(p *cluster.Pod) bool { return p.UID == d.Pod.UID })
		}
	}
	return n
}

// The number of replacements that were counted, and the largest number of replicas, are not stored: they matter for minutes after a
// scale-down. An updater that restarts each minute loses at most one pod more than one that does not.
func TestPass_restartEachMinuteAndQuotaRejectsReplacements_losesAtMostOneMorePod(t *testing.T) {
	if n := (quotaRun{}).evictions(true); n != 1 {
		t.Errorf("%d evictions without a scale-down, want 1", n)
	}
	worst, runs := 0, 0
	for _, at := range []int{1, 2, 3, 5, 8, 20} {
		for n := range 2 * 3 * 2 * 2 * 5 {
			r := quotaRun{tolerance: float64(n%2) / 2, admitted: n / 2 % 3, lag: 1 + n/6%2*2, oldest: n/12%2 > 0, at: at, to: 1 + n/24}
			with, without := r.evictions(true), r.evictions(false)
			worst = max(worst, with-without)
			runs++
			if with-without > 1 {
				t.Errorf("%+v: %d evictions with restarts, %d without", r, with, without)
			}
		}
	}
	t.Logf("at most %d more evictions in %d runs", worst, runs)
}
