// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/decision"
	"podfit.dev/podfit/internal/core/ledger"
	"podfit.dev/podfit/internal/core/radius"
	"podfit.dev/podfit/internal/core/rescue"
	"podfit.dev/podfit/internal/core/rollout"
)

// canaries simulates a workload with a canary: the updater with its stored state, the controller, the kubelet and the webhook.
type canaries struct {
	t      *testing.T
	w      World
	a      *cluster.Autoscaler
	b      Budget
	now    time.Time
	kills  bool // the kubelet kills containers with the new size
	never  bool // pods with the new size are never ready
	defers bool // resizes wait for room on the node
	refuse bool // the API server refuses resizes
	boosts bool // new pods have three times the CPU while they start
	stored []ledger.State
	serial int
	writes []string // actions on pods that were carried out
}

func newCanaries(t *testing.T, replicas int, mode cluster.Mode) *canaries {
	w, a := shrinking(replicas)
	a.Mode, a.MinReplicas = mode, 1
	a.Canary = cluster.Canary{On: true, Watch: 10 * time.Minute}
	return &canaries{t: t, w: w, a: a, b: DefaultBudget(), now: noon}
}

// A crash is a place in a pass at which the updater is killed.
type crash int

const (
	noCrash crash = iota
	beforeAction
	afterAction
	beforeSave
	afterSave
)

// pass runs one pass. If the updater is killed in it, the next pass begins with the stored state.
func (c *canaries) pass(at crash) {
	p := Begin(c.now, c.w, c.b)
	p.Learn()
	var acts []decision.Decision
	for _, d := range p.Decisions() {
		if d.Do != decision.Leave {
			acts = append(acts, d)
		}
	}
	if len(acts) > 0 { // announce
		c.stored = c.w.Ledger.Export(c.b.Delays)
		if len(c.stored) == 0 {
			c.stored = []ledger.State{{Workload: c.a.Target}}
		}
		c.stored[0].ActingSince = c.now
	}
	for _, d := range acts {
		if at == beforeAction {
			break
		}
		if c.refuse && d.Do == decision.Resize {
			for _, next := range p.Refused(d, decision.Refusal{Kind: decision.Denied, Text: "denied"}) {
				c.carryOut(&next)
				p.Done(next)
			}
			continue
		}
		c.carryOut(&d)
		if at == afterAction {
			break
		}
		p.Done(d)
	}
	if at != beforeAction && at != afterAction && at != beforeSave {
		c.stored = c.w.Ledger.Export(c.b.Delays)
	}
	if at != noCrash {
		c.w.Ledger = ledger.New()
		c.w.Ledger.Restore(c.now.Add(time.Second), c.stored)
	}
}

func (c *canaries) carryOut(d *decision.Decision) {
	pods := c.w.Governed[0].Pods
	i := slices.IndexFunc(pods, func(p *cluster.Pod) bool { return p.UID == d.Pod.UID })
	q := *pods[i]
	q.Containers = slices.Clone(q.Containers)
	c.writes = append(c.writes, fmt.Sprintf("%s %s", d.Do, q.UID))
	if d.Do == decision.Resize {
		if c.defers {
			q.Containers[0].Applied = &cluster.Applied{Requests: q.Containers[0].Requests}
			q.Resize = &cluster.Resize{State: cluster.ResizeDeferred, Since: c.now}
		}
		q.Containers[0].Requests = d.With[0].Requests
		if limit, ok := d.With[0].Limits.Get(cluster.Memory); ok {
			q.Containers[0].Limits = q.Containers[0].Limits.Set(cluster.Memory, limit)
		}
		if len(d.Unboost) > 0 {
			q.Containers[0].Boosted = nil
		}
		pods[i] = &q
		return
	}
	c.serial++
	q.UID, q.Created, q.Started, q.Ready = fmt.Sprint("new-", c.serial), c.now.Add(time.Second), c.now.Add(time.Second), false
	held := c.a
	if !c.w.NotStored {
		held = storedCanary(c.stored, c.a.Target).Hold(c.now, c.a) // the webhook sees only what is stored
	}
	q.Containers[0], q.Resize = cluster.Container{Name: "app", Requests: held.Advice[0].Target}, nil
	if limit := held.Advice[0].MemoryLimit; limit > 0 {
		q.Containers[0].Limits = q.Containers[0].Limits.Set(cluster.Memory, limit)
	}
	if c.boosts {
		q.Containers[0].Boosted = &cluster.Applied{Requests: q.Containers[0].Requests}
		q.Containers[0].Requests.CPU *= 3
	}
	pods[i] = &q
}

func storedCanary(all []ledger.State, w cluster.Workload) rollout.State {
	for i := range all {
		if all[i].Workload == w && all[i].Canary != nil {
			return *all[i].Canary
		}
	}
	return rollout.State{}
}

// tick lets a minute pass.
func (c *canaries) tick() {
	c.now = c.now.Add(time.Minute)
	pods := c.w.Governed[0].Pods
	for i, p := range pods {
		q := *p
		q.Containers = slices.Clone(q.Containers)
		isNew := hasNewSize(p)
		if !q.Ready && !(c.never && isNew) {
			q.Ready, q.ReadySince = true, c.now
		}
		if c.kills && isNew && q.Containers[0].Exit == nil {
			q.Containers[0].Exit = &cluster.Exit{OOM: true, Started: c.now.Add(-30 * time.Minute), Finished: c.now}
		}
		pods[i] = &q
	}
}

func hasNewSize(p *cluster.Pod) bool {
	boosted := p.Containers[0].Boosted
	return p.Containers[0].Requests.CPU == 100 || boosted != nil && boosted.Requests.CPU == 100
}

// count returns how many pods have the new size.
func (c *canaries) count() int {
	n := 0
	for _, p := range c.w.Governed[0].Pods {
		if hasNewSize(p) {
			n++
		}
	}
	return n
}

func TestCanary_runsWell_othersFollow(t *testing.T) {
	for _, mode := range []cluster.Mode{cluster.Recreate, cluster.InPlaceOrRecreate} {
		for _, replicas := range []int{1, 4} {
			t.Run(fmt.Sprint(mode, replicas), func(t *testing.T) {
				c := newCanaries(t, replicas, mode)
				for minute := range 40 {
					c.pass(noCrash)
					if n := c.count(); minute < 9 && n != 1 {
						t.Fatalf("%d pods have the new size after %d minutes", n, minute)
					}
					c.tick()
				}
				if c.count() != replicas || len(c.writes) != replicas {
					t.Errorf("%d of %d pods have the new size after %q", c.count(), replicas, c.writes)
				}
			})
		}
	}
}

func TestCanary_fails_isRevertedOnce(t *testing.T) {
	for _, mode := range []cluster.Mode{cluster.Recreate, cluster.InPlaceOrRecreate} {
		for _, replicas := range []int{1, 4} {
			t.Run(fmt.Sprint(mode, replicas), func(t *testing.T) {
				c := newCanaries(t, replicas, mode)
				c.kills = true
				for range 24 * 60 {
					c.pass(noCrash)
					c.tick()
				}
				if c.count() != 0 || len(c.writes) != 2 {
					t.Errorf("%d pods have the bad size after a day, %q", c.count(), c.writes)
				}
				s := c.w.Ledger.Canary(c.a.Target)
				if s.Phase != rollout.Held || s.Cause != rollout.OOMKilled {
					t.Errorf("state %+v", s)
				}
				for range 14 * 24 * 60 {
					c.pass(noCrash)
					c.tick()
				}
				if len(c.writes) > 8 {
					t.Errorf("%d changes in two weeks: %q", len(c.writes), c.writes)
				}
			})
		}
	}
}

// With profile packed, the request and the limit of the memory change together, those of the canary first. If it fails, its requests are reverted, and
// no other pod changes. Its limit stays that of the recommendation, because the limit by peaks rises with each kill.
func TestCanary_requestAndLimitChange_otherPodsFollowOrStay(t *testing.T) {
	const before, after = 1 << 30, 3 << 30
	for _, mode := range []cluster.Mode{cluster.Recreate, cluster.InPlaceOrRecreate} {
		for _, kills := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s kills=%t", mode, kills), func(t *testing.T) {
				c := newCanaries(t, 4, mode)
				c.kills = kills
				c.a.MemoryLimits = cluster.LimitRule{Peaks: true}
				c.a.Advice[0].MemoryLimit, c.a.Advice[0].MemoryPeak = after, after/2
				for _, p := range c.w.Governed[0].Pods {
					p.Containers[0].Limits = cluster.Resources{}.Set(cluster.Memory, before)
				}
				for minute := range 90 {
					c.pass(noCrash)
					limits := map[int64]int{}
					for _, p := range c.w.Governed[0].Pods {
						limit := p.Containers[0].Limits.Memory
						limits[limit]++
						if hasNewSize(p) && limit != after {
							t.Fatalf("minute %d: pod %s requests %v with a limit of %d MiB, after %q", minute, p.UID, p.Containers[0].Requests, limit>>20, c.writes)
						}
					}
					if limits[before]+limits[after] != 4 || limits[after] == 0 || (minute < 9 || kills) && limits[after] != 1 {
						t.Fatalf("minute %d: %d pods have the new limit, after %q", minute, limits[after], c.writes)
					}
					c.tick()
				}
				if want := map[bool]int{false: 4, true: 0}[kills]; c.count() != want || len(c.writes) != map[bool]int{false: 4, true: 2}[kills] {
					t.Errorf("%d pods have the new size, want %d, after %q, state %+v", c.count(), want, c.writes, c.w.Ledger.Canary(c.a.Target))
				}
			})
		}
	}
}

// The canary gets a lower limit, which follows the highest usage, and fails. Wherever the updater is killed, its pod gets the earlier limit back with the
// earlier requests, in place and as a new pod.
func TestCanary_failsWithLowerLimit_earlierLimitComesBack(t *testing.T) {
	const before, after = 4 << 30, 2 << 30
	for _, mode := range []cluster.Mode{cluster.Recreate, cluster.InPlaceOrRecreate} {
		for minute := range 4 {
			for at := noCrash; at <= afterSave; at++ {
				c := newCanaries(t, 4, mode)
				c.kills = true
				c.a.MemoryLimits = cluster.LimitRule{Peaks: true}
				c.a.Advice[0].MemoryLimit, c.a.Advice[0].MemoryPeak = after, after/2
				for _, p := range c.w.Governed[0].Pods {
					p.Containers[0].Limits = cluster.Resources{}.Set(cluster.Memory, before)
				}
				lowered := false
				for m := range 60 {
					where := noCrash
					if m == minute {
						where = at
					}
					c.pass(where)
					for _, p := range c.w.Governed[0].Pods {
						limit := p.Containers[0].Limits.Memory
						lowered = lowered || hasNewSize(p) && limit == after
						if !hasNewSize(p) && limit != before {
							t.Fatalf("%s, killed in minute %d at place %d: pod %s has the earlier requests and a limit of %d MiB, after %q", mode, minute, at, p.UID, limit>>20, c.writes)
						}
					}
					c.tick()
				}
				if c.count() != 0 || !lowered {
					t.Errorf("%s, killed in minute %d at place %d: %d pods have the bad size, lowered %t, after %q", mode, minute, at, c.count(), lowered, c.writes)
				}
			}
		}
	}
}

func TestCanary_neverReady_isReverted(t *testing.T) {
	c := newCanaries(t, 4, cluster.Recreate)
	c.never = true
	for range 60 {
		c.pass(noCrash)
		c.tick()
	}
	if s := c.w.Ledger.Canary(c.a.Target); c.count() != 0 || len(c.writes) != 2 || s.Cause != rollout.NotReady {
		t.Errorf("%d pods have the bad size after %q, state %+v", c.count(), c.writes, s)
	}
}

func TestCanary_replacementsAreBoosted_isAcceptedOrReverted(t *testing.T) {
	for name, c := range map[string]struct {
		fail        func(*canaries)
		cpuOnly     bool
		has, writes int
	}{
		"runs well":   {func(*canaries) {}, false, 4, 8}, // evictions and ends of boosts
		"never ready": {func(c *canaries) { c.never = true }, false, 0, 3},
		"OOM-killed":  {func(c *canaries) { c.kills = true }, false, 0, 2}, // the end of the boost sets the previous size
		"never ready, and the memory is the same": {func(c *canaries) { c.never = true }, true, 1, 1}, // its CPU is boosted, so it is not the cause
	} {
		t.Run(name, func(t *testing.T) {
			w := newCanaries(t, 4, cluster.Recreate)
			w.boosts, w.b.StartupBoost = true, true
			w.a.Boost = &cluster.Boost{Factor: 3, Duration: 3 * time.Minute}
			c.fail(w)
			if c.cpuOnly {
				for _, p := range w.w.Governed[0].Pods {
					p.Containers[0].Requests.Memory = w.a.Advice[0].Target.Memory
				}
			}
			for range 90 {
				w.pass(noCrash)
				w.tick()
			}
			if w.count() != c.has || len(w.writes) != c.writes {
				t.Errorf("%d pods have the new size after %q, want %d and %d writes", w.count(), w.writes, c.has, c.writes)
			}
		})
	}
}

// For every minute and every place of a pass at which the updater is killed: until the canary is accepted, no second pod gets the new
// size, and a bad size ends reverted.
func TestCanary_updaterIsKilledAnywhere_changesNoSecondPod(t *testing.T) {
	for _, mode := range []cluster.Mode{cluster.Recreate, cluster.InPlaceOrRecreate} {
		for _, kills := range []bool{false, true} {
			for minute := range 14 {
				for at := beforeAction; at <= afterSave; at++ {
					t.Run(fmt.Sprintf("%s kills=%t minute %d place %d", mode, kills, minute, at), func(t *testing.T) {
						c := newCanaries(t, 4, mode)
						c.kills = kills
						for m := range 90 {
							where := noCrash
							if m == minute {
								where = at
							}
							c.pass(where)
							accepted := c.w.Ledger.Canary(c.a.Target).Phase == rollout.Accepted
							if n := c.count(); n > 1 && !accepted {
								t.Fatalf("%d pods have the new size in minute %d: %q", n, m, c.writes)
							}
							c.tick()
						}
						if kills && (c.count() != 0 || len(c.writes) > 3) {
							t.Errorf("%d pods have the bad size: %q", c.count(), c.writes)
						}
						if !kills && (c.count() != 4 || len(c.writes) != 4) {
							t.Errorf("%d pods have the size: %q", c.count(), c.writes)
						}
					})
				}
			}
		}
	}
}

func TestCanary_recommendationChangesWhileWatched_newSizeNeedsItsOwnCanary(t *testing.T) {
	c := newCanaries(t, 4, cluster.InPlaceOrRecreate)
	c.pass(noCrash)
	changed := *c.a
	changed.Advice = slices.Clone(changed.Advice)
	changed.Advice[0].Estimate = cluster.Estimate{Lower: cluster.Amounts(20, 32<<20), Target: cluster.Amounts(40, 64<<20), Upper: cluster.Amounts(60, 100<<20)}
	c.a = &changed
	c.w.Governed[0].Autoscaler = &changed
	for minute := range 60 {
		c.tick()
		c.pass(noCrash)
		sizes := map[int64]int{}
		for _, p := range c.w.Governed[0].Pods {
			sizes[p.Containers[0].Requests.CPU]++
		}
		if minute < 9 && sizes[40] > 0 || minute < 19 && sizes[40] > 1 {
			t.Fatalf("sizes %v after %d minutes", sizes, minute)
		}
	}
	if len(c.writes) > 5 {
		t.Errorf("changes %q", c.writes)
	}
	for _, p := range c.w.Governed[0].Pods {
		if p.Containers[0].Requests.CPU != 40 {
			t.Errorf("pod %s has %v", p.Name, p.Containers[0].Requests)
		}
	}
}

func TestCanary_firstPodIsRefused_anotherPodIsTheCanary(t *testing.T) {
	c := newCanaries(t, 4, cluster.Recreate)
	p := Begin(c.now, c.w, c.b)
	p.Learn()
	first := evictions(p)
	if len(first) != 1 {
		t.Fatalf("%d evictions", len(first))
	}
	next := p.Refused(first[0], decision.Refusal{Kind: decision.DeniedByBudget})
	if len(next) != 1 || next[0].Pod == first[0].Pod {
		t.Fatalf("next %+v", next)
	}
	p.Done(next[0])
	if s := c.w.Ledger.Canary(c.a.Target); s.Phase != rollout.Watching || s.UID != next[0].Pod.UID {
		t.Errorf("state %+v", s)
	}
}

func TestCanary_annotationIsRemoved_holdEnds(t *testing.T) {
	c := newCanaries(t, 4, cluster.InPlaceOrRecreate)
	c.kills = true
	for range 5 {
		c.pass(noCrash)
		c.tick()
	}
	if s := c.w.Ledger.Canary(c.a.Target); s.Phase != rollout.Held {
		t.Fatalf("state %+v", s)
	}
	c.a.Canary = cluster.Canary{}
	c.kills = false
	for range 20 {
		c.pass(noCrash)
		c.tick()
	}
	if c.count() != 4 || c.w.Ledger.Canary(c.a.Target).Phase != rollout.Idle {
		t.Errorf("%d pods have the new size", c.count())
	}
}

// The node has no room for the canary. No other pod is changed until that has the size and has run well with it.
func TestCanary_resizeIsDeferred_noOtherPodIsChangedMeanwhile(t *testing.T) {
	for mode, want := range map[cluster.Mode]struct{ pods, writes int }{
		cluster.InPlace:           {1, 1}, // waits
		cluster.InPlaceOrRecreate: {4, 5}, // the canary is evicted after 5 minutes
	} {
		c := newCanaries(t, 4, mode)
		c.b.InPlace = true
		c.defers = true
		for minute := range 60 {
			c.pass(noCrash)
			if n := c.count(); minute < 14 && n > 1 {
				t.Fatalf("%s: %d pods are changed after %d minutes: %q", mode, n, minute, c.writes)
			}
			if mode == cluster.InPlaceOrRecreate && minute > 6 {
				c.defers = false
			}
			c.tick()
		}
		if c.count() != want.pods || len(c.writes) != want.writes {
			t.Errorf("%s: %d pods are changed, want %d: %q", mode, c.count(), want.pods, c.writes)
		}
	}
}

// A canary that is not ready because of its new size does not wait for a change window, or for the next hour, to get its old size.
func TestCanary_failsOutsideOfTheWindow_podThatIsNotReadyIsReverted(t *testing.T) {
	for name, c := range map[string]struct{ ready, reverted bool }{"not ready": {false, true}, "ready": {true, false}} {
		t.Run(name, func(t *testing.T) {
			sim := newCanaries(t, 4, cluster.InPlaceOrRecreate)
			sim.b.NamespaceShare = 0.25
			sim.pass(noCrash)
			sim.w.Requested = radius.RequestedBy(sim.w.Governed[0].Pods)
			sim.a.Rules.Windows = []cluster.ChangeWindow{{Minutes: 1, Hours: 1, Days: 1 << 29, Months: 1 << 2, Weekdays: 127, AnyWeekday: true, Duration: time.Hour, Zone: time.UTC}}
			for i, p := range sim.w.Governed[0].Pods {
				if p.Containers[0].Requests.CPU == 100 {
					q := *p
					q.Containers = slices.Clone(p.Containers)
					q.Containers[0].Restarts, q.Ready, q.ReadySince = 9, c.ready, sim.now
					sim.w.Governed[0].Pods[i] = &q
				}
			}
			sim.now = sim.now.Add(time.Minute)
			sim.pass(noCrash)
			if got := sim.count() == 0; got != c.reverted {
				t.Errorf("reverted %t, %q", got, sim.writes)
			}
		})
	}
}

// A record of a pod in another namespace comes from an object that a user has changed.
func TestLedger_storedSurgeOfAPodInAnotherNamespace_isForgotten(t *testing.T) {
	w, _ := shrinking(1)
	evil := cluster.Workload{Group: "apps", Kind: "Deployment", Namespace: "evil", Name: "x"}
	var pods []ledger.PodState
	for _, do := range []decision.Act{decision.Evict, decision.Resize, decision.Delete, decision.Surge} {
		pods = append(pods, ledger.PodState{UID: w.Governed[0].Pods[0].UID, Name: "db-0", Do: do, At: noon, Attempts: 50, Failed: &ledger.FailedState{Refusal: decision.Refusal{Kind: decision.NotReadyInTime}}})
	}
	w.Ledger.Restore(noon, []ledger.State{{Workload: evil, Pods: pods}})
	p := Begin(noon, w, DefaultBudget())
	p.Learn()
	if at := w.Ledger.LastFailureAt(w.Governed[0].Pods[0]); !at.IsZero() {
		t.Errorf("a record of another namespace, of %v, is kept", at)
	}
}

// An OOM-killed pod gets more memory in place, and its container restarts with it. That restart is no reason to take the memory back.
func TestCanary_oomRescue_restartWithMoreMemoryIsNoRegression(t *testing.T) {
	c := newCanaries(t, 3, cluster.InPlaceOrRecreate)
	c.b.Rescue = rescue.ByDeletion
	c.a.Advice[0].Estimate = cluster.Estimate{Lower: cluster.Amounts(1000, 3<<30), Target: cluster.Amounts(1000, 4<<30), Upper: cluster.Amounts(1000, 5<<30)}
	pods := c.w.Governed[0].Pods
	killed := *pods[0]
	killed.Ready, killed.Containers = false, []cluster.Container{{Name: "app", Requests: cluster.Amounts(1000, 1<<30), Restarts: 4,
		Exit: &cluster.Exit{OOM: true, Kills: 4, Now: true, Started: c.now.Add(-time.Minute), Finished: c.now.Add(-10 * time.Second)}}}
	pods[0] = &killed
	c.pass(noCrash)
	if got := pods[0].Containers[0].Requests.Memory; got != 4<<30 {
		t.Fatalf("memory %d, %q", got, c.writes)
	}
	served := *pods[0]
	served.Ready, served.ReadySince, served.Containers = true, c.now.Add(time.Minute), slices.Clone(served.Containers)
	served.Containers[0].Restarts, served.Containers[0].Exit = 5, &cluster.Exit{OOM: true, Kills: 4, Started: c.now.Add(-time.Minute), Finished: c.now.Add(-10 * time.Second)}
	pods[0] = &served
	for range 30 {
		c.tick()
		c.pass(noCrash)
		if s := c.w.Ledger.Canary(c.a.Target); s.Phase == rollout.Held {
			t.Fatalf("reverted: %+v, %q", s, c.writes)
		}
	}
	for _, p := range pods {
		if p.Containers[0].Requests.Memory != 4<<30 {
			t.Errorf("pod %s has %v: %q", p.Name, p.Containers[0].Requests, c.writes)
		}
	}
}
