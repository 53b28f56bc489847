// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package backoff

import (
	"fmt"
	"testing"
	"time"

	"podfit.dev/podfit/internal/core/attempt"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/decision"
	"podfit.dev/podfit/internal/core/disruption"
	"podfit.dev/podfit/internal/core/ledger"
	"podfit.dev/podfit/internal/core/need"
	"podfit.dev/podfit/internal/core/policy"
)

var (
	noon   = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	web    = cluster.Workload{Group: "apps", Kind: "ReplicaSet", Namespace: "shop", Name: "web"}
	delays = attempt.Delays{
		RefusalBase: time.Minute, RefusalMax: 90 * time.Minute, EvictionBackoff: 30 * time.Minute, BackoffBase: 10 * time.Minute, BackoffMax: 6 * time.Hour,
	}
)

func bookOf(l *ledger.Ledger) *Book {
	return &Book{Counter: &disruption.Counter{Now: noon, Limits: &disruption.Limits{}, Need: &need.Rules{Threshold: 0.1}, Ledger: l}, Delays: &delays}
}

// podOf returns a pod with a request of 100 millicores.
func podOf(name string) *cluster.Pod {
	return &cluster.Pod{
		Key: cluster.Key{Namespace: "shop", Name: name}, UID: name, Controller: web, Top: web, Node: "n", Phase: cluster.Running, Ready: true,
		Created: noon.Add(-time.Hour), Containers: []cluster.Container{{Name: "app", Requests: cluster.Amounts(100, 1<<30)}},
	}
}

// with returns a recommendation.
func with(cpu int64) []policy.Fitted {
	return []policy.Fitted{{Container: "app", Requests: cluster.Amounts(cpu, 1<<30)}}
}

// refused returns a book in which an action on a pod was refused at noon.
func refused(p *cluster.Pod, do decision.Act, asked []policy.Fitted, r decision.Refusal) *Book {
	b := bookOf(ledger.New())
	b.Ledger.Refused(noon, ledger.Attempt{Pod: p, Do: do, With: asked}, r, 1)
	return b
}

func TestBook_evictionRefused_waitsUntilMorePodsAreReady(t *testing.T) {
	p := podOf("web-0")
	if _, waits := bookOf(ledger.New()).EvictionRefused(p, nil); waits {
		t.Error("waits without a refusal")
	}
	b := refused(p, decision.Evict, nil, decision.Refusal{Kind: decision.DeniedByBudget, Text: "no"})
	for name, c := range map[string]struct {
		group *disruption.Group
		after time.Duration
		waits bool
	}{
		"group is not known": {waits: true},
		"as many are ready":  {group: &disruption.Group{Ready: 2}, waits: true},
		"more are ready":     {group: &disruption.Group{Ready: 3}},
		"back-off has ended": {after: time.Minute},
	} {
		b.Now = noon.Add(c.after)
		if r, waits := b.EvictionRefused(p, c.group); waits != c.waits || waits && (r.Code != decision.DisruptionBudget || r.Text != "no") {
			t.Errorf("%s: waits %t, %s", name, waits, r)
		}
	}
}

func TestBook_resizeRefused_smallerSizesDoNotWait(t *testing.T) {
	p := podOf("web-0")
	for name, c := range map[string]struct {
		kind  decision.RefusalKind
		with  []policy.Fitted
		after time.Duration
		waits bool
	}{
		"same size, by the node":    {decision.DeniedByNode, with(200), 0, true},
		"smaller, by the node":      {decision.DeniedByNode, with(150), 0, false},
		"little less, by the node":  {decision.DeniedByNode, with(195), 0, true},
		"little less, by a quota":   {decision.DeniedByQuota, with(195), 0, true},
		"smaller, by a policy":      {decision.Denied, with(150), 0, true},
		"same size, later, by node": {decision.DeniedByNode, with(200), time.Minute, false},
	} {
		b := refused(p, decision.Resize, with(200), decision.Refusal{Kind: c.kind})
		b.Now = noon.Add(c.after)
		last, _ := b.Ledger.LastFailure(p, decision.Resize)
		if _, waits := b.ResizeRefused(last, c.with); waits != c.waits {
			t.Errorf("%s: waits %t", name, waits)
		}
		if enough := b.AsksEnoughLess(last, c.with); enough != (c.with[0].Requests.CPU == 150) {
			t.Errorf("%s: asks enough less: %t", name, enough)
		}
	}
}

func TestBook_unanswered_reportedAfterTenMinutes(t *testing.T) {
	p := podOf("web-0")
	b := refused(p, decision.Evict, nil, decision.Refusal{Kind: decision.OutcomeIsUnknown, Text: "timeout"})
	for after, want := range map[time.Duration]bool{0: false, 10*time.Minute - 1: false, 10 * time.Minute: true} {
		b.Now = noon.Add(after)
		if r, reported := b.Unanswered(p); reported != want || want && (r.Text != "timeout" || r.For != after) {
			t.Errorf("after %v: reported %t, %+v", after, reported, r)
		}
	}
	b.Now = noon.Add(10 * time.Minute)
	b.Ledger.Refused(noon.Add(9*time.Minute), ledger.Attempt{Pod: p, Do: decision.Resize}, decision.Refusal{Kind: decision.OutcomeIsUnknown}, 1)
	b.Ledger.Refused(noon.Add(10*time.Minute), ledger.Attempt{Pod: p, Do: decision.Evict}, decision.Refusal{Kind: decision.OutcomeIsUnknown}, 1)
	if r, reported := b.Unanswered(p); !reported || r.Until.IsZero() {
		t.Errorf("reported %t, next attempt %v", reported, r.Until)
	}
}

func TestBook_undone_backsOffAfterResizesThatWereUndone(t *testing.T) {
	b, p := bookOf(ledger.New()), podOf("web-0")
	if _, waits := b.Undone(p); waits {
		t.Error("waits without a resize")
	}
	b.Ledger.Done(noon, ledger.Attempt{Pod: p, Do: decision.Resize, With: with(200)})
	if r, waits := b.Undone(p); !waits || r.Code != decision.ResizeRunning {
		t.Errorf("before the watch must show the resize: waits %t, %s", waits, r)
	}
	b.Now = noon.Add(attempt.WatchDelay)
	if r, waits := b.Undone(p); !waits || r.Code != decision.BackingOff || !r.Until.Equal(noon.Add(10*time.Minute)) {
		t.Errorf("waits %t, %s", waits, r)
	}
	b.Need.UpstreamRules = true
	if _, waits := b.Undone(p); waits {
		t.Error("waits with upstream's rules")
	}
}

// ineffective returns a book in which evictions of a workload had no effect for an unknown cause, since noon.
func ineffective(evictions int) *Book {
	l := ledger.New()
	l.Restore(noon, []ledger.State{{Workload: web, Eviction: &ledger.EvictionState{At: noon, Newest: noon.Add(-time.Hour), Ineffective: evictions, Judged: true}}})
	return bookOf(l)
}

// of returns a decision on a pod.
func of(p *cluster.Pod) *decision.Decision { return &decision.Decision{Pod: p} }

func TestGate_ineffective_backsOffAndProbesOnePod(t *testing.T) {
	g, p := &Gate{Book: ineffective(2)}, podOf("web-0")
	if r, waits := g.Ineffective(p); !waits || r.Code != decision.BackingOff || !r.Until.Equal(noon.Add(time.Hour)) {
		t.Errorf("waits %t, %s", waits, r)
	}
	other := podOf("web-1")
	g.Begin(other)
	if _, waits := g.Probing(of(p), false); !waits || !g.HadNoEffect(web) {
		t.Error("a second pod is evicted as a probe")
	}
	if _, waits := g.Probing(of(other), false); waits {
		t.Error("the probe waits for itself")
	}
	g.End(other)
	if _, waits := g.Probing(of(p), false); waits {
		t.Error("waits for a probe that has ended")
	}
}

// The reason counts only evictions that are known to have had no effect, and the delay all.
func TestGate_ineffective_unknownEffectIsNotReportedAsNone(t *testing.T) {
	for unknown, want := range []decision.Reason{
		{Code: decision.BackingOff, Have: 2, Text: "eviction"}, {Code: decision.BackingOff, Have: 1, Text: "eviction"}, {Code: decision.EffectUnknown},
	} {
		l := ledger.New()
		l.Restore(noon, []ledger.State{{Workload: web, Eviction: &ledger.EvictionState{At: noon, Newest: noon.Add(-time.Hour), Ineffective: 2, UnknownEffect: unknown, Judged: true}}})
		want.Until = noon.Add(time.Hour)
		if r, waits := (&Gate{Book: bookOf(l)}).Ineffective(podOf("web-0")); !waits || r != want {
			t.Errorf("unknown until %d: waits %t, %+v; want %+v", unknown, waits, r, want)
		}
	}
}

func TestGate_probing_twoEvictionsWithUnknownEffect(t *testing.T) {
	g, p := &Gate{Book: bookOf(ledger.New()), Open: map[cluster.Workload]int{web: 1}}, podOf("web-0")
	if _, waits := g.Probing(of(p), false); waits || g.HadNoEffect(web) {
		t.Error("waits for a single eviction")
	}
	if _, waits := g.Probing(&decision.Decision{Pod: p, Rescue: true}, false); !waits {
		t.Error("an OOM rescue does not wait for a single eviction")
	}
	g.Begin(podOf("web-1"))
	if r, waits := g.Probing(of(p), false); !waits || r.Code != decision.Probing {
		t.Error("a third eviction without a known effect")
	}
	g.Ledger.Refused(noon, ledger.Attempt{Pod: p, Do: decision.Evict}, decision.Refusal{Kind: decision.OutcomeIsUnknown}, 1)
	if _, waits := g.Probing(of(p), false); waits {
		t.Error("the pod waits for its own eviction")
	}
}

func TestGate_probing_firstPodOfStatefulSet_isNoThirdEvictionWithinTheBackOff(t *testing.T) {
	for name, tt := range map[string]struct {
		open  int
		last  time.Duration // since the last eviction
		waits bool
	}{
		"none open":                   {0, 0, false},
		"one open":                    {1, 10 * time.Minute, false},
		"two open":                    {2, 29 * time.Minute, true},
		"two open since the back-off": {2, 30 * time.Minute, false},
	} {
		l := ledger.New()
		l.Restore(noon.Add(-tt.last), []ledger.State{{Workload: web, Eviction: &ledger.EvictionState{At: noon.Add(-tt.last), Newest: noon.Add(-time.Hour)}}})
		g := &Gate{Book: bookOf(l), Open: map[cluster.Workload]int{web: tt.open}}
		if r, waits := g.Probing(of(podOf("web-0")), true); waits != tt.waits || r.Code != decision.Probing {
			t.Errorf("%s: waits %t, %s; want %t", name, waits, r, tt.waits)
		}
	}
}

func TestBook_dryRun_showsTheCause(t *testing.T) {
	b, p := ineffective(1), podOf("web-0")
	ds := []decision.Decision{{Pod: p, Wanted: decision.Reason{Code: decision.BelowRange}}, {Pod: podOf("web-1"), Wanted: decision.Reason{Code: decision.BelowRange}}}
	if open := b.Undiagnosed(ds); len(open) != 1 || open[0].Pod != p {
		t.Fatalf("%d workloads to diagnose, want 1", len(open))
	}
	b.Ledger.DryRunFailed(noon, web)
	if open := b.Undiagnosed(ds); len(open) != 0 {
		t.Error("a dry run is repeated at once")
	}
	if _, found := b.NotSized(p); found {
		t.Error("a dry run without a result shows a cause")
	}
	want := decision.Reason{Resource: cluster.CPU, From: 100, To: 200}
	for _, round := range []struct {
		code  decision.ReasonCode
		want  int
		until time.Duration
		open  int // the workloads to diagnose then
	}{{decision.NotYetAtAdmission, 0, 10 * time.Second, 1}, {decision.NotSizedAtAdmission, 1, 30 * time.Minute, 0}} {
		b.Ledger.DryRun(b.Now, ledger.Attempt{Pod: p, With: with(200)}, &cluster.Pod{Sized: true, Containers: p.Containers}, "")
		want.Code, want.Want, want.Until = round.code, round.want, b.Now.Add(round.until)
		if r, waits := (&Gate{Book: b}).Ineffective(p); !waits || r != want {
			t.Errorf("waits %t, %+v, want %+v", waits, r, want)
		}
		if open := b.Undiagnosed(ds); len(open) != 0 {
			t.Error("the dry run is repeated at once")
		}
		b.Now = want.Until
		if open := b.Undiagnosed(ds); len(open) != round.open {
			t.Errorf("%d workloads to diagnose after %s, want %d", len(open), round.until, round.open)
		}
	}
	b.Need.UpstreamRules = true
	if open := b.Undiagnosed(ds); open != nil {
		t.Error("upstream's rules need no diagnosis")
	}
}

// The replacements of a workload are evicted again at once one time. Each later round waits, also after a restart. Pods of
// the same round do not wait.
func TestBook_tooOften_laterRoundsWait(t *testing.T) {
	pod, l := podOf("web-0"), ledger.New()
	evict := func(after time.Duration) {
		q := *pod
		q.UID, q.Created = pod.UID+"+", noon.Add(after)
		pod = &q
		l.Done(noon.Add(after), ledger.Attempt{Pod: pod, Do: decision.Evict})
		replacement := *pod
		replacement.Created = pod.Created.Add(time.Second)
		l.Learn(noon.Add(after), ledger.View{}, []decision.Decision{{Pod: &replacement}}) // it had an effect
	}
	waits := func(l *ledger.Ledger, at time.Duration, created time.Duration) bool {
		q := *pod
		q.Created = noon.Add(created)
		b := bookOf(l)
		b.Now = noon.Add(at)
		_, blocked := b.TooOften(&q, false)
		return blocked
	}
	evict(0)
	if waits(l, time.Minute, time.Minute) {
		t.Error("the second round waits")
	}
	evict(time.Minute)
	after := ledger.New()
	after.Restore(noon.Add(time.Minute), l.Export(delays))
	for name, record := range map[string]*ledger.Ledger{"the same updater": l, "a new updater": after} {
		for _, c := range []struct {
			at, created time.Duration
			want        bool
		}{
			{2 * time.Minute, 2 * time.Minute, true}, {2 * time.Minute, time.Minute, false},
			{30 * time.Minute, 2 * time.Minute, true}, {31 * time.Minute, 2 * time.Minute, false},
		} {
			if got := waits(record, c.at, c.created); got != c.want {
				t.Errorf("%s, after %v, a pod created after %v waits: %t, want %t", name, c.at, c.created, got, c.want)
			}
		}
	}
}

func TestBook_tooOften_backsOffAfterTwoRescues(t *testing.T) {
	b := bookOf(ledger.New())
	replacementOf := func(round int) *cluster.Pod {
		p := podOf("web-0")
		p.UID, p.Created = fmt.Sprint("web-0+", round), p.Created.Add(time.Duration(round)*time.Minute)
		return p
	}
	for round := range 2 {
		p := replacementOf(round)
		if _, waits := b.TooOften(p, true); waits {
			t.Errorf("waits after %d rescues", round)
		}
		b.Ledger.Done(noon, ledger.Attempt{Pod: p, Do: decision.Evict, Newest: p.Created, Rescue: true})
	}
	if r, waits := b.TooOften(replacementOf(2), true); !waits || !r.Until.Equal(noon.Add(10*time.Second)) {
		t.Errorf("waits: %t, %+v", waits, r)
	}
}
