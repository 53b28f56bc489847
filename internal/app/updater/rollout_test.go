// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package updater

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/pflag"

	"podfit.dev/podfit/api/podfit/v1alpha1"
	"podfit.dev/podfit/internal/app/process"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/decision"
	"podfit.dev/podfit/internal/core/policy"
	"podfit.dev/podfit/internal/core/rollout"
	"podfit.dev/podfit/internal/edge/kube/watcher"
)

// freezable is a cluster that is frozen after some writes.
type freezable struct {
	*fakeCluster
	after  int32 // writes before the freeze
	writes atomic.Int32
}

func (f *freezable) Rules(a *cluster.Autoscaler) rollout.Rules {
	r := rollout.Rules{Autoscaler: a}
	if f.writes.Load() >= f.after {
		r.Cluster = cluster.Freeze{On: true, By: cluster.Key{Namespace: "kube-system", Name: "podfit-freeze"}, Reason: "incident 7"}
	}
	return r
}

func (f *freezable) Evict(ctx context.Context, p *cluster.Pod) error {
	f.writes.Add(1)
	return f.fakeCluster.Evict(ctx, p)
}

func (f *freezable) Resize(ctx context.Context, p *cluster.Pod, with []policy.Fitted) error {
	f.writes.Add(1)
	return f.fakeCluster.Resize(ctx, p, with)
}

// thirty adds workloads of one pod each until there are thirty pods.
func thirty(y *fakeCluster) {
	first, a := y.pods[0], y.autoscalers[0]
	for i := range 27 {
		p, b := *first, *a
		p.Name, p.UID = fmt.Sprintf("more-%d", i), fmt.Sprintf("more-%d", i)
		p.Controller.Name, p.Top.Name = p.Name, p.Name
		b.Name, b.UID, b.Target, b.MinReplicas = p.Name, p.UID, p.Top, 1
		y.pods, y.autoscalers = append(y.pods, &p), append(y.autoscalers, &b)
	}
}

func TestUpdater_freezeDuringAPass_sendsNothingMore(t *testing.T) {
	for _, mode := range []cluster.Mode{cluster.Recreate, cluster.InPlaceOrRecreate} {
		for _, after := range []int32{0, 1, 5} {
			t.Run(fmt.Sprintf("%s after %d", mode, after), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					f := &freezable{fakeCluster: newFakeCluster(mode), after: after}
					thirty(f.fakeCluster)
					f.config.RateLimit, f.config.RateBurst = 10, 1 // one action after the other
					u := newUpdater(f.config, f, f, f, f, NewMetrics(prometheus.NewRegistry()), process.NewHealth(time.Hour), f.log)
					codes := map[decision.ReasonCode]int{}
					for _, d := range u.update(t.Context(), time.Now()) {
						codes[d.Reason.Code]++
					}
					if got := f.writes.Load(); got != after {
						t.Errorf("%d writes, want %d", got, after)
					}
					if codes[decision.Frozen] == 0 {
						t.Errorf("reasons %v", codes)
					}
					events := countHeld(f.recorded, decision.Reason{Code: decision.Frozen, Text: "ConfigMap kube-system/podfit-freeze (incident 7)"})
					if events == 0 || events > 28 {
						t.Errorf("%d events: %q", events, f.recorded)
					}
					u.pass(t.Context(), time.Now().Add(time.Minute))
					if got := f.writes.Load(); got != after {
						t.Errorf("%d writes after the second pass", got)
					}
				})
			})
		}
	}
}

func TestUpdater_freezeEnds_changesPods(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := newFakeCluster(cluster.Recreate)
		y.autoscalers[0].Rules.Frozen = true
		u := newUpdater(y.config, y, y, y, y, NewMetrics(prometheus.NewRegistry()), process.NewHealth(time.Hour), y.log)
		u.pass(t.Context(), time.Now())
		if len(y.done) > 0 {
			t.Fatalf("done %q", y.done)
		}
		thawed := *y.autoscalers[0]
		thawed.Rules.Frozen = false
		y.autoscalers = []*cluster.Autoscaler{&thawed}
		u.pass(t.Context(), time.Now())
		if !slices.Contains(y.done, "evict "+y.pods[0].Name) {
			t.Errorf("done %q", y.done)
		}
	})
}

// conditions records the conditions that were written.
type conditions struct {
	written []string
	now     map[string]bool // the conditions of all autoscalers
	err     error
	tried   int
}

func (c *conditions) WriteConditions(_ context.Context, a *cluster.Autoscaler, _ time.Time, say ...watcher.Condition) (bool, error) {
	c.tried++
	if c.err != nil {
		return false, c.err
	}
	for _, s := range say {
		cluster.Put(&c.now, a.Name+" "+string(s.Type), s.Status != watcher.Removed)
		if s.Status != watcher.Removed {
			c.written = append(c.written, a.Name+" "+string(s.Type)+" "+s.Reason+": "+s.Message)
		}
	}
	return true, nil
}

func TestUpdater_invalidWindow_changesNothingAndIsReportedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := newFakeCluster(cluster.Recreate)
		y.autoscalers[0].Rules.WindowProblem = `window "x": unknown time zone "Mars/Base"`
		u := newUpdater(y.config, y, y, y, y, NewMetrics(prometheus.NewRegistry()), process.NewHealth(time.Hour), y.log)
		c := &conditions{err: errors.New("conflict")}
		u.conditions.writer = c
		for range 60 { // early passes
			u.pass(t.Context(), time.Now())
			time.Sleep(time.Second)
		}
		if c.tried > 14 { // of two kinds of conditions
			t.Errorf("%d attempts to write a condition in a minute, want a back-off", c.tried)
		}
		c.err = nil
		for range 5 {
			time.Sleep(time.Minute)
			u.pass(t.Context(), time.Now())
			time.Sleep(time.Minute)
		}
		want := `web AnnotationInvalid Invalid: Annotation podfit.dev/change-window is invalid, so no running pod is changed: window "x": unknown time zone "Mars/Base".`
		if len(y.done) > 0 || len(c.written) != 1 || c.written[0] != want {
			t.Errorf("done %q, conditions %q", y.done, c.written)
		}
		events := 0
		for _, e := range y.recorded {
			if strings.HasPrefix(e, "InvalidAnnotation web: ") {
				events++
			}
		}
		if events != 1 {
			t.Errorf("%d warnings: %q", events, y.recorded)
		}
	})
}

// What a VPA in mode Off once did says nothing about it now.
func TestUpdater_autoscalerIsSwitchedOff_conditionsAreRemoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := newFakeCluster(cluster.Recreate)
		y.autoscalers[0].Rules.WindowProblem = `window "x"`
		u := newUpdater(y.config, y, y, y, y, NewMetrics(prometheus.NewRegistry()), process.NewHealth(time.Hour), y.log)
		c := &conditions{}
		u.conditions.writer = c
		pass := func() {
			u.pass(t.Context(), time.Now())
			time.Sleep(time.Minute)
		}
		pass()
		if !c.now["web AnnotationInvalid"] {
			t.Fatalf("conditions %v", c.now)
		}
		off := *y.autoscalers[0]
		off.Mode = cluster.Off
		y.autoscalers[0] = &off
		pass()
		tried := c.tried
		pass()
		if c.now["web AnnotationInvalid"] || c.tried != tried {
			t.Errorf("conditions %v, %d attempts after they were written", c.now, c.tried-tried)
		}
		u = newUpdater(y.config, y, y, y, y, NewMetrics(prometheus.NewRegistry()), process.NewHealth(time.Hour), y.log)
		c.now["web Reverted"] = true // by the updater before
		u.conditions.writer = c
		if pass(); c.now["web Reverted"] {
			t.Error("a new updater leaves the condition of an earlier one")
		}
	})
}

func TestUpdater_canaryFails_isRevertedAndReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := newFakeCluster(cluster.InPlaceOrRecreate)
		y.autoscalers[0].Canary = cluster.Canary{On: true, Watch: 10 * time.Minute}
		u := newUpdater(y.config, y, y, y, y, NewMetrics(prometheus.NewRegistry()), process.NewHealth(time.Hour), y.log)
		c := &conditions{}
		u.conditions.writer = c
		before := y.pods[0].Containers[0].Requests
		u.pass(t.Context(), time.Now())
		changed := func() (out []int) {
			for i, p := range y.pods {
				if p.Containers[0].Requests != before {
					out = append(out, i)
				}
			}
			return out
		}
		if got := changed(); len(got) != 1 {
			t.Fatalf("%d pods have the new size: %q", len(got), y.done)
		}
		time.Sleep(time.Minute)
		y.replace(y.pods[changed()[0]], func(q *cluster.Pod) { q.Containers[0].Restarts = 5 })
		for range 3 {
			u.pass(t.Context(), time.Now())
			time.Sleep(time.Minute)
		}
		if got := changed(); len(got) > 0 {
			t.Errorf("%d pods have the new size: %q", len(got), y.done)
		}
		if len(c.written) != 1 || !strings.HasPrefix(c.written[0], "web Reverted Restarted: The recommendation was reverted, because after the change a container of pod ") {
			t.Errorf("conditions %q", c.written)
		}
	})
}

// The change lowers the memory limit of the canary, and the updater is killed before the canary fails.
func TestUpdater_canaryFailsAfterRestart_earlierLimitComesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := newFakeCluster(cluster.InPlaceOrRecreate)
		a := y.autoscalers[0]
		a.Canary, a.MemoryLimits = cluster.Canary{On: true, Watch: 10 * time.Minute}, cluster.LimitRule{Peaks: true}
		a.Advice[0].MemoryLimit, a.Advice[0].MemoryPeak = 1<<30, 100<<20
		earlier := cluster.Resources{}.Set(cluster.Memory, 2<<30)
		for _, p := range y.pods {
			p.Containers[0].Limits = earlier
		}
		requests := y.pods[0].Containers[0].Requests
		store := newMemoryStates()
		y.term(t, store, 90*time.Second, true)
		lowered := slices.DeleteFunc(slices.Clone(y.pods), func(p *cluster.Pod) bool { return p.Containers[0].Limits == earlier })
		if len(lowered) != 1 || lowered[0].Containers[0].Limits.Memory != 1<<30 {
			t.Fatalf("%d pods have another limit after %q", len(lowered), y.done)
		}
		y.replace(lowered[0], func(q *cluster.Pod) { q.Containers[0].Restarts = 5 })
		y.term(t, store, 5*time.Minute, false)
		for _, p := range y.pods {
			if c := &p.Containers[0]; c.Requests != requests || c.Limits != earlier {
				t.Errorf("pod %s has requests of %v and limits of %v after %q", p.Name, c.Requests, c.Limits, y.done)
			}
		}
	})
}

// limitQuotas is a fakeCluster with quotas.
type limitQuotas struct {
	*fakeCluster
	quotas  *cluster.Quotas
	unknown bool
}

func (l *limitQuotas) Quotas(string) *cluster.Quotas { return l.quotas }
func (l *limitQuotas) KnowsQuotas() bool             { return !l.unknown }

// limitConditions are the conditions MemoryLimitInProportion that were written, "" for one that was removed.
type limitConditions []string

func (l *limitConditions) WriteConditions(_ context.Context, _ *cluster.Autoscaler, _ time.Time, say ...watcher.Condition) (bool, error) {
	for _, s := range say {
		if s.Type == v1alpha1.ConditionMemoryLimitInProportion {
			*l = append(*l, strings.TrimSpace(s.Reason+" "+s.Message))
		}
	}
	return true, nil
}

func TestUpdater_quotaKeepsMemoryLimits_isReportedWhileItDoes(t *testing.T) {
	memory := cluster.Resources{}.Set(cluster.Memory, 100<<30)
	const text = "ResourceQuota Memory limits keep their ratio to the request and do not follow the highest usage, because higher limits could exceed a quota: %s. " +
		"Change the quotas, or set the annotation podfit.dev/memory-limits to proportional."
	for name, c := range map[string]struct {
		quotas *cluster.Quotas
		change func(*limitQuotas)
		cause  string // "" if there is no condition
	}{
		"a quota of memory limits": {
			&cluster.Quotas{List: []cluster.Quota{{Name: "pods", BoundsPods: true}, {Name: "compute", Hard: cluster.PodResources{Limits: memory}}}}, nil,
			"ResourceQuota compute requires memory limits of every container",
		},
		"too many quotas":            {&cluster.Quotas{TooMany: true}, nil, "the namespace has more than 100 ResourceQuotas, and podfit evaluates no more"},
		"a quota of memory requests": {&cluster.Quotas{List: []cluster.Quota{{Name: "compute", Hard: cluster.PodResources{Requests: memory}}}}, nil, ""},
		"quotas that are not known":  {nil, func(l *limitQuotas) { l.unknown = true }, ""},
		"limits follow the request":  {&cluster.Quotas{TooMany: true}, func(l *limitQuotas) { l.autoscalers[0].MemoryLimits = cluster.LimitRule{} }, ""},
		"limits are kept":            {&cluster.Quotas{TooMany: true}, func(l *limitQuotas) { l.autoscalers[0].MemoryLimits = cluster.LimitRule{Keep: true} }, ""},
		"a boost without an update": {&cluster.Quotas{TooMany: true}, func(l *limitQuotas) {
			l.autoscalers[0].Mode, l.autoscalers[0].Boost = cluster.Off, &cluster.Boost{Factor: 2}
		}, ""},
		"a VPA for new pods": {&cluster.Quotas{TooMany: true}, func(l *limitQuotas) { l.autoscalers[0].Mode = cluster.Initial }, "the namespace has more than 100 ResourceQuotas, and podfit evaluates no more"},
		"containers without any limit": {&cluster.Quotas{TooMany: true}, func(l *limitQuotas) {
			for _, p := range l.pods {
				p.Containers[0].Limits = cluster.Resources{}
			}
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				world := &limitQuotas{fakeCluster: newFakeCluster(cluster.InPlaceOrRecreate), quotas: c.quotas}
				world.autoscalers[0].MemoryLimits = cluster.LimitRule{Peaks: true}
				world.autoscalers[0].Advice[0].MemoryLimit, world.autoscalers[0].Advice[0].MemoryPeak = 1<<30, 100<<20
				for _, p := range world.pods {
					p.Containers[0].Limits = cluster.Resources{}.Set(cluster.Memory, 200<<20)
				}
				if c.change != nil {
					c.change(world)
				}
				y := world.fakeCluster
				u := newUpdater(y.config, world, y, y, y, NewMetrics(prometheus.NewRegistry()), process.NewHealth(time.Hour), y.log)
				u.budget.StartupBoost = true
				var written limitConditions
				u.conditions.writer = &written
				for range 3 {
					u.pass(t.Context(), time.Now())
					time.Sleep(time.Minute)
				}
				want := limitConditions{""} // the first write removes what an earlier updater wrote
				if c.cause != "" {
					want[0] = fmt.Sprintf(text, c.cause)
				}
				if !slices.Equal(written, want) {
					t.Errorf("written %q, want %q", written, want)
				}
				world.quotas = nil
				u.pass(t.Context(), time.Now())
				if written[len(written)-1] != "" {
					t.Errorf("written %q after the quotas are gone", written)
				}
			})
		})
	}
}

func TestUpdater_changesAreLimitedAndStatesCannotBeStored_waitsAnHour(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := newFakeCluster(cluster.Recreate)
		y.config.Budget.NamespaceShare = 0.5
		u := newUpdater(y.config, y, y, y, y, NewMetrics(prometheus.NewRegistry()), process.NewHealth(time.Hour), y.log)
		u.assumeChanges(time.Now())
		u.pass(t.Context(), time.Now())
		if len(y.done) > 0 {
			t.Fatalf("done %q", y.done)
		}
		time.Sleep(time.Hour)
		u.pass(t.Context(), time.Now())
		if len(y.done) == 0 {
			t.Error("nothing done after an hour")
		}
	})
}

func TestConfig_freezeConfigMap_selectsTheSwitchInTheNamespaceOfPodfit(t *testing.T) {
	t.Setenv("NAMESPACE", "vpa")
	for name, c := range map[string]struct {
		flag    string
		want    cluster.Key
		problem string
	}{
		"default":       {"", cluster.Key{Namespace: "vpa", Name: "podfit-freeze"}, ""},
		"another name":  {"--freeze-configmap=stop", cluster.Key{Namespace: "vpa", Name: "stop"}, ""},
		"none":          {"--freeze-configmap=", cluster.Key{}, ""},
		"invalid name":  {"--freeze-configmap=A/b", cluster.Key{Namespace: "vpa", Name: "A/b"}, "--freeze-configmap must be the name of a ConfigMap"},
		"invalid share": {"--max-change-per-hour-cluster=0", cluster.Key{Namespace: "vpa", Name: "podfit-freeze"}, "--max-change-per-hour-cluster must be above 0"},
		"no number":     {"--max-change-per-hour-namespace=NaN", cluster.Key{Namespace: "vpa", Name: "podfit-freeze"}, "--max-change-per-hour-namespace must be above 0"},
	} {
		t.Run(name, func(t *testing.T) {
			config := Defaults()
			fs := pflag.NewFlagSet("updater", pflag.ContinueOnError)
			config.OwnFlags(fs)
			var args []string
			if c.flag != "" {
				args = append(args, c.flag)
			}
			if err := fs.Parse(args); err != nil {
				t.Fatal(err)
			}
			err := config.ValidateOwn()
			if got := config.FreezeSwitch(); got != c.want || (err == nil) != (c.problem == "") || err != nil && !strings.Contains(err.Error(), c.problem) {
				t.Errorf("switch %v, error %v", got, err)
			}
		})
	}
}

// The status of the VPA cannot be written, for example because a webhook denies it. Nothing is reported in each pass because of that.
func TestUpdater_conditionCannotBeWritten_warningIsNotRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := newFakeCluster(cluster.Recreate)
		y.autoscalers[0].Rules.WindowProblem = "the annotation has no window"
		var logged lines
		y.log = logged.logger()
		u := newUpdater(y.config, y, y, y, y, NewMetrics(prometheus.NewRegistry()), process.NewHealth(time.Hour), y.log)
		c := &conditions{err: errors.New("denied")}
		u.conditions.writer = c
		for range 60 {
			u.pass(t.Context(), time.Now())
			time.Sleep(time.Second)
		}
		const warning = "A VPA has an invalid annotation; its condition AnnotationInvalid has the details"
		if n := y.eventCount("InvalidAnnotation"); n != 1 || logged.count(warning) != 1 {
			t.Errorf("%d events, %d log lines", n, logged.count(warning))
		}
		c.err = nil
		time.Sleep(time.Minute)
		u.pass(t.Context(), time.Now())
		if len(c.written) != 1 {
			t.Errorf("conditions %q", c.written)
		}
	})
}

func TestReportOf_invalidAnnotationsAboutRuntimesLimitsAndSettings_areReported(t *testing.T) {
	a := &cluster.Autoscaler{
		Guards:    cluster.RuntimeGuards{Problem: "annotation podfit.dev/runtime-guards must contain only cpu and memory"},
		CPULimits: cluster.LimitRule{Problem: "annotation podfit.dev/cpu-limits must be keep or remove"},
	}
	a.Rules.SettingProblem = "annotation podfit.dev/eviction-tolerance must be a number from 0 to 1"
	want := "Annotation podfit.dev/eviction-tolerance must be a number from 0 to 1. Annotation podfit.dev/runtime-guards must contain only cpu and memory. Annotation podfit.dev/cpu-limits must be keep or remove." +
		" Namespace shop: annotation podfit.dev/min-change must be a percentage."
	a.Namespace = "shop"
	namespace := cluster.ChangeRules{Settings: cluster.Settings{SettingProblem: "annotation podfit.dev/min-change must be a percentage"}}
	if got := reportOf(rollout.Rules{Namespace: namespace}, rollout.State{}, a).problem; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// Its owner believes that pods wait for the query, and all pods change at once.
func TestReportOf_queryWithoutACanary_isReported(t *testing.T) {
	const want = "Annotation podfit.dev/canary-query has no effect, because no canary is in effect. Set the annotation podfit.dev/rollout to canary, or remove the query."
	a := &cluster.Autoscaler{Canary: cluster.Canary{Objective: cluster.Objective{Query: "a < 1", Operator: "<"}}}
	if got := reportOf(rollout.Rules{}, rollout.State{}, a).problem; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	a.Canary.On = true
	if got := reportOf(rollout.Rules{}, rollout.State{}, a).problem; got != "" {
		t.Errorf("with a canary: %q", got)
	}
}

// podfit writes no condition to a VPA that another recommender serves, but its owner gets a warning why no pod changes.
func TestUpdater_vpaOfAnotherRecommender_invalidAnnotationIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := newFakeCluster(cluster.Recreate)
		y.autoscalers[0].Recommender, y.autoscalers[0].Rules.WindowProblem = "other", "x"
		u := newUpdater(y.config, y, y, y, y, NewMetrics(prometheus.NewRegistry()), process.NewHealth(time.Hour), y.log)
		c := &conditions{}
		u.conditions.writer = c
		u.pass(t.Context(), time.Now())
		if !slices.ContainsFunc(y.recorded, func(e string) bool { return strings.HasPrefix(e, "InvalidAnnotation web: ") }) || c.tried > 0 {
			t.Errorf("events %q, %d attempts to write conditions", y.recorded, c.tried)
		}
	})
}
