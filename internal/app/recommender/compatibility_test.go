// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package recommender

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"podfit.dev/podfit/api/podfit/v1alpha1"
	"podfit.dev/podfit/internal/app/process"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/edge/kube"
	"podfit.dev/podfit/internal/edge/kube/watcher"
	"podfit.dev/podfit/test/kubetest"
	"podfit.dev/podfit/test/rowtest"
)

// write stores statuses in an API server, through the watches of the configuration, while do runs. It returns the types of the conditions that
// an autoscaler has after it.
func (b *bench) write(name string, do func()) (types map[string]bool) {
	b.t.Helper()
	api := kubetest.NewLocalAPI(b.t)
	b.api = api
	for _, a := range b.autoscalers {
		api.Apply(kubetest.AutoscalersPath, fmt.Sprintf(`{"metadata":{"namespace":%q,"name":%q,"uid":%q,"generation":1},"spec":{"targetRef":{"apiVersion":"apps/v1","kind":"Deployment","name":%q}}}`,
			a.Namespace, a.Name, a.UID, a.Target.Name))
	}
	clients, err := kube.ClientsFor(kubetest.LocalConfig(api))
	if err != nil {
		b.t.Fatal(err)
	}
	b.writer = watcher.NewWorld(clients, b.config.Watched(watcher.Options{}))
	err = process.WithWorld(b.t.Context(), b.writer, func(ctx context.Context) error {
		if err := b.writer.WaitSynced(ctx); err != nil {
			return err
		}
		do()
		return nil
	})
	if err != nil {
		b.t.Fatal(err)
	}
	types = map[string]bool{}
	status, _ := api.Object(kubetest.AutoscalersPath, "shop/"+name)["status"].(map[string]any)
	conditions, _ := status["conditions"].([]any)
	for _, c := range conditions {
		types[fmt.Sprint(c.(map[string]any)["type"])] = true
	}
	return types
}

// Each situation ends while the finding still holds. The recommendation is provided with both values.
func TestCompatibility_findings_areConditionsOfEachValue(t *testing.T) {
	for row, c := range map[string]struct {
		name      string // of the autoscaler
		condition string
		during    func(t *testing.T, config Config) (b *bench, do func())
	}{
		"repeated OOM kills": {"web", v1alpha1.ConditionOOMKillLoop, func(t *testing.T, config Config) (*bench, func()) {
			b := newBench(t)
			b.config, b.use["app"] = config, cluster.Amounts(100, 45<<20)
			b.autoscale("web", b.deployment("web", 2, "app"))
			return b, func() {
				b.during(20*time.Minute, func(after time.Duration) {
					if after > 10*time.Minute {
						b.kill(b.pods...)
					}
				})
			}
		}},
		"contention for CPU": {"web", v1alpha1.ConditionUsageAboveRequest, func(t *testing.T, config Config) (*bench, func()) {
			c := newContended(t, 2)
			c.config = config
			return c.bench, func() { c.watch(50*time.Minute, func(time.Duration) {}) }
		}},
		"target conflicts": {"new", v1alpha1.ConditionTargetConflict, func(t *testing.T, config Config) (*bench, func()) {
			b := newBench(t)
			b.config, b.use["app"] = config, cluster.Amounts(300, 200<<20)
			w := b.deployment("web", 3, "app")
			b.autoscale("old", w)
			time.Sleep(time.Second)
			b.autoscale("new", w)
			return b, func() { b.run(5 * time.Minute) }
		}},
	} {
		want := rowtest.Outcomes{Podfit: c.condition + " true, RecommendationProvided true", Upstream: c.condition + " false, RecommendationProvided true"}
		rowtest.Both(t, row, want, func(t *testing.T, args ...string) (got string) {
			synctest.Test(t, func(t *testing.T) {
				b, do := c.during(t, given(t, args...))
				types := b.write(c.name, do)
				got = fmt.Sprintf("%s %t, RecommendationProvided %t", c.condition, types[c.condition], types["RecommendationProvided"])
			})
			return got
		})
	}
}

func TestCompatibility_capacityPlan_existsOnlyWithPodfit(t *testing.T) {
	want := rowtest.Outcomes{Podfit: "there is a plan: true", Upstream: "there is a plan: false"}
	rowtest.Both(t, "capacity plan", want, func(t *testing.T, args ...string) (got string) {
		synctest.Test(t, func(t *testing.T) {
			api := kubetest.NewLocalAPI(t)
			api.ApplyNode("n", "4", "16Gi")
			clients, err := kube.ClientsFor(kubetest.LocalConfig(api))
			if err != nil {
				t.Fatal(err)
			}
			c, log := given(t, args...), slog.New(slog.DiscardHandler)
			world := watcher.NewWorld(clients, c.Watched(watcher.Options{Pods: watcher.AllPods, Nodes: true}))
			work, err := Work(&c, process.New(log, prometheus.NewRegistry()), clients, world, nil)
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
			defer cancel()
			if err := process.WithWorld(ctx, world, work); err != nil && ctx.Err() == nil {
				t.Fatal(err)
			}
			got = fmt.Sprintf("there is a plan: %t", api.Object("/apis/podfit.dev/v1alpha1/capacityplans", "/cluster") != nil)
		})
		return got
	})
}

// Long runs at low usage have more samples than short ones at high usage.
func TestCompatibility_jobHasRuns_targetIsThatOfEachValue(t *testing.T) {
	want := rowtest.Outcomes{Podfit: "enough for each run: true", Upstream: "enough for each run: false"}
	rowtest.Both(t, "Jobs and CronJobs", want, func(t *testing.T, args ...string) (got string) {
		synctest.Test(t, func(t *testing.T) {
			b := newBench(t)
			b.config = given(t, args...)
			report := cluster.Workload{Group: "batch", Kind: "CronJob", Namespace: "shop", Name: "report"}
			b.autoscale("report", report)
			b.during(8*time.Hour, func(after time.Duration) {
				run := int(after / (2 * time.Hour))
				b.use["app"] = cluster.Amounts(100, 300<<20)
				if run == 1 {
					b.use["app"] = cluster.Amounts(2000, 300<<20)
				}
				b.pods = nil
				if inRun := after % (2 * time.Hour); inRun < 100*time.Minute && (run != 1 || inRun < 3*time.Minute) {
					b.pods = []*cluster.Pod{{Key: cluster.Key{Namespace: "shop", Name: fmt.Sprint("report-", run)}, UID: fmt.Sprint(run), Top: report,
						Phase: cluster.Running, Created: time.Now(), Containers: []cluster.Container{{Name: "app"}}}}
				}
			})
			got = fmt.Sprintf("enough for each run: %t", b.advice("report", "app").Target.CPU >= 2000)
		})
		return got
	})
}

// On the second day a checkpoint is written each ten minutes, or in each pass.
func TestCompatibility_historyGrows_checkpointWritesAreThoseOfEachValue(t *testing.T) {
	want := rowtest.Outcomes{Podfit: "144 writes in a day", Upstream: "1440 writes in a day"}
	rowtest.Both(t, "checkpoint writes", want, func(t *testing.T, args ...string) (got string) {
		synctest.Test(t, func(t *testing.T) {
			b := newBench(t)
			b.config, b.use["app"] = given(t, args...), cluster.Amounts(300, 200<<20)
			b.autoscale("web", b.deployment("web", 2, "app"))
			b.run(24 * time.Hour)
			first := b.storeWrites
			b.run(24 * time.Hour)
			got = fmt.Sprintf("%d writes in a day", b.storeWrites-first)
		})
		return got
	})
}

// After a day, the upper bound becomes a little smaller in each pass.
func TestCompatibility_boundMovesALittle_writesAreThoseOfEachValue(t *testing.T) {
	want := rowtest.Outcomes{Podfit: "the status changes in each pass: false, it follows: true", Upstream: "the status changes in each pass: true, it follows: true"}
	rowtest.Both(t, "small changes of bounds", want, func(t *testing.T, args ...string) (got string) {
		synctest.Test(t, func(t *testing.T) {
			b := newBench(t)
			b.config, b.use["app"] = given(t, args...), cluster.Amounts(300, 200<<20)
			b.autoscale("web", b.deployment("web", 2, "app"))
			changes, before, dayOld := 0, cluster.Estimate{}, cluster.Estimate{}
			b.during(48*time.Hour, func(after time.Duration) {
				if after <= 24*time.Hour {
					if len(b.autoscalers[0].Advice) > 0 {
						before = b.advice("web", "app").Estimate
						dayOld = before
					}
					return
				}
				if now := b.advice("web", "app").Estimate; now != before {
					before = now
					changes++
				}
			})
			follows := before.Target == dayOld.Target && float64(before.Upper.CPU) < 0.8*float64(dayOld.Upper.CPU)
			got = fmt.Sprintf("the status changes in each pass: %t, it follows: %t", changes > 1000, follows)
			if changes > 100 && changes < 1000 {
				t.Errorf("%d changes in a day", changes)
			}
		})
		return got
	})
}
