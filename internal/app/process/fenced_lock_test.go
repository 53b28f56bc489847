// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package process

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"podfit.dev/podfit/internal/edge/kube"
)

// storedLease is a lease with a holder. Writes of it return an error.
type storedLease struct {
	resourcelock.Interface
	holder string
	err    error
}

func (l *storedLease) Identity() string { return "this" }

func (l *storedLease) Get(context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	return &resourcelock.LeaderElectionRecord{HolderIdentity: l.holder}, nil, nil
}

func (l *storedLease) Update(context.Context, resourcelock.LeaderElectionRecord) error { return l.err }

// The work ends when another process holds the lease. Until this process has renewed the lease once, it has no work to end.
func TestFencedLock_readsAndWrites_decideWhetherTheWorkContinues(t *testing.T) {
	for name, tt := range map[string]struct {
		renewals     []error // the results of writes
		holder       string  // as read afterwards
		held, closed bool
	}{
		"never renewed":                  {holder: "this"},
		"never renewed, held by another": {holder: "other"},
		"first renewal fails":            {renewals: []error{errors.New("conflict")}, holder: "other"},
		"renewed":                        {renewals: []error{nil}, holder: "this", held: true},
		"a later renewal fails":          {renewals: []error{nil, errors.New("conflict")}, holder: "this", held: true},
		"renewed, held by another":       {renewals: []error{nil}, holder: "other", held: true, closed: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				lease := &storedLease{holder: tt.holder}
				fence := kube.NewFence()
				defer fence.Close()
				lock := &fencedLock{Interface: lease, fence: fence, margin: time.Second}
				for _, err := range tt.renewals {
					lease.err = err
					if got := lock.Update(t.Context(), resourcelock.LeaderElectionRecord{LeaseDurationSeconds: 3600}); !errors.Is(got, err) {
						t.Errorf("update: got %v, want %v", got, err)
					}
				}
				work, stop := fence.Guard(t.Context())
				defer stop()
				if _, _, err := lock.Get(t.Context()); err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				if held, closed := lock.held.Load(), work.Err() != nil; held != tt.held || closed != tt.closed {
					t.Errorf("the lease was held: %t, the work has ended: %t; want %t, %t", held, closed, tt.held, tt.closed)
				}
			})
		})
	}
}

// The final writes of a leader end when the lease is lost, even if their timeout is longer.
func TestWindUp_leaseIsLost_finalWritesEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fence := kube.NewFence()
		work, stop := fence.Guard(t.Context())
		stop() // the process stops
		final, end := WindUp(work, time.Hour)
		defer end()
		synctest.Wait()
		if err := final.Err(); err != nil {
			t.Errorf("while the lease is held: the context has ended: %v", err)
		}
		fence.Close()
		synctest.Wait()
		if final.Err() == nil {
			t.Error("the lease is lost, but the context has not ended")
		}
	})
}
