// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package process

import (
	"context"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"podfit.dev/podfit/internal/edge/kube"
)

// Lead runs work whenever this process holds the lease, or at once when election is off. A lease that is lost, for
// example because the API server was away, ends the work but not the process: it stands for election again, with its
// watches still warm. Lead returns when ctx ends or when work fails.
//
// The work ends, and none of its requests is sent, before another process can hold the lease (see kube.Fence).
func Lead(ctx context.Context, p *Process, e Election, c kubernetes.Interface, work func(context.Context) error) error {
	if !e.Enabled {
		defer p.leads()()
		return work(ctx)
	}
	host, err := os.Hostname()
	if err != nil {
		return fmt.Errorf("read the host name for the leader lease: %w", err)
	}
	lock, err := resourcelock.New(e.ResourceLock, e.ResourceNamespace, e.ResourceName, c.CoreV1(), c.CoordinationV1(),
		resourcelock.ResourceLockConfig{Identity: host + "_" + string(uuid.NewUUID())})
	if err != nil {
		return fmt.Errorf("make the leader lease %s/%s: %w", e.ResourceNamespace, e.ResourceName, err)
	}
	for ctx.Err() == nil {
		if err := leadOnce(ctx, p, e, lock, work); err != nil {
			return err
		}
		if ctx.Err() == nil {
			p.Log.Warn("Lost the leader lease; standing for election again", "lease", e.lease())
		}
	}
	return nil
}

// leadOnce waits for the lease, works while it is held, and returns when the work has ended.
func leadOnce(ctx context.Context, p *Process, e Election, lock resourcelock.Interface, work func(context.Context) error) error {
	// The lease is renewed until the work has wound up, so the election hangs on a context of its own.
	elect, resign := context.WithCancel(context.WithoutCancel(ctx))
	defer resign()
	fence := kube.NewFence()
	defer fence.Close()
	fenced := &fencedLock{Interface: lock, fence: fence, margin: e.margin()}
	var started atomic.Bool
	defer context.AfterFunc(ctx, func() {
		if !started.Load() {
			resign()
		}
	})()
	result := make(chan error, 1)
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: fenced, LeaseDuration: e.LeaseDuration, RenewDeadline: e.RenewDeadline, RetryPeriod: e.RetryPeriod,
		// The elector would release the lease first and end the work afterwards, even if the release hangs.
		ReleaseOnCancel: false, Name: e.ResourceName,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(leading context.Context) {
				started.Store(true)
				defer resign()
				p.Log.Info("Became the leader", "lease", e.lease())
				defer p.leads()()
				leading, cancel := fence.Guard(leading)
				defer cancel()
				defer context.AfterFunc(ctx, cancel)()
				result <- work(leading)
			},
			OnStoppedLeading: func() {},
			OnNewLeader: func(id string) {
				p.Log.Info("The leader is known", "lease", e.lease(), "identity", id)
			},
		},
	})
	if err != nil {
		return fmt.Errorf("elect a leader by lease %s: %w", e.lease(), err)
	}
	elector.Run(elect)
	if !fenced.held.Load() {
		return nil
	}
	err = <-result
	release(ctx, p, e, lock)
	return err
}

// lease returns the name of the lease, for logs.
func (e *Election) lease() string { return e.ResourceNamespace + "/" + e.ResourceName }

// margin is how long before another process can hold the lease the work ends: time for the requests that are under way.
func (e *Election) margin() time.Duration {
	return max((e.LeaseDuration-e.RenewDeadline)/2, e.LeaseDuration/10)
}

// A fencedLock extends a fence with each write of the lease.
type fencedLock struct {
	resourcelock.Interface
	fence  *kube.Fence
	margin time.Duration
	held   atomic.Bool // the lease was written at least once
}

// Get implements resourcelock.Interface. The elector goes on for a while after it has seen another holder, as after any
// failed renewal; the work must not.
func (l *fencedLock) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	r, raw, err := l.Interface.Get(ctx)
	if err == nil && l.held.Load() && r.HolderIdentity != l.Identity() {
		l.fence.Close()
	}
	return r, raw, err
}

// Create implements resourcelock.Interface.
func (l *fencedLock) Create(ctx context.Context, r resourcelock.LeaderElectionRecord) error {
	begun := time.Now()
	return l.written(begun, r, l.Interface.Create(ctx, r))
}

// Update implements resourcelock.Interface.
func (l *fencedLock) Update(ctx context.Context, r resourcelock.LeaderElectionRecord) error {
	begun := time.Now()
	return l.written(begun, r, l.Interface.Update(ctx, r))
}

// written extends the fence after the lease was written. Others count the duration from when they first see what was
// written, which is later than begun, and in whole seconds.
func (l *fencedLock) written(begun time.Time, r resourcelock.LeaderElectionRecord, err error) error {
	if err == nil {
		l.fence.Extend(begun.Add(time.Duration(r.LeaseDurationSeconds)*time.Second - l.margin))
		l.held.Store(true)
	}
	return err
}

// releaseTimeout bounds the attempt to release the lease.
const releaseTimeout = 5 * time.Second

// release lets another process lead at once. It is called when the work has ended; without it the others wait until the
// lease has expired.
func release(ctx context.Context, p *Process, e Election, lock resourcelock.Interface) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseTimeout)
	defer cancel()
	for {
		held, _, err := lock.Get(ctx)
		if err == nil && held.HolderIdentity != lock.Identity() {
			return
		}
		if err == nil {
			now := metav1.Now()
			err = lock.Update(ctx, resourcelock.LeaderElectionRecord{
				LeaseDurationSeconds: 1, LeaderTransitions: held.LeaderTransitions, AcquireTime: now, RenewTime: now,
			})
		}
		// A renewal that was cut short may have arrived after the lease was read.
		if err == nil || !apierrors.IsConflict(err) || ctx.Err() != nil {
			if err != nil {
				p.Log.Info("Cannot release the leader lease; it expires by itself", "lease", e.lease(), "error", err)
			}
			return
		}
	}
}

// WindUp returns a context for what is left to do after the work of ctx was told to end. It ends after the timeout and, if
// the work is a leader's, when the lease is lost.
func WindUp(ctx context.Context, timeout time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), timeout)
	fence := kube.FenceOf(ctx)
	if fence == nil {
		return ctx, cancel
	}
	ctx, stop := fence.Guard(ctx)
	return ctx, func() {
		stop()
		cancel()
	}
}
