// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package recommend

import (
	"fmt"
	"testing"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/usage"
)

// A run of hours at low usage has many samples, and a short one with high usage few.
func TestByRuns_oneShortRunNeedsMuch_targetIsEnoughForIt(t *testing.T) {
	start := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	target := func(kind string, runs int) cluster.Estimate {
		w := cluster.Workload{Group: "batch", Kind: kind, Namespace: "shop", Name: "report"}
		if kind == "Deployment" {
			w.Group = "apps"
		}
		book := usage.NewStore(usage.DefaultConfig())
		at := start
		for i := range runs {
			p := &cluster.Pod{Key: cluster.Key{Namespace: "shop", Name: fmt.Sprint("report-", i)}, UID: fmt.Sprint(i), Top: w, Phase: cluster.Running,
				Containers: []cluster.Container{{Name: "app"}}}
			length, cores, bytes := 3*time.Hour, 0.1, 300.0*(1<<20)
			if i == 1 {
				length, cores, bytes = 3*time.Minute, 2, 900*(1<<20)
			}
			book.Track(p)
			for end := at.Add(length); at.Before(end); at = at.Add(time.Minute) {
				book.Tick(at)
				book.Observe(usage.Sample{Pod: p.Key, Container: "app", At: at, CPU: cores, Memory: bytes, Has: cluster.Both})
			}
			book.Forget(p.Key)
			at = at.Add(time.Hour)
		}
		a := &cluster.Autoscaler{Target: w}
		advice := Workload(DefaultParams(), Default(DefaultParams()), book, a, w, at)
		if len(advice) != 1 {
			t.Fatalf("%s: %d recommendations", kind, len(advice))
		}
		_, records := Explain(DefaultParams(), Default(DefaultParams()), book.All(w), a, at)
		for _, res := range cluster.All {
			steps := *records[0].Of(res)
			if last := steps[len(steps)-1].Result; int64(last) != advice[0].Target.Amount(res) {
				t.Errorf("%s: the steps lead to %v %s, and the target is %d", kind, last, res, advice[0].Target.Amount(res))
			}
		}
		return advice[0].Estimate
	}
	service, job, few := target("Deployment", 6), target("CronJob", 6), target("CronJob", 2)
	if service.Target.CPU > 300 {
		t.Errorf("the target by samples is %v, so the test shows nothing", service.Target)
	}
	if want := cluster.Amounts(2300, 900<<20*115/100); job.Target != want {
		t.Errorf("target by runs %v, want %v", job.Target, want)
	}
	for _, res := range cluster.All {
		if e := job; e.Lower.Amount(res) > e.Target.Amount(res) || e.Upper.Amount(res) < e.Target.Amount(res) || e.Lower.Amount(res) > service.Lower.Amount(res) {
			t.Errorf("bounds %+v, want those by samples as far as they include the target", e)
		}
	}
	example(t, fmt.Sprintf("The target is %g cores and %d MiB", float64(job.Target.CPU)/1000, job.Target.Memory>>20))
	if few.Target.CPU > 300 {
		t.Errorf("target %v after two runs, want that by samples", few.Target)
	}
}

// A pod of a Job that restarts its container (restartPolicy OnFailure) is one run, which does not end while it is killed again and again.
func TestByRuns_runThatGoesOnIsKilled_targetIsMoreAtOnce(t *testing.T) {
	w := cluster.Workload{Group: "batch", Kind: "CronJob", Namespace: "shop", Name: "report"}
	book := usage.NewStore(usage.DefaultConfig())
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	var p *cluster.Pod
	for i := range 31 {
		p = &cluster.Pod{Key: cluster.Key{Namespace: "shop", Name: fmt.Sprint("report-", i)}, UID: fmt.Sprint(i), Top: w, Phase: cluster.Running,
			Containers: []cluster.Container{{Name: "app"}}}
		at = at.Add(20 * time.Minute)
		book.Tick(at)
		book.Track(p)
		book.Observe(usage.Sample{Pod: p.Key, Container: "app", At: at, CPU: 0.1, Memory: 300 << 20, Has: cluster.Both})
	}
	target := func() int64 {
		return Workload(DefaultParams(), Default(DefaultParams()), book, &cluster.Autoscaler{Target: w}, w, at)[0].Target.Memory
	}
	if got := target(); got != 300<<20*115/100 {
		t.Errorf("target %d before the kill", got)
	}
	book.ObserveOOM(usage.OOM{Pod: p.Key, Container: "app", At: at, Memory: 400 << 20})
	if got := target(); got < 500<<20*115/100 {
		t.Errorf("target %d MiB after an OOM kill with 400 MiB", got>>20)
	}
	at = at.Add(25 * time.Hour)
	if got := target(); got > 400<<20 {
		t.Errorf("target %d MiB a day later, want that of 95 %% of the runs", got>>20)
	}
}

// initRuns makes the init container "migrate" of pods of a Deployment run for a minute each, with some MiB, beside the container "app".
func initRuns(mib ...int64) (*usage.Store, cluster.Workload, time.Time) {
	w := cluster.Workload{Group: "apps", Kind: "Deployment", Namespace: "shop", Name: "web"}
	book := usage.NewStore(usage.DefaultConfig())
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for i, m := range mib {
		p := &cluster.Pod{Key: cluster.Key{Namespace: "shop", Name: fmt.Sprint("web-", i)}, UID: fmt.Sprint(i), Top: w, Phase: cluster.Running,
			Containers: []cluster.Container{{Name: "app"}, {Name: "migrate", Role: cluster.Init, Requests: cluster.Amounts(10, 400<<20)}}}
		book.Tick(at)
		book.Track(p)
		for _, c := range []string{"app", "migrate"} {
			book.Observe(usage.Sample{Pod: p.Key, Container: c, At: at, CPU: 0.2, Memory: float64(m << 20), Has: cluster.Both})
		}
		at = at.Add(time.Hour)
	}
	return book, w, at
}

func TestInitContainers_threeRuns_targetIsTheHighestAndNotSharedWithOthers(t *testing.T) {
	a := &cluster.Autoscaler{}
	for runs, want := range map[int]int{2: 0, 3: 1} {
		book, w, now := initRuns([]int64{300, 500, 400}[:runs]...)
		advice, records := InitContainers(DefaultParams(), book.All(w), a, now)
		if len(advice) != want {
			t.Fatalf("%d recommendations after %d runs, want %d", len(advice), runs, want)
		}
		others := Workload(DefaultParams(), Default(DefaultParams()), book, a, w, now)
		if len(others) != 1 || others[0].Container != "app" || others[0].Target.CPU < 200 {
			t.Errorf("recommendations of the other containers: %+v", others)
		}
		if want == 0 {
			continue
		}
		if got := advice[0]; got.Container != "migrate" || got.Target.Memory < 574<<20 || got.Target.Memory > 576<<20 || got.Target.CPU != 230 || !got.Lower.Has.Empty() {
			t.Errorf("recommendation %+v, want 575 MiB and 230m without lower bounds", got)
		}
		if steps := *records[0].Of(cluster.Memory); steps[0].Evidence.Samples != 3 {
			t.Errorf("steps %+v, want those of 3 runs", steps)
		}
		off := &cluster.Autoscaler{Policies: []cluster.ContainerPolicy{{Container: "migrate", Off: true}}}
		if got, _ := InitContainers(DefaultParams(), book.All(w), off, now); len(got) != 0 {
			t.Errorf("recommendation %+v with mode Off", got)
		}
	}
}

// A pod whose init container is OOM-killed never starts, so one kill counts at once, and as long as usage is kept.
func TestInitContainers_firstRunIsOOMKilled_memoryIsMoreAtOnce(t *testing.T) {
	book, w, now := initRuns(300)
	book.Tick(now)
	book.ObserveOOM(usage.OOM{Pod: cluster.Key{Namespace: "shop", Name: "web-0"}, Container: "migrate", At: now, Memory: 400 << 20})
	for after, want := range map[time.Duration]int{0: 1, 7 * 24 * time.Hour: 1, 9 * 24 * time.Hour: 0} {
		advice, _ := InitContainers(DefaultParams(), book.All(w), &cluster.Autoscaler{}, now.Add(after))
		if len(advice) != want {
			t.Fatalf("%v after the kill: %d recommendations, want %d", after, len(advice), want)
		}
		if want == 1 && (advice[0].Target.Memory < 575<<20 || advice[0].Lower != advice[0].Target || advice[0].Target.Has.Has(cluster.CPU)) {
			t.Errorf("%v after the kill: %+v, want 500 MiB and the margin, also as the lower bound, and no CPU", after, advice[0].Estimate)
		}
	}
}
