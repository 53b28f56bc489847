// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// errLostLease ends a component whose lease went to another replica. It must end: the other one works now.
var errLostLease = errors.New("lost the leader lease")

// lead runs work while this process holds the lease, or at once when election is off.
// It returns nil when ctx ended, errLostLease when the lease was lost.
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
				log.Info("Became the leader", "lease", e.ResourceName)
				leading, cancel := context.WithCancel(leading)
				defer cancel()
				defer context.AfterFunc(ctx, cancel)()
				result <- work(leading)
			},
			OnStoppedLeading: func() { log.Info("Stopped leading", "lease", e.ResourceName) },
			OnNewLeader:      func(id string) { log.Info("The leader is known", "lease", e.ResourceName, "identity", id) },
		},
	})
	if err != nil {
		return fmt.Errorf("elect a leader by lease %s/%s: %w", e.ResourceNamespace, e.ResourceName, err)
	}
	elector.Run(elect)
	if !started.Load() {
		return nil
	}
	lost := elect.Err() == nil // the elector gave up on its own: another replica has the lease
	if err := <-result; err != nil {
		return err
	}
	if lost && ctx.Err() == nil {
		return errLostLease
	}
	return nil
}
