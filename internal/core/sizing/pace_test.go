// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package sizing

import (
	"fmt"
	"testing"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
)

// estimated returns the recommendation of a container with a target of 1000m and 1000 bytes, and other bounds of CPU.
func estimated(lower, upper int64) cluster.Advice {
	target := cluster.Amounts(1000, 1000)
	return cluster.Advice{
		Container: "app", Uncapped: target,
		Estimate: cluster.Estimate{Lower: cluster.Amounts(lower, 500), Target: target, Upper: cluster.Amounts(upper, 2000)},
	}
}

func requesting(millicores int64) *cluster.Pod {
	return &cluster.Pod{Phase: cluster.Running, Containers: []cluster.Container{{Name: "app", Requests: cluster.Amounts(millicores, 1000)}}}
}

func TestPace_boundsMoved_keepsTheStatusOnlyIfNoPodIsConcerned(t *testing.T) {
	now := time.Date(2030, 1, 1, 12, 0, 30, 0, time.UTC)
	ended := requesting(1990)
	ended.Phase = cluster.Succeeded
	changed := func(change func(*cluster.Advice)) []cluster.Advice {
		a := estimated(500, 2000)
		change(&a)
		return []cluster.Advice{a}
	}
	for name, c := range map[string]struct {
		interval, since time.Duration // since: the time from the last pass
		after           []cluster.Advice
		pods            []*cluster.Pod
		want            bool
	}{
		"nothing changed":                    {10 * time.Minute, time.Minute, []cluster.Advice{estimated(500, 2000)}, nil, true},
		"upper bound 4 % lower":              {10 * time.Minute, time.Minute, []cluster.Advice{estimated(500, 1920)}, nil, true},
		"lower bound 4 % higher":             {10 * time.Minute, time.Minute, []cluster.Advice{estimated(520, 2000)}, nil, true},
		"upper bound 6 % lower":              {10 * time.Minute, time.Minute, []cluster.Advice{estimated(500, 1880)}, nil, false},
		"lower bound 6 % lower":              {10 * time.Minute, time.Minute, []cluster.Advice{estimated(470, 2000)}, nil, false},
		"each change is written":             {0, time.Minute, []cluster.Advice{estimated(500, 1999)}, nil, false},
		"the interval ended, 4 % lower":      {10 * time.Minute, 10 * time.Minute, []cluster.Advice{estimated(500, 1920)}, nil, false},
		"the interval ended, 0.9 % lower":    {10 * time.Minute, 10 * time.Minute, []cluster.Advice{estimated(500, 1982)}, nil, true},
		"a request is now above the bound":   {10 * time.Minute, time.Minute, []cluster.Advice{estimated(500, 1980)}, []*cluster.Pod{requesting(700), requesting(1990)}, false},
		"a request is now at the bound":      {10 * time.Minute, time.Minute, []cluster.Advice{estimated(500, 1980)}, []*cluster.Pod{requesting(1980)}, false},
		"a request was at the lower bound":   {10 * time.Minute, time.Minute, []cluster.Advice{estimated(501, 2000)}, []*cluster.Pod{requesting(500)}, false},
		"the pod of the request has ended":   {10 * time.Minute, time.Minute, []cluster.Advice{estimated(500, 1980)}, []*cluster.Pod{ended}, true},
		"requests are on the same side":      {10 * time.Minute, time.Minute, []cluster.Advice{estimated(500, 1980)}, []*cluster.Pod{requesting(400), requesting(2500)}, true},
		"a container is new":                 {10 * time.Minute, time.Minute, []cluster.Advice{estimated(500, 2000), {Container: "proxy"}}, nil, false},
		"another container":                  {10 * time.Minute, time.Minute, changed(func(a *cluster.Advice) { a.Container = "web" }), nil, false},
		"the target changed":                 {10 * time.Minute, time.Minute, changed(func(a *cluster.Advice) { a.Target.CPU++ }), nil, false},
		"the target before maxAllowed":       {10 * time.Minute, time.Minute, changed(func(a *cluster.Advice) { a.Uncapped.CPU++ }), nil, false},
		"a group has a size":                 {10 * time.Minute, time.Minute, changed(func(a *cluster.Advice) { a.Groups = []cluster.GroupSize{{Role: "quiet"}} }), nil, false},
		"a bound is gone":                    {10 * time.Minute, time.Minute, changed(func(a *cluster.Advice) { a.Upper = cluster.Resources{} }), nil, false},
		"the first pass, as after a restart": {10 * time.Minute, 0, []cluster.Advice{estimated(500, 1920)}, nil, true},
	} {
		p := Pace{Interval: c.interval, Now: now}
		if c.since > 0 {
			p.Before = now.Add(-c.since)
		}
		// The end of the interval depends on the name. That of this one is not in the last minute.
		a := &cluster.Autoscaler{Key: cluster.Key{Namespace: "shop", Name: "web"}, Advice: []cluster.Advice{estimated(500, 2000)}}
		for i := 0; c.since == time.Minute && c.interval > 0 && p.isDue(a); i++ {
			a.Name = fmt.Sprint("web-", i)
		}
		if got := p.Keeps(a, c.after, c.pods); got != c.want {
			t.Errorf("%s: keeps is %t", name, got)
		}
	}
	if p := (&Pace{Interval: time.Minute, Now: now}); p.Keeps(&cluster.Autoscaler{}, []cluster.Advice{estimated(500, 2000)}, nil) {
		t.Error("the first recommendation is not written")
	}
}

// Each autoscaler is due once in ten passes of a minute, and about a tenth of all in each pass.
func TestPace_tenPasses_eachAutoscalerIsDueOnceAndTheyAreSpread(t *testing.T) {
	now := time.Date(2030, 1, 1, 12, 0, 30, 0, time.UTC)
	due, inPass := map[string]int{}, [10]int{}
	p := Pace{Interval: 10 * time.Minute, Now: now}
	for pass := range inPass {
		p.Before, p.Now = p.Now, p.Now.Add(time.Minute)
		for i := range 1000 {
			if a := (&cluster.Autoscaler{Key: cluster.Key{Namespace: "shop", Name: fmt.Sprint(i)}}); p.isDue(a) {
				due[a.Name]++
				inPass[pass]++
			}
		}
	}
	for name, n := range due {
		if n != 1 {
			t.Errorf("%s is due %d times", name, n)
		}
	}
	for pass, n := range inPass {
		if n < 60 || n > 140 {
			t.Errorf("pass %d: %d of 1000 are due", pass, n)
		}
	}
	if len(due) != 1000 {
		t.Errorf("%d of 1000 are due within the interval", len(due))
	}
}
