// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/decision"
	"podfit.dev/podfit/internal/core/ledger"
	"podfit.dev/podfit/internal/core/policy"
)

// A paced is a controller whose pods start, restart and end as in a cluster. What the updater sees is older by the delay of the watch.
type paced struct {
	t          *testing.T
	random     *rand.Rand
	now        time.Time
	budget     Budget
	ledger     *ledger.Ledger
	autoscaler *cluster.Autoscaler
	controller cluster.Workload
	replicas   int
	lag        time.Duration // of the watch
	starts     time.Duration // time until a new or restarted pod is ready
	standby    bool          // no pod is ever ready
	pods       []*pacedPod
	seen       []pacedView // what the watch delivers, and when
	serial     int

	most     int // pods that were unavailable at the same time
	disrupts int
	recent   []time.Time // when pods were changed
}

type pacedPod struct {
	pod       *cluster.Pod
	gone      bool
	readyAt   time.Time // zero: ready
	restartAt time.Time // when the kubelet restarts the container for a resize
	disrupted bool
}

type pacedView struct {
	at   time.Time
	pods []*cluster.Pod
}

func newPaced(t *testing.T, seed uint64, mode cluster.Mode, replicas int, standby bool) *paced {
	p := &paced{t: t, random: rand.New(rand.NewPCG(seed, 1)), now: noon, budget: DefaultBudget(), ledger: ledger.New(), replicas: replicas, standby: standby}
	p.lag = time.Duration(p.random.IntN(20)) * time.Second
	p.starts = time.Duration(1+p.random.IntN(90)) * time.Second
	p.controller = cluster.Workload{Group: "apps", Kind: "ReplicaSet", Namespace: "shop", Name: "web-1"}
	top := cluster.Workload{Group: "apps", Kind: "Deployment", Namespace: "shop", Name: "web"}
	p.autoscaler = &cluster.Autoscaler{
		Key: cluster.Key{Namespace: "shop", Name: "web"}, UID: "vpa", Target: top, Mode: mode, Created: noon.Add(-100 * time.Hour),
		Advice: []cluster.Advice{{Container: "app", Estimate: cluster.Estimate{Lower: cluster.Amounts(300, 200<<20), Target: cluster.Amounts(350, 250<<20), Upper: cluster.Amounts(9000, 9<<30)}}},
	}
	for range replicas {
		x := p.create(cluster.Amounts(100, 50<<20), noon.Add(-time.Hour))
		x.readyAt = time.Time{}
		x.pod.Ready, x.pod.Phase = !standby, cluster.Running
	}
	return p
}

func (p *paced) create(size cluster.Resources, at time.Time) *pacedPod {
	p.serial++
	name := fmt.Sprintf("web-%d", p.serial)
	x := &pacedPod{readyAt: at.Add(p.starts), pod: &cluster.Pod{
		Key: cluster.Key{Namespace: "shop", Name: name}, UID: name, Controller: p.controller, Top: p.autoscaler.Target, Node: "n",
		Created: at, Started: at, ReadySince: at, Phase: cluster.Running, QoS: cluster.Burstable,
		Containers: []cluster.Container{{Name: "app", Reported: true, Requests: size, Restart: cluster.Both}},
	}}
	p.pods = append(p.pods, x)
	return x
}

// step advances the cluster by a second.
func (p *paced) step() {
	p.now = p.now.Add(time.Second)
	for _, x := range p.pods {
		if !x.restartAt.IsZero() && !p.now.Before(x.restartAt) {
			x.restartAt, x.readyAt = time.Time{}, p.now.Add(p.starts)
			p.change(x, func(q *cluster.Pod) { q.Ready, q.ReadySince = false, p.now })
		}
		if !x.readyAt.IsZero() && !p.now.Before(x.readyAt) {
			x.readyAt, x.disrupted = time.Time{}, false
			p.change(x, func(q *cluster.Pod) { q.Ready, q.ReadySince = !p.standby, p.now })
		}
	}
	p.pods = slices.DeleteFunc(p.pods, func(x *pacedPod) bool { return x.gone })
	for len(p.pods) < p.replicas {
		p.create(p.autoscaler.Advice[0].Target, p.now).disrupted = true
	}
	unavailable := 0
	for _, x := range p.pods {
		if x.disrupted {
			unavailable++
		}
	}
	p.most = max(p.most, unavailable)
	view := pacedView{at: p.now.Add(p.lag)}
	for _, x := range p.pods {
		view.pods = append(view.pods, x.pod)
	}
	p.seen = append(p.seen, view)
	for len(p.seen) > 1 && !p.now.Before(p.seen[1].at) {
		p.seen = p.seen[1:]
	}
}

func (p *paced) change(x *pacedPod, do func(*cluster.Pod)) {
	q := *x.pod
	q.Containers = slices.Clone(q.Containers)
	do(&q)
	x.pod = &q
}

func (p *paced) pass() {
	w := World{
		Governed: []cluster.Governed{{Autoscaler: p.autoscaler, Pods: p.seen[0].pods}}, Ledger: p.ledger, Limits: map[string]policy.Limits{},
		Scales: map[cluster.Workload]cluster.Scale{p.controller: {Known: true, Replicas: int32(p.replicas)}},
	}
	pass := Begin(p.now, w, p.budget)
	pass.Learn()
	acts := slices.DeleteFunc(slices.Clone(pass.Decisions()), func(d decision.Decision) bool { return d.Do == decision.Leave })
	for len(acts) > 0 {
		d := acts[0]
		acts = append(acts[1:], p.act(pass, d)...)
	}
}

func (p *paced) act(pass *Pass, d decision.Decision) []decision.Decision {
	at := slices.IndexFunc(p.pods, func(x *pacedPod) bool { return x.pod.UID == d.Pod.UID })
	if at < 0 {
		pass.Gone(d)
		return nil
	}
	if p.random.IntN(8) == 0 {
		return pass.Refused(d, decision.Refusal{Kind: []decision.RefusalKind{decision.DeniedByBudget, decision.ServerBusy, decision.Denied, decision.WebhookFailed}[p.random.IntN(4)]})
	}
	x := p.pods[at]
	p.disrupts++
	p.recent = append(p.recent, p.now)
	if d.Do == decision.Evict {
		x.gone, x.disrupted = true, true
	} else {
		x.disrupted, x.restartAt = true, p.now.Add(time.Duration(1+p.random.IntN(10))*time.Second)
		p.change(x, func(q *cluster.Pod) { q.Containers[0].Requests = d.With[0].Requests })
	}
	if p.random.IntN(8) == 0 {
		return pass.Refused(d, decision.Refusal{Kind: decision.OutcomeIsUnknown}) // it was carried out, and the answer was lost
	}
	pass.Done(d)
	return nil
}

// For all clusters, delays of the watch and refusals: passes each second disrupt no more pods at once than the budget allows.
func TestPlan_passesEachSecond_disruptNoMorePodsAtOnceThanTheBudget(t *testing.T) {
	for _, mode := range []cluster.Mode{cluster.Recreate, cluster.InPlaceOrRecreate} {
		for seed := range uint64(60) {
			replicas := 2 + int(seed)%9
			for _, period := range []time.Duration{time.Second, time.Minute} {
				p := newPaced(t, seed, mode, replicas, false)
				for i := range 1800 {
					p.step()
					if time.Duration(i)*time.Second%period == 0 {
						p.pass()
					}
				}
				allowed := max(1, int(float64(replicas)*p.budget.Tolerance))
				if p.most > allowed {
					t.Errorf("%v, seed %d, %d replicas, a pass each %v: %d pods were unavailable at once, want at most %d", mode, seed, replicas, period, p.most, allowed)
				}
				if p.disrupts == 0 {
					t.Errorf("%v, seed %d, a pass each %v: no pod was changed", mode, seed, period)
				}
			}
		}
	}
}

// A resize that restarts a container takes from the disruption budget from when the API server has carried it out: the next pass comes too early
// after a slow one.
func TestPass_resizeIsSlow_budgetIsSpentFromItsEnd(t *testing.T) {
	w, _ := growing(2)
	for _, p := range w.Governed[0].Pods {
		p.Containers[0].Restart = cluster.Of(cluster.CPU, cluster.Memory)
	}
	b := DefaultBudget()
	pass := Begin(noon, w, b)
	pass.Elapsed = 20 * time.Second
	var first *cluster.Pod
	for _, d := range pass.Decisions() {
		if d.Do == decision.Resize {
			first = d.Pod
			pass.Done(d)
			break
		}
	}
	if first == nil {
		t.Fatal("no pod is resized")
	}
	pass.Learn()
	for after, want := range map[time.Duration]bool{time.Minute: false, 20*time.Second + b.Window: true} {
		for _, d := range Plan(noon.Add(after), w, b) {
			if d.Pod != first && (d.Do == decision.Resize) != want {
				t.Errorf("%v after the pass began: %s (%s), want a resize: %t", after, d.Do, d.Reason, want)
			}
		}
	}
}

// Pods that are never ready may be standbys. Passes each second change no more of them in a minute than passes each minute.
func TestPlan_passesEachSecondWithStuckPods_changeNoMorePerMinute(t *testing.T) {
	for _, mode := range []cluster.Mode{cluster.Recreate, cluster.InPlaceOrRecreate} {
		for seed := range uint64(20) {
			p := newPaced(t, seed, mode, 8, true)
			for range 900 {
				p.step()
				p.pass()
			}
			for i, at := range p.recent {
				n := 0
				for _, other := range p.recent[i:] {
					if other.Sub(at) < p.budget.Window {
						n++
					}
				}
				if n > 4 {
					t.Fatalf("%v, seed %d: %d pods were changed within a minute, want at most 4", mode, seed, n)
				}
			}
		}
	}
}
