// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package recommender

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"podfit.dev/podfit/api/podfit/v1alpha1"
	"podfit.dev/podfit/internal/app/process"
	reporting "podfit.dev/podfit/internal/app/recommender/contention"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/contention"
	"podfit.dev/podfit/internal/core/usage"
	"podfit.dev/podfit/internal/edge/kube/watcher"
)

func TestReasons_ofContentionAndAPI_areEqual(t *testing.T) {
	for reason, want := range map[contention.Reason]string{
		contention.RequestTooLow: v1alpha1.ReasonRequestTooLow, contention.OneReplica: v1alpha1.ReasonOneReplica,
		contention.Starting: v1alpha1.ReasonStarting, contention.NodeHasSpare: v1alpha1.ReasonNodeHasSpare,
		contention.AtLimit: v1alpha1.ReasonAtLimit, contention.KernelTooOld: v1alpha1.ReasonKernelTooOld, contention.BurstsOfThreads: v1alpha1.ReasonBurstsOfThreads,
		contention.NotControlled: v1alpha1.ReasonNotControlled, contention.NotApplied: v1alpha1.ReasonNotApplied,
		contention.RequestInBand: v1alpha1.ReasonRequestInBand,
	} {
		if string(reason) != want {
			t.Errorf("the core has reason %q, the API %q", reason, want)
		}
	}
}

// A contended cluster has one workload whose pods have run for a day on node n1.
type contended struct {
	*bench
	heavy map[string]int64 // CPU usage in millicores of single pods
}

func newContended(t *testing.T, replicas int) *contended {
	c := &contended{newBench(t), map[string]int64{}}
	c.use["app"] = cluster.Amounts(300, 200<<20)
	c.autoscale("web", c.deployment("web", replicas, "app"))
	c.nodes = []cluster.Node{{Name: "n1", Allocatable: cluster.Amounts(4000, 64<<30), Ready: true, Kernel: "6.8.0-45-generic"}}
	for _, p := range c.pods {
		p.Created, p.Node = time.Now().Add(-24*time.Hour), "n1"
	}
	return c
}

// Samples returns the usage of all containers.
func (c *contended) Samples(ctx context.Context) ([]usage.Sample, error) {
	samples, err := c.bench.Samples(ctx)
	for i := range samples {
		if v, ok := c.heavy[samples[i].Pod.Name]; ok {
			samples[i].CPU = float64(v) / 1000
		}
	}
	return samples, err
}

// stands returns the condition in the status.
func (b *bench) stands(kind string) watcher.Condition {
	for _, c := range b.stand[b.autoscalers[0].Key] {
		if string(c.Type) == kind {
			return c
		}
	}
	return watcher.Condition{}
}

func TestRecommender_usageAboveRequest_isReportedWithItsCauseAndRemoved(t *testing.T) {
	memory := cluster.Of(cluster.Memory)
	for name, tt := range map[string]struct {
		replicas int
		change   func(*contended, *cluster.Autoscaler)
		reason   string
		text     string
	}{
		"not applied":  {2, func(*contended, *cluster.Autoscaler) {}, v1alpha1.ReasonRequestTooLow, "The recommendation is 350m, and the updater has not applied it to these pods. The reason of the condition Updating"},
		"mode Off":     {2, func(_ *contended, a *cluster.Autoscaler) { a.Mode = cluster.Off }, v1alpha1.ReasonRequestTooLow, "updateMode Off"},
		"mode Initial": {2, func(_ *contended, a *cluster.Autoscaler) { a.Mode = cluster.Initial }, v1alpha1.ReasonRequestTooLow, "updateMode Initial"},
		"maxAllowed": {2, func(_ *contended, a *cluster.Autoscaler) {
			a.Policies = []cluster.ContainerPolicy{{Container: "*", MaxAllowed: cluster.Resources{}.Set(cluster.CPU, 100)}}
		}, v1alpha1.ReasonRequestTooLow, "limited to 100m"},
		"not controlled, the node is busy": {2, func(c *contended, a *cluster.Autoscaler) {
			a.Policies = []cluster.ContainerPolicy{{Container: "*", ControlsSet: true, Controlled: memory}}
			c.nodes[0].Allocatable.CPU = 1000
		}, v1alpha1.ReasonRequestTooLow, "add cpu to controlledResources"},
		"not controlled, the node has spare CPU": {2, func(_ *contended, a *cluster.Autoscaler) {
			a.Policies = []cluster.ContainerPolicy{{Container: "*", ControlsSet: true, Controlled: memory}}
		}, v1alpha1.ReasonNodeHasSpare, "No other pod is harmed"},
		"not controlled, only some namespaces": {2, func(c *contended, a *cluster.Autoscaler) {
			a.Policies = []cluster.ContainerPolicy{{Container: "*", ControlsSet: true, Controlled: memory}}
			c.config.Common.Namespace = "shop"
		}, v1alpha1.ReasonRequestTooLow, ""},
		"one replica": {5, func(c *contended, _ *cluster.Autoscaler) {
			c.use["app"] = cluster.Amounts(50, 200<<20)
			c.heavy["web-3"] = 900
		}, v1alpha1.ReasonOneReplica, "in pod web-3. The median of its replicas is about 50m"},
		"a start": {2, func(c *contended, _ *cluster.Autoscaler) {
			for _, p := range c.pods {
				p.Started = time.Now()
			}
		}, v1alpha1.ReasonStarting, "set startupBoost"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newContended(t, tt.replicas)
				tt.change(c, c.autoscalers[0])
				got := map[time.Duration]watcher.Condition{}
				c.watch(80*time.Minute, func(after time.Duration) {
					got[after] = c.stands(v1alpha1.ConditionUsageAboveRequest)
					if after == 50*time.Minute {
						c.use["app"], c.heavy = cluster.Amounts(20, 200<<20), nil
					}
				})
				if early := got[25*time.Minute]; early.Status != "" {
					t.Errorf("condition %+v after 25 minutes", early)
				}
				if cond := got[45*time.Minute]; cond.Status != watcher.True || cond.Reason != tt.reason || !strings.Contains(cond.Message, tt.text) {
					t.Errorf("condition %+v, want reason %s, text %q", cond, tt.reason, tt.text)
				}
				if late := got[79*time.Minute]; late.Status != "" {
					t.Errorf("condition %+v half an hour after the usage fell", late)
				}
			})
		})
	}
}

// watch runs a recommender for a time, with the usage of single pods.
func (c *contended) watch(d time.Duration, between func(time.Duration), prepare ...func(*dependencies)) {
	ctx, cancel := context.WithTimeout(c.t.Context(), d-time.Second)
	defer cancel()
	deps := c.dependencies()
	deps.source = always(c)
	for _, f := range prepare {
		f(&deps)
	}
	r := newRecommender(c.config, deps)
	began := time.Now()
	process.Every(ctx, c.config.Interval, func(ctx context.Context, now time.Time) {
		between(now.Sub(began))
		r.pass(ctx, now)
	})
	time.Sleep(time.Second)
}

func TestRecommender_otherConditions_appearAndGo(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(*contended, *cluster.Autoscaler)
		cure   func(*contended)
		kind   string
		reason string
		text   string
	}{
		"no request, policy Off": {func(c *contended, a *cluster.Autoscaler) {
			a.Policies = []cluster.ContainerPolicy{{Container: "app", Off: true}}
			c.request(0)
		}, func(c *contended) { c.request(400) }, v1alpha1.ConditionNoCPURequest, v1alpha1.ReasonNotControlled, "remove mode Off"},
		"no request, mode Off": {func(c *contended, a *cluster.Autoscaler) {
			a.Mode = cluster.Off
			c.request(0)
		}, func(c *contended) { c.request(400) }, v1alpha1.ConditionNoCPURequest, v1alpha1.ReasonNotApplied, "updateMode Off does not apply it"},
		"a JVM": {func(c *contended, _ *cluster.Autoscaler) {
			c.request(1000)
			for _, p := range c.pods {
				p.Runtimes = &cluster.Runtimes{List: []cluster.Runtime{{Kind: cluster.JVM}}}
			}
		}, func(c *contended) { c.request(1001) }, v1alpha1.ConditionJVMSeesAllCores, v1alpha1.ReasonRequestInBand, "requests from 989m to 1000m"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newContended(t, 3)
				tt.change(c, c.autoscalers[0])
				c.watch(10*time.Minute, func(time.Duration) {})
				cond := c.stands(tt.kind)
				if cond.Status != watcher.True || cond.Reason != tt.reason || !strings.Contains(cond.Message, tt.text) {
					t.Errorf("condition %+v, want reason %s, text %q", cond, tt.reason, tt.text)
				}
				tt.cure(c)
				c.watch(2*time.Minute, func(time.Duration) {})
				if cond := c.stands(tt.kind); cond.Status != "" {
					t.Errorf("condition %+v after the cure", cond)
				}
			})
		})
	}
}

// request replaces the CPU request of all containers, in millicores. As the projection does, it replaces the pods.
func (c *contended) request(millicores int64) {
	for i, p := range c.pods {
		next := *p
		next.Containers = slices.Clone(p.Containers)
		next.Containers[0].Requests = cluster.Resources{}.Set(cluster.Memory, 50<<20)
		if millicores > 0 {
			next.Containers[0].Requests = cluster.Amounts(millicores, 50<<20)
		}
		c.pods[i] = &next
	}
}

// periods answers queries for CPU throttling.
type periods struct {
	mu     sync.Mutex
	answer []contention.Throttling
	err    error
}

func (p *periods) ContainerThrottling(context.Context, contention.ThrottlingQuery, time.Time) ([]contention.Throttling, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.answer), p.err
}

func (p *periods) set(share, p95, mean float64, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.answer, p.err = []contention.Throttling{{Pod: "web-0", Container: "app", Throttled: share * 18000, All: 18000, P95: p95, Mean: mean}}, err
}

func TestRecommender_throttling_isReportedWithItsCauseIfThereIsPrometheus(t *testing.T) {
	for name, tt := range map[string]struct {
		share, p95, mean float64
		kernel           string
		limit            int64
		none             bool // there is no Prometheus
		reason           string
		text             string
	}{
		"at the limit":     {0.5, 0.99, 0.8, "6.8.0", 1000, false, v1alpha1.ReasonAtLimit, "throttled in about 50 % of its CPU periods in pod web-0, with a limit of 1."},
		"an old kernel":    {0.5, 0.3, 0.2, "4.19.1", 1000, false, v1alpha1.ReasonKernelTooOld, "kernel 4.19.1"},
		"threads":          {0.5, 0.3, 0.2, "6.8.0", 1000, false, v1alpha1.ReasonBurstsOfThreads, "many threads"},
		"rarely throttled": {0.1, 0.99, 0.8, "6.8.0", 1000, false, "", ""},
		"no limit":         {0.5, 0.99, 0.8, "6.8.0", 0, false, "", ""},
		"no Prometheus":    {0.5, 0.99, 0.8, "6.8.0", 1000, true, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newContended(t, 2)
				c.use["app"] = cluster.Amounts(50, 200<<20)
				c.nodes[0].Kernel = tt.kernel
				for _, p := range c.pods {
					p.Containers[0].Limits = cluster.Resources{}.Set(cluster.CPU, tt.limit)
				}
				source := &periods{}
				source.set(tt.share, tt.p95, tt.mean, nil)
				ctx, cancel := context.WithCancel(t.Context())
				var running sync.WaitGroup
				got := map[time.Duration]watcher.Condition{}
				c.watch(3*time.Hour, func(after time.Duration) {
					got[after] = c.stands(v1alpha1.ConditionCPUThrottled)
					switch after {
					case 30 * time.Minute:
						source.set(tt.share, tt.p95, tt.mean, errors.New("503"))
					case 50 * time.Minute:
						source.set(0.1, 0.1, 0.1, nil)
					case 70 * time.Minute:
						source.set(tt.share, tt.p95, tt.mean, nil)
					case 90 * time.Minute:
						source.set(0, 0, 0, errors.New("503"))
					}
				}, func(d *dependencies) {
					if tt.none {
						return
					}
					d.observer = reporting.NewObserver(source.ContainerThrottling, d.health, slog.New(slog.DiscardHandler))
					running.Go(func() { d.observer.Run(ctx) })
				})
				cancel()
				running.Wait()
				wants := map[time.Duration]bool{
					20 * time.Minute: true, 45 * time.Minute: true, 65 * time.Minute: false, 85 * time.Minute: true, 120 * time.Minute: true, 170 * time.Minute: false,
				}
				for after, want := range wants {
					cond := got[after]
					want = want && tt.reason != ""
					if (cond.Status == watcher.True) != want || want && (cond.Reason != tt.reason || !strings.Contains(cond.Message, tt.text)) {
						t.Errorf("after %v: condition %+v, want one: %t with reason %s", after, cond, want, tt.reason)
					}
				}
			})
		})
	}
}

// The pods of a CronJob run for some minutes. The condition must not come and go with each of them.
func TestRecommender_throttledPodsComeAndGo_statusChangesRarely(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newContended(t, 1)
		c.use["app"] = cluster.Amounts(50, 200<<20)
		c.pods[0].Containers[0].Limits = cluster.Resources{}.Set(cluster.CPU, 1000)
		template, source := c.pods[0], &periods{}
		source.set(0.5, 0.99, 0.8, nil)
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		changes, last := 0, watcher.Condition{}
		c.watch(8*time.Hour, func(after time.Duration) {
			i := int(after / time.Minute)
			c.pods = nil
			if after < 4*time.Hour && i%10 < 7 {
				pod := *template
				pod.Name, pod.UID, pod.Created = fmt.Sprintf("web-%d", i/10), fmt.Sprint(i/10), time.Now().Add(-time.Duration(i%10)*time.Minute)
				c.pods = []*cluster.Pod{&pod}
				source.mu.Lock()
				source.answer[0].Pod = pod.Name
				source.mu.Unlock()
			}
			now := c.stands(v1alpha1.ConditionCPUThrottled)
			if now != last {
				changes++
			}
			if last = now; after == 4*time.Hour-time.Minute && now.Reason != v1alpha1.ReasonAtLimit {
				t.Errorf("condition %+v of pods that are all throttled", now)
			}
		}, func(d *dependencies) {
			d.observer = reporting.NewObserver(source.ContainerThrottling, d.health, slog.New(slog.DiscardHandler))
			running.Go(func() { d.observer.Run(ctx) })
		})
		cancel()
		running.Wait()
		if changes > 2+2*4 {
			t.Errorf("the condition changed %d times in 4 hours, want at most twice an hour", changes)
		}
		if last.Status != "" {
			t.Errorf("condition %+v hours after the last pod", last)
		}
	})
}

// The world compares a status with the stored one, so a status is written only if what is passed to WriteStatus differs.
// Two pods use 300m each on a node of 500m, and request 100m each. Only for profile packed, whose requests are below peaks, is that reported.
func TestRecommender_packedOnABusyNode_reportsTheCPUThatContainersWouldLack(t *testing.T) {
	for profile, lacks := range map[string]bool{"packed": true, "balanced": false} {
		synctest.Test(t, func(t *testing.T) {
			c := newContended(t, 2)
			c.autoscalers[0].Recommender = profile
			c.nodes[0].Allocatable.CPU = 500
			c.watch(45*time.Minute, func(time.Duration) {})
			cond := c.stands(v1alpha1.ConditionUsageAboveRequest)
			if strings.Contains(cond.Message, "While all pods of its node need CPU, it gets about 50m less than that. The recommendation is") != lacks {
				t.Errorf("%s: condition %+v", profile, cond)
			}
			families, err := c.registry.Gather()
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, f := range families {
				if f.GetName() == "podfit_recommender_packed_cpu_lacking_cores" {
					for _, m := range f.GetMetric() {
						got = append(got, m.String())
					}
				}
			}
			if text := strings.Join(got, ""); len(got) == 1 != lacks || lacks && (!strings.Contains(text, `"web"`) || !strings.Contains(text, "0.05")) {
				t.Errorf("%s: series %q", profile, got)
			}
		})
	}
}

func TestRecommender_contention_changesTheStatusRarelyAndSurvivesARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newContended(t, 4)
		var texts []string
		c.watch(6*time.Hour, func(after time.Duration) {
			i := int(after / time.Minute)
			c.heavy = map[string]int64{fmt.Sprintf("web-%d", i/5%4): int64(300 + 37*i%400)} // another pod uses most, by another amount
			if text := c.stands(v1alpha1.ConditionUsageAboveRequest).Message; len(texts) == 0 || text != texts[len(texts)-1] {
				texts = append(texts, text)
			}
		})
		if len(texts) < 2 || len(texts) > 13 {
			t.Errorf("%d different texts in 6 hours, want at most two an hour:\n%s", len(texts), strings.Join(texts, "\n"))
		}
		before := c.stands(v1alpha1.ConditionUsageAboveRequest)
		c.watch(20*time.Minute, func(time.Duration) {})
		if after := c.stands(v1alpha1.ConditionUsageAboveRequest); after != before {
			t.Errorf("condition %+v soon after a restart, want the one before it %+v", after, before)
		}
	})
}

func TestRecommender_specChanges_messageChangesAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newContended(t, 2)
		c.watch(45*time.Minute, func(after time.Duration) {
			if after == 40*time.Minute {
				changed := *c.autoscalers[0]
				changed.Generation, changed.Mode = 2, cluster.Off
				c.autoscalers[0] = &changed
			}
		})
		if got := c.stands(v1alpha1.ConditionUsageAboveRequest); !strings.Contains(got.Message, "updateMode Off") {
			t.Errorf("condition %+v five minutes after the mode was set to Off", got)
		}
	})
}

func TestRecommender_contentionOfSecondVPA_onlyTheGoverningOneReportsIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newContended(t, 2)
		c.autoscale("second", c.autoscalers[0].Target).Created = time.Now().Add(time.Hour)
		c.watch(45*time.Minute, func(time.Duration) {})
		first, second := c.condition("web", v1alpha1.ConditionUsageAboveRequest), c.condition("second", v1alpha1.ConditionUsageAboveRequest)
		if first.Status != watcher.True || second.Status != watcher.Removed {
			t.Errorf("conditions %+v and %+v", first, second)
		}
	})
}

func TestRecommender_conditionMetric_countsVPAsByReason(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newContended(t, 2)
		c.watch(45*time.Minute, func(time.Duration) {})
		families, err := c.registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		values := map[string]float64{}
		for _, f := range families {
			if f.GetName() == "podfit_recommender_vpas_with_condition" {
				for _, m := range f.GetMetric() {
					values[m.GetLabel()[0].GetValue()+"/"+m.GetLabel()[1].GetValue()] = m.GetGauge().GetValue()
				}
			}
		}
		if values["UsageAboveRequest/RequestTooLow"] != 1 || len(values) < 20 || len(values) > 60 {
			t.Errorf("values %v", values)
		}
		for series, v := range values {
			if _, reason, _ := strings.Cut(series, "/"); v > 0 && reason != v1alpha1.ReasonRequestTooLow || reason == "" {
				t.Errorf("%s is %v", series, v)
			}
		}
	})
}

func TestThrottlingSource_defaultLabels_areThoseOfTheKubelet(t *testing.T) {
	c := Defaults()
	h := &c.History
	if got := c.ThrottlingSource(); got.PodLabel != "pod" || got.ContainerLabel != "container" || got.NamespaceLabel != "namespace" || got.Address != h.Address {
		t.Errorf("source %+v", got)
	}
	h.PodLabel, h.ContainerLabel = "pod_id", "container_id"
	if got := c.ThrottlingSource(); got != *h {
		t.Errorf("source %+v, want the labels of the user", got)
	}
}
