// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"

	"podfit.dev/podfit/internal/app/process"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/policy"
	"podfit.dev/podfit/internal/edge/kube"
	"podfit.dev/podfit/internal/edge/kube/projection"
	"podfit.dev/podfit/internal/edge/kube/watcher"
	"podfit.dev/podfit/internal/edge/webhook"
)

// NewCommand returns "podfit admission-controller".
func NewCommand(s process.Streams) *cobra.Command {
	c := Defaults()
	return process.LongRunning{
		Use: "admission-controller", Short: "Apply recommendations to new pods, and validate VPA objects",
		Long: `Serves a webhook that the API server calls for each new pod and each VerticalPodAutoscaler object. It sets the
requests of new pods to the recommendation, and changes their limits in proportion. It registers its webhook
configuration. If no certificate files exist, it creates and renews its own certificates. It never rejects a pod.`,
		Config: &c, Common: func() *process.Common { return &c.Common }, Address: func() string { return c.Address },
		Prepare: func(p *process.Process) (func(context.Context) error, error) {
			clients, err := c.Common.Connect(p.Log, "admission-controller")
			if err != nil {
				return nil, err
			}
			world := watcher.NewWorld(clients, c.Common.Watched(watcher.Options{Limits: true, Quotas: true, Log: p.Log}))
			p.Registry.MustRegister(process.NewWatchMetrics(world))
			admit, err := Work(&c, p, clients, world)
			if err != nil {
				return nil, err
			}
			return func(ctx context.Context) error { return process.WithWorld(ctx, world, admit) }, nil
		},
	}.Command(s)
}

// Work returns the work of the admission controller. It serves at once: while the world is not known yet, pods pass
// unchanged, and the status lease, by which the updater knows that evicted pods will be sized, is not renewed.
func Work(c *Config, p *process.Process, clients *kube.Clients, world *watcher.World) (func(context.Context) error, error) {
	labels, err := c.labels()
	if err != nil {
		return nil, err
	}
	namespace := process.OwnNamespace(c.ServiceNamespace)
	reg := webhook.Registration{
		Service: cluster.Key{Namespace: namespace, Name: c.Service}, Labels: labels, Fail: c.FailurePolicyFail,
		Timeout: int32(c.TimeoutSeconds), Namespace: c.Namespace, Ignored: c.IgnoredNamespaces,
	}
	if c.ByURL {
		port := c.WebhookPort
		if port == "" {
			port = strconv.Itoa(c.Port)
		}
		reg.URL = webhook.URL(c.WebhookAddress, port)
	}
	profiles, err := kube.NewProfiles(clients)
	if err != nil {
		return nil, err
	}
	typed := &typos{source: profiles}
	options := webhook.Options{
		Gates: webhook.Gates{
			InPlace: c.Gates.On(process.InPlaceGate), CPUStartupBoost: c.Gates.On(process.CPUStartupBoost), PerVPAConfig: c.Gates.On(process.PerVPAConfig),
		},
		MaxCPUBoost: c.MaxCPUBoost.MilliValue(), DryRun: c.ReadOnly,
	}
	if !c.NoProfiles {
		options.Meant = typed.meant
	}
	metrics := webhook.NewMetrics(p.Registry)
	view := newClusterView(world, c.Serves, metrics, p.Log)
	handler := webhook.NewHandler(view, options, metrics, p.Log)
	files := webhook.Files{CA: c.ClientCAFile, Cert: c.CertFile, Key: c.KeyFile, Reload: c.ReloadCert}
	alone, err := c.alone(files)
	if err != nil {
		return nil, err
	}
	server, err := webhook.NewServer(webhook.Config{
		Files: files, Private: alone,
		Secret: cluster.Key{Namespace: namespace, Name: webhook.SecretName}, Ciphers: c.Ciphers, MinTLSVersion: c.MinTLSVersion,
		Register: c.Register, Registration: reg, TakeBack: c.takesBack(), Linger: c.linger(alone),
	}, clients.Core, handler, p.Log)
	if err != nil {
		return nil, err
	}
	c.explain(p.Log, alone)
	ready := func() error {
		if !world.Synced() || !world.Discovered() {
			return errNotSynced
		}
		return server.Ready()
	}
	p.Readiness = append(p.Readiness, ready)
	metrics.ReadyWhen(ready)
	lease := kube.NewLease(clients, process.OwnNamespace(c.StatusNamespace), c.StatusName)
	return func(ctx context.Context) error {
		serving := context.WithoutCancel(ctx) // reviews are answered for a while after the process was told to end
		view.ctx, typed.ctx = serving, serving
		var lc net.ListenConfig
		l, err := lc.Listen(ctx, "tcp", net.JoinHostPort("", strconv.Itoa(c.Port)))
		if err != nil && alone {
			p.Log.Info("The webhook is not served: its port cannot be had, and nobody would call it", slog.Any("error", err))
			<-ctx.Done()
			return nil
		}
		if err != nil {
			return fmt.Errorf("listen on --port %d for admission: %w", c.Port, err)
		}
		tick := time.NewTicker(c.StatusInterval)
		defer tick.Stop()
		g, ctx := errgroup.WithContext(ctx)
		g.Go(func() error { return server.Run(ctx, l, tick.C) })
		if alone {
			return g.Wait()
		}
		g.Go(func() error {
			publishStatus(ctx, p.Log, lease, c.StatusInterval, func(ctx context.Context) error {
				if err := ready(); err != nil {
					return err
				}
				return server.Check(ctx)
			})
			return nil
		})
		return g.Wait()
	}, nil
}

// alone reports whether the webhook must leave no trace in the cluster, neither certificates nor a sign of life: in a dry run,
// and where nobody can call it. That is so when podfit does not register it, nobody has made certificates for it that a
// registration of theirs could trust, and this process is not in the cluster, behind the service that others may have registered.
func (c *Config) alone(files webhook.Files) (bool, error) {
	if c.ReadOnly {
		return true, nil
	}
	if c.Register || !c.Outside() {
		return false, nil
	}
	found, err := files.Exist()
	return !found, err
}

// takesBack reports whether the registration goes with the process. In a pod there are other replicas, or there will be; and
// who refuses pods that cannot be sized wants none of them to pass meanwhile.
func (c *Config) takesBack() bool {
	return c.Register && c.ByURL && !c.FailurePolicyFail && !kube.InCluster()
}

// linger is how long the webhook answers after it was told to end: where it is one of several behind an address, that one
// takes a moment to hear of it.
func (c *Config) linger(alone bool) time.Duration {
	switch {
	case alone:
		return 0
	case c.takesBack():
		return 250 * time.Millisecond // the API server hears at once
	}
	if c.Outside() {
		return 3 * time.Second
	}
	return 10 * time.Second // until every node knows that the pod is no longer behind the service
}

// explain says what the reader of the log might not expect.
func (c *Config) explain(log *slog.Logger, alone bool) {
	switch {
	case alone && !c.ReadOnly:
		log.Info("Nobody calls this webhook: it is not registered, there are no certificate files, and this process is outside of the cluster. "+
			"So it keeps no certificates in the cluster, and does not renew the status lease", slog.String("file", c.CertFile))
	case c.Register && !c.ByURL && !kube.InCluster():
		log.Warn("The webhook is registered by service, but this process runs on a machine of its own. If no pods of podfit are behind the service, "+
			"new pods do not get their size", slog.String("service", c.Service),
			slog.String("remedy", "give --register-by-url and --webhook-address, or --register-webhook=false, or --dry-run to look only"))
	}
}

// statusLease is where the admission controller says that it works.
type statusLease interface {
	Renew(ctx context.Context, holder string, now time.Time) error
}

// publishStatus renews the status lease for as long as the webhook really works.
func publishStatus(ctx context.Context, log *slog.Logger, lease statusLease, interval time.Duration, works func(context.Context) error) {
	holder, err := os.Hostname()
	if err != nil {
		holder = "podfit"
	}
	problem := ""
	for wait := time.Duration(0); ; {
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
		err := renew(ctx, lease, holder, max(interval, 5*time.Second), works)
		wait = interval
		switch {
		case err == nil && problem != "":
			log.Info("The webhook works; its status lease is renewed")
			problem = ""
		case err != nil && ctx.Err() == nil:
			wait = min(interval, time.Second) // it should be known soon that it works again
			if err.Error() != problem {
				log.Warn("The status lease is not renewed, so the updater changes no pods", slog.Any("reason", err))
				problem = err.Error()
			}
		}
	}
}

func renew(ctx context.Context, lease statusLease, holder string, timeout time.Duration, works func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	if err := works(ctx); err != nil {
		return err
	}
	return lease.Renew(ctx, holder, time.Now())
}

// ownerWait is how long a new pod's admission waits for our watch to see its controller, which may have been created a
// moment before the pod.
const ownerWait = time.Second

// clusterView is the cluster as the webhook sees it.
type clusterView struct {
	world  *watcher.World
	serves func(namespace string) bool
	ctx    context.Context // does not end while reviews are answered

	metrics *webhook.Metrics
	log     *slog.Logger
	seldom  rate.Sometimes // a tenant can cause these log messages as often as they like
}

func newClusterView(world *watcher.World, serves func(namespace string) bool, metrics *webhook.Metrics, log *slog.Logger) *clusterView {
	return &clusterView{world: world, serves: serves, metrics: metrics, log: log, seldom: rate.Sometimes{First: 20, Interval: 10 * time.Second}}
}

// Project keeps of a pod what the core needs. It waits for the pod's controller to become known where an autoscaler
// could be concerned.
func (v *clusterView) Project(p *corev1.Pod) *cluster.Pod {
	q := projection.Pod(p, nil) // not interned: the pod of a review may never be stored
	if q.Controller.IsZero() || !v.serves(q.Namespace) || !v.world.HasAutoscalers(q.Namespace) {
		return q
	}
	ctx, cancel := context.WithTimeout(v.ctx, ownerWait)
	defer cancel()
	top, err := v.world.TopSoon(ctx, q.Controller)
	q.Top = top
	switch {
	case errors.Is(err, watcher.ErrTooManyWaiting):
		v.metrics.Unsized(webhook.UnsizedTooManyWaiting)
		v.seldom.Do(func() {
			v.log.Warn("Pod admitted without its recommendation: too many reviews wait for unknown controllers",
				slog.String("namespace", q.Namespace), slog.String("kind", q.Controller.Kind), slog.String("controller", q.Controller.Name))
		})
	case errors.Is(err, watcher.ErrOwnerUnknown):
		v.metrics.Unsized(webhook.UnsizedOwnerUnknown)
	}
	return q
}

// Governing returns the autoscaler that governs the pods of a workload, or nil.
func (v *clusterView) Governing(w cluster.Workload) *cluster.Autoscaler {
	if !v.serves(w.Namespace) {
		return nil
	}
	return v.world.Governing(w)
}

// Limits returns what bounds the pods of a namespace.
func (v *clusterView) Limits(namespace string) policy.Limits {
	return policy.Limits{Range: v.world.Limits(namespace), Quotas: v.world.Quotas(namespace)}
}

var errNotSynced = errors.New("the cluster has not been read yet")
