// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package recommender

import (
	"strings"
	"testing"
	"time"

	"podfit.dev/podfit/api/podfit/v1alpha1"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/policy"
	"podfit.dev/podfit/internal/core/usage"
	"podfit.dev/podfit/internal/edge/kube/checkpoint"
)

const mib = 1 << 20

func memory(bytes int64) cluster.Resources { return cluster.Resources{}.Set(cluster.Memory, bytes) }

func TestMemoryLimit_podsWithAndWithoutLimits_isTheLowest(t *testing.T) {
	pod := func(phase cluster.Phase, container string, limit int64) *cluster.Pod {
		c := cluster.Container{Name: container}
		if limit > 0 {
			c.Limits = memory(limit)
		}
		return &cluster.Pod{Phase: phase, Containers: []cluster.Container{c}}
	}
	for name, tt := range map[string]struct {
		pods []*cluster.Pod
		want int64
	}{
		"no pods":                {nil, 0},
		"no limit":               {[]*cluster.Pod{pod(cluster.Running, "app", 0)}, 0},
		"one limit":              {[]*cluster.Pod{pod(cluster.Running, "app", 2*mib)}, 2 * mib},
		"lowest first":           {[]*cluster.Pod{pod(cluster.Running, "app", mib), pod(cluster.Running, "app", 2*mib)}, mib},
		"lowest last":            {[]*cluster.Pod{pod(cluster.Running, "app", 2*mib), pod(cluster.Running, "app", mib)}, mib},
		"one pod without limit":  {[]*cluster.Pod{pod(cluster.Running, "app", 2*mib), pod(cluster.Running, "app", 0)}, 2 * mib},
		"pod has ended":          {[]*cluster.Pod{pod(cluster.Failed, "app", mib), pod(cluster.Running, "app", 2*mib)}, 2 * mib},
		"pod has no such":        {[]*cluster.Pod{pod(cluster.Running, "proxy", mib), pod(cluster.Running, "app", 2*mib)}, 2 * mib},
		"only another container": {[]*cluster.Pod{pod(cluster.Running, "proxy", mib)}, 0},
	} {
		if got, _ := policy.MemoryLimitsOf(tt.pods, "app"); got != tt.want {
			t.Errorf("%s: got %d, want %d", name, got, tt.want)
		}
	}
}

func TestLoopOf_containerInOOMKillLoop_reasonIsTheFirstThatApplies(t *testing.T) {
	for name, tt := range map[string]struct {
		requestsOnly            bool
		request, limit          int64
		target, uncapped        int64
		otherContainer, cpuOnly bool
		want                    string // "" if there is no reason
	}{
		"limit is kept and reached":     {requestsOnly: true, request: mib, limit: 2 * mib, target: 2 * mib, want: v1alpha1.ReasonLimitFixed},
		"limit is kept and not reached": {requestsOnly: true, request: mib, limit: 3 * mib, target: 2 * mib, want: v1alpha1.ReasonRequestBelowTarget},
		"no limit to keep":              {requestsOnly: true, request: mib, target: 2 * mib, want: v1alpha1.ReasonRequestBelowTarget},
		"limit is changed, too":         {request: mib, limit: 2 * mib, target: 2 * mib, want: v1alpha1.ReasonRequestBelowTarget},
		"recommendation is capped":      {request: 2 * mib, target: 2 * mib, uncapped: 3 * mib, want: v1alpha1.ReasonTargetAtMaximum},
		"recommendation is applied":     {request: 2 * mib, target: 2 * mib, uncapped: 2 * mib},
		"request is above":              {request: 3 * mib, target: 2 * mib, uncapped: 2 * mib},
		"no recommendation":             {request: mib, target: 2 * mib, otherContainer: true},
		"no memory recommendation":      {request: mib, cpuOnly: true},
	} {
		a := &cluster.Autoscaler{Policies: []cluster.ContainerPolicy{{Container: "app", RequestsOnly: tt.requestsOnly}}}
		adv := cluster.Advice{Container: "app", Estimate: cluster.Estimate{Target: memory(tt.target)}, Uncapped: memory(tt.uncapped)}
		if tt.otherContainer {
			adv.Container = "proxy"
		}
		if tt.cpuOnly {
			adv.Target = cluster.Resources{}.Set(cluster.CPU, 100)
		}
		c := cluster.Container{Name: "app", Requests: memory(tt.request)}
		if tt.limit > 0 {
			c.Limits = memory(tt.limit)
		}
		loop, ok := loopOf(a, []cluster.Advice{adv}, &cluster.Pod{}, &c)
		if loop.reason != tt.want || ok != (tt.want != "") {
			t.Errorf("%s: got reason %q, %t, want %q", name, loop.reason, ok, tt.want)
		}
	}
}

func TestOOMLoop_message_namesPodsAndMemory(t *testing.T) {
	a := &cluster.Autoscaler{Key: cluster.Key{Namespace: "shop", Name: "web"}}
	pod := &cluster.Pod{Key: cluster.Key{Namespace: "shop", Name: "web-0"}}
	for want, loop := range map[string]oomLoop{
		"in pod web-0. It has no memory request; the recommendation is 4Mi.":                                            {pods: 1},
		"in pod web-0. It has a memory request of 1Mi; the recommendation is 4Mi.":                                      {pods: 1, request: mib},
		"in pod web-0. It has a memory request of 1Mi and a limit of 2Mi; the recommendation is 4Mi.":                   {pods: 1, request: mib, limit: 2 * mib},
		"in 2 pods, such as web-0. It has no memory request and a limit of 2Mi; the recommendation is 4Mi.":             {pods: 2, limit: 2 * mib},
		"in 99 pods, such as web-0. It has no memory request; the recommendation is 4Mi.":                               {pods: maxLooping - 1},
		"in 100 or more pods, such as web-0. It has no memory request; the recommendation is 4Mi.":                      {pods: maxLooping},
		"The workload has 1 live pods. The updater evicts a ready pod only if there are at least 2":                     {pods: 1},
		"Container app is OOM-killed repeatedly in pod web-0. It has no memory request; the recommendation is 4Mi. The": {pods: 1},
	} {
		loop.container, loop.pod, loop.target, loop.reason = "app", pod, 4*mib, v1alpha1.ReasonRequestBelowTarget
		if got := loop.message(a, 1); !strings.Contains(got, want) {
			t.Errorf("got %q, want it to contain %q", got, want)
		}
	}
}

func TestServes_profileOfVPA_isServedInServedNamespaces(t *testing.T) {
	for namespace, want := range map[string]bool{"shop": true, "other": false} {
		b := newBench(t)
		b.config.Namespace = "shop"
		r := newRecommender(b.config, b.dependencies())
		a := &cluster.Autoscaler{Key: cluster.Key{Namespace: namespace, Name: "web"}, Recommender: "balanced"}
		if got := r.serves(a); got != want {
			t.Errorf("profile in namespace %s: served %t, want %t", namespace, got, want)
		}
		a.Recommender = "unknown"
		if r.serves(a) {
			t.Errorf("unknown recommender in namespace %s: served, want not served", namespace)
		}
	}
}

func TestPrune_expiredHistory_isRemovedOncePerHour(t *testing.T) {
	b := newBench(t)
	now := time.Now()
	w := cluster.Workload{Group: "apps", Kind: "Deployment", Namespace: "shop", Name: "web"}
	r := newRecommender(b.config, b.dependencies())
	old := usage.NewStore(usage.DefaultConfig())
	pod := &cluster.Pod{Key: cluster.Key{Namespace: "shop", Name: "web-0"}, Top: w, Phase: cluster.Running, Containers: []cluster.Container{{Name: "app"}}}
	at := now.Add(-30 * 24 * time.Hour)
	old.Tick(at)
	old.Track(pod)
	old.Observe(usage.Sample{Pod: pod.Key, Container: "app", At: at, CPU: 1, Has: cluster.Of(cluster.CPU)})
	stored, _ := old.Checkpoint(w, "app", at)
	restore := func() {
		if err := r.usageStore.Restore(w, "app", stored); err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct {
		after   time.Duration
		removed bool
	}{{0, true}, {time.Hour - time.Second, false}, {time.Hour, true}} {
		restore()
		r.prune(now.Add(tt.after))
		if got := r.usageStore.Series(w, "app") == nil; got != tt.removed {
			t.Errorf("after %v: history is removed: %t, want %t", tt.after, got, tt.removed)
		}
		r.usageStore.Prune(now)
	}
}

func TestTrack_podIsGone_isForgotten(t *testing.T) {
	b := newBench(t)
	w := b.deployment("web", 3, "app")
	b.autoscale("web", w)
	r := newRecommender(b.config, b.dependencies())
	for _, want := range []int{3, 1, 0} {
		b.pods = b.pods[:want]
		r.track(r.look(b.Snapshot()))
		if got, _ := r.usageStore.Size(); got != want {
			t.Errorf("%d pods are tracked, want %d", got, want)
		}
	}
}

func TestOwn_recommendationForAnotherWorkload_isNotUsed(t *testing.T) {
	web := cluster.Workload{Group: "apps", Kind: "Deployment", Namespace: "shop", Name: "web"}
	api := cluster.Workload{Group: "apps", Kind: "Deployment", Namespace: "shop", Name: "api"}
	for name, tt := range map[string]struct {
		uid             string           // of the VPA for which a recommendation was written
		written, stored cluster.Workload // for which a recommendation was written, and which the checkpoints contain
		used            bool
	}{
		"nothing is known":                        {used: true},
		"written for this workload":               {uid: "new", written: web, used: true},
		"written for another workload":            {uid: "new", written: api},
		"stored for this workload":                {stored: web, used: true},
		"stored for another workload":             {stored: api},
		"written later than stored":               {uid: "new", written: web, stored: api, used: true},
		"VPA was deleted and created again":       {uid: "old", written: web, stored: api},
		"VPA was created again, for the workload": {uid: "old", written: api, stored: web, used: true},
	} {
		b := newBench(t)
		r := newRecommender(b.config, b.dependencies())
		a := b.autoscale("web", web)
		a.UID = "new"
		a.Advice = []cluster.Advice{{Container: "app"}}
		if tt.uid != "" {
			r.advisedFor[a.Key] = advised{tt.uid, tt.written}
		}
		if !tt.stored.IsZero() {
			b.stored[checkpoint.Key{Autoscaler: a.Key, Container: "app"}] = usage.Checkpoint{Workload: tt.stored}
			if err := r.load(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if got := len(r.own(a).Advice) > 0; got != tt.used {
			t.Errorf("%s: the recommendation is used: %t, want %t", name, got, tt.used)
		}
	}
}
