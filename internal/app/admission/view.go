// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"sync"
	"time"

	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/fleet"
	"podfit.dev/podfit/internal/core/policy"
	"podfit.dev/podfit/internal/core/recommend"
	"podfit.dev/podfit/internal/edge/kube"
	"podfit.dev/podfit/internal/edge/kube/projection"
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
	builtin := cluster.Each(recommend.Builtins(), func(p *recommend.Profile) string { return p.Name })
	return spelling.Typo(recommender, append(names, builtin...))
}

// nodeTableAge is the maximum age of the table of node sizes. A review uses the watched nodes of that time ago at most, so that it does
// not copy all nodes.
const nodeTableAge = 5 * time.Second

// A nodeTable gives the webhook the sizes of the watched nodes.
type nodeTable struct {
	options watcher.FleetOptions
	watch   watcher.Nodes

	mu    sync.Mutex
	fleet *fleet.Fleet
	built time.Time
}

// Sizes returns the sizes of the nodes that may take a new pod, or nil if its size does not depend on nodes.
func (t *nodeTable) Sizes(p *corev1.Pod) *fleet.Sizes {
	if !t.options.Scale {
		return nil
	}
	fleet := t.current()
	for _, o := range p.OwnerReferences {
		if o.Controller != nil && *o.Controller && o.Kind == "DaemonSet" {
			return fleet.OnNode(p.Spec.NodeName, cluster.Key{Namespace: p.Namespace, Name: o.Name})
		}
	}
	selector, _ := projection.NodeSelector(&p.Spec, nil) // as for running pods, all nodes count if it is not evaluated
	tolerations, known := projection.TolerationsOf(&p.Spec)
	return fleet.For(selector, tolerations, !known)
}

// current returns the fleet, at most nodeTableAge old.
func (t *nodeTable) current() *fleet.Fleet {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.fleet == nil || time.Since(t.built) > nodeTableAge {
		t.fleet, t.built = watcher.Fleet(t.watch, t.options), time.Now()
	}
	return t.fleet
}

const (
	minRenewTimeout    = 5 * time.Second // of one check and renewal
	statusRetryPeriod  = time.Second     // after a failed check or renewal
	defaultLeaseHolder = "podfit"        // if the host has no name
)

// A renewal renews the lease that shows updaters that the webhook works.
type renewal func(ctx context.Context, holder string, now time.Time) error

// publishStatus renews the status lease at each interval in which check returns nil, until ctx ends.
func publishStatus(ctx context.Context, log *slog.Logger, renew renewal, interval time.Duration, check func(context.Context) error) {
	holder, err := os.Hostname()
	if err != nil {
		holder = defaultLeaseHolder
	}
	problem := "" // the last error, so that it is logged once
	for wait := time.Duration(0); kube.Sleep(ctx, wait); {
		wait = interval
		err := renewStatus(ctx, renew, holder, max(interval, minRenewTimeout), check)
		if err == nil {
			if problem != "" {
				log.Info("The webhook works again; its status lease is renewed")
			}
			problem = ""
			continue
		}
		if ctx.Err() != nil {
			continue
		}
		wait = min(interval, statusRetryPeriod)
		if err.Error() != problem {
			log.Warn("Status lease not renewed; the updater does not change pods", slog.Any("error", err))
			problem = err.Error()
		}
	}
}

func renewStatus(ctx context.Context, renew renewal, holder string, timeout time.Duration, check func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	if err := check(ctx); err != nil {
		return err
	}
	return renew(ctx, holder, time.Now())
}
