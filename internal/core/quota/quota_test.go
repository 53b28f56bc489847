// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package quota

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"podfit.dev/podfit/internal/core/attempt"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/decision"
	"podfit.dev/podfit/internal/core/ledger"
	"podfit.dev/podfit/internal/core/policy"
)

const gib = 1 << 30

var (
	noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	web  = cluster.Workload{Group: "apps", Kind: "ReplicaSet", Namespace: "shop", Name: "web"}

	delays = attempt.Delays{RefusalBase: time.Minute, RefusalMax: time.Hour, BackoffBase: time.Minute, BackoffMax: time.Hour}
)

// podOf returns a running pod of the workload web with a CPU request.
func podOf(n int, cpu int64) *cluster.Pod {
	name := fmt.Sprint("web-", n)
	return &cluster.Pod{
		Key: cluster.Key{Namespace: "shop", Name: name}, UID: name, Controller: web, Top: web, Node: "n", Phase: cluster.Running, QoS: cluster.Burstable, Created: noon,
		Containers: []cluster.Container{{Name: "app", Requests: cluster.Amounts(cpu, gib)}},
	}
}

func fits(cpu int64) []policy.Fitted {
	return []policy.Fitted{{Container: "app", Requests: cluster.Amounts(cpu, gib)}}
}

// changeOf returns the decision to change a pod.
func changeOf(p *cluster.Pod, with []policy.Fitted, inPlace bool) *decision.Decision {
	a := &cluster.Autoscaler{Mode: cluster.Recreate}
	if inPlace {
		a.Mode = cluster.InPlaceOrRecreate
	}
	return &decision.Decision{Pod: p, Autoscaler: a, With: with}
}

// bookOf returns a book with one quota that leaves CPU, and pods if that is not negative.
func bookOf(cpu, pods int64) *Book {
	q := cluster.Quota{Name: "compute", Left: cluster.PodResources{Requests: cluster.Resources{}.Set(cluster.CPU, cpu)}, BoundsPods: pods >= 0, PodsLeft: pods}
	return &Book{Limits: map[string]policy.Limits{"shop": {Quotas: &cluster.Quotas{List: []cluster.Quota{q}}}}, Ledger: ledger.New()}
}

func TestBook_replacement_fitsBesideThePodOrAfterIt(t *testing.T) {
	sized, resizing := podOf(0, 1000), podOf(0, 1000)
	sized.Sized = true
	resizing.Resize = &cluster.Resize{State: cluster.ResizeInProgress}
	for name, c := range map[string]struct {
		pod       *cluster.Pod
		to        int64
		inPlace   bool
		cpu, pods int64 // that the quota leaves
		overQuota bool
	}{
		"there is room for both":                        {pod: podOf(0, 1000), to: 2000, cpu: 2000, pods: -1},
		"one of the new size does not fit beside it":    {pod: podOf(0, 1000), to: 2000, cpu: 1999, pods: -1, overQuota: true},
		"refused with any size until the pod is gone":   {pod: podOf(0, 1000), to: 2000, cpu: 1000 - 1, pods: -1, overQuota: true},
		"and the new size fits then":                    {pod: podOf(0, 1000), to: 1500, cpu: 500, pods: -1},
		"but its template may be smaller":               {pod: sized, to: 1500, cpu: 500, pods: -1, overQuota: true},
		"its mode resizes, so it may have been resized": {pod: podOf(0, 1000), to: 1500, inPlace: true, cpu: 500, pods: -1, overQuota: true},
		"it grows in nothing":                           {pod: sized, to: 900, cpu: 100, pods: -1},
		"it grows in nothing, but is being resized":     {pod: resizing, to: 900, inPlace: true, cpu: 100, pods: -1, overQuota: true},
		"a quota of pods counts the pod, too":           {pod: podOf(0, 1000), to: 2000, cpu: 9000, pods: 0},
	} {
		r, over := bookOf(c.cpu, c.pods).Replacement(changeOf(c.pod, fits(c.to), c.inPlace))
		if over != c.overQuota || over && (r.Code != decision.OverQuota || !strings.Contains(r.Text, "compute")) {
			t.Errorf("%s: over quota %v (%s), want %v", name, over, r, c.overQuota)
		}
	}
}

func TestBook_podMakesRoomForOthers_onlyIfTheQuotaRefusesThemNow(t *testing.T) {
	for name, c := range map[string]struct {
		to, others int64
		cpu, pods  int64 // that the quota leaves
		want       bool
	}{
		"for itself and one more":             {to: 1000, others: 1, cpu: 0, pods: -1, want: true},
		"for itself and two more":             {to: 1000, others: 2, cpu: 0, pods: -1, want: true},
		"not for three more":                  {to: 1000, others: 3, cpu: 0, pods: -1},
		"what is left counts, too":            {to: 1000, others: 3, cpu: 999, pods: -1},
		"it grows, and there is less room":    {to: 4000, others: 0, cpu: 0, pods: -1},
		"the quota has room for another pod":  {to: 1000, others: 1, cpu: 1000, pods: -1},
		"the quota allows no more pods":       {to: 1000, others: 1, cpu: 9000, pods: 0},
		"the quota is exceeded by the others": {to: 1000, others: 1, cpu: -2000, pods: -1},
		"for as many as are looked at":        {to: 1, others: mostMissing, cpu: 0, pods: -1, want: true},
		"a tenant wants more pods":            {to: 1, others: mostMissing + 1, cpu: 0, pods: -1},
	} {
		if got := bookOf(c.cpu, c.pods).MakesRoom(changeOf(podOf(0, 3000), fits(c.to), false), int(c.others)); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
	if (&Book{Ledger: ledger.New()}).MakesRoom(changeOf(podOf(0, 3000), fits(1000), false), 1) {
		t.Error("the quotas are unknown, and a pod makes room in them")
	}
}

func TestBook_resize_onlyTheIncreaseCounts(t *testing.T) {
	for left, over := range map[int64]bool{1000: false, 999: true, -5000: true} {
		if r, got := bookOf(left, 0).Resize(changeOf(podOf(0, 1000), fits(2000), false)); got != over {
			t.Errorf("%dm are left: over quota %v (%s), want %v", left, got, r, over)
		}
	}
	if r, over := bookOf(-5000, 0).Resize(changeOf(podOf(0, 1000), fits(900), false)); over {
		t.Errorf("a pod that shrinks is over quota: %s", r)
	}
	level := podOf(0, 1000)
	level.PodLevel = &cluster.PodResources{Requests: cluster.Amounts(3000, 4*gib)}
	with := fits(2000)
	with[0].PodLevel = &cluster.PodResources{Requests: cluster.Amounts(3500, 4*gib)}
	if _, over := bookOf(499, 0).Resize(changeOf(level, with, false)); !over {
		t.Error("the pod-level request grows by more than is left")
	}
}

func TestBook_tooManyOrUnknownQuotas(t *testing.T) {
	c := changeOf(podOf(0, 1000), fits(2000), false)
	many := &Book{Limits: map[string]policy.Limits{"shop": {Quotas: &cluster.Quotas{TooMany: true}}}, Ledger: ledger.New()}
	for what, check := range map[string]func(*decision.Decision) (decision.Reason, bool){"replacement": many.Replacement, "resize": many.Resize} {
		if r, over := check(c); !over || r.Text == "" {
			t.Errorf("too many quotas: the %s is admitted", what)
		}
	}
	unknown := &Book{Ledger: ledger.New()}
	unknown.Reserve(c, decision.Evict)
	unknown.Release(c.Pod)
	_, replacement := unknown.Replacement(c)
	_, resize := unknown.Resize(c)
	if replacement || resize || unknown.IsKnown("shop") || !unknown.AdmitsBeside(c) || !many.IsKnown("shop") {
		t.Error("unknown quotas refuse something")
	}
}

// What one decision takes, another cannot use, until it is given back. The reason of the second one does not blame the quota alone.
func TestBook_reserve_nothingIsUsedTwice(t *testing.T) {
	b, first, second := bookOf(1500, -1), changeOf(podOf(0, 1000), fits(2000), false), changeOf(podOf(1, 1000), fits(2000), false)
	b.Reserve(first, decision.Resize)
	if got := b.reserved["shop"][0].Requests.CPU; got != 1000 {
		t.Errorf("%dm are reserved, want 1000m", got)
	}
	if r, over := b.Resize(second); !over || !strings.Contains(r.Text, "after the other changes of this pass") {
		t.Errorf("over quota %v: %s", over, r.Text)
	}
	b.Release(first.Pod)
	if r, over := b.Resize(second); over {
		t.Errorf("after the release: %s", r)
	}
	b = bookOf(4000, -1)
	b.Reserve(first, decision.Evict)
	if got := b.reserved["shop"][0].Requests.CPU; got != 2000 || !b.AdmitsBeside(second) {
		t.Errorf("%dm are reserved for a replacement that fits beside the pod, want 2000m", got)
	}
	if b.Reserve(first, decision.Surge); b.AdmitsBeside(second) {
		t.Error("a surge has room although all is reserved")
	}
}

func TestStandingOf_controllers(t *testing.T) {
	p := podOf(0, 1)
	if got := StandingOf(p); got.Terminating != cluster.No {
		t.Errorf("a pod of a ReplicaSet: %+v", got)
	}
	p.Controller.Kind = "Job"
	if got := StandingOf(p); got != (cluster.Standing{}) {
		t.Errorf("a pod of a Job: %+v", got)
	}
}

// refusedOne returns siblings of which the first had a resize from 1000m to 2000m refused by a quota, when the pods requested total.
func refusedOne(total int64, pods ...*cluster.Pod) *Siblings {
	s := &Siblings{
		Now: noon.Add(30 * time.Second), Pods: pods, Scales: map[cluster.Workload]cluster.Scale{web: {Known: true, Replicas: int32(len(pods))}},
		Ledger: ledger.New(), Delays: &delays, Book: &Book{Ledger: ledger.New()},
	}
	s.Ledger.Refused(noon, ledger.Attempt{
		Pod: pods[0], Do: decision.Resize, With: fits(2000), Total: cluster.PodResources{Requests: cluster.Amounts(total, int64(len(pods))*gib)},
	}, decision.Refusal{Kind: decision.DeniedByQuota, Text: "exceeded quota: compute"}, 1)
	return s
}

func TestSiblings_replacement_waitsIfAResizeThatGrowsNoMoreWasRefused(t *testing.T) {
	for name, c := range map[string]struct {
		to        int64
		change    func(*Siblings)
		overQuota bool
	}{
		"it grows as much":                     {to: 2000, overQuota: true},
		"it grows more":                        {to: 3000, overQuota: true},
		"it grows less":                        {to: 1500},
		"less, but others shrink first":        {to: 1500, overQuota: true, change: func(s *Siblings) { s.NoteShrinking(s.Pods[1]) }},
		"the workload has freed enough":        {to: 2000, change: func(s *Siblings) { s.Pods[2].Containers[0].Requests = cluster.Amounts(0, gib) }},
		"a pod is missing, so nothing is free": {to: 2000, overQuota: true, change: func(s *Siblings) { s.Pods[2].Phase = cluster.Failed }},
		"the number of pods is not known":      {to: 2000, overQuota: true, change: func(s *Siblings) { s.Scales = nil; s.Pods[2].Containers[0].Requests = cluster.Amounts(0, gib) }},
		"an eviction takes what was freed": {to: 2000, overQuota: true, change: func(s *Siblings) {
			s.Pods[2].Containers[0].Requests = cluster.Amounts(0, gib)
			s.Judged = []decision.Decision{{Pod: s.Pods[2], Do: decision.Evict, With: fits(1000)}, {Pod: s.Pods[1], Do: decision.Evict, With: fits(9000)}, {Pod: s.Pods[0]}}
		}},
		"the refusal is a day old": {to: 2000, change: func(s *Siblings) { s.Now = noon.Add(attempt.HistoryTTL) }},
		"its turn is over":         {to: 2000, change: func(s *Siblings) { s.Now = noon.Add(time.Minute + turnFor) }},
	} {
		s := refusedOne(3000, podOf(0, 1000), podOf(1, 1000), podOf(2, 1000))
		if c.change != nil {
			c.change(s)
		}
		if r, over := s.Replacement(s.Pods[1], fits(c.to)); over != c.overQuota || over && r.Text != "exceeded quota: compute" {
			t.Errorf("%s: over quota %v (%s), want %v", name, over, r, c.overQuota)
		}
	}
}

// A refusal during the pass counts for the evictions that follow. Those with different increases are kept up to a bound.
func TestSiblings_refusedInThisPass_counts(t *testing.T) {
	var pods []*cluster.Pod
	for i := range 2 * maxRefusals {
		pods = append(pods, podOf(i, int64(1000+i)))
	}
	s := refusedOne(1e6, pods...)
	s.Ledger = ledger.New()
	if _, over := s.Replacement(pods[1], fits(2000)); over {
		t.Error("over quota without a refusal")
	}
	for i, p := range pods {
		s.Ledger.Refused(noon, ledger.Attempt{Pod: p, Do: decision.Resize, With: fits(int64(2000 + 7*i))}, decision.Refusal{Kind: decision.DeniedByQuota, Text: "no"}, 1)
		s.Refused(p)
		s.Refused(p)
	}
	if _, over := s.Replacement(pods[1], fits(9000)); !over || len(s.refusals[web]) != maxRefusals {
		t.Errorf("over quota %v after %d refusals, want %d", over, len(s.refusals[web]), maxRefusals)
	}
}

func TestSiblings_lastResize_quotaIsForgottenWhenFreed(t *testing.T) {
	s := refusedOne(2000, podOf(0, 1000), podOf(1, 1000))
	if last, failed := s.LastResize(s.Pods[0], fits(2000)); !failed || last.OverQuota == nil {
		t.Errorf("failed %v: %+v", failed, last)
	}
	s.Pods[1].Containers[0].Requests = cluster.Amounts(0, gib)
	if last, failed := s.LastResize(s.Pods[0], fits(2000)); !failed || last.OverQuota != nil {
		t.Errorf("freed, failed %v: %+v", failed, last)
	}
	if _, failed := s.LastResize(s.Pods[1], fits(2000)); failed {
		t.Error("a pod without an attempt has failed")
	}
}

// In one pass, the answer to a resize that the quota admitted may come between two refusals. Then only the second refusal counts that resize.
func TestSiblings_refusalsOfOnePass_largestTotalCounts(t *testing.T) {
	for total, over := range map[int64]bool{3000: false, 2999: true} {
		s := refusedOne(2000, podOf(0, 1000), podOf(1, 1000))
		s.Ledger.Refused(noon, ledger.Attempt{
			Pod: s.Pods[1], Do: decision.Resize, With: fits(2000), Total: cluster.PodResources{Requests: cluster.Amounts(total, 2*gib)},
		}, decision.Refusal{Kind: decision.DeniedByQuota, Text: "no"}, 1)
		if r, got := s.Replacement(s.Pods[1], fits(2000)); got != over {
			t.Errorf("refused with %dm: over quota %t, %s", total, got, r)
		}
	}
}

func TestSiblings_requestedAtLeast_countsWhatMustExist(t *testing.T) {
	pods := []*cluster.Pod{podOf(0, 1000), podOf(1, 3000), podOf(2, 500)}
	s := refusedOne(0, pods...)
	if got := s.RequestedAtLeast().Requests.CPU; got != 4500 {
		t.Errorf("%dm, want 4500m", got)
	}
	s.Ledger.Done(noon, ledger.Attempt{Pod: pods[0], Do: decision.Resize, With: fits(2000)})
	if got := s.RequestedAtLeast().Requests.CPU; got != 5500 {
		t.Errorf("after a resize in the same pass: %dm, want 5500m", got)
	}
	s.Ledger = ledger.New()
	pods[2].Deleting = true
	s.Scales[web] = cluster.Scale{Known: true, Replicas: 1} // the controller may have deleted the largest one
	if got := s.RequestedAtLeast().Requests.CPU; got != 1000 {
		t.Errorf("after a scale-down: %dm, want 1000m", got)
	}
	s.Scales = nil
	if got := s.RequestedAtLeast(); got != (cluster.PodResources{}) {
		t.Errorf("without the number of replicas: %+v", got)
	}
	pods[0].Resize = &cluster.Resize{State: cluster.ResizeInProgress}
	pods[0].Containers[0].Applied = &cluster.Applied{Requests: cluster.Amounts(1700, gib)}
	if got := mostOf(pods[0]).Requests.CPU; got != 1700 {
		t.Errorf("during a resize, %dm count, want 1700m", got)
	}
}
