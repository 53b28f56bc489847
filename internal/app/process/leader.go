// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package process

import (
	"context"
	"fmt"
	"log/slog"
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

// Lead runs work while this process holds the lease, or immediately if election is disabled. If the lease is lost, for example
// because the API server was not available, the work ends. The process continues, keeps its watches, and tries to acquire the lease
// again. Lead returns when ctx ends or when work fails.
//
// Before another process can acquire the lease, the work ends and its clients send no more requests (see kube.Fence).
func Lead(ctx context.Context, p *Process, e Election, c kubernetes.Interface, work func(context.Context) error) error {
	if !e.Enabled {
		defer p.leads()()
		return work(ctx)
	}
	host, err := os.Hostname()
	if err != nil {
		return fmt.Errorf("read the host name for the identity in the lease: %w", err)
	}
	lock, err := resourcelock.New(e.ResourceLock, e.ResourceNamespace, e.ResourceName, c.CoreV1(), c.CoordinationV1(),
		resourcelock.ResourceLockConfig{Identity: host + "_" + string(uuid.NewUUID())})
	if err != nil {
		return fmt.Errorf("create the lock for lease %s/%s: %w", e.ResourceNamespace, e.ResourceName, err)
	}
	for ctx.Err() == nil {
		if err := leadOnce(ctx, p, e, lock, work); err != nil {
			return err
		}
		if ctx.Err() == nil {
			p.Log.Warn("Lost the lease; trying to acquire it again", slog.String("lease", e.lease()))
		}
	}
	return nil
}

// leadOnce acquires the lease, runs work while it holds the lease, and returns when the work has ended.
func leadOnce(ctx context.Context, p *Process, e Election, lock resourcelock.Interface, work func(context.Context) error) error {
	// The lease is renewed until the work has ended, so the election has its own context.
	elect, resign := context.WithCancel(context.WithoutCancel(ctx))
	defer resign()
	fence := kube.NewFence()
	defer fence.Close()
	fenced := &fencedLock{Interface: lock, fence: fence, margin: max((e.LeaseDuration-e.RenewDeadline)/2, e.LeaseDuration/10)}
	var started atomic.Bool
	defer context.AfterFunc(ctx, func() {
		if !started.Load() {
			resign()
		}
	})()
	result := make(chan error, 1)
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: fenced, LeaseDuration: e.LeaseDuration, RenewDeadline: e.RenewDeadline, RetryPeriod: e.RetryPeriod,
		// With true, the elector would release the lease before the work ends, and a hanging release would delay the end of the work.
		ReleaseOnCancel: false, Name: e.ResourceName,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(leading context.Context) {
				started.Store(true)
				defer resign()
				p.Log.Info("Became the leader", slog.String("lease", e.lease()))
				defer p.leads()()
				leading, cancel := fence.Guard(leading)
				defer cancel()
				defer context.AfterFunc(ctx, cancel)()
				result <- work(leading)
			},
			OnStoppedLeading: func() {},
			OnNewLeader: func(id string) {
				p.Log.Info("Observed the leader", slog.String("lease", e.lease()), slog.String("identity", id))
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

// A fencedLock extends a fence with each write of the lease.
type fencedLock struct {
	resourcelock.Interface
	fence  *kube.Fence
	margin time.Duration // from the end of the work until another process can acquire the lease; requests in progress finish in it
	held   atomic.Bool   // the lease was written successfully at least once
}

// Get implements resourcelock.Interface. It closes the fence when it reads another holder, because the elector ends the work only after
// the renew deadline.
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

// written extends the fence after a write of the lease. Other processes count the duration of the lease, in whole seconds, from the time
// at which they first read it, which is later than begun.
func (l *fencedLock) written(begun time.Time, r resourcelock.LeaderElectionRecord, err error) error {
	if err == nil {
		l.fence.Extend(begun.Add(time.Duration(r.LeaseDurationSeconds)*time.Second - l.margin))
		l.held.Store(true)
	}
	return err
}

const releaseTimeout = 5 * time.Second

// release releases the lease after the work has ended, so that another process can acquire it immediately and not only when it
// expires.
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
		// A cancelled renewal may have reached the API server after Get.
		if err == nil || !apierrors.IsConflict(err) || ctx.Err() != nil {
			if err != nil {
				p.Log.Info("Release of the lease failed; another replica can acquire it when it expires", slog.String("lease", e.lease()), slog.Any("error", err))
			}
			return
		}
	}
}

// WindUp returns a context for final work after ctx has ended. It ends after the timeout and, if ctx belongs to the work of a leader,
// when the lease is lost.
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
