// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"
	"fmt"
	"slices"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	typedcoordinationv1 "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/utils/ptr"
)

// A Lease is the lease of the webhook: the webhook renews it, and the updater evicts pods only while it is fresh.
type Lease struct {
	name   string
	leases typedcoordinationv1.LeaseInterface

	// The last time in the lease that was too far in the future, and when IsFresh read it first. The goroutine that calls IsFresh owns them.
	ahead, aheadSince time.Time
}

// NewLease returns the lease with a name. It sends no request.
func NewLease(c *Clients, namespace, name string) *Lease {
	return &Lease{name: name, leases: c.Leases.CoordinationV1().Leases(namespace)}
}

// Renew renews the lease for holder. All replicas renew the same lease, so a conflict with another renewal is no error.
func (l *Lease) Renew(ctx context.Context, holder string, now time.Time) error {
	lease, err := l.leases.Get(ctx, l.name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		_, err = l.leases.Create(ctx, &coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Name: l.name},
			Spec:       coordinationv1.LeaseSpec{HolderIdentity: &holder},
		}, metav1.CreateOptions{})
	} else if err == nil {
		renewed := metav1.NewMicroTime(now)
		lease.Spec.HolderIdentity = &holder
		lease.Spec.RenewTime = &renewed
		_, err = l.leases.Update(ctx, lease, metav1.UpdateOptions{})
	}
	if err != nil && !apierrors.IsAlreadyExists(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("renew lease %s: %w", l.name, Refused(err))
	}
	return nil
}

// IsFresh reports whether the lease was created or renewed within timeout before now. A missing lease is not fresh. A time in
// the future counts as the time when it was first read. Otherwise, a lease that was renewed by a clock ahead of time would stay fresh for ever.
func (l *Lease) IsFresh(ctx context.Context, timeout time.Duration, now time.Time) (bool, error) {
	lease, err := l.leases.Get(ctx, l.name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("read lease %s: %w", l.name, Refused(err))
	}
	times := []time.Time{lease.CreationTimestamp.Time, ptr.Deref(lease.Spec.RenewTime, metav1.MicroTime{}).Time}
	latest := slices.MaxFunc(times, time.Time.Compare)
	const maxClockSkew = 10 * time.Second // how far a time in the lease may be in the future to be compared with the clock of this process
	isAhead := func(at time.Time) bool { return at.After(now.Add(maxClockSkew)) }
	if isAhead(latest) {
		if !latest.Equal(l.ahead) {
			l.ahead = latest
			l.aheadSince = now
		}
		if l.aheadSince.Add(timeout).After(now) {
			return true, nil
		}
	}
	return slices.ContainsFunc(times, func(at time.Time) bool { return !isAhead(at) && at.Add(timeout).After(now) }), nil
}
