// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package recommender

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"podfit.dev/podfit/api/podfit/v1alpha1"
	v1 "podfit.dev/podfit/api/v1"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/edge/kube/watcher"
)

func TestInOOMLoop_OnlyRecentAndRepeatedKillsAreOne(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	exit := func(ran, ago time.Duration) *cluster.Exit {
		return &cluster.Exit{OOM: true, Started: now.Add(-ago - ran), Finished: now.Add(-ago)}
	}
	for name, tt := range map[string]struct {
		c    cluster.Container
		want bool
	}{
		"never terminated":                {cluster.Container{}, false},
		"killed once":                     {cluster.Container{Restarts: 1, Exit: exit(time.Minute, time.Minute)}, false},
		"killed twice":                    {cluster.Container{Restarts: 2, Exit: exit(time.Minute, time.Minute)}, true},
		"killed twice, not started again": {cluster.Container{Restarts: 1, Exit: &cluster.Exit{OOM: true, Started: now.Add(-3 * time.Hour), Finished: now.Add(-3*time.Hour + time.Minute), Now: true}}, true},
		"waits for its restart":           {cluster.Container{Restarts: 7, Exit: exit(time.Second, 5*time.Minute)}, true},
		"another reason":                  {cluster.Container{Restarts: 7, Exit: &cluster.Exit{Code: 1, Started: now.Add(-time.Minute), Finished: now}}, false},
		"long ago":                        {cluster.Container{Restarts: 7, Exit: exit(time.Minute, time.Hour)}, false},
		"after a long run":                {cluster.Container{Restarts: 7, Exit: exit(24*time.Hour, time.Minute)}, false},
	} {
		if got := inOOMLoop(&tt.c, now); got != tt.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// kill has the containers of some pods killed for memory, after ten seconds.
func (b *bench) kill(pods ...*cluster.Pod) {
	for _, p := range pods {
		c := &p.Containers[0]
		c.Restarts++
		c.Exit = &cluster.Exit{OOM: true, Started: time.Now().Add(-10 * time.Second), Finished: time.Now()}
	}
}

// loop returns what is said of pods that are killed each minute while nothing changes them.
func loop(t *testing.T, replicas int, change func(*cluster.Autoscaler)) (b *bench, said watcher.Condition) {
	b = newBench(t)
	b.use["app"] = cluster.Amounts(100, 45<<20)
	b.autoscale("web", b.deployment("web", replicas, "app"))
	for _, p := range b.pods {
		p.Containers[0].Limits = cluster.Amounts(0, 50<<20)
	}
	change(b.autoscalers[0])
	b.during(30*time.Minute, func(after time.Duration) {
		if after > 10*time.Minute {
			b.kill(b.pods...)
		}
	})
	return b, b.condition("web", v1alpha1.ConditionOOMKillLoop)
}

func TestOOMLoop_SaysWhatKeepsTheMemoryAway(t *testing.T) {
	anything := func(*cluster.Autoscaler) {}
	for name, tt := range map[string]struct {
		replicas int
		change   func(*cluster.Autoscaler)
		reason   string
		message  string
	}{
		"two replicas, held":        {2, anything, v1alpha1.ReasonRequestBelowTarget, "UpdateHeld events: kubectl describe vpa -n shop web"},
		"one replica":               {1, anything, v1alpha1.ReasonRequestBelowTarget, "Set spec.updatePolicy.minReplicas to 1"},
		"one replica, which may go": {1, func(a *cluster.Autoscaler) { a.MinReplicas = 1 }, v1alpha1.ReasonRequestBelowTarget, "UpdateHeld events"},
		"mode Off":                  {2, func(a *cluster.Autoscaler) { a.Mode = cluster.Off }, v1alpha1.ReasonRequestBelowTarget, "With updateMode Off nothing is applied"},
		"mode Initial":              {2, func(a *cluster.Autoscaler) { a.Mode = cluster.Initial }, v1alpha1.ReasonRequestBelowTarget, "only new pods"},
		"limits stay as they are": {2, func(a *cluster.Autoscaler) {
			a.Policies = []cluster.ContainerPolicy{{Container: "*", RequestsOnly: true}}
		}, v1alpha1.ReasonLimitFixed, "RequestsOnly"},
		"the maximum is too low": {2, func(a *cluster.Autoscaler) {
			a.Policies = []cluster.ContainerPolicy{{Container: "*", MaxAllowed: cluster.Amounts(0, 50<<20)}}
		}, v1alpha1.ReasonTargetAtMaximum, "Raise maxAllowed"},
		"memory is not controlled": {2, func(a *cluster.Autoscaler) {
			a.Policies = []cluster.ContainerPolicy{{Container: "*", ControlsSet: true, Controlled: cluster.Of(cluster.CPU)}}
		}, "", ""},
		"the container is left alone": {2, func(a *cluster.Autoscaler) { a.Policies = []cluster.ContainerPolicy{{Container: "app", Off: true}} }, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				_, c := loop(t, tt.replicas, tt.change)
				if tt.reason == "" {
					if c.Status != watcher.Removed {
						t.Errorf("it says %+v", c)
					}
					return
				}
				if c.Status != watcher.True || c.Reason != tt.reason || !strings.Contains(c.Message, tt.message) {
					t.Errorf("it says %+v", c)
				}
			})
		})
	}
}

func TestOOMLoop_IsToldAtOnceAndEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.use["app"] = cluster.Amounts(100, 45<<20)
		b.autoscale("web", b.deployment("web", 2, "app"))
		b.autoscale("second", b.autoscalers[0].Target).Created = time.Now().Add(time.Hour)
		said := func(name string) string { return b.condition(name, v1alpha1.ConditionOOMKillLoop).Status }
		writes := 0
		b.during(2*time.Hour, func(after time.Duration) {
			switch after / time.Minute {
			case 10, 11:
				b.kill(b.pods[0])
			case 12: // the pass after the second kill has told it
				if said("web") != watcher.True || said("second") != watcher.Removed {
					t.Errorf("after two kills it says %q, and the one that does not govern %q", said("web"), said("second"))
				}
				writes = len(b.condition("web", v1alpha1.ConditionOOMKillLoop).Message)
			case 20:
				if got := len(b.condition("web", v1alpha1.ConditionOOMKillLoop).Message); got != writes {
					t.Error("the message changes while nothing happens")
				}
				b.pods[0].Containers[0].Requests = b.advice("web", "app").Target // resized in place
			case 22:
				if said("web") != watcher.Removed {
					t.Errorf("after the resize it says %q", said("web"))
				}
				b.pods[0].Containers[0].Requests = cluster.Amounts(100, 50<<20)
			case 24:
				if said("web") != watcher.True {
					t.Errorf("after the resize was taken back it says %q", said("web"))
				}
			case 60:
				if said("web") != watcher.Removed {
					t.Errorf("half an hour after the last kill it says %q", said("web"))
				}
			}
		})
	})
}

// What others say in the status stays.
func TestOOMLoop_ConditionsOfOthersStay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, c := loop(t, 2, func(*cluster.Autoscaler) {})
		theirs := watcher.Condition{Type: "TheirCondition", Status: watcher.True}
		b.merge(b.autoscalers[0].Key, []watcher.Condition{theirs})
		b.run(2 * time.Minute)
		types := map[v1.VerticalPodAutoscalerConditionType]bool{}
		for _, s := range b.merge(b.autoscalers[0].Key, nil) {
			types[s.Type] = true
		}
		if !types["TheirCondition"] || !types[c.Type] {
			t.Errorf("there stand %v", types)
		}
	})
}

func TestOOMLoop_moreThanAreLookedAt_saysAtLeastHowMany(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, said := loop(t, maxLooping+50, func(a *cluster.Autoscaler) { a.Mode = cluster.Off })
		if !strings.Contains(said.Message, "in 100 or more pods, such as web-") {
			t.Errorf("it says %q", said.Message)
		}
	})
}
