// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package updater

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/pflag"

	"podfit.dev/podfit/internal/app/process"
	"podfit.dev/podfit/internal/compatibility"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/decision"
	"podfit.dev/podfit/internal/core/explanation"
	"podfit.dev/podfit/internal/core/ledger"
	"podfit.dev/podfit/internal/core/policy"
	"podfit.dev/podfit/internal/core/rollout"
	"podfit.dev/podfit/internal/edge/kube"
)

// An unsettled cluster changes at random between the passes of an updater.
type unsettled struct {
	*hostileCluster
	random *rand.Rand

	mu        sync.Mutex
	attempts  map[string][]string // what the updater has tried in this pass, by UID of the pod
	refused   bool                // something was refused in this pass
	overQuota bool                // a quota refused a resize in this pass
}

// Surging and Scaled are those of a cluster without surges.
func (y *unsettled) Surging() []cluster.Workload               { return nil }
func (y *unsettled) Scaled() (map[cluster.Workload]bool, bool) { return nil, false }
func (y *unsettled) one(of ...error) error                     { return of[y.random.IntN(len(of))] }
func (y *unsettled) often(n int) bool                          { return y.random.IntN(n) == 0 }
func (y *unsettled) amounts() cluster.Resources {
	return cluster.Amounts(50*y.random.Int64N(20)+50, (64<<20)*(y.random.Int64N(20)+1))
}

func newUnsettled(seed uint64) *unsettled {
	random := rand.New(rand.NewPCG(seed, 1))
	modes := []cluster.Mode{cluster.Recreate, cluster.InPlaceOrRecreate, cluster.InPlaceOrRecreate, cluster.InPlace, cluster.Off}
	y := &unsettled{hostileCluster: newHostileCluster(modes[random.IntN(len(modes))]), random: random}
	y.config.CapacityBeforeEviction = capacityOff
	y.config.Gates = process.Gates{process.InPlaceGate: y.often(2)}
	y.config.Budget.MinReplicas = random.IntN(4)
	y.config.Budget.SkipInPlace = y.often(3)
	y.nodes = []cluster.Node{{Name: "n", Allocatable: cluster.Amounts(random.Int64N(8000), random.Int64N(16<<30)), Ready: true}, {Name: "m", Allocatable: cluster.Amounts(4000, 8<<30), Ready: true}}
	y.evict = func(p *cluster.Pod) (error, bool) {
		err := y.answer("evict", p, kube.ErrBudget, kube.ErrForbidden, errors.New("lost"), nil, nil, nil)
		return err, err != nil
	}
	y.resize = func(p *cluster.Pod, _ []policy.Fitted) (error, bool) {
		err := y.answer("resize", p, kube.ErrQuota, kube.ErrForbidden, errors.New("lost"), nil, nil, nil, nil)
		return err, err != nil
	}
	return y
}

// answer records an attempt and refuses it at random.
func (y *unsettled) answer(what string, p *cluster.Pod, of ...error) error {
	y.mu.Lock()
	defer y.mu.Unlock()
	y.attempts[p.UID] = append(y.attempts[p.UID], what)
	if err := y.one(of...); err != nil {
		y.refused = true
		y.overQuota = y.overQuota || errors.Is(err, kube.ErrQuota)
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

// unsettle changes the cluster.
func (y *unsettled) unsettle() {
	y.change(func(p *cluster.Pod) {
		if y.often(6) {
			p.Ready, p.ReadySince = !p.Ready, time.Now()
		}
		if y.often(8) {
			states := []cluster.ResizeState{cluster.ResizeDeferred, cluster.ResizeInfeasible, cluster.ResizeInProgress, cluster.ResizeError}
			p.Resize = &cluster.Resize{State: states[y.random.IntN(len(states))], Since: time.Now().Add(-time.Duration(y.random.IntN(600)) * time.Second), Message: "no room"}
		} else if y.often(3) {
			p.Resize = nil
		}
		if y.often(6) {
			p.Containers[0].Exit = &cluster.Exit{OOM: y.often(2), Kills: uint8(1 + y.random.IntN(4)), Now: y.often(2), Started: time.Now().Add(-time.Duration(y.random.IntN(20)) * time.Minute), Finished: time.Now()}
		}
		if y.often(6) {
			p.Crash = nil
			if e := p.Containers[0].Exit; e != nil && e.OOM && !p.Ready {
				p.Crash = &cluster.Crash{Version: "1", Labels: []string{"app=web"}}
			}
		}
	})
	if y.often(3) {
		target := y.amounts()
		a := *y.autoscalers[0]
		a.MinReplicas = int32(y.random.IntN(4))
		a.Advice = []cluster.Advice{{Container: "app", Estimate: cluster.Estimate{Lower: cluster.Amounts(target.CPU/2, target.Memory/2), Target: target, Upper: cluster.Amounts(target.CPU*2, target.Memory*2)}}}
		y.autoscalers[0] = &a
	}
	if y.often(5) {
		left := y.amounts()
		y.quotas = &cluster.Quotas{List: []cluster.Quota{{Name: "compute", Left: cluster.PodResources{Requests: left}}}}
	} else if y.often(3) {
		y.quotas = nil
	}
}

// explained returns the explanation of all pods at the time now.
func (y *unsettled) explained(u *updater, now time.Time) *explanation.Explanation {
	uids := map[string]bool{}
	for _, p := range y.pods {
		uids[p.UID] = true
	}
	s := &Settings{y.config}
	pass, world, budget := s.preview(now, y, u.ledger.Export(u.budget.Delays), uids)
	in := &explanation.Input{
		Now: now, Subject: explanation.Subject{Autoscaler: y.autoscalers[0], Pods: y.pods}, Plan: explanation.PlanOf(pass, uids),
		Updater: explanation.Updater{Budget: budget}, Cluster: explanation.Cluster{Nodes: world.Nodes, AllPods: world.Pods},
	}
	return explanation.Explain(in)
}

// What NEXT says of a pod is what the next pass of the updater does with it: in 100 random clusters, after passes with random outcomes. A pod
// that waits may be changed instead of another one whose change is refused in the pass, and a pod is not evicted if a quota refuses the resize
// of another one in the pass.
func TestPreview_hundredRandomClusters_nextPassDoesWhatNextSays(t *testing.T) {
	done := map[decision.Act]int{}
	waits := 0
	for seed := range uint64(100) {
		synctest.Test(t, func(t *testing.T) {
			y := newUnsettled(seed)
			u := newUpdater(y.config, y, y, y, y, NewMetrics(prometheus.NewRegistry()), process.NewHealth(time.Hour), y.log)
			for range 12 {
				y.unsettle()
				now := time.Now()
				steps := y.explained(u, now).Next
				byName := map[string]*cluster.Pod{}
				for _, p := range y.pods {
					byName[p.Name] = p
				}
				y.attempts, y.refused, y.overQuota = map[string][]string{}, false, false
				u.update(t.Context(), now)
				for _, s := range steps {
					for _, name := range s.Pods {
						tried := y.attempts[byName[name].UID]
						switch {
						case s.Act == decision.Resize || s.Act == decision.Evict:
							done[s.Act]++
							if s.Act == decision.Evict && len(tried) == 0 && y.overQuota {
								continue // the refusal shows that a quota would refuse the replacement, too
							}
							if len(tried) == 0 || tried[0] != s.Act.String() {
								t.Errorf("seed %d: %s of %s (%s), and the pass did %v", seed, s.Act, name, s.Reason, tried)
							}
						case s.Act == decision.Leave && len(tried) > 0 && !(y.refused && s.Waits()):
							t.Errorf("seed %d: %s is left (%s), and the pass did %v", seed, name, s.Reason, tried)
						case s.Act == decision.Leave && s.Waits():
							waits++
						}
					}
				}
				time.Sleep(y.config.Interval)
			}
		})
	}
	if done[decision.Resize] < 50 || done[decision.Evict] < 50 || waits < 100 {
		t.Errorf("%d resizes, %d evictions and %d waiting pods were drawn, want more", done[decision.Resize], done[decision.Evict], waits)
	}
}

// A pod that waits until a time is not changed before it if nothing else changes.
func TestPreview_podWaitsUntilATime_isNotChangedBefore(t *testing.T) {
	bounded := 0
	for seed := range uint64(400) {
		synctest.Test(t, func(t *testing.T) {
			y := newUnsettled(seed)
			y.change(func(p *cluster.Pod) { p.Created = time.Now().Add(-time.Duration(y.random.IntN(5)) * time.Minute) })
			u := newUpdater(y.config, y, y, y, y, NewMetrics(prometheus.NewRegistry()), process.NewHealth(time.Hour), y.log)
			for range 6 {
				y.unsettle()
				y.attempts = map[string][]string{}
				u.update(t.Context(), time.Now())
				time.Sleep(y.config.Interval)
			}
			until, why := map[string]time.Time{}, map[string]string{}
			for _, s := range y.explained(u, time.Now()).Next {
				for _, name := range s.Pods {
					if s.Act == decision.Leave && s.NotBefore.After(time.Now()) {
						until[name], why[name] = s.NotBefore, s.Reason
						bounded++
					}
				}
			}
			for range 10 {
				y.attempts = map[string][]string{}
				pods := slices.Clone(y.pods)
				u.update(t.Context(), time.Now())
				for _, p := range pods {
					if len(y.attempts[p.UID]) > 0 && time.Now().Before(until[p.Name]) {
						t.Errorf("seed %d: %s waits until %v (%s), and is changed at %v: %v", seed, p.Name, until[p.Name], why[p.Name], time.Now(), y.attempts[p.UID])
					}
				}
				time.Sleep(y.config.Interval)
			}
		})
	}
	if bounded < 20 {
		t.Errorf("%d pods wait until a time, want more", bounded)
	}
}

// With the rights of deploy/ alone, the updater cannot ask for capacity. Once it has recorded that, NEXT says the same as the updater, and not that a pod waits for
// capacity that nobody asked for.
func TestPreview_updaterCannotAskForCapacity_nextSaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := newUnsettled(1)
		y.autoscalers[0].Mode, y.quotas = cluster.Recreate, nil
		y.config.CapacityBeforeEviction, y.config.Budget.MinReplicas = capacityAsk, 1
		y.nodes = []cluster.Node{{Name: "n", Allocatable: cluster.Amounts(1000, 4<<30), Ready: true}}
		y.autoscalers[0].Advice = []cluster.Advice{{Container: "app", Estimate: cluster.Estimate{Lower: cluster.Amounts(600, 1<<30), Target: cluster.Amounts(700, 1<<30), Upper: cluster.Amounts(800, 2<<30)}}}
		y.change(func(p *cluster.Pod) {
			p.Node, p.Created, p.Containers[0].Requests = "n", time.Now().Add(-time.Hour), cluster.Amounts(300, 1<<30)
		})
		codes := func(states ...ledger.State) (codes []string) {
			settings := &Settings{y.config}
			pass, _, _ := settings.preview(time.Now(), y, states, nil)
			for _, d := range pass.Decisions() {
				codes = append(codes, d.Reason.Code.String())
			}
			return codes
		}
		if got := codes(); !slices.Contains(got, decision.AwaitingCapacity.String()) {
			t.Errorf("nothing is recorded, and NEXT has %q", got)
		}
		recorded := ledger.State{Workload: y.pods[0].Workload(), Waiting: []ledger.WaitingState{{Reason: decision.NoCapacityProvider.String(), Pods: 1}}}
		if got := codes(recorded); !slices.Contains(got, decision.NoCapacityProvider.String()) || slices.Contains(got, decision.AwaitingCapacity.String()) {
			t.Errorf("the updater has recorded that it cannot ask, and NEXT has %q", got)
		}
	})
}

// The updater has read the query of a canary, and NEXT has not. Once the updater has recorded that it does not hold, NEXT says the same, and not that its value is
// not known yet, or that the updater runs with other flags.
func TestPreview_updaterFoundThatTheQueryOfACanaryDoesNotHold_nextSaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := newUnsettled(1)
		y.autoscalers[0].Mode, y.quotas = cluster.InPlaceOrRecreate, nil
		y.autoscalers[0].Canary = cluster.Canary{On: true, Watch: time.Minute, Objective: cluster.Objective{Query: "a < 1", Operator: "<", Limit: 1, Span: time.Minute}}
		after := cluster.Amounts(700, 1<<30)
		y.autoscalers[0].Advice = []cluster.Advice{{Container: "app", Estimate: cluster.Estimate{Lower: after, Target: after, Upper: after}}}
		y.change(func(p *cluster.Pod) {
			p.Created, p.ReadySince, p.Ready = time.Now().Add(-time.Hour), time.Now().Add(-time.Hour), true
			p.Containers[0].Requests = cluster.Amounts(300, 1<<30)
		})
		changed := y.pods[0]
		canary := rollout.State{}.Start(time.Now().Add(-30*time.Minute), changed, []rollout.Size{{Container: "app", Requests: after}}, false).Changed()
		y.change(func(p *cluster.Pod) {
			if p.UID == changed.UID {
				p.Containers[0].Requests = after
			}
		})
		for name, c := range map[string]struct {
			waits decision.ReasonCode // as the updater recorded
			want  string
		}{
			"nothing was read": {decision.AwaitingCanary, "no recent value after the change is known"},
			"it does not hold": {decision.ObjectiveMissed, "does not hold: the updater has recorded that; see the condition Updating and the events of the VPA."},
		} {
			first := y.pods[1].Name
			state := ledger.State{Workload: changed.Workload(), Canary: &canary, Waiting: []ledger.WaitingState{{Reason: c.waits.String(), Pods: 2, First: first}}}
			settings := &Settings{y.config}
			pass, _, _ := settings.preview(time.Now(), y, []ledger.State{state}, nil)
			for _, d := range pass.Decisions() {
				if d.Pod.Name == first && (d.Reason.Code != c.waits || !strings.Contains(d.Reason.String(), c.want)) {
					t.Errorf("%s: %s, want %q", name, d.Reason, c.want)
				}
			}
		}
	})
}

// The flags that the switch sets decide what explain and the page say about NEXT, but for those that decide when the updater acts, or about other objects.
func TestSettings_flagsOfTheSwitch_areThoseOfThePreview(t *testing.T) {
	others := []string{"capacity-plan", "early-passes", "node-guard", "own-conditions", "role-history", "size-by-run", "status-interval", "updating-condition"}
	all, preview := pflag.NewFlagSet("updater", pflag.ContinueOnError), pflag.NewFlagSet("explain", pflag.ContinueOnError)
	c := Defaults()
	c.Flags(all)
	NewSettings().Flags(preview)
	for _, s := range compatibility.Upstream.Settings() {
		has := all.Lookup(s.Flag) != nil && !slices.Contains(others, s.Flag)
		if (preview.Lookup(s.Flag) != nil) != has {
			t.Errorf("--%s: the preview has it: %t, want %t", s.Flag, !has, has)
		}
	}
}
