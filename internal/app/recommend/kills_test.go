// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package recommend

import (
	"testing"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/usage"
	"podfit.dev/podfit/internal/edge/prom/survey"
)

// A recordedUsage is the input of a test: the only workload of a scene used 400 MiB in each hour of 9 days, and was OOM-killed 30 hours ago.
type recordedUsage struct {
	profile string
	joined  bool  // Prometheus stores owners
	kills   int   // recorded
	request int64 // recorded memory request at the kill; 0: not recorded
	exit    bool  // the status of the first pod has the kill
}

const (
	usedBytes   = 400 << 20
	killedBytes = 1 << 30
)

// recommended returns the recommended memory according to Prometheus, and the number of kills in the report.
func (k recordedUsage) recommended(t *testing.T) (memory int64, kills int) {
	t.Helper()
	s := largeScene(5)
	s.workloads = s.workloads[:1]
	w := s.workloads[0]
	at := s.Now.Add(-30 * time.Hour)
	for _, p := range w.live {
		p.Created = s.Now.AddDate(0, 0, -20)
		p.Containers[0].Requests = cluster.Amounts(1000, killedBytes)
	}
	if k.exit {
		w.live[0].Containers[0].Exit = &cluster.Exit{OOM: true, Kills: 1, Finished: at.Add(-20 * time.Minute), Started: at.Add(-time.Hour)}
	}
	j := job{Config: Defaults()}
	j.Profiles = []string{k.profile}
	c := newCollector(s, j.books(s))
	for hour := range 9 * 24 {
		h := survey.Hour{
			Namespace: w.key.Namespace, Container: "app", Pod: w.live[0].Name, End: s.Now.AddDate(0, 0, -9).Add(time.Duration(hour+1) * time.Hour),
			CPU: 0.1, Memory: usedBytes, Has: cluster.Both,
		}
		if k.joined {
			h.Pod, h.Workload = "", w.key
		}
		if h.End.Equal(at) {
			h.Kills, h.KilledRequest = k.kills, k.request
		}
		c.observeHour(&h)
	}
	subjects := j.subjects(c)
	return subjects[0].Targets[0].Amount.Memory, subjects[0].Evidence.Kills
}

// observed returns the memory that the recommender recommends if it observes the same usage and the kill of a live pod.
func (k recordedUsage) observed(t *testing.T) int64 {
	t.Helper()
	s := largeScene(5)
	s.workloads = s.workloads[:1]
	w := s.workloads[0]
	b := newBook(k.profile, s)
	b.workloads.SkipRestore()
	b.track()
	pod := w.live[0]
	pod.Containers[0].Requests = cluster.Amounts(1000, killedBytes)
	for hour := range 9 * 24 {
		at := s.Now.AddDate(0, 0, -9).Add(time.Duration(hour+1) * time.Hour)
		b.store.Observe(usage.Sample{Pod: pod.Key, Container: "app", At: at, CPU: 0.1, Memory: usedBytes, Has: cluster.Both})
		if k.kills > 0 && at.Equal(s.Now.Add(-30*time.Hour)) {
			pod.Containers[0].Exit = &cluster.Exit{OOM: true, Kills: 1, Finished: at}
			b.store.ObserveExits(pod)
		}
	}
	return target(b.advise(w), "app").Memory
}

// A kill that Prometheus has recorded counts like one that the recommender observes.
func TestCollector_recordedOOMKill_raisesMemoryAsInTheRecommender(t *testing.T) {
	for _, profile := range []string{"default", "balanced", "critical"} {
		calm := recordedUsage{profile: profile}.observed(t)
		want := recordedUsage{profile: profile, kills: 1}.observed(t)
		if want <= calm {
			t.Fatalf("%s: a kill has no effect on the recommender: %d and %d bytes", profile, calm, want)
		}
		for name, k := range map[string]recordedUsage{
			"pods, request recorded":        {kills: 1, request: killedBytes},
			"pods, request of a live pod":   {kills: 1},
			"owners, request recorded":      {kills: 3, request: killedBytes, joined: true},
			"owners, request of a live pod": {kills: 1, joined: true},
			"the status has it, too":        {kills: 1, request: killedBytes, joined: true, exit: true},
		} {
			k.profile = profile
			if got, kills := k.recommended(t); got != want || kills != k.kills {
				t.Errorf("%s, %s: %d bytes and %d kills, want %d bytes and %d", profile, name, got, kills, want, k.kills)
			}
		}
		if got, _ := (recordedUsage{profile: profile}).recommended(t); got != calm {
			t.Errorf("%s: without a kill %d bytes, want %d", profile, got, calm)
		}
	}
}
