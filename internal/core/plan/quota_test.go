// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"podfit.dev/podfit/internal/core/admissible"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/decision"
	"podfit.dev/podfit/internal/core/ledger"
	"podfit.dev/podfit/internal/core/policy"
	"podfit.dev/podfit/internal/core/quota"
)

// A tenancy is a namespace with one workload and one quota of CPU requests, for the tests below: pods are created from a template,
// and changed like the admission controller does.
type tenancy struct {
	template, want int64 // millicores
	hard           int64
	mode           cluster.Mode
	scopes         []cluster.QuotaScope
	pods           []*cluster.Pod
	created        int
}

var shopCart = cluster.Workload{Group: "apps", Kind: "ReplicaSet", Namespace: "shop", Name: "cart"}

func (y *tenancy) autoscaler() *cluster.Autoscaler {
	want := cluster.Resources{}.Set(cluster.CPU, y.want)
	return &cluster.Autoscaler{
		Key: cluster.Key{Namespace: "shop", Name: "cart"}, Target: shopCart, Mode: y.mode,
		Advice: []cluster.Advice{{Container: "app", Estimate: cluster.Estimate{Lower: want, Target: want, Upper: want}}},
	}
}

func (y *tenancy) used() (sum int64) {
	for _, p := range y.pods {
		sum += p.Containers[0].Requests.CPU
	}
	return sum
}

func (y *tenancy) limits() policy.Limits {
	left := cluster.PodResources{Requests: cluster.Resources{}.Set(cluster.CPU, y.hard-y.used())}
	return policy.Limits{Quotas: &cluster.Quotas{List: []cluster.Quota{{Name: "compute", Left: left, Scopes: y.scopes}}}}
}

func (y *tenancy) world(replicas int, l *ledger.Ledger) World {
	return World{
		Governed: []cluster.Governed{{Autoscaler: y.autoscaler(), Pods: y.pods}}, Ledger: l,
		Scales: map[cluster.Workload]cluster.Scale{shopCart: {Known: true, Replicas: int32(replicas)}},
		Limits: map[string]policy.Limits{"shop": y.limits()},
	}
}

func (y *tenancy) budget() Budget {
	b := DefaultBudget()
	b.MinReplicas, b.InPlace = 1, true
	return b
}

// pod returns a running pod with a CPU request. It does not add the pod to the tenancy.
func (y *tenancy) pod(now time.Time, millicores int64) *cluster.Pod {
	y.created++
	name := fmt.Sprintf("cart-%d", y.created)
	return &cluster.Pod{
		Key: cluster.Key{Namespace: "shop", Name: name}, UID: name, Controller: shopCart, Top: shopCart, Node: "n",
		Phase: cluster.Running, Ready: true, QoS: cluster.Burstable, Created: now, Started: now,
		Containers: []cluster.Container{{Name: "app", Requests: cluster.Resources{}.Set(cluster.CPU, millicores)}},
	}
}

// create creates a pod as controller, admission controller and API server do together. It returns false when the quota refuses it.
func (y *tenancy) create(now time.Time) bool {
	p := y.pod(now, y.template)
	fits := policy.Fit(y.autoscaler(), y.limits(), p)
	if !admissible.QuotaRefusal(y.limits(), p, quota.StandingOf(p), fits).Refused() {
		p.Containers[0].Requests = fits[0].Requests
		p.Sized = true
	}
	if y.used()+p.Containers[0].Requests.CPU > y.hard {
		return false
	}
	y.pods = append(y.pods, p)
	return true
}

func TestPlan_newSizeExceedsQuota_leavesPod(t *testing.T) {
	const evict, resize, leave = "evict", "resize", "leave"
	priority := []cluster.QuotaScope{{Kind: cluster.PriorityClassIn, Classes: []string{"high"}}}
	for name, c := range map[string]struct {
		mode                 cluster.Mode
		runs, want, template int64
		sized                bool
		hard, others         int64 // others is what other pods use
		scopes               []cluster.QuotaScope
		do                   string
	}{
		"room for both": {mode: cluster.Recreate, runs: 400, want: 700, hard: 1200, do: evict},
		"room for the new beside the old, no more":     {mode: cluster.Recreate, runs: 400, want: 700, hard: 1100, do: evict},
		"own size fits beside the old, the new not":    {mode: cluster.Recreate, runs: 400, want: 700, hard: 1000, do: leave},
		"neither fits beside the old, the new instead": {mode: cluster.Recreate, runs: 400, want: 700, hard: 900, others: 200, do: evict},
		"the same of a pod that may be larger than its template": {
			mode: cluster.Recreate, runs: 400, want: 700, hard: 900, others: 200, sized: true, do: leave,
		},
		"never fits":                          {mode: cluster.Recreate, runs: 400, want: 700, hard: 600, do: leave},
		"shrinks where the quota is full":     {mode: cluster.Recreate, runs: 400, want: 300, hard: 500, others: 100, sized: true, do: evict},
		"shrinks, and is over the quota":      {mode: cluster.Recreate, runs: 400, want: 300, hard: 500, others: 400, do: leave},
		"resize needs only the difference":    {mode: cluster.InPlaceOrRecreate, runs: 400, want: 700, hard: 700, do: resize},
		"resize over quota":                   {mode: cluster.InPlaceOrRecreate, runs: 400, want: 700, hard: 699, do: leave},
		"resize over quota, in place only":    {mode: cluster.InPlace, runs: 400, want: 700, hard: 699, do: leave},
		"resize to less though over quota":    {mode: cluster.InPlace, runs: 400, want: 300, hard: 100, do: resize},
		"priority class is not known":         {mode: cluster.Recreate, runs: 400, want: 700, hard: 600, scopes: priority, do: leave},
		"quota for pods that have a deadline": {mode: cluster.Recreate, runs: 400, want: 700, hard: 600, scopes: []cluster.QuotaScope{{Kind: cluster.TerminatingScope}}, do: evict},
	} {
		t.Run(name, func(t *testing.T) {
			y := &tenancy{template: 100, want: c.want, hard: c.hard - c.others, mode: c.mode, scopes: c.scopes}
			p := y.pod(noon.AddDate(0, 0, -2), c.runs)
			p.Sized = c.sized
			y.pods = []*cluster.Pod{p}
			d := Plan(noon, y.world(1, nil), y.budget())[0]
			if d.Do.String() != c.do || d.Do == decision.Leave && d.Reason.Code != decision.OverQuota {
				t.Errorf("%s because %s", d.Do, d.Reason)
			}
		})
	}
}

func TestPlan_newSizeExceedsQuota_reasonNamesQuota(t *testing.T) {
	y := &tenancy{template: 100, want: 700, hard: 1000, mode: cluster.Recreate}
	y.pods = []*cluster.Pod{y.pod(noon.AddDate(0, 0, -2), 400)}
	w := y.world(1, nil)
	want := decision.Reason{Code: decision.OverQuota, Text: "the cpu requests of the pod are 700m, and ResourceQuota compute has 600m left"}
	if got := Plan(noon, w, y.budget())[0].Reason; got != want {
		t.Errorf("got %s", reasonData(got))
	}
	w.Limits["shop"] = policy.Limits{Quotas: &cluster.Quotas{TooMany: true}}
	if d := Plan(noon, w, y.budget())[0]; d.Reason.Code != decision.OverQuota {
		t.Errorf("too many quotas: %s because %s", d.Do, d.Reason)
	}
	w.Limits["shop"] = policy.Limits{}
	if d := Plan(noon, w, y.budget())[0]; d.Do != decision.Evict {
		t.Errorf("quotas unknown: %s because %s", d.Do, d.Reason)
	}
}

// Decisions of one pass do not use the same room of a quota twice.
func TestPlan_quotaHasRoomForOne_changesOnePod(t *testing.T) {
	for _, mode := range []cluster.Mode{cluster.Recreate, cluster.InPlaceOrRecreate} {
		y := &tenancy{template: 100, want: 300, hard: 1310, mode: mode}
		if mode == cluster.InPlaceOrRecreate {
			y.hard = 1299 // room for one more 200
		}
		for range 10 {
			y.pods = append(y.pods, y.pod(noon.AddDate(0, 0, -2), 100))
		}
		b := y.budget()
		b.Tolerance = 1
		done := 0
		for _, d := range Plan(noon, y.world(10, nil), b) {
			switch {
			case d.Do != decision.Leave:
				done++
			case d.Reason.Code != decision.OverQuota:
				t.Errorf("%s: left because %s", mode, d.Reason)
			}
		}
		if done != 1 {
			t.Errorf("%s: %d pods are changed", mode, done)
		}
	}
}

// Evictions end with every quota: no pod is evicted again and again without effect, and none is lost. In the end, every pod has its
// recommended requests, or the quota has no room for them.
func TestPlan_quotaBlocksReplacements_evictionsEnd(t *testing.T) {
	for hard := int64(200); hard <= 3000; hard += 150 {
		for _, replicas := range []int{1, 2, 5} {
			y := &tenancy{template: 100, want: 400, hard: hard, mode: cluster.Recreate}
			now := noon.AddDate(0, 0, -2)
			for range replicas {
				y.pods = append(y.pods, y.pod(now, y.template))
			}
			if y.used() > hard {
				continue
			}
			record, evictions := ledger.New(), 0
			now = noon
			for range 8 * 60 {
				w := y.world(replicas, record)
				pass := Begin(now, w, y.budget())
				pass.Learn()
				var leaving []*cluster.Pod
				for _, d := range pass.Decisions() {
					if d.Do == decision.Evict {
						evictions++
						pass.Done(d)
						leaving = append(leaving, d.Pod)
					}
				}
				missing := 0
				for range leaving {
					if !y.create(now.Add(time.Second)) { // while the evicted pods count
						missing++
					}
				}
				for _, gone := range leaving {
					for i, p := range y.pods {
						if p == gone {
							y.pods = append(y.pods[:i:i], y.pods[i+1:]...)
							break
						}
					}
				}
				for range missing { // tried again by the controller
					if !y.create(now.Add(30 * time.Second)) {
						t.Fatalf("hard %d, %d replicas: a pod was evicted and not replaced", hard, replicas)
					}
				}
				now = now.Add(time.Minute)
			}
			sized := 0
			for _, p := range y.pods {
				if p.Containers[0].Requests.CPU == y.want {
					sized++
				}
			}
			if len(y.pods) != replicas || evictions > 2*replicas {
				t.Errorf("hard %d: %d of %d pods, %d evictions", hard, len(y.pods), replicas, evictions)
			}
			// A pod grows while its old and its new size fit, or while not even its old size fits a second time.
			if left := hard - y.used(); sized < replicas && left >= y.want {
				t.Errorf("hard %d: %d of %d pods are sized, and %d are left", hard, sized, replicas, left)
			}
		}
	}
}

// A pass reserves the amounts of its changes. The reason of a pod for which they leave no room does not blame the quota alone.
func TestPlan_quotaHasRoomForOnePod_reasonNamesOtherChanges(t *testing.T) {
	for name, tt := range map[string]struct {
		hard    int64
		changes int
		note    bool
	}{"room for one": {1400, 1, true}, "room for none": {500, 0, false}} {
		t.Run(name, func(t *testing.T) {
			y := &tenancy{template: 100, want: 700, hard: tt.hard, mode: cluster.InPlace}
			for range 4 {
				y.pods = append(y.pods, y.pod(noon.AddDate(0, 0, -2), 100))
			}
			changes := 0
			for _, d := range Plan(noon, y.world(4, ledger.New()), y.budget()) {
				if d.Do != decision.Leave {
					changes++
				} else if note := strings.Contains(d.Reason.Text, "after the other changes of this pass"); d.Reason.Code != decision.OverQuota || note != tt.note {
					t.Errorf("%s is left because: %s", d.Pod.Name, d.Reason)
				}
			}
			if changes != tt.changes {
				t.Errorf("%d changes, want %d", changes, tt.changes)
			}
		})
	}
}

// The replacement of a pod that was resized in place may get the size of a small template while the evicted pod still counts.
func TestPlan_podWasResizedAndNewSizeFitsOnlyAfterwards_isNotEvicted(t *testing.T) {
	for name, resized := range map[string]bool{"as created": false, "resized": true} {
		y := &tenancy{template: 100, want: 300, hard: 500, mode: cluster.Recreate}
		p := y.pod(noon.AddDate(0, 0, -2), 400)
		p.Sized = true
		y.pods = []*cluster.Pod{p}
		w := y.world(1, nil)
		w.Ledger = ledger.New()
		if resized {
			w.Ledger.Done(noon.Add(-time.Hour), ledger.Attempt{Pod: p, Do: decision.Resize})
		}
		y.hard = 500
		d := Plan(noon, w, y.budget())[0]
		if evicts := d.Do == decision.Evict; evicts == resized {
			t.Errorf("%s: %s (%s)", name, d.Do, d.Reason)
		}
	}
}

// What a refused resize had reserved of a quota is free again: the quota is not the reason to leave its pod.
func TestPass_resizeIsRefused_quotaIsFreeAgain(t *testing.T) {
	y := &tenancy{template: 100, want: 300, hard: 510, mode: cluster.InPlaceOrRecreate}
	for range 2 {
		y.pods = append(y.pods, y.pod(noon.AddDate(0, 0, -2), 100))
	}
	b := y.budget()
	b.Tolerance = 1
	pass := Begin(noon, y.world(2, nil), b)
	ds := actions(pass)
	if len(ds) != 1 {
		t.Fatalf("%d actions, want 1", len(ds))
	}
	if !quotaLeavesCPU(pass, 110) || quotaLeavesCPU(pass, 111) {
		t.Error("the resize does not reserve 200m")
	}
	pass.Refused(ds[0], decision.Refusal{Kind: decision.ServerBusy})
	if !quotaLeavesCPU(pass, 110) || quotaLeavesCPU(pass, 111) {
		t.Error("200m are not reserved after an uncertain outcome")
	}
	pass = Begin(noon, y.world(2, nil), b)
	ds = actions(pass)
	pass.Refused(ds[0], decision.Refusal{Kind: decision.DeniedByQuota})
	if !quotaLeavesCPU(pass, 310) || quotaLeavesCPU(pass, 311) {
		t.Error("something is reserved after the refusal")
	}
}

// quotaLeavesCPU reports whether a pod of the namespace shop could grow by an amount of CPU, in millicores, beside what the pass has reserved.
func quotaLeavesCPU(p *Pass, millicores int64) bool {
	with := []policy.Fitted{{Container: "app", Requests: cluster.Amounts(millicores, 1<<30)}}
	pod := &cluster.Pod{Key: cluster.Key{Namespace: "shop", Name: "other"}, Containers: []cluster.Container{{Name: "app", Requests: cluster.Amounts(0, 1<<30)}}}
	_, over := p.quotas.Resize(&decision.Decision{Pod: pod, Autoscaler: &cluster.Autoscaler{Mode: cluster.InPlaceOrRecreate}, With: with})
	return !over
}
