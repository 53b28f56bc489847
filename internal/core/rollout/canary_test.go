// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"math"
	"testing"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
)

var (
	noon     = time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)
	before   = cluster.Amounts(1000, 1<<30)
	after    = cluster.Amounts(100, 128<<20)
	revision = cluster.Workload{Group: "apps", Kind: "ReplicaSet", Namespace: "shop", Name: "web-1"}
	watch    = 10 * time.Minute
)

// running returns a ready pod of the first revision.
func running(uid string, requests cluster.Resources, change ...func(*cluster.Pod)) *cluster.Pod {
	p := &cluster.Pod{
		Key: cluster.Key{Namespace: "shop", Name: "web-" + uid}, UID: uid, Controller: revision, Phase: cluster.Running, Ready: true, Node: "a",
		Created: noon.Add(-time.Hour), ReadySince: noon.Add(-time.Hour), Containers: []cluster.Container{{Name: "app", Requests: requests}},
	}
	for _, c := range change {
		c(p)
	}
	return p
}

func createdAt(t time.Time) func(*cluster.Pod) {
	return func(p *cluster.Pod) { p.Created, p.ReadySince = t, t.Add(time.Minute) }
}
func notReady(p *cluster.Pod) { p.Ready = false }
func boosted(p *cluster.Pod) {
	p.Containers[0].Boosted = &cluster.Applied{Requests: before}
	p.Containers[0].Requests = p.Containers[0].Requests.Set(cluster.CPU, 400)
}
func deleting(p *cluster.Pod)  { p.Deleting = true }
func nextRev(p *cluster.Pod)   { p.Controller.Name = "web-2" }
func restarted(p *cluster.Pod) { p.Containers[0].Restarts = 2 }
func killed(p *cluster.Pod) {
	p.Containers[0].Exit = &cluster.Exit{OOM: true, Started: noon.Add(2 * time.Minute), Finished: noon.Add(3 * time.Minute)}
}

// watching returns the state after pod a was changed at noon.
func watching() State { return starting().Changed() }

func starting() State {
	return State{}.Start(noon, running("a", before), []Size{{Container: "app", Requests: after}}, false)
}

func TestState_observations_leadToTheDocumentedPhase(t *testing.T) {
	early, late := noon.Add(5*time.Minute), noon.Add(12*time.Minute)
	replaced := createdAt(noon.Add(30 * time.Second))
	held := watching().revert(noon, OOMKilled)
	for name, c := range map[string]struct {
		from  State
		now   time.Time
		pods  []*cluster.Pod
		phase Phase
		cause Cause
	}{
		// Starting: the updater has restarted, and the outcome of the change is not known.
		"started, resized":                    {starting(), early, []*cluster.Pod{running("a", after), running("b", before)}, Watching, NoCause},
		"started, evicted":                    {starting(), early, []*cluster.Pod{running("b", before)}, Watching, NoCause},
		"started, being evicted":              {starting(), early, []*cluster.Pod{running("a", before, deleting), running("b", before)}, Watching, NoCause},
		"started, another pod was changed":    {starting(), early, []*cluster.Pod{running("a", before), running("c", after, replaced)}, Watching, NoCause},
		"started, not carried out, too early": {starting(), early.Add(-time.Minute), []*cluster.Pod{running("a", before)}, Starting, NoCause},
		"started, not carried out":            {starting(), late, []*cluster.Pod{running("a", before)}, Idle, NoCause},
		"started, no pods any more":           {starting(), late, nil, Watching, NoCause},

		// Watching.
		"resized, runs well, too early":   {watching(), early, []*cluster.Pod{running("a", after)}, Watching, NoCause},
		"resized, runs well":              {watching(), late, []*cluster.Pod{running("a", after), running("b", before)}, Accepted, NoCause},
		"replaced, runs well":             {watching(), late, []*cluster.Pod{running("c", after, replaced), running("b", before)}, Accepted, NoCause},
		"replaced, ready too short":       {watching(), noon.Add(10 * time.Minute), []*cluster.Pod{running("c", after, replaced)}, Watching, NoCause},
		"single replica":                  {watching(), late, []*cluster.Pod{running("a", after)}, Accepted, NoCause},
		"all pods have the size already":  {watching(), late, []*cluster.Pod{running("a", after), running("b", after)}, Accepted, NoCause},
		"OOM-killed":                      {watching(), early, []*cluster.Pod{running("a", after, killed)}, Held, OOMKilled},
		"OOM-killed before the change":    {State{}.Start(noon.Add(4*time.Minute), running("a", before), []Size{{Container: "app", Requests: after}}, false).Changed(), early, []*cluster.Pod{running("a", after, killed)}, Watching, NoCause},
		"another old pod is OOM-killed":   {watching(), early, []*cluster.Pod{running("a", after), running("b", before, killed)}, Watching, NoCause},
		"restarted":                       {watching(), early, []*cluster.Pod{running("a", after, restarted)}, Held, Restarted},
		"replacement restarted often":     {watching(), early, []*cluster.Pod{running("c", after, replaced, restarted)}, Held, Restarted},
		"not ready, too early":            {watching(), early, []*cluster.Pod{running("a", after, notReady)}, Watching, NoCause},
		"never ready":                     {watching(), late, []*cluster.Pod{running("c", after, replaced, notReady)}, Held, NotReady},
		"boosted, runs well":              {watching(), late, []*cluster.Pod{running("c", after, replaced, boosted)}, Accepted, NoCause},
		"boosted, OOM-killed":             {watching(), early, []*cluster.Pod{running("c", after, replaced, boosted, notReady, killed)}, Held, OOMKilled},
		"boosted, never ready":            {watching(), late, []*cluster.Pod{running("c", after, replaced, boosted, notReady)}, Held, NotReady},
		"boosted, got the old size":       {watching(), late, []*cluster.Pod{running("c", before, replaced, boosted)}, Idle, NoCause},
		"one of two is not ready":         {watching(), late, []*cluster.Pod{running("a", after), running("c", after, replaced, notReady)}, Held, NotReady},
		"deleted by others, too early":    {watching(), early, []*cluster.Pod{running("b", before)}, Watching, NoCause},
		"deleted by others, not replaced": {watching(), late, []*cluster.Pod{running("b", before)}, Idle, NoCause},
		"removed by a scale-down":         {watching(), late, []*cluster.Pod{running("a", after, deleting), running("b", before)}, Idle, NoCause},
		"scaled to zero":                  {watching(), late, nil, Idle, NoCause},
		"replacement got the old size":    {watching(), late, []*cluster.Pod{running("c", before, replaced)}, Idle, NoCause},
		"another revision is rolled out":  {watching(), early, []*cluster.Pod{running("a", after), running("d", after, replaced, nextRev)}, Idle, NoCause},
		"other revision fails":            {watching(), early, []*cluster.Pod{running("d", after, replaced, nextRev, killed)}, Idle, NoCause},
		"clock was set back":              {watching(), noon.Add(-time.Hour), []*cluster.Pod{running("a", after)}, Watching, NoCause},

		// Held and the others.
		"held during the cool-down": {held, noon.Add(24*time.Hour - 1), []*cluster.Pod{running("a", after)}, Held, OOMKilled},
		"cool-down has ended":       {held, noon.Add(24 * time.Hour), []*cluster.Pod{running("a", before)}, Idle, NoCause},
		"accepted":                  {State{Phase: Accepted, Since: noon}, late, []*cluster.Pod{running("a", after, killed)}, Accepted, NoCause},
		"idle":                      {State{}, late, []*cluster.Pod{running("a", before, killed)}, Idle, NoCause},
	} {
		t.Run(name, func(t *testing.T) {
			got := c.from.Observe(c.now, watch, c.pods)
			if got.Phase != c.phase || got.Cause != c.cause {
				t.Errorf("phase %d, cause %d, want %d, %d", got.Phase, got.Cause, c.phase, c.cause)
			}
			if again := c.from.Observe(c.now, watch, c.pods); again.Phase != got.Phase {
				t.Error("the observation is not a function of its input")
			}
		})
	}
}

func TestState_restartByTheResize_isNoRegression(t *testing.T) {
	s := State{}.Start(noon, running("a", before), []Size{{Container: "app", Requests: after}}, true).Changed()
	once := func(p *cluster.Pod) { p.Containers[0].Restarts = 1 }
	if got := s.Observe(noon.Add(time.Minute), watch, []*cluster.Pod{running("a", after, once)}); got.Phase != Watching {
		t.Errorf("phase %d", got.Phase)
	}
	if got := s.Observe(noon.Add(time.Minute), watch, []*cluster.Pod{running("a", after, restarted)}); got.Phase != Held {
		t.Errorf("phase %d after another restart", got.Phase)
	}
}

// A size that never works is tried less and less often.
func TestState_revertsInARow_cooldownDoubles(t *testing.T) {
	s, now, attempts := State{}, noon, 0
	for now.Before(noon.Add(365 * 24 * time.Hour)) {
		s = s.Start(now, running("a", before), []Size{{Container: "app", Requests: after}}, false).Changed()
		attempts++
		oom := running("a", after)
		oom.Containers[0].Exit = &cluster.Exit{OOM: true, Finished: now.Add(time.Second)}
		s = s.Observe(now.Add(time.Minute), watch, []*cluster.Pod{oom})
		if s.Phase != Held || s.Until.Sub(now) > maxCooldown+time.Hour {
			t.Fatalf("phase %d until %v", s.Phase, s.Until)
		}
		now = s.Until
		s = s.Observe(now, watch, nil)
	}
	if attempts > 17 {
		t.Errorf("%d attempts in a year", attempts)
	}
	s = s.Start(now, running("a", before), []Size{{Container: "app", Requests: after}}, false).Changed().Observe(now.Add(time.Hour), watch, []*cluster.Pod{running("a", after)})
	if s.Phase != Accepted || s.Reverts != 0 {
		t.Errorf("phase %d, %d reverts after a success", s.Phase, s.Reverts)
	}
}

func TestState_acceptedSize_allowsAboutTheSame(t *testing.T) {
	s := State{Phase: Accepted, After: []Size{{Container: "app", Requests: cluster.Amounts(100, 1000)}}}
	for name, c := range map[string]struct {
		target []Size
		want   bool
	}{
		"the same":          {[]Size{{Container: "app", Requests: cluster.Amounts(100, 1000)}}, true},
		"a quarter more":    {[]Size{{Container: "app", Requests: cluster.Amounts(125, 1000)}}, true},
		"more than that":    {[]Size{{Container: "app", Requests: cluster.Amounts(126, 1000)}}, false},
		"much less memory":  {[]Size{{Container: "app", Requests: cluster.Amounts(100, 700)}}, false},
		"another container": {[]Size{{Container: "new", Requests: cluster.Amounts(100, 1000)}}, false},
		"nothing":           {nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := s.Accepts(c.target); got != c.want {
				t.Errorf("accepted %t", got)
			}
		})
	}
	if (State{Phase: Watching, After: s.After}).Accepts(s.After) {
		t.Error("accepted while watched")
	}
}

func TestHold_revertedSize_previousSizeApplies(t *testing.T) {
	s := watching().revert(noon, OOMKilled)
	a := &cluster.Autoscaler{Canary: cluster.Canary{On: true}, Advice: []cluster.Advice{
		{Container: "app", Estimate: cluster.Estimate{Lower: after, Target: after, Upper: after}},
		{Container: "new", Estimate: cluster.Estimate{Target: after}},
	}}
	held := s.Hold(noon.Add(time.Hour), a)
	if held.Advice[0].Target != before || held.Advice[0].Lower != before || held.Advice[0].Upper != before || held.Advice[1].Target != after || a.Advice[0].Target != after {
		t.Errorf("advice %+v", held.Advice)
	}
	if s.Hold(s.Until, a) != a {
		t.Error("held after the cool-down")
	}
	if far := s; far.Hold(noon, a) == a {
		t.Error("not held")
	} else if far.Until = noon.Add(maxCooldown + time.Hour); far.Hold(noon, a) != a {
		t.Error("held by a stored time that is too far in the future")
	}
	off := *a
	off.Canary.On = false
	if s.Hold(noon, &off) != &off || watching().Hold(noon, a) != a {
		t.Error("held without a reason")
	}
	more := *a
	more.Advice = []cluster.Advice{{Container: "app", Estimate: cluster.Estimate{Target: cluster.Amounts(100, 2<<30)}}}
	if got := s.Hold(noon, &more).Advice[0].Target; got != cluster.Amounts(1000, 2<<30) {
		t.Errorf("target %v, want the larger need of memory", got)
	}
}

// The change may have lowered a memory limit that follows the highest usage. A limit that rose stays, and one that is above both comes from a need.
func TestHold_limitByPeaks_doesNotStayBelowThePreviousOne(t *testing.T) {
	const gib = 1 << 30
	limited := func(p *cluster.Pod) { p.Containers[0].Limits = cluster.Resources{}.Set(cluster.Memory, 4*gib) }
	s := State{}.Start(noon, running("a", before, limited), []Size{{Container: "app", Requests: after}}, false).Changed().revert(noon, Restarted)
	earlier := s // a record of an earlier release
	earlier.Before = []Size{{Container: "app", Requests: before}}
	huge := s
	huge.Before = []Size{{Container: "app", Requests: before, MemoryLimit: math.MaxInt64}}
	more := s // the container needs more than both sizes
	more.Before = []Size{{Container: "app", Requests: cluster.Amounts(1000, 1), MemoryLimit: 4 * gib}}
	more.After = []Size{{Container: "app", Requests: cluster.Amounts(1000, 1)}}
	for name, c := range map[string]struct {
		state         State
		advised, want int64
		maxAllowed    int64
	}{
		"the change lowered it":              {s, 3 * gib, 4 * gib, 0},
		"more is needed":                     {more, 3 * gib, 4 * gib, 0},
		"more, no limit is known":            {more, 0, 0, 0},
		"the change raised it":               {s, 5 * gib, 5 * gib, 0},
		"no limit is known":                  {s, 0, 4 * gib, 0},
		"earlier release":                    {earlier, 3 * gib, 3 * gib, 0},
		"earlier release, unknown":           {earlier, 0, 0, 0},
		"maxAllowed allows it":               {s, 3 * gib, 4 * gib, 2 * gib},
		"a lower maxAllowed":                 {s, gib / 2, 3 * gib, 3 * gib / 2},
		"a lower maxAllowed, stored advice":  {s, 4 * gib, 4 * gib, gib}, // the recommender lowers it
		"the highest limit and a maxAllowed": {huge, gib, 3 * gib, 3 * gib / 2},
	} {
		a := &cluster.Autoscaler{Canary: cluster.Canary{On: true}, Advice: []cluster.Advice{
			{Container: "app", Estimate: cluster.Estimate{Target: after}, MemoryLimit: c.advised}, {Container: "new", MemoryLimit: gib},
		}}
		if c.maxAllowed > 0 {
			a.Policies = []cluster.ContainerPolicy{{Container: "*", MaxAllowed: cluster.Amounts(1, c.maxAllowed)}}
		}
		held := c.state.Hold(noon, a)
		if got := held.Advice[0].MemoryLimit; got != c.want || held.Advice[1].MemoryLimit != gib || a.Advice[0].MemoryLimit != c.advised {
			t.Errorf("%s: limit %d, want %d; advice %+v", name, got, c.want, held.Advice)
		}
	}
}

// asks makes a pod ask for the new size without having it yet.
func asks(state cluster.ResizeState) func(*cluster.Pod) {
	return func(p *cluster.Pod) {
		p.Containers[0].Applied = &cluster.Applied{Requests: before}
		p.Resize = &cluster.Resize{State: state, Since: noon}
	}
}

// Pods that are created while the canary is watched, for example by an HPA, need time to become ready, too.
func TestState_podsCreatedDuringTheWatch_haveTheirOwnTime(t *testing.T) {
	starting := func(p *cluster.Pod) { p.Ready = false }
	canary := running("c", after, createdAt(noon.Add(30*time.Second)))
	for name, c := range map[string]struct {
		now   time.Duration
		pods  []*cluster.Pod
		phase Phase
	}{
		"a pod of a scale-up starts":              {11 * time.Minute, []*cluster.Pod{canary, running("d", after, createdAt(noon.Add(10*time.Minute+50*time.Second)), starting)}, Watching},
		"the canary was drained and starts again": {11 * time.Minute, []*cluster.Pod{running("e", after, createdAt(noon.Add(10*time.Minute)), starting)}, Watching},
		"a pod of a scale-up never gets ready":    {21 * time.Minute, []*cluster.Pod{canary, running("d", after, createdAt(noon.Add(9*time.Minute)), starting)}, Held},
		"a pod of a scale-up is not watched long": {15 * time.Minute, []*cluster.Pod{canary, running("d", after, createdAt(noon.Add(8*time.Minute)))}, Watching},
		"one of many scale-ups starts, later":     {25 * time.Minute, []*cluster.Pod{canary, running("d", after, createdAt(noon.Add(24*time.Minute)), starting)}, Accepted},
		"only a late replacement, too early":      {25 * time.Minute, []*cluster.Pod{running("e", after, createdAt(noon.Add(20*time.Minute)))}, Watching},
		"only a late replacement":                 {32 * time.Minute, []*cluster.Pod{running("e", after, createdAt(noon.Add(20*time.Minute)))}, Accepted},
	} {
		t.Run(name, func(t *testing.T) {
			if got := watching().Observe(noon.Add(c.now), watch, c.pods); got.Phase != c.phase {
				t.Errorf("phase %d, want %d", got.Phase, c.phase)
			}
		})
	}
}

// The creation time of a pod is by the clock of the API server.
func TestState_clockOfTheAPIServerIsBehind_replacementIsTheCanary(t *testing.T) {
	replacement := running("c", after, createdAt(noon.Add(-20*time.Second)))
	if got := watching().Observe(noon.Add(12*time.Minute), watch, []*cluster.Pod{replacement}); got.Phase != Accepted {
		t.Errorf("phase %d", got.Phase)
	}
	replacement.Containers[0].Exit = &cluster.Exit{OOM: true, Finished: noon.Add(time.Minute)}
	if got := watching().Observe(noon.Add(5*time.Minute), watch, []*cluster.Pod{replacement}); got.Phase != Held {
		t.Errorf("phase %d after an OOM kill", got.Phase)
	}
}

// The times of kills have whole seconds.
func TestState_replacementIsOOMKilledInTheSameSecond_causeIsTheKill(t *testing.T) {
	s := State{}.Start(noon.Add(700*time.Millisecond), running("a", before), []Size{{Container: "app", Requests: after}}, false).Changed()
	replacement := running("c", after, createdAt(noon), restarted, notReady)
	replacement.Containers[0].Exit = &cluster.Exit{OOM: true, Started: noon, Finished: noon}
	if got := s.Observe(noon.Add(12*time.Second), watch, []*cluster.Pod{replacement}); got.Phase != Held || got.Cause != OOMKilled {
		t.Errorf("phase %d, cause %d, want a revert because of the OOM kill", got.Phase, got.Cause)
	}
}

// A resize that waits for room is not observed before it is carried out, and no other pod becomes the canary meanwhile.
func TestState_resizeOfTheCanaryWaits_watchBeginsWhenItIsCarriedOut(t *testing.T) {
	for _, state := range []cluster.ResizeState{cluster.ResizeDeferred, cluster.ResizeInProgress} {
		s := watching()
		for minute := range 60 {
			s = s.Observe(noon.Add(time.Duration(minute)*time.Minute), watch, []*cluster.Pod{running("a", after, asks(state)), running("b", before)})
			if s.Phase != Starting {
				t.Fatalf("phase %d after %d minutes", s.Phase, minute)
			}
		}
		done := noon.Add(time.Hour)
		pods := []*cluster.Pod{running("a", after), running("b", before)}
		if s = s.Observe(done, watch, pods); s.Phase != Watching {
			t.Fatalf("phase %d when it was carried out", s.Phase)
		}
		if s = s.Observe(done.Add(9*time.Minute), watch, pods); s.Phase != Watching {
			t.Fatalf("phase %d after 9 minutes", s.Phase)
		}
		if s = s.Observe(done.Add(10*time.Minute), watch, pods); s.Phase != Accepted {
			t.Errorf("phase %d after 10 minutes", s.Phase)
		}
	}
	for _, state := range []cluster.ResizeState{cluster.ResizeInfeasible, cluster.ResizeError} {
		pods := []*cluster.Pod{running("a", after, asks(state))}
		if s := watching().Observe(noon.Add(12*time.Minute), watch, pods); s.Phase != Idle {
			t.Errorf("phase %d after a resize that is never carried out", s.Phase)
		}
	}
}

// A pod that was down before the change shows only that a size helps. That it is still down has another cause, or the same one as before.
func TestState_canaryWasDownBefore_isNoRegression(t *testing.T) {
	crashing := func(p *cluster.Pod) { p.Ready, p.Containers[0].Restarts = false, 7 }
	again := func(p *cluster.Pod) { p.Ready, p.Containers[0].Restarts = false, 12 }
	serving := func(p *cluster.Pod) { p.Ready, p.ReadySince, p.Containers[0].Restarts = true, noon.Add(time.Minute), 8 }
	s := State{}.Start(noon, running("a", before, crashing), []Size{{Container: "app", Requests: after}}, false).Changed()
	for name, c := range map[string]struct {
		now   time.Duration
		pod   *cluster.Pod
		phase Phase
	}{
		"restarts with the new size": {time.Minute, running("a", after, again), Watching},
		"is still down":              {12 * time.Minute, running("a", after, again), Idle},
		"its replacement is down":    {12 * time.Minute, running("c", after, createdAt(noon.Add(time.Second)), again), Idle},
		"is OOM-killed before it starts with the new size": {5 * time.Minute, running("a", after, again, func(p *cluster.Pod) {
			p.Containers[0].Exit = &cluster.Exit{OOM: true, Started: noon.Add(-time.Second), Finished: noon.Add(time.Second)}
		}), Watching},
		"is OOM-killed with the new size": {5 * time.Minute, running("a", after, again, killed), Held},
		"serves with the new size":        {12 * time.Minute, running("a", after, serving), Accepted},
	} {
		t.Run(name, func(t *testing.T) {
			if got := s.Observe(noon.Add(c.now), watch, []*cluster.Pod{c.pod, running("b", before)}); got.Phase != c.phase {
				t.Errorf("phase %d, want %d", got.Phase, c.phase)
			}
		})
	}
}
