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

func TestInOOMLoop_onlyRecentRepeatedKills_areALoop(t *testing.T) {
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
		"killed twice, not restarted yet": {cluster.Container{Restarts: 1, Exit: &cluster.Exit{OOM: true, Started: now.Add(-3 * time.Hour), Finished: now.Add(-3*time.Hour + time.Minute), Now: true}}, true},
		"waiting for a restart":           {cluster.Container{Restarts: 7, Exit: exit(time.Second, 5*time.Minute)}, true},
		"another reason":                  {cluster.Container{Restarts: 7, Exit: &cluster.Exit{Started: now.Add(-time.Minute), Finished: now}}, false},
		"long ago":                        {cluster.Container{Restarts: 7, Exit: exit(time.Minute, time.Hour)}, false},
		"after a long run":                {cluster.Container{Restarts: 7, Exit: exit(24*time.Hour, time.Minute)}, false},
	} {
		if got := inOOMLoop(&tt.c, now); got != tt.want {
			t.Errorf("%s: in a loop: %t, want %t", name, got, tt.want)
		}
	}
}

// kill OOM-kills the first container of each pod after a run of ten seconds.
func (b *bench) kill(pods ...*cluster.Pod) {
	for _, p := range pods {
		c := &p.Containers[0]
		c.Restarts++
		c.Exit = &cluster.Exit{OOM: true, Started: time.Now().Add(-10 * time.Second), Finished: time.Now()}
	}
}

// loop returns the condition OOMKillLoop of a VPA whose pods are OOM-killed each minute and never updated.
func loop(t *testing.T, replicas int, change func(*cluster.Autoscaler)) (b *bench, condition watcher.Condition) {
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

func TestOOMLoop_containerWithoutTheRecommendedMemory_conditionNamesCauseAndRemedy(t *testing.T) {
	unchanged := func(*cluster.Autoscaler) {}
	for name, tt := range map[string]struct {
		replicas int
		change   func(*cluster.Autoscaler)
		reason   string
		message  string
	}{
		"two replicas, not updated":  {2, unchanged, v1alpha1.ReasonRequestBelowTarget, "UpdateHeld events: kubectl describe vpa -n shop web"},
		"one replica":                {1, unchanged, v1alpha1.ReasonRequestBelowTarget, "Set spec.updatePolicy.minReplicas to 1"},
		"one replica, minReplicas 1": {1, func(a *cluster.Autoscaler) { a.MinReplicas = 1 }, v1alpha1.ReasonRequestBelowTarget, "UpdateHeld events"},
		"mode Off":                   {2, func(a *cluster.Autoscaler) { a.Mode = cluster.Off }, v1alpha1.ReasonRequestBelowTarget, "With updateMode Off the recommendation is not applied"},
		"mode Initial":               {2, func(a *cluster.Autoscaler) { a.Mode = cluster.Initial }, v1alpha1.ReasonRequestBelowTarget, "only new pods"},
		"controlledValues RequestsOnly": {2, func(a *cluster.Autoscaler) {
			a.Policies = []cluster.ContainerPolicy{{Container: "*", RequestsOnly: true}}
		}, v1alpha1.ReasonLimitFixed, "RequestsOnly"},
		"maxAllowed too low": {2, func(a *cluster.Autoscaler) {
			a.Policies = []cluster.ContainerPolicy{{Container: "*", MaxAllowed: cluster.Amounts(0, 50<<20)}}
		}, v1alpha1.ReasonTargetAtMaximum, "Raise maxAllowed"},
		"memory not controlled": {2, func(a *cluster.Autoscaler) {
			a.Policies = []cluster.ContainerPolicy{{Container: "*", ControlsSet: true, Controlled: cluster.Of(cluster.CPU)}}
		}, "", ""},
		"container with mode Off": {2, func(a *cluster.Autoscaler) { a.Policies = []cluster.ContainerPolicy{{Container: "app", Off: true}} }, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				_, c := loop(t, tt.replicas, tt.change)
				if tt.reason == "" {
					if c.Status != watcher.Removed {
						t.Errorf("condition %+v, want none", c)
					}
					return
				}
				if c.Status != watcher.True || c.Reason != tt.reason || !strings.Contains(c.Message, tt.message) {
					t.Errorf("condition %+v, want the reason %s and the text %q", c, tt.reason, tt.message)
				}
			})
		})
	}
}

func TestOOMLoop_startsAndEnds_conditionIsSetAndRemoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.use["app"] = cluster.Amounts(100, 45<<20)
		b.autoscale("web", b.deployment("web", 2, "app"))
		b.autoscale("second", b.autoscalers[0].Target).Created = time.Now().Add(time.Hour)
		status := func(name string) string { return string(b.condition(name, v1alpha1.ConditionOOMKillLoop).Status) }
		length := 0
		b.during(2*time.Hour, func(after time.Duration) {
			switch after / time.Minute {
			case 10, 11:
				b.kill(b.pods[0])
			case 12: // after the pass that observed the second kill
				if status("web") != watcher.True || status("second") != watcher.Removed {
					t.Errorf("after two kills the status is %q, and of the VPA that does not govern %q", status("web"), status("second"))
				}
				length = len(b.condition("web", v1alpha1.ConditionOOMKillLoop).Message)
			case 20:
				if got := len(b.condition("web", v1alpha1.ConditionOOMKillLoop).Message); got != length {
					t.Error("the message changes although nothing happened")
				}
				b.pods[0].Containers[0].Requests = b.advice("web", "app").Target // resized in place
			case 22:
				if status("web") != watcher.Removed {
					t.Errorf("after the resize the status is %q", status("web"))
				}
				b.pods[0].Containers[0].Requests = cluster.Amounts(100, 50<<20)
			case 24:
				if status("web") != watcher.True {
					t.Errorf("after the resize was reverted the status is %q", status("web"))
				}
			case 60:
				if status("web") != watcher.Removed {
					t.Errorf("half an hour after the last kill the status is %q", status("web"))
				}
			}
		})
	})
}

func TestOOMLoop_conditionsOfOthers_stay(t *testing.T) {
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
			t.Errorf("conditions %v", types)
		}
	})
}

func TestOOMLoop_morePodsThanAreExamined_messageGivesALowerBound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, condition := loop(t, maxLooping+50, func(a *cluster.Autoscaler) { a.Mode = cluster.Off })
		if !strings.Contains(condition.Message, "in 100 or more pods, such as web-") {
			t.Errorf("message %q", condition.Message)
		}
	})
}

// oomKilledPod returns a pod whose containers are in an OOM kill loop, with a memory request of 50 MiB and a limit of 100 MiB.
func oomKilledPod(name string, now time.Time, containers ...string) *cluster.Pod {
	p := &cluster.Pod{Key: cluster.Key{Namespace: "shop", Name: name}, Phase: cluster.Running}
	for _, c := range containers {
		p.Containers = append(p.Containers, cluster.Container{
			Name: c, Requests: cluster.Amounts(0, 50<<20), Limits: cluster.Amounts(0, 100<<20), Restarts: 5,
			Exit: &cluster.Exit{OOM: true, Started: now.Add(-time.Minute), Finished: now},
		})
	}
	return p
}

func memoryAdvice(container string, target, uncapped int64) cluster.Advice {
	return cluster.Advice{Container: container, Estimate: cluster.Estimate{Target: cluster.Amounts(0, target)}, Uncapped: cluster.Amounts(0, uncapped)}
}

func TestOOMLoops_containerInSeveralPods_firstPodAndNumberAreNamed(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	pods := []*cluster.Pod{oomKilledPod("web-1", now, "app"), oomKilledPod("web-0", now, "app"), oomKilledPod("web-2", now, "app")}
	loops := oomLoops(&cluster.Autoscaler{}, []cluster.Advice{memoryAdvice("app", 80<<20, 80<<20)}, now, pods)
	if len(loops) != 1 || loops[0].pods != 3 || loops[0].pod.Name != "web-0" {
		t.Fatalf("loops %+v, want one in 3 pods, of which the first is web-0", loops)
	}
	if got := loops[0].message(&cluster.Autoscaler{}, 3); !strings.Contains(got, "in 3 pods, such as web-0. It has a memory request of 50Mi and a limit of 100Mi; the recommendation is 80Mi.") {
		t.Errorf("message %q", got)
	}
}

func TestOOMLoops_targetAndLimits_decideTheReason(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	requestsOnly := []cluster.ContainerPolicy{{Container: "app", RequestsOnly: true}}
	for name, tt := range map[string]struct {
		policies         []cluster.ContainerPolicy
		target, uncapped int64
		want             string
	}{
		"target above the request":             {nil, 80 << 20, 80 << 20, v1alpha1.ReasonRequestBelowTarget},
		"target equal to the request":          {nil, 50 << 20, 50 << 20, ""},
		"target capped at the request":         {nil, 50 << 20, 60 << 20, v1alpha1.ReasonTargetAtMaximum},
		"fixed limit above the target":         {requestsOnly, 99 << 20, 99 << 20, v1alpha1.ReasonRequestBelowTarget},
		"fixed limit equal to the target":      {requestsOnly, 100 << 20, 100 << 20, v1alpha1.ReasonLimitFixed},
		"limit that follows, below the target": {nil, 200 << 20, 200 << 20, v1alpha1.ReasonRequestBelowTarget},
	} {
		loops := oomLoops(&cluster.Autoscaler{Policies: tt.policies}, []cluster.Advice{memoryAdvice("app", tt.target, tt.uncapped)}, now,
			[]*cluster.Pod{oomKilledPod("web-0", now, "app")})
		got := ""
		if len(loops) > 0 {
			got = loops[0].reason
		}
		if got != tt.want {
			t.Errorf("%s: reason %q, want %q", name, got, tt.want)
		}
	}
}

func TestOOMLoop_moreContainersThanMessages_messageGivesTheNumber(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	containers := []string{"a", "b", "c", "d"}
	var recommended []cluster.Advice
	for _, c := range containers {
		recommended = append(recommended, memoryAdvice(c, 80<<20, 80<<20))
	}
	for n, want := range map[int]string{3: "", 4: " Number of other containers that are OOM-killed repeatedly: 1."} {
		b := newBench(t)
		adv := advice{
			to: b.autoscale("web", cluster.Workload{Namespace: "shop", Name: "web"}), containers: recommended, now: now, governing: true,
			seen: podsSeen{live: 2, looping: []*cluster.Pod{oomKilledPod("web-0", now, containers[:n]...)}},
		}
		adv.sayOOMLoops()
		message := adv.conditions[0].Message
		if _, more, _ := strings.Cut(message, "Container c "); strings.Count(message, "Container ") != 3 || !strings.HasSuffix(more, want) || strings.Contains(message, "other containers") != (want != "") {
			t.Errorf("%d containers: message %q, want 3 descriptions and the end %q", n, message, want)
		}
	}
}
