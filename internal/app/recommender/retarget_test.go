// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package recommender

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/edge/kube/checkpoint"
)

// retargeted returns a bench with an autoscaler that has the usage history of a large workload, and a function that changes its target.
func retargeted(t *testing.T, profile string) (b *bench, large, small cluster.Workload, retarget func(cluster.Workload)) {
	b = newBench(t)
	b.use["app"] = cluster.Amounts(4000, 8<<30)
	large = b.deployment("large", 2, "app")
	b.autoscale("web", large).Recommender = profile
	b.run(26 * time.Hour)
	if got := b.advice("web", "app").Target; got.CPU < 4000 {
		t.Fatalf("target of the large workload: %v", got)
	}
	small = cluster.Workload{Group: "apps", Kind: "Deployment", Namespace: "shop", Name: "small"}
	return b, large, small, func(w cluster.Workload) {
		next := *b.autoscalers[0]
		next.Target = w
		b.autoscalers[0] = &next
	}
}

// deploySmall creates the small workload.
func (b *bench) deploySmall() {
	b.pods = nil
	b.use["app"] = cluster.Amounts(100, 50<<20)
	b.deployment("small", 2, "app")
}

func TestRetarget_duringRestart_oldHistoryIsNotUsed(t *testing.T) {
	for _, profile := range []string{"", "balanced"} {
		for _, pods := range []bool{true, false} {
			t.Run(fmt.Sprintf("profile %q, pods %v", profile, pods), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					b, large, small, retarget := retargeted(t, profile)
					retarget(small)
					b.deploySmall()
					if !pods {
						b.pods = nil
					}
					r := b.run(10 * time.Minute)
					if !pods {
						if len(b.autoscalers[0].Advice) != 0 {
							t.Errorf("recommendation for a workload without pods: %+v", b.autoscalers[0].Advice)
						}
						return
					}
					if got := r.usageStore.Series(small, "app").Seen(cluster.CPU).Count; got > 25 {
						t.Errorf("the new workload has %d samples after ten minutes", got)
					}
					if got := b.advice("web", "app").Target; got.CPU > 500 || got.Memory > 1<<30 {
						t.Errorf("target of the small workload: %v", got)
					}
					key := checkpoint.Key{Autoscaler: b.autoscalers[0].Key, Container: "app"}
					if got := b.stored[key].Workload; got != small {
						t.Errorf("the checkpoint is for %v", got)
					}
					if b.run(2*time.Second).usageStore.Series(large, "app") != nil {
						t.Error("the history of the old workload was restored")
					}
				})
			})
		}
	}
}

// There is no usage history of the new workload: it has no pods yet, or its usage cannot be read.
func TestRetarget_newTargetWithoutUsage_oldRecommendationIsRemoved(t *testing.T) {
	for name, outage := range map[string]bool{"no pods": false, "no usage": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b, _, small, retarget := retargeted(t, "")
				b.during(30*time.Minute, func(after time.Duration) {
					if after == 10*time.Minute {
						retarget(small)
						b.pods = nil
						if outage {
							b.deploySmall()
							b.usageErr = errors.New("metrics-server is away")
						}
					}
					if after > 10*time.Minute && len(b.autoscalers[0].Advice) > 0 {
						t.Fatalf("recommendation for the new workload: %+v after %v", b.autoscalers[0].Advice, after)
					}
				})
			})
		})
	}
}

func TestRetarget_backToFirstTarget_historyIsUsedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, large, small, retarget := retargeted(t, "")
		before := b.advice("web", "app").Target
		pods := b.pods
		retarget(small)
		b.pods = nil
		b.run(5 * time.Minute)
		retarget(large)
		b.pods, b.usageErr = pods, errors.New("metrics-server is away")
		b.run(5 * time.Minute)
		if got := b.advice("web", "app").Target; got != before {
			t.Errorf("target %v, before %v", got, before)
		}
	})
}

// Upstream's checkpoints do not contain the workload.
func TestRetarget_checkpointWithoutWorkload_isRestored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.use["app"] = cluster.Amounts(300, 200<<20)
		web := b.deployment("web", 2, "app")
		b.autoscale("web", web)
		had := b.run(3*time.Hour).usageStore.Series(web, "app").Seen(cluster.CPU).Count
		for key, c := range b.stored {
			c.Workload = cluster.Workload{}
			b.stored[key] = c
		}
		if has := b.run(2*time.Second).usageStore.Series(web, "app").Seen(cluster.CPU).Count; has < had*9/10 {
			t.Errorf("%d samples, before %d", has, had)
		}
	})
}
