// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package usage

import (
	"testing"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
)

func TestObserveOOM_anyKill_raisesThePeak(t *testing.T) {
	type oom struct {
		after  time.Duration
		memory int64
		news   bool
	}
	tests := map[string]struct {
		policy cluster.ContainerPolicy
		used   float64 // at noon; 0 for none
		ooms   []oom
		end    time.Duration // of the window
		want   float64
	}{
		"at least 100 MiB more":           {used: 200 * mib, ooms: []oom{{time.Hour, 256 * mib, true}}, end: day, want: 356 * mib},
		"20 % more":                       {used: 200 * mib, ooms: []oom{{time.Hour, 1000 * mib, true}}, end: day, want: 1200 * mib},
		"more than what was used":         {used: 600 * mib, ooms: []oom{{time.Hour, 256 * mib, true}}, end: day, want: 720 * mib},
		"before any sample":               {ooms: []oom{{0, 256 * mib, true}}, end: day, want: 356 * mib},
		"without a request":               {ooms: []oom{{0, 0, true}}, end: day, want: 100 * mib},
		"the second not on the first":     {used: 200 * mib, ooms: []oom{{time.Hour, 256 * mib, true}, {2 * time.Hour, 256 * mib, true}}, end: day, want: 356 * mib},
		"told again":                      {used: 200 * mib, ooms: []oom{{time.Hour, 256 * mib, true}, {time.Hour, 512 * mib, false}}, end: day, want: 356 * mib},
		"a day before the sample":         {used: 200 * mib, ooms: []oom{{-day, 256 * mib, true}}, end: 0, want: 356 * mib},
		"more than a day before":          {used: 200 * mib, ooms: []oom{{-day - time.Second, 256 * mib, false}}, end: day, want: 200 * mib},
		"in the next window":              {used: 200 * mib, ooms: []oom{{day, 256 * mib, true}}, end: 2 * day, want: 356 * mib},
		"twice as much by policy":         {policy: cluster.ContainerPolicy{Container: "app", OOMBumpRatio: 2}, used: 200 * mib, ooms: []oom{{time.Hour, 256 * mib, true}}, end: day, want: 512 * mib},
		"200 MiB more by policy":          {policy: cluster.ContainerPolicy{Container: "app", OOMMinBumpSet: true, OOMMinBump: 200 * mib}, used: 200 * mib, ooms: []oom{{time.Hour, 256 * mib, true}}, end: day, want: 456 * mib},
		"no more than an amount can be":   {ooms: []oom{{0, 1 << 62, true}}, end: day, want: 1e14 + 100*mib},
		"nothing at all":                  {policy: cluster.ContainerPolicy{Container: "app", OOMMinBumpSet: true}, used: 200 * mib, ooms: []oom{{0, -5, true}}, end: day, want: 240 * mib},
		"a bump of nothing on no request": {policy: cluster.ContainerPolicy{Container: "app", OOMMinBumpSet: true}, ooms: []oom{{0, 0, false}}, end: day},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			b := newBook()
			p := podOf(cart, "cart-1", "app")
			b.Track(p)
			b.Configure(cart, []cluster.ContainerPolicy{tt.policy})
			if tt.used > 0 {
				b.Observe(sample(p, "app", noon, 0.1, tt.used))
			}
			for _, o := range tt.ooms {
				if got := b.ObserveOOM(OOM{Pod: p.Key, Container: "app", At: noon.Add(o.after), Memory: o.memory}); got != o.news {
					t.Errorf("OOM kill %v later is news: %v", o.after, got)
				}
			}
			s := b.Series(cart, "app")
			got := s.Memory.Percentile(1)
			if want := s.Memory.Options().End(s.Memory.Options().Bucket(tt.want)); tt.want > 0 && got != want {
				t.Errorf("highest peak is %v, want %v", got, want)
			}
			if tt.want == 0 && got != 0 {
				t.Errorf("highest peak is %v, want none", got)
			}
			at, needed, _ := s.LastOOM()
			if news := tt.ooms[0].news; at.IsZero() == news || (needed > 0) != news {
				t.Errorf("last OOM kill was at %v and needed %d", at, needed)
			}
		})
	}
}

func TestObserve_smallerUsageAfterAnOOMKill_keepsThePeak(t *testing.T) {
	b := newBook()
	p := podOf(cart, "cart-1", "app")
	b.Track(p)
	b.Observe(sample(p, "app", noon, 0.1, 200*mib))
	b.ObserveOOM(OOM{Pod: p.Key, Container: "app", At: noon.Add(time.Hour), Memory: 256 * mib})
	b.Observe(sample(p, "app", noon.Add(2*time.Hour), 0.1, 300*mib))
	wantPeaks(t, b.Series(cart, "app"), noon.Add(day), map[float64]float64{356 * mib: 1})
}

func TestObserveOOM_beforeTheFirstSample_isAddedToHistory(t *testing.T) {
	b := newBook()
	b.Tick(noon)
	p := podOf(cart, "cart-1", "app")
	b.Track(p)
	if b.ObserveOOM(OOM{Pod: p.Key, Container: "app", At: noon.Add(-2 * day), Memory: 256 * mib}) {
		t.Error("an OOM kill of the day before yesterday counts")
	}
	if b.Rejected(OldOOM) != 1 {
		t.Errorf("counted %d times", b.Rejected(OldOOM))
	}
}

// W-07: OOM kills are read from the status of the pod, so none is missed between two passes.
func TestObserveExits_sameExitTwice_countsOnce(t *testing.T) {
	b := newBook()
	p := podOf(cart, "cart-1", "app", "proxy", "fine", "migrate")
	exit := &cluster.Exit{OOM: true, Finished: noon}
	p.Containers[0].Exit = exit
	p.Containers[0].Applied = &cluster.Applied{Requests: cluster.Amounts(100, 512*mib), Limits: cluster.Amounts(200, 1024*mib)}
	p.Containers[1].Exit = exit
	p.Containers[1].Limits = cluster.Amounts(200, 2048*mib)
	p.Containers[2].Exit = &cluster.Exit{Finished: noon}
	p.Containers[3].Exit, p.Containers[3].Role = exit, cluster.Init
	b.Track(p)
	if got := b.ObserveExits(p); got != 3 {
		t.Errorf("%d were news, want 3", got)
	}
	if got := b.ObserveExits(p); got != 0 {
		t.Errorf("%d were news when told again", got)
	}
	for container, want := range map[string]int64{"app": 614 * mib, "proxy": 356 * mib, "migrate": 356 * mib} {
		if _, got, _ := b.Series(cart, container).LastOOM(); got/mib != want/mib {
			t.Errorf("%s needs %d MiB, want %d", container, got/mib, want/mib)
		}
	}
	p.Containers[0].Exit = &cluster.Exit{OOM: true, Finished: noon.Add(time.Minute)}
	if got := b.ObserveExits(p); got != 1 {
		t.Errorf("%d were news after another, want 1", got)
	}
}
