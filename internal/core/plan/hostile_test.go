// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/decision"
	"podfit.dev/podfit/internal/core/ledger"
)

// oneWorkload is a workload of replicas that should grow.
func oneWorkload(mode cluster.Mode, replicas int) (World, *cluster.Governed) {
	w := workloadsOf(1)
	g := &w.Governed[0]
	g.Autoscaler.Mode = mode
	first := *g.Pods[0]
	g.Pods = nil
	for i := range replicas {
		p := first
		p.Name, p.UID = fmt.Sprint("w0-", i), fmt.Sprint("uid-", i)
		g.Pods = append(g.Pods, &p)
	}
	w.Scales[first.Controller] = cluster.Scale{Known: true, Replicas: int32(replicas)}
	return w, g
}

func actions(p *Pass) (out []decision.Decision) {
	for _, d := range p.Decisions() {
		if d.Do != decision.Leave {
			out = append(out, d)
		}
	}
	return out
}

// Creation times come from the API server's clock, which may differ from this one.
func TestLedger_clocksDiffer_ineffectiveEvictionsAreFew(t *testing.T) {
	for _, skew := range []time.Duration{0, -time.Minute, -time.Hour, time.Minute, time.Hour} {
		w, g := oneWorkload(cluster.Recreate, 4)
		for i := range g.Pods {
			g.Pods[i].Created = noon.Add(skew - time.Hour - time.Duration(i)*time.Minute)
		}
		evictions := 0
		for minute := range 24 * 60 {
			now := noon.Add(time.Duration(minute) * time.Minute)
			p := Begin(now, w, DefaultBudget())
			p.Learn()
			for _, d := range actions(p) {
				evictions++
				p.Done(d)
				for i := range g.Pods {
					if g.Pods[i] == d.Pod { // the replacement is not sized
						q := *d.Pod
						q.UID, q.Created = fmt.Sprint("again-", evictions), now.Add(skew+time.Second)
						g.Pods[i] = &q
					}
				}
			}
		}
		if evictions > 30 {
			t.Errorf("API server's clock %v ahead: %d evictions without effect in a day", skew, evictions)
		}
	}
}

// Pods are replaced some time after each eviction, so some are always missing, but none for a long time.
func TestPass_replacementsAreLate_reportsNoShortage(t *testing.T) {
	w, g := oneWorkload(cluster.Recreate, 20)
	b := DefaultBudget()
	type absent struct {
		pod *cluster.Pod
		at  time.Time
	}
	var away []absent
	evicted := 0
	for minute := range 20 {
		now := noon.Add(time.Duration(minute) * time.Minute)
		for len(away) > 0 && !now.Before(away[0].at.Add(2*time.Minute)) {
			q := *away[0].pod
			q.UID, q.Created = q.UID+"'", away[0].at.Add(90*time.Second)
			q.Containers = []cluster.Container{{Name: "app", Requests: cluster.Amounts(500, 1<<30), Limits: cluster.Amounts(1000, 2<<30)}}
			g.Pods, away = append(g.Pods, &q), away[1:]
		}
		p := Begin(now, w, b)
		if s := p.Shortages(); len(s) > 0 {
			t.Fatalf("minute %d: %d of %d pods, none missing for more than 2 minutes, but a shortage since %v", minute, s[0].Present, s[0].Wanted, now.Sub(s[0].Since))
		}
		p.Learn()
		if ds := actions(p); len(ds) > 0 { // the rate limit allows one
			d := ds[0]
			p.Done(d)
			evicted++
			for i := range g.Pods {
				if g.Pods[i] == d.Pod {
					g.Pods = append(g.Pods[:i:i], g.Pods[i+1:]...)
					break
				}
			}
			away = append(away, absent{d.Pod, now})
		}
	}
	if evicted < 18 {
		t.Errorf("%d evictions in 20 minutes", evicted)
	}
}

// One eviction tests whether replacements are refused too, even if its outcome is unknown.
func TestPass_trialHasNoAnswer_noSecondTrial(t *testing.T) {
	w, g := oneWorkload(cluster.InPlaceOrRecreate, 10)
	first := g.Pods[0]
	w.Ledger.Restore(noon, []ledger.State{{Workload: first.Workload(), Replacements: []ledger.PendingState{{
		Controller: first.Controller, Autoscaler: g.Autoscaler.Key, Evicted: []ledger.EvictedPod{{At: noon.Add(-time.Hour)}}, // all replaced since
	}}}})
	p := Begin(noon, w, DefaultBudget())
	evictions := 0
	for _, d := range actions(p) {
		for todo := p.Refused(d, decision.Refusal{Kind: decision.Denied, Text: "no"}); len(todo) > 0; todo = todo[1:] {
			if todo[0].Do == decision.Evict {
				evictions++
				p.Refused(todo[0], decision.Refusal{Kind: decision.OutcomeIsUnknown, Text: "lost"})
			}
		}
	}
	if evictions != 1 {
		t.Errorf("%d pods are evicted as a test, want 1", evictions)
	}
}

// An internal error with one autoscaler does not affect the others.
func TestPass_oneAutoscalerPanics_othersAreUpdated(t *testing.T) {
	w := workloadsOf(20)
	bad := &w.Governed[0]
	bad.Pods = append(bad.Pods, nil)
	for i := range w.Governed {
		w.Governed[i].Autoscaler.Mode = cluster.Recreate
	}
	p := Begin(noon, w, DefaultBudget())
	p.Learn()
	if len(actions(p)) == 0 {
		t.Error("no pod is changed")
	}
	for _, d := range p.Decisions() {
		if d.Autoscaler == bad.Autoscaler {
			t.Errorf("%s of the panicking autoscaler: %s", d.Pod.Key, d.Do)
		}
	}
	failures := p.Failures
	if len(failures) != 1 || failures[0].Autoscaler != bad.Autoscaler || failures[0].Cause == nil || !strings.Contains(failures[0].Stack, "decideOn") {
		t.Errorf("failures: %v", failures)
	}
}
