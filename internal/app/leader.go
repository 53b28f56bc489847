// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// lead runs work whenever this process holds the lease, or at once when election is off. A lease that is lost, for
// example because the API server was away, ends the work but not the process: it stands for election again, with its
// watches still warm. lead returns when ctx ends or when work fails.
func lead(ctx context.Context, log *slog.Logger, e Election, c kubernetes.Interface, work func(context.Context) error) error {
	if !e.Enabled {
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
		if err := leadOnce(ctx, log, e, lock, work); err != nil {
			return err
		}
		if ctx.Err() == nil {
			log.Warn("Lost the leader lease; standing for election again", "lease", e.ResourceNamespace+"/"+e.ResourceName)
		}
	}
	return nil
}

// leadOnce waits for the lease, works while it is held, and returns when the work has ended.
func leadOnce(ctx context.Context, log *slog.Logger, e Election, lock resourcelock.Interface, work func(context.Context) error) error {
	// The lease is held until the work has wound up, so it hangs on a context of its own.
	elect, release := context.WithCancel(context.WithoutCancel(ctx))
	defer release()
	var started atomic.Bool
	defer context.AfterFunc(ctx, func() {
		if !started.Load() {
			release()
		}
	})()
	result := make(chan error, 1)
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: lock, LeaseDuration: e.LeaseDuration, RenewDeadline: e.RenewDeadline, RetryPeriod: e.RetryPeriod,
		ReleaseOnCancel: true, Name: e.ResourceName,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(leading context.Context) {
				started.Store(true)
				defer release()
				log.Info("Became the leader", "lease", e.ResourceNamespace+"/"+e.ResourceName)
				leading, cancel := context.WithCancel(leading)
				defer cancel()
				defer context.AfterFunc(ctx, cancel)()
				result <- work(leading)
			},
			OnStoppedLeading: func() {},
			OnNewLeader: func(id string) {
				log.Info("The leader is known", "lease", e.ResourceNamespace+"/"+e.ResourceName, "identity", id)
			},
		},
	})
	if err != nil {
		return fmt.Errorf("elect a leader by lease %s/%s: %w", e.ResourceNamespace, e.ResourceName, err)
	}
	elector.Run(elect)
	if !started.Load() {
		return nil
	}
	return <-result
}
