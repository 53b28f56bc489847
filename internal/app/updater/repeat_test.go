// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package updater

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"podfit.dev/podfit/internal/app/process"
	"podfit.dev/podfit/internal/app/updater/updatestate"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/edge/kube"
)

// A replacedBurst is a burst whose evicted pods are replaced. It counts the evictions that were carried out.
type replacedBurst struct {
	*fakeCluster
	answer   func() error                   // of the API server, after the eviction; an error of kube refuses it
	late     time.Duration                  // until the replacement is created
	evicted  map[string]int                 // by pod UID
	affected map[cluster.Workload]int       // evictions of a workload
	first    map[cluster.Workload]time.Time // the first of them
	fault    announcementFault              // of the announcements,
	faultFor time.Duration                  // for this time
}

// evictionCase is what happens to the evictions and their replacements.
type evictionCase struct {
	change func(*replacedBurst)
	want   int // evictions of each workload before the end of the back-off
}

var evictionCases = map[string]evictionCase{
	"replacements are sized": {func(*replacedBurst) {}, 2},
	"webhook is down":        {func(b *replacedBurst) { b.admits = false }, 1},
	"replies are lost":       {func(b *replacedBurst) { b.answer = func() error { return errors.New("connection reset") } }, 2},
	"replies are lost, webhook is down": {func(b *replacedBurst) {
		b.admits, b.answer = false, func() error { return errors.New("connection reset") }
	}, 1},
	"webhook is down, replacement is late": {func(b *replacedBurst) { b.admits, b.late = false, 3*time.Minute }, 1},
	"refused by a budget for two minutes": {func(b *replacedBurst) {
		b.admits = false
		began := time.Now()
		b.answer = func() error {
			if time.Since(began) < 2*time.Minute {
				return kube.ErrBudget
			}
			return nil
		}
	}, 1},
}

func newReplacedBurst(workloads int, change func(*replacedBurst)) *replacedBurst {
	b := &replacedBurst{
		fakeCluster: newBurst(workloads).fakeCluster, evicted: map[string]int{}, affected: map[cluster.Workload]int{}, first: map[cluster.Workload]time.Time{},
		answer: func() error { return nil },
	}
	for _, p := range b.pods {
		p.Created = time.Now().Add(-time.Hour)
	}
	change(b)
	return b
}

func (b *replacedBurst) Scale(cluster.Workload) cluster.Scale {
	return cluster.Scale{Known: true, Replicas: 2}
}

func (b *replacedBurst) Evict(ctx context.Context, p *cluster.Pod) error {
	b.mu.Lock()
	err := b.answer()
	if errors.Is(err, kube.ErrBudget) {
		b.mu.Unlock()
		return err
	}
	b.evicted[p.UID]++
	b.affected[p.Top]++
	if b.first[p.Top].IsZero() {
		b.first[p.Top] = time.Now()
	}
	b.mu.Unlock()
	return errors.Join(err, b.fakeCluster.Evict(ctx, p))
}

// Snapshot does not show replacements that are not created yet. Their creation time is when they are.
func (b *replacedBurst) Snapshot() *cluster.Snapshot {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := &fakeCluster{autoscalers: b.autoscalers}
	for _, p := range b.pods {
		if created := p.Created.Add(b.late); p.Created.After(b.first[p.Top].Add(-1)) && !b.first[p.Top].IsZero() {
			if time.Now().Before(created) {
				continue
			}
			q := *p
			q.Created = created
			p = &q
		}
		s.pods = append(s.pods, p)
	}
	return s.Snapshot()
}

func (b *replacedBurst) leader(t *testing.T, store updatestate.Store, k *killer) *updater {
	t.Helper()
	u := newUpdater(b.config, b, killedPods{b, k}, b, b, NewMetrics(prometheus.NewRegistry()), process.NewHealth(time.Hour), b.log)
	u.states = updatestate.New(store, true, u.metrics.states, u.log)
	if err := u.loadStates(t.Context()); err != nil {
		t.Fatal(err)
	}
	return u
}

// leaders runs one updater after the other. The first is killed after some time, if not at a write before, and the later ones after their
// terms, without a clean end.
func (b *replacedBurst) leaders(t *testing.T, k *killer, first, later, total time.Duration) {
	t.Helper()
	store := newFaultyStates(b.fault, b.faultFor)
	store.k = k
	end := time.Now().Add(total)
	for term := first; time.Now().Before(end); term = later {
		over := time.Now().Add(min(term, time.Until(end)))
		ctx, kill := context.WithCancel(t.Context())
		u := b.leader(t, store, k)
		for !k.isDead() && time.Now().Before(over) {
			u.pass(ctx, time.Now())
			time.Sleep(min(time.Minute, time.Until(over)))
		}
		k.kill()
		kill()
		synctest.Wait()
		k.spare()
	}
}

// check compares the evictions of each workload, before the end of the back-off after the first one.
func (b *replacedBurst) check(t *testing.T, want int) {
	t.Helper()
	for uid, n := range b.evicted {
		if n > 1 {
			t.Errorf("pod %s was evicted %d times", uid, n)
		}
	}
	for _, a := range b.autoscalers {
		if n := b.affected[a.Target]; n != want {
			t.Errorf("%d evictions of pods of %s, want %d", n, a.Name, want)
		}
	}
}

// The total time is within the back-off after an eviction without effect, so that none is repeated. A workload that was announced and not
// acted on gets its eviction in this time, too.
const withinBackoff = 29 * time.Minute

// The updater is killed before, during and after each write and each eviction.
func TestRepeat_updaterIsKilledAtAnyWrite_noEvictionIsRepeatedOrLost(t *testing.T) {
	if testing.Short() {
		t.Skip("takes long")
	}
	for name, c := range evictionCases {
		for _, workloads := range []int{2, 6} { // announced one by one, and together
			t.Run(fmt.Sprintf("%s, %d workloads", name, workloads), func(t *testing.T) {
				everyKill(t, 3, func(t *testing.T, k *killer) {
					b := newReplacedBurst(workloads, c.change)
					b.leaders(t, k, withinBackoff, withinBackoff, withinBackoff)
					b.check(t, c.want)
				})
			})
		}
	}
}

// The updater is killed some time after the evictions, until long after their outcome is stored. The next ones are killed, too.
func TestRepeat_updatersAreKilledLater_noEvictionIsRepeatedOrLost(t *testing.T) {
	if testing.Short() {
		t.Skip("takes long")
	}
	seconds := []int{1, 9, 11, 29, 31, 61, 69, 95, 101, 110, 125, 200, 280, 310, 390}
	for name, c := range evictionCases {
		for _, workloads := range []int{2, 6} {
			for _, later := range []time.Duration{withinBackoff, 400 * time.Second} {
				t.Run(fmt.Sprintf("%s, %d workloads, next term %v", name, workloads, later), func(t *testing.T) {
					for _, s := range seconds {
						t.Run(fmt.Sprintf("after %ds", s), func(t *testing.T) {
							synctest.Test(t, func(t *testing.T) {
								b := newReplacedBurst(workloads, c.change)
								b.leaders(t, new(killer), time.Duration(s)*time.Second, later, withinBackoff)
								b.check(t, c.want)
							})
						})
					}
				})
			}
		}
	}
}
