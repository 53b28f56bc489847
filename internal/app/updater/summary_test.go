// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package updater

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"podfit.dev/podfit/internal/app/updater/summary"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/edge/kube/watcher"
)

// conditionLog records the conditions that are written.
type conditionLog struct {
	mu   sync.Mutex
	all  []string
	last map[string]watcher.Condition
}

func (c *conditionLog) WriteConditions(_ context.Context, a *cluster.Autoscaler, _ time.Time, say ...watcher.Condition) (bool, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.last == nil {
		c.last = map[string]watcher.Condition{}
	}
	if c.last[a.UID].Status == watcher.Removed && say[0].Status == watcher.Removed {
		return false, nil // there is none
	}
	c.all = append(c.all, a.Name+" "+say[0].Reason)
	c.last[a.UID] = say[0]
	return true, nil
}

// get returns the last condition of the autoscaler of a fakeCluster, which has no UID.
func (c *conditionLog) get() watcher.Condition {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.last[""]
}

func (c *conditionLog) written() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.all)
}

// Writes that hang must not delay a pass.
func TestSummaryWriter_writesHang_passDoesNotWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fake := newFakeCluster(cluster.Recreate)
		u := newTestUpdater(fake)
		to := hangingConditions{}
		u.conditions.writer, u.conditions.summaries = nil, summary.NewWriter(to, nil, fake.log)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go u.conditions.summaries.Run(ctx)
		began := time.Now()
		for range 3 {
			u.pass(ctx, time.Now())
			time.Sleep(time.Minute)
		}
		if took := time.Since(began); took != 3*time.Minute {
			t.Errorf("three passes took %v", took-3*time.Minute)
		}
		if fake.count("evict ") != 3 {
			t.Errorf("evictions: %v, want 3", fake.done)
		}
	})
}

type hangingConditions struct{}

func (hangingConditions) WriteConditions(ctx context.Context, _ *cluster.Autoscaler, _ time.Time, _ ...watcher.Condition) (bool, error) {
	<-ctx.Done()
	return false, errors.New("no answer")
}

func TestUpdater_podsWait_conditionUpdatingNamesTheReason(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fake := newFakeCluster(cluster.Recreate)
		u := newTestUpdater(fake)
		to := &conditionLog{}
		u.conditions.summaries = summary.NewWriter(to, nil, fake.log)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go u.conditions.summaries.Run(ctx)
		var got []string
		for range 4 {
			u.pass(ctx, time.Now())
			time.Sleep(time.Minute)
			c := to.get()
			got = append(got, string(c.Status)+" "+c.Reason)
		}
		if want := "[True BudgetSpent True BudgetSpent True InProgress False UpToDate]"; fmt.Sprint(got) != want {
			t.Errorf("conditions %v, want %s", got, want)
		}
		if n := to.written(); n != 4 {
			t.Errorf("%d writes, want 4: %v", n, to.all)
		}
	})
}

func TestUpdater_updatingConditionIsOff_isRemovedAndNotWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fake := newFakeCluster(cluster.Recreate)
		fake.config = given(t, "--updating-condition=false")
		u := newTestUpdater(fake)
		to := &conditionLog{last: map[string]watcher.Condition{"": {Status: watcher.True}}} // an earlier updater wrote it
		u.conditions.summaries = summary.NewWriter(to, nil, fake.log)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go u.conditions.summaries.Run(ctx)
		for range 30 {
			u.pass(ctx, time.Now())
			time.Sleep(time.Minute)
		}
		if got := to.get(); to.written() != 1 || got.Status != watcher.Removed {
			t.Errorf("%d writes %v, last %+v; want one, which removes the condition", to.written(), to.all, got)
		}
	})
}

// What the last pass wrote is outdated while passes are skipped.
func TestUpdater_passesAreSkipped_conditionUpdatingSaysSo(t *testing.T) {
	for name, skip := range map[string]func(fake *fakeCluster, u *updater, on bool){
		"the lease is not valid": func(fake *fakeCluster, _ *updater, on bool) { fake.stale = on },
		"a watch is not up to date": func(_ *fakeCluster, u *updater, on bool) {
			u.stale = func(time.Time) []string {
				if on {
					return []string{"pods"}
				}
				return nil
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				fake := newFakeCluster(cluster.Recreate)
				u := newTestUpdater(fake)
				to := &conditionLog{}
				u.conditions.summaries = summary.NewWriter(to, nil, fake.log)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				go u.conditions.summaries.Run(ctx)
				var got []string
				for minute := range 9 {
					skip(fake, u, minute >= 1 && minute < 7)
					u.pass(ctx, time.Now())
					time.Sleep(time.Minute)
					c := to.get()
					got = append(got, string(c.Status)+" "+c.Reason)
				}
				want := "[True BudgetSpent True BudgetSpent True BudgetSpent Unknown Paused Unknown Paused Unknown Paused Unknown Paused True BudgetSpent True InProgress]"
				if fmt.Sprint(got) != want {
					t.Errorf("conditions %v, want %s", got, want)
				}
				if n := to.written(); n != 4 {
					t.Errorf("%d writes, want 4: %v", n, to.all)
				}
			})
		})
	}
}
