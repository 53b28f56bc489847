// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package recommender

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
)

// rollouts runs a recommender for 12 hours, in whose last 4 hours the pod of a workload is replaced every hour. Each start takes 1 core for
// four minutes, and then 300m.
func (b *bench) rollouts(w cluster.Workload) {
	starts := 0
	b.during(12*time.Hour, func(since time.Duration) {
		b.use["app"] = cluster.Amounts(300, 200<<20)
		if since < 8*time.Hour {
			return
		}
		if hour := int((since - 8*time.Hour) / time.Hour); hour == starts {
			starts++
			b.pods = nil
			b.deployment(w.Name, 1, "app")
			p := b.pods[0]
			p.Name, p.UID = fmt.Sprint(w.Name, "-new-", starts), fmt.Sprint("new", starts)
			p.Started = time.Now()
		}
		p := *b.pods[0]
		p.Ready, p.ReadySince = time.Since(p.Started) >= time.Minute, p.Started.Add(time.Minute)
		b.pods[0] = &p
		if time.Since(p.Started) < 5*time.Minute {
			b.use["app"] = cluster.Amounts(1000, 200<<20)
		}
	})
}

func TestRecommender_startsNeedMore_boostIsLearntAndKeptOverARestart(t *testing.T) {
	annotated := cluster.BoostLearning{On: true, Set: true, MaxPercent: 400, MaxDuration: 10 * time.Minute}
	for name, c := range map[string]struct {
		change func(b *bench, a *cluster.Autoscaler)
		want   cluster.LearntBoost
	}{
		"by an annotation": {
			func(_ *bench, a *cluster.Autoscaler) { a.Learning = annotated }, cluster.LearntBoost{Percent: 290, Starts: 4, Duration: 4 * time.Minute},
		},
		"by a profile with bounds": {
			func(b *bench, a *cluster.Autoscaler) {
				b.profiles = map[string]string{"mine": `{"base": "default", "startupBoost": {"learn": true, "maxFactor": 2, "maxDuration": "3m"}}`}
				a.Recommender = "mine"
			}, cluster.LearntBoost{Percent: 200, Starts: 4, Duration: 3 * time.Minute},
		},
		"not by default": {func(*bench, *cluster.Autoscaler) {}, cluster.LearntBoost{}},
		"not with a configured boost": {
			func(_ *bench, a *cluster.Autoscaler) {
				a.Learning = annotated
				a.Boost = &cluster.Boost{Factor: 2}
			}, cluster.LearntBoost{},
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t)
				w := b.deployment("web", 1, "app")
				b.pods[0].Started = time.Now().Add(-24 * time.Hour)
				c.change(b, b.autoscale("web", w))
				b.rollouts(w)
				if got := b.advice("web", "app"); got.Learnt != c.want || got.Target.CPU != 350 {
					t.Errorf("learnt %+v with the target %v, want %+v", got.Learnt, got.Target, c.want)
				}
				b.autoscalers[0].AdviceFor("app").Learnt = cluster.LearntBoost{Percent: 110, Starts: 1}
				b.run(2 * time.Minute) // a new process
				if got := b.advice("web", "app").Learnt; got != c.want {
					t.Errorf("learnt %+v after a restart, want %+v", got, c.want)
				}
			})
		})
	}
}

func TestRecommender_profileIsInvalidAtARestart_startsAreKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		w := b.deployment("web", 1, "app")
		b.pods[0].Started = time.Now().Add(-24 * time.Hour)
		valid := map[string]string{"mine": `{"base": "default", "startupBoost": {"learn": true}}`}
		b.profiles = valid
		b.autoscale("web", w).Recommender = "mine"
		b.rollouts(w)
		want := b.advice("web", "app").Learnt
		b.profiles = map[string]string{"mine": `{"base": "nonsense", "startupBoost": {"learn": true}}`}
		b.run(20 * time.Minute) // a new process, which writes checkpoints
		b.profiles = valid
		b.run(2 * time.Minute)
		if got := b.advice("web", "app").Learnt; got != want || want.Starts == 0 {
			t.Errorf("learnt %+v, want %+v", got, want)
		}
	})
}
