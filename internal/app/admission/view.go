// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/policy"
	"podfit.dev/podfit/internal/core/recommend"
	"podfit.dev/podfit/internal/edge/kube/watcher"
	"podfit.dev/podfit/internal/edge/webhook"
	"podfit.dev/podfit/internal/spelling"
)

// ownerTimeout is how long the review of a new pod waits until the watch has delivered the controller of the pod, which may have
// been created just before the pod.
const ownerTimeout = time.Second

// clusterView gives the webhook the watched objects of the cluster.
type clusterView struct {
	world   *watcher.World
	serves  func(namespace string) bool
	metrics *webhook.Metrics
	log     *slog.Logger
	limit   rate.Sometimes // a tenant can cause the messages at any rate
}

func newClusterView(world *watcher.World, serves func(namespace string) bool, metrics *webhook.Metrics, log *slog.Logger) *clusterView {
	return &clusterView{world: world, serves: serves, metrics: metrics, log: log, limit: rate.Sometimes{First: 20, Interval: 10 * time.Second}}
}

// Project returns the fields of a pod that the core needs. If a VPA could apply to the pod, it waits up to ownerTimeout until the
// controller of the pod is known.
func (v *clusterView) Project(ctx context.Context, p *corev1.Pod) *cluster.Pod {
	pod := v.world.Project(p, nil) // not interned: the pod of a review may never be stored
	if pod.Controller.IsZero() || !v.serves(pod.Namespace) || !v.world.HasAutoscalers(pod.Namespace) {
		return pod
	}
	ctx, cancel := context.WithTimeout(ctx, ownerTimeout)
	defer cancel()
	top, err := v.world.TopSoon(ctx, pod.Controller)
	pod.Top = top
	switch {
	case errors.Is(err, watcher.ErrTooManyWaiting):
		v.metrics.Unsized(webhook.UnsizedTooManyWaiting)
		v.limit.Do(func() {
			v.log.Warn("Pod admitted without its recommendation: too many reviews wait for unknown controllers",
				slog.String("namespace", pod.Namespace), slog.String("kind", pod.Controller.Kind), slog.String("controller", pod.Controller.Name))
		})
	case errors.Is(err, watcher.ErrOwnerUnknown):
		v.metrics.Unsized(webhook.UnsizedOwnerUnknown)
	}
	return pod
}

// Governing returns the VPA that governs the pods of a workload, or nil. If its recommendation was reverted, it has the previous size.
func (v *clusterView) Governing(w cluster.Workload) *cluster.Autoscaler {
	if !v.serves(w.Namespace) {
		return nil
	}
	return v.world.Held(v.world.Governing(w), w, time.Now())
}

// Limits returns the LimitRanges and ResourceQuotas of a namespace.
func (v *clusterView) Limits(namespace string) policy.Limits {
	return policy.Limits{Range: v.world.Limits(namespace), Quotas: v.world.Quotas(namespace), QuotasUnknown: !v.world.KnowsQuotas()}
}

// profileNames returns the names of the SizingProfiles of the cluster from memory, and whether they are known.
type profileNames interface {
	ProfileNames() (names []string, known bool)
}

// knownProfiles are the built-in profiles and those of the cluster.
type knownProfiles struct{ cluster profileNames }

// Similar returns the profile of which a recommender name is probably a misspelling. It returns "" if there is no such
// profile, if a profile has that name, and if the profiles of the cluster are not known.
func (p knownProfiles) Similar(recommender string) string {
	if _, builtin := recommend.Builtin(recommender); builtin {
		return ""
	}
	names, known := p.cluster.ProfileNames()
	if !known {
		return ""
	}
	for _, builtin := range recommend.Builtins() {
		names = append(names, builtin.Name)
	}
	return spelling.Typo(recommender, names)
}
