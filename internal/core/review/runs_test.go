// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package review

import (
	"fmt"
	"testing"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/usage"
)

// A CronJob with runs of two minutes has minutes of usage after a month.
func TestStoredEvidence_shortRuns_areCountedInsteadOfHours(t *testing.T) {
	w := cluster.Workload{Group: "batch", Kind: "CronJob", Namespace: "shop", Name: "report"}
	for runs, want := range map[int]Confidence{2: None, 3: Low, 29: Low, 30: Medium} {
		store := usage.NewStore(usage.DefaultConfig())
		at := time.Date(2026, 3, 1, 3, 0, 0, 0, time.UTC)
		for i := range runs {
			p := &cluster.Pod{Key: cluster.Key{Namespace: "shop", Name: fmt.Sprint("report-", i)}, UID: fmt.Sprint(i), Top: w, Phase: cluster.Running, Containers: []cluster.Container{{Name: "app"}}}
			store.Tick(at)
			store.Track(p)
			for end := at.Add(2 * time.Minute); at.Before(end); at = at.Add(time.Minute) {
				store.Observe(usage.Sample{Pod: p.Key, Container: "app", At: at, CPU: 1, Memory: 1 << 30, Has: cluster.Both})
			}
			store.Forget(p.Key)
			at = at.Add(24 * time.Hour)
		}
		e := StoredEvidence(&cluster.Autoscaler{}, "app", store.Series(w, "app"), at)
		if e.Confidence() != want || e.Young() != (want == None) {
			t.Errorf("%d runs: confidence %v, young %v; want %v", runs, e.Confidence(), e.Young(), want)
		}
	}
}
