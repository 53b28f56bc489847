// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package usage

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/startup"
)

var learning = cluster.BoostLearning{On: true, MaxPercent: 400, MaxDuration: 10 * time.Minute}

// starting starts a pod of cart at a time and returns the time after its start: 0.9 cores for four minutes, then 0.2.
func starting(b *Store, n int, at time.Time) time.Time {
	p := podOf(cart, fmt.Sprint("cart-", n), "app")
	p.UID = fmt.Sprint("start-", n)
	p.Started = at
	p.Phase = cluster.Running
	for minute := range 20 {
		b.Tick(at)
		p.Ready, p.ReadySince = minute > 0, p.Started.Add(30*time.Second)
		b.Track(p)
		cores := 0.9
		if minute > 4 {
			cores = 0.2
		}
		b.Observe(sample(p, "app", at, cores, 200*mib))
		at = at.Add(time.Minute)
	}
	b.Forget(p.Key)
	return at
}

// someStarts returns the starts of three pods.
func someStarts() *startup.Starts {
	b := newBook()
	b.Tick(noon)
	b.LearnStarts(cart, true)
	at := noon
	for n := range 3 {
		at = starting(b, n, at).Add(time.Hour)
	}
	return b.Series(cart, "app").Starts()
}

func TestLearnStarts_newPods_startsAreLearnt(t *testing.T) {
	got := someStarts().Learn(300, learning, noon.Add(5*time.Hour))
	if want := (cluster.LearntBoost{Percent: 300, Starts: 3, Duration: 5 * time.Minute}); got != want {
		t.Errorf("learnt %+v, want %+v", got, want)
	}
}

func TestLearnStarts_notEnabled_keepsNothing(t *testing.T) {
	b := newBook()
	b.Tick(noon)
	at := starting(b, 0, noon)
	if s := b.Series(cart, "app").Starts(); s != nil {
		t.Errorf("starts %+v", s)
	}
	c, _ := b.Checkpoint(cart, "app", at)
	if c.Extra[0] != extraVersion {
		t.Errorf("the version of the stored data is %d", c.Extra[0])
	}
	b.LearnStarts(cart, true)
	starting(b, 1, at)
	b.LearnStarts(cart, true) // keeps them
	if n := b.Series(cart, "app").Starts().Len(); n != 1 {
		t.Errorf("%d starts", n)
	}
	b.LearnStarts(cart, false)
	if n := b.Series(cart, "app").Starts().Len(); n != 0 {
		t.Errorf("%d starts after learning was switched off", n)
	}
}

func TestLearnStarts_recommenderStartsLater_ignoresRunningPods(t *testing.T) {
	b := newBook()
	b.Tick(noon)
	b.LearnStarts(cart, true)
	p := podOf(cart, "cart-1", "app")
	p.Started, p.Phase, p.Ready, p.ReadySince = noon.Add(-20*time.Minute), cluster.Running, true, noon.Add(-19*time.Minute)
	for minute := range 30 {
		at := noon.Add(time.Duration(minute) * time.Minute)
		b.Tick(at)
		b.Track(p)
		b.Observe(sample(p, "app", at, 0.9, 200*mib))
	}
	if n := b.Series(cart, "app").Starts().Len(); n != 0 {
		t.Errorf("learnt from %d starts", n)
	}
}

func TestLearnStarts_clockIsSetBack_givesUpTheStart(t *testing.T) {
	b := newBook()
	b.Tick(noon)
	b.LearnStarts(cart, true)
	p := podOf(cart, "cart-1", "app")
	p.Started, p.Phase, p.Ready, p.ReadySince = noon, cluster.Running, true, noon
	for minute := range 30 {
		at := noon.Add(time.Duration(minute) * time.Minute)
		if minute > 5 {
			at = at.Add(-time.Hour)
		}
		b.Tick(at)
		b.Track(p)
		b.Observe(sample(p, "app", at, 0.9, 200*mib))
	}
	if n := b.Series(cart, "app").Starts().Len(); n != 0 {
		t.Errorf("learnt from %d starts", n)
	}
}

func TestRestore_starts_areKept(t *testing.T) {
	b := newBook()
	b.Tick(noon)
	b.LearnStarts(cart, true)
	at := noon
	for n := range 3 {
		at = starting(b, n, at).Add(time.Hour)
	}
	want := b.Series(cart, "app").Starts().Learn(300, learning, at)
	stored, _ := b.Checkpoint(cart, "app", at)
	later := stored
	later.Updated = at.Add(time.Hour) // upstream has written the status since
	for name, c := range map[string]Checkpoint{"as written": stored, "status of upstream": later, "with model state": stored.Carry()} {
		t.Run(name, func(t *testing.T) {
			again := newBook()
			again.Tick(at.Add(2 * time.Hour))
			again.LearnStarts(cart, true)
			if err := again.Restore(cart, "app", c); err != nil {
				t.Fatal(err)
			}
			s := again.Series(cart, "app")
			if got := s.Starts().Learn(300, learning, at); got != want {
				t.Errorf("learnt %+v, before the restart %+v", got, want)
			}
			starting(again, 9, at.Add(3*time.Hour))
			if s.Starts().Len() != 4 {
				t.Errorf("%d starts after one more", s.Starts().Len())
			}
			without := newBook()
			without.Tick(at.Add(2 * time.Hour))
			if err := without.Restore(cart, "app", c); err != nil || without.Series(cart, "app").Starts() != nil {
				t.Errorf("starts are kept although learning is off: %v", err)
			}
		})
	}
}

func TestRestore_startsAreDamaged_restoresTheRest(t *testing.T) {
	b := newBook()
	b.Tick(noon)
	b.LearnStarts(cart, true)
	at := starting(b, 0, noon)
	c, _ := b.Checkpoint(cart, "app", at)
	c.Extra = c.Extra[:len(c.Extra)-3]
	again := newBook()
	again.Tick(at)
	again.LearnStarts(cart, true)
	if err := again.Restore(cart, "app", c); !errors.Is(err, ErrExtra) {
		t.Errorf("error %v", err)
	}
	if s := again.Series(cart, "app"); s.Starts() != nil || s.Seen(cluster.CPU).Count != 20 {
		t.Errorf("starts %v, CPU samples %d", s.Starts(), s.Seen(cluster.CPU).Count)
	}
}
