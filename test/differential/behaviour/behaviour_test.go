// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package behaviour

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/decision"
	"podfit.dev/podfit/internal/core/policy"
	"podfit.dev/podfit/internal/edge/kube/actuation"
	"podfit.dev/podfit/internal/edge/kube/projection"
	"podfit.dev/podfit/test/differential/cases"
)

// usual is the number of simulated worlds; it is multiplied by PODFIT_DIFFERENTIAL.
const usual = 700

func TestUpdater_randomWorlds_noWorseThanUpstream(t *testing.T) { compareMany(t, usual, draw) }

// With podfit's defaults, it rescues OOM-killed pods and makes room on full nodes.
func TestUpdater_OOMKilledPodsOnFullNodes_noWorseThanUpstream(t *testing.T) {
	compareMany(t, usual/7, drawFullNodes)
}

// An updater that sees pods that no longer exist must not take away those that do, nor lose pods to a quota.
func TestUpdater_staleWatchQuotasAndScaleDowns_noWorseThanUpstream(t *testing.T) {
	compareMany(t, usual/7, drawStaleQuotas)
}

// Evictions without effect are rare, with all flags at their defaults.
func TestUpdater_replacementsAreNotSized_noWorseThanUpstream(t *testing.T) {
	compareMany(t, usual/7, drawWithoutEffect)
}

// compareMany compares the updaters in random worlds.
func compareMany(t *testing.T, number int, draw func(cases.Dice) *world) {
	t.Helper()
	var worlds, pods, ours, theirs, minutes, without, withoutOfUpstream int
	used := map[string]int{}
	violated := false
	began := time.Now()
	cases.Check(t, number, func(rt *rapid.T) {
		w := draw(cases.Dice{T: rt})
		r := compare(t, w)
		worlds++
		minutes += r.minutes
		for _, x := range w.Workloads {
			pods += x.ends(w.Minutes)
		}
		ours += r.ours
		theirs += r.theirs
		without += r.without
		withoutOfUpstream += r.withoutOfUpstream
		for name, n := range r.used {
			used[name] += n
		}
		if r.violation != "" {
			violated = true // further worlds are simulated to shrink this one
			rt.Fatalf("%s\n%s\n%s", r.violation, cases.Show(w), r.journal)
		}
		if worlds%500 == 0 && !violated { // a long run may be ended before it is complete
			t.Logf("%d worlds without a violation in %s", worlds, time.Since(began).Round(time.Second))
		}
	})
	seed := cases.Seed
	if given := flag.Lookup("rapid.seed").Value.String(); given != "0" {
		seed = given
	} else if cases.Factor(t) > 1 {
		seed = "random; a failure shows its own"
	}
	t.Logf("%d worlds with %d pods, %d simulated hours, in %s; seed %s", worlds, pods, minutes/60, time.Since(began).Round(time.Second), seed)
	t.Logf("satisfied pods at the end: %d with podfit, %d with upstream", ours, theirs)
	checkTotal(t, worlds, without, withoutOfUpstream)
	if worlds > 50 && min(ours, theirs) < pods/4 {
		t.Error("too few pods are satisfied for a meaningful comparison")
	}
	for _, name := range slices.Sorted(maps.Keys(used)) {
		t.Logf("%6d worlds with difference %q", used[name], name)
	}
}

// Shrinking a failing world requires that a simulation has the same result in each run, although updaters send requests
// concurrently.
func TestSimulation_sameWorld_sameJournal(t *testing.T) {
	cases.Check(t, 30, func(rt *rapid.T) {
		w := draw(cases.Dice{T: rt})
		w.Minutes = min(w.Minutes, 30)
		again := func() (journals [2]string) {
			prepare()
			synctest.Test(t, func(t *testing.T) {
				s := newSimulation(w)
				runUpstream(t.Context(), s)
				journals[0] = strings.Join(s.journal, "\n")
			})
			synctest.Test(t, func(t *testing.T) {
				s := newSimulation(w)
				p := newPodfit(s)
				for minute := range w.Minutes {
					p.pass(t.Context())
					s.until(minute + 1)
				}
				journals[1] = strings.Join(s.journal, "\n")
			})
			return journals
		}
		if a, b := again(), again(); a != b {
			rt.Fatalf("first run:\n%s\nsecond run:\n%s", a, b)
		}
	})
}

// The checker must detect an updater that does nothing, and updaters that violate a limit.
func TestChecker_badUpdater_isDetected(t *testing.T) {
	idle := func(context.Context, *simulation, *podfit) {}
	tests := map[string]struct {
		world *world
		pass  func(context.Context, *simulation, *podfit)
		want  string
	}{
		"does nothing": {day(grow("Recreate", 3)), idle, "every pod has a decision"},
		"evicts all pods at once": {day(grow("Recreate", 4)), func(_ context.Context, s *simulation, _ *podfit) {
			for _, p := range s.workloads[0].pods {
				evictUnchecked(s, p)
			}
		}, "disruption limits are respected"},
		"evicts the only pod": {day(grow("Recreate", 1)), func(_ context.Context, s *simulation, _ *podfit) {
			evictUnchecked(s, s.workloads[0].pods[0])
		}, "disruption limits are respected"},
		"evicts the only pod, which was not OOM-killed": {rescuing(grow("Recreate", 1)), func(_ context.Context, s *simulation, _ *podfit) {
			evictUnchecked(s, s.workloads[0].pods[0])
		}, "disruption limits are respected"},
		"deletes a pod that was not OOM-killed": {rescuing(grow("Recreate", 3)), func(_ context.Context, s *simulation, _ *podfit) {
			p := projection.Pod(s.workloads[0].pods[0].pod, new(projection.Interner))
			p.Crash = &cluster.Crash{Version: s.workloads[0].pods[0].pod.ResourceVersion}
			_ = actuation.NewPodWriter(podfitClients()).Delete(context.Background(), p)
		}, "only OOM-killed pods are deleted"},
		"restarts all pods at once by resizes": {day(grow("InPlaceOrRecreate", 4).with(restart)), resizeAll, "disruption limits are respected"},
		"resizes the only pod":                 {day(grow("InPlaceOrRecreate", 1)), resizeAll, "disruption limits are respected"},
		"resizes in mode Recreate":             {day(grow("Recreate", 4)), resizeAll, "the update mode is respected"},
		"repeats a refused eviction in each pass": {day(grow("Recreate", 3).with(refuses("evict", denied403, false))), func(ctx context.Context, s *simulation, p *podfit) {
			p.pass(ctx)
			evictUnchecked(s, s.workloads[0].pods[0])
		}, "attempts are bounded"},
		"repeats a refused eviction when more pods are ready than at the last attempt": {flapping, triesWhenMoreAreReady(), "attempts are bounded"},
		"writes no events": {day(grow("Recreate", 3).with(refuses("evict", denied403, false))), func(ctx context.Context, _ *simulation, p *podfit) {
			p.pass(ctx)
			clear(p.events)
		}, "refusals are reported"},
		"gives a wrong reason": {day(grow("Recreate", 3).with(refuses("evict", denied403, false))), func(ctx context.Context, _ *simulation, p *podfit) {
			p.pass(ctx)
			for uid, d := range p.decisions {
				d.Reason = decision.Reason{Code: decision.DisruptionBudget}
				p.decisions[uid] = d
			}
		}, "every reason is correct"},
		"evicts pods whose replacements a quota rejects": {limited(0.1319, grow("Recreate", 6).with(quota(0))), func(ctx context.Context, s *simulation, p *podfit) {
			p.pass(ctx)
			if s.minute()%20 == 10 {
				evictUnchecked(s, s.workloads[0].pods[len(s.workloads[0].pods)-1])
			}
		}, "no pods are lost to a quota"},
		"does not try again after a refusal": {day(grow("Recreate", 3).with(func(w *workload) {
			w.Faults = []fault{{Verb: "evict", What: denied403, When: window{To: 20}}}
		})), until(10), "no fewer pods are satisfied"},
		"does not evict after the quota is free": {freedQuota, until(2), "no fewer pods are satisfied"},
		"says that another pod is rescued":       {rescuing(grow("Recreate", 3).with(killed)), says(decision.RescueInProgress), "every reason is correct"},
		"says that a disruption budget is violated by other pods": {
			rescuing(grow("Recreate", 3).with(killed)), says(decision.BudgetOfOthers), "every reason is correct",
		},
		"waits an hour for the resize of a pod that is down": {rescuing(grow("InPlaceOrRecreate", 3).with(killed).with(func(w *workload) {
			w.Resizing.How = "silent"
		})), waitsForResizes, "refusals are reported"},
		"evicts a pod that is not sized in each pass": {hungry, func(_ context.Context, s *simulation, p *podfit) {
			evictUnchecked(s, s.workloads[0].pods[s.minute()%3])
			p.leavesAll(s, decision.Reason{Code: decision.Probing})
		}, "evictions without effect are rare: more than 2"},
		"evicts a pod that fits on no node in each pass":                               {fitsNowhere, probesEvery(1, 1), "evictions without effect are rare"},
		"evicts two pods that fit on no node after each back-off":                      {fitsNowhere, probesEvery(420, 2), "evictions without effect are rare"},
		"evicts a pod that fits on no node after a constant back-off":                  {fitsNowhere, probesEvery(40, 1), "evictions without effect are rare"},
		"evicts pods whose replacements are not sized, in each pass":                   {neverSized, probesEvery(1, 1), "evictions without effect are rare"},
		"evicts two pods whose replacements are not sized, repeatedly":                 {neverSized, probesEvery(420, 2), "evictions without effect are rare"},
		"evicts pods whose replacements are not sized, although upstream resizes them": {resized, evictsPairs, "evictions without effect are not more than with upstream"},
		"evicts a pod again that was OOM-killed later than evictAfterOOMSeconds": {
			defaults(starved.with(func(w *workload) { w.AfterOOM, w.Unsized = 1, &window{} })), func(_ context.Context, s *simulation, p *podfit) {
				if s.minute()%5 == 0 {
					evictUnchecked(s, s.workloads[0].pods[0])
				}
				p.leavesAll(s, decision.Reason{Code: decision.Probing})
			}, "evictAfterOOMSeconds is respected",
		},
		"evicts the next pod of a StatefulSet as soon as the last replacement is ready": {
			defaults(grow("Recreate", 3).with(func(w *workload) { w.StatefulSet = true })), evictsWhenAllAreReady(), "there is a pause between pods of a StatefulSet",
		},
		"waits for the resize of a pod that is down, and tells about it": {
			rescuing(grow("InPlaceOrRecreate", 3).with(killed).with(func(w *workload) {
				w.PDBs, w.Resizing.How, w.NeverReady = nil, "silent", []int{0, 1, 2}
			})), resizesOnce, "every reason is correct",
		},
		"evicts in mode InPlace": {day(grow("InPlace", 4)), func(_ context.Context, s *simulation, _ *podfit) {
			evictUnchecked(s, s.workloads[0].pods[0])
		}, "the update mode is respected"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if r := compareWith(t, tt.world, tt.pass); !strings.Contains(r.violation, tt.want) {
				t.Errorf("violation %q, want %q", r.violation, tt.want)
			}
		})
	}
}

// fitsNowhere is a world in which the webhook gives new pods a size that fits on no node.
var fitsNowhere = &world{Minutes: 24 * 60, Min: 2, Tolerance: 1, Nodes: 2, Node: size{2000, 16 << 10}, Workloads: []workload{
	grow("Recreate", 6).with(func(w *workload) { w.Advice[0].Target = size{3000, 1024} }),
}}

// flapping is a world in which a disruption budget requires one pod more than there are. The pods are OOM-killed one after the other, without
// more memory in the recommendation, except the first one, which is always ready.
var flapping = day(workload{
	Mode: "Recreate", Replicas: 3, Template: size{100, 128}, Fine: []int{0}, PDBs: []pdb{{MinAvailable: 7}}, OOM: outOfMemory{NeedMB: 256, Every: 6},
	Advice: []advice{{Target: size{100, 1024}}, {At: 1, Target: size{1000, 128}}},
	Scales: []scaling{{At: 2, Replicas: 4}, {At: 3, Replicas: 5}, {At: 4, Replicas: 6}},
})

// triesWhenMoreAreReady returns an updater that runs two passes of podfit, and tries to evict the first pod after podfit's longest
// back-off, and earlier if more pods are ready than at its last attempt.
func triesWhenMoreAreReady() func(context.Context, *simulation, *podfit) {
	last := 0
	return func(ctx context.Context, s *simulation, p *podfit) {
		if s.minute() <= 1 {
			p.pass(ctx)
		}
		w := s.workloads[0]
		if ready := w.count().ready; s.minute()-w.pods[0].lastAt >= 90 || ready > last {
			evictUnchecked(s, w.pods[0])
			last = ready
		}
	}
}

// neverSized is a world in which new pods have the size of their template.
var neverSized = &world{Minutes: 24 * 60, Min: 2, Tolerance: 1, Workloads: []workload{
	grow("Recreate", 6).with(func(w *workload) { w.Unsized = &window{} }),
}}

// resized is a world in which new pods have the size of their template until its last minute, and resizes succeed.
var resized = defaults(grow("InPlaceOrRecreate", 6).with(func(w *workload) { w.Unsized = &window{To: 119} }))

// evictsPairs runs podfit's passes, and evicts two pods each half an hour, without any effect: podfit has resized them.
func evictsPairs(ctx context.Context, s *simulation, p *podfit) {
	p.pass(ctx)
	if s.minute()%30 == 5 && time.Since(s.started)%time.Minute == 0 {
		evictUnchecked(s, s.workloads[0].pods[0])
		evictUnchecked(s, s.workloads[0].pods[1])
	}
}

// evictsWhenAllAreReady returns an updater that evicts each pod once, the next one when all are ready.
func evictsWhenAllAreReady() func(context.Context, *simulation, *podfit) {
	next := 0
	return func(_ context.Context, s *simulation, p *podfit) {
		if w := s.workloads[0]; next < w.Replicas && w.count().ready == w.Replicas {
			evictUnchecked(s, w.pods[next])
			next++
		}
		p.leavesAll(s, decision.Reason{Code: decision.Probing})
	}
}

// probesEvery returns an updater that evicts the newest pods after a number of minutes, with podfit's reasons for the others.
func probesEvery(minutes, pods int) func(context.Context, *simulation, *podfit) {
	return func(_ context.Context, s *simulation, p *podfit) {
		why := decision.Reason{Code: decision.BackingOff, Text: "eviction", Until: time.Now().Add(time.Hour)}
		if s.minute()%minutes == 0 {
			newest := slices.SortedStableFunc(slices.Values(s.workloads[0].pods), func(a, b *replica) int { return s.createdAt(b) - s.createdAt(a) })
			for _, o := range newest[:pods] {
				evictUnchecked(s, o)
			}
			why = decision.Reason{Code: decision.Probing}
		}
		p.leavesAll(s, why)
	}
}

// until returns an updater that ends in a minute. Its last reasons stay.
func until(minute int) func(context.Context, *simulation, *podfit) {
	return func(ctx context.Context, s *simulation, p *podfit) {
		if s.minute() < minute {
			p.pass(ctx)
		}
	}
}

// killed makes containers that have the size of the template be OOM-killed, and protects their pods.
func killed(w *workload) { w.OOM, w.PDBs = outOfMemory{NeedMB: 256, Every: 2}, []pdb{{}} }

// says returns an updater whose evictions are refused, and that gives the same reason for each pod.
func says(code decision.ReasonCode) func(context.Context, *simulation, *podfit) {
	return func(_ context.Context, s *simulation, p *podfit) {
		if s.minute() == 5 {
			for _, o := range s.workloads[0].pods {
				evictUnchecked(s, o)
			}
		}
		p.leavesAll(s, decision.Reason{Code: code})
	}
}

// leavesAll stores the decision to leave each pod.
func (p *podfit) leavesAll(s *simulation, why decision.Reason) {
	for _, o := range s.workloads[0].pods {
		p.decided([]decision.Decision{{Pod: projection.Pod(o.pod, new(projection.Interner)), Reason: why}})
	}
}

// waitsForResizes tries to evict all pods, resizes them, and waits.
func waitsForResizes(ctx context.Context, s *simulation, p *podfit) {
	if s.minute() == 5 {
		for _, o := range s.workloads[0].pods {
			evictUnchecked(s, o)
		}
		resizeAll(ctx, s, p)
	}
	p.leavesAll(s, decision.Reason{Code: decision.ResizeRunning})
}

// resizesOnce resizes all pods, and waits.
func resizesOnce(ctx context.Context, s *simulation, p *podfit) {
	if s.minute() == 5 {
		resizeAll(ctx, s, p)
	}
	p.leavesAll(s, decision.Reason{Code: decision.ResizeRunning})
}

// evictUnchecked evicts a pod without checking any limit.
func evictUnchecked(s *simulation, p *replica) {
	_ = actuation.NewPodWriter(podfitClients()).Evict(context.Background(), &cluster.Pod{
		Key: cluster.Key{Namespace: p.pod.Namespace, Name: p.pod.Name}, UID: string(p.pod.UID),
	})
}

// resizeAll resizes all pods to the first recommendation without checking any limit.
func resizeAll(_ context.Context, s *simulation, _ *podfit) {
	to := s.workloads[0].Advice[0].Target.resources()
	for _, p := range s.workloads[0].pods {
		_ = actuation.NewPodWriter(podfitClients()).Resize(context.Background(), projection.Pod(p.pod, new(projection.Interner)), []policy.Fitted{{Container: "app", Requests: to}})
	}
}

// A result is the outcome of a comparison.
type result struct {
	violation string
	journal   string // the last requests of podfit, with their outcomes
	minutes   int
	ours      int            // pods that are satisfied at the end
	theirs    int            // the same with upstream
	used      map[string]int // 1 for each difference that occurs in this world, by name

	without, withoutOfUpstream int // evictions without effect, with all flags at their defaults
}

// compare runs a world with upstream's updater and then with podfit's updater, and checks podfit.
func compare(t *testing.T, w *world) result {
	return compareWith(t, w, func(ctx context.Context, _ *simulation, p *podfit) { p.pass(ctx) })
}

func compareWith(t *testing.T, w *world, pass func(context.Context, *simulation, *podfit)) (r result) {
	prepare()
	var reference *course
	synctest.Test(t, func(t *testing.T) { reference = runUpstream(t.Context(), newSimulation(w)) })
	synctest.Test(t, func(t *testing.T) { r = runPodfit(t.Context(), newSimulation(w), reference, pass) })
	return r
}

// prepare creates objects that must not be created in a synctest bubble.
func prepare() {
	original()
	upstreamClient()
	podfitClients()
}

// After this many minutes without a change, upstream's passes become rare: it has no memory, so each pass repeats the same
// requests. The exception is a running resize, which upstream gives up after at most an hour.
const (
	quiet         = 10
	quietResizing = 75
)

// A course is what happened with upstream.
type course struct {
	counts  [][]count // of pods after each minute, by minute and workload
	effects []effects // by workload
}

// runUpstream runs upstream's updater.
func runUpstream(ctx context.Context, s *simulation) *course {
	w, u := s.world, newUpstream(s)
	var out [][]count
	changed, revision := 0, s.revision
	for minute := 0; minute < w.Minutes; minute++ {
		if s.revision != revision || s.next(minute-1) == minute {
			changed, revision = minute, s.revision
		}
		after := quiet
		if s.resizing() {
			after = quietResizing
		}
		if minute-changed < after || minute%30 == 0 {
			pass, cancel := context.WithTimeout(ctx, time.Minute)
			u.pass(pass)
			cancel()
		}
		s.until(minute + 1)
		for len(out) <= minute {
			out = append(out, s.counts())
		}
		minute = max(minute, s.minute()-1)
		for len(out) <= minute {
			out = append(out, out[len(out)-1])
		}
	}
	r := &course{counts: out}
	for _, sw := range s.workloads {
		r.effects = append(r.effects, sw.effects)
	}
	return r
}

func (s *simulation) resizing() bool {
	for _, w := range s.workloads {
		for _, p := range w.pods {
			if condition(p.pod, corev1.PodResizePending) != nil || condition(p.pod, corev1.PodResizeInProgress) != nil {
				return true
			}
		}
	}
	return false
}

// until waits for a minute, unless it has passed, and runs the steps of the cluster up to it.
func (s *simulation) until(minute int) {
	if s.world.Defaults {
		s.ticks(minute)
	}
	time.Sleep(time.Until(s.started.Add(time.Duration(minute) * time.Minute)))
	s.catchUp()
}

// catchUp runs the steps of the cluster up to the present minute.
func (s *simulation) catchUp() {
	for m := s.stepped + 1; m <= s.minute(); m++ {
		s.step(m)
		s.stepped = m
	}
}

func (s *simulation) counts() []count {
	out := make([]count, len(s.workloads))
	for i, w := range s.workloads {
		out[i] = w.count()
	}
	return out
}

// runPodfit runs podfit's updater, and checks it after each minute.
func runPodfit(ctx context.Context, s *simulation, reference *course, pass func(context.Context, *simulation, *podfit)) result {
	w, p := s.world, newPodfit(s)
	c := newChecker(s, p, reference)
	s.onTick = func() {
		s.mu.Lock()
		c.before(s.minute())
		s.mu.Unlock()
		pass(ctx, s, p)
		s.mu.Lock()
		c.noteActions(s.minute())
		s.mu.Unlock()
	}
	r := result{used: c.used}
	for minute := 0; minute < w.Minutes && c.violation == ""; minute++ {
		r.minutes++
		s.mu.Lock()
		c.before(minute)
		s.mu.Unlock()
		pass(ctx, s, p)
		s.mu.Lock()
		c.after(minute)
		s.mu.Unlock()
		s.until(minute + 1)
		done := c.settled(minute)
		c.withoutEffect(minute)
		c.compare(min(s.minute(), w.Minutes) - 1)
		minute = max(minute, s.minute()-1)
		if done {
			break
		}
	}
	for i, n := range s.counts() {
		r.ours += n.satisfied
		r.theirs += reference.counts[min(s.minute(), w.Minutes)-1][i].satisfied
		if w.Defaults {
			r.without += len(s.workloads[i].effects.without)
			r.withoutOfUpstream += len(reference.effects[i].without)
		}
	}
	r.violation = c.violation
	r.journal = strings.Join(s.journal[max(0, len(s.journal)-60):], "\n")
	return r
}

func (c *checker) fail(minute int, property, format string, args ...any) {
	if c.violation == "" {
		c.violation = fmt.Sprintf("minute %d: %s: %s", minute, property, fmt.Sprintf(format, args...))
	}
}
