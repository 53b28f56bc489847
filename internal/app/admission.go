// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/policy"
	"podfit.dev/podfit/internal/edge/kube"
	"podfit.dev/podfit/internal/edge/webhook"
)

func newAdmissionCommand(s Streams) *cobra.Command {
	c := AdmissionDefaults()
	return longRunning{
		use: "admission-controller", short: "Give new pods their recommended size, and check VPA objects",
		long: `Serves a webhook that the API server asks for each new pod and each VerticalPodAutoscaler. New pods get the
requests, and in proportion the limits, that their autoscaler recommends. The webhook registers itself, and makes and
renews its own certificates unless it finds some. A pod is never refused because of it.`,
		config: &c, common: func() *Common { return &c.Common }, address: func() string { return c.Address },
		prepare: func(p *process) (func(context.Context) error, error) {
			clients, err := c.Common.connect(p.log, "admission-controller")
			if err != nil {
				return nil, err
			}
			world := kube.NewWorld(clients, c.Common.watched(kube.Options{Limits: true, Quotas: true, Log: p.log}))
			p.reg.MustRegister(newWatchMetrics(world))
			admit, err := admission(&c, p, clients, world)
			if err != nil {
				return nil, err
			}
			return func(ctx context.Context) error { return withWorld(ctx, world, admit) }, nil
		},
	}.command(s)
}

// admission returns the work of the admission controller. It serves at once: while the world is not known yet, pods pass
// unchanged, and the status lease, by which the updater knows that evicted pods will be sized, is not renewed.
func admission(c *AdmissionConfig, p *process, clients *kube.Clients, world *kube.World) (func(context.Context) error, error) {
	labels, err := c.labels()
	if err != nil {
		return nil, err
	}
	namespace := ownNamespace(c.ServiceNamespace)
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
	view := &admissionView{world: world, serves: c.Serves}
	profiles, err := kube.NewProfiles(clients)
	if err != nil {
		return nil, err
	}
	typed := &slips{source: profiles}
	options := webhook.Options{
		Gates: webhook.Gates{
			InPlace: c.Gates.On(InPlaceGate), CPUStartupBoost: c.Gates.On(CPUStartupBoost), PerVPAConfig: c.Gates.On(PerVPAConfig),
		},
		MaxCPUBoost: c.MaxCPUBoost.MilliValue(), DryRun: c.dryRun,
	}
	if !c.noProfiles {
		options.Meant = typed.meant
	}
	metrics := webhook.NewMetrics(p.reg)
	handler := webhook.NewHandler(view, options, metrics, p.log)
	files := webhook.Files{CA: c.ClientCAFile, Cert: c.CertFile, Key: c.KeyFile, Reload: c.ReloadCert}
	alone, err := c.alone(files)
	if err != nil {
		return nil, err
	}
	server, err := webhook.NewServer(webhook.Config{
		Files: files, Private: alone,
		Secret: cluster.Key{Namespace: namespace, Name: webhook.SecretName}, Ciphers: c.Ciphers, MinTLSVersion: c.MinTLSVersion,
		Register: c.Register, Registration: reg, TakeBack: c.takesBack(), Linger: c.linger(alone),
	}, clients.Core, handler, p.log)
	if err != nil {
		return nil, err
	}
	c.explain(p.log, alone)
	ready := func() error {
		if !world.Synced() || !world.Discovered() {
			return errNotSynced
		}
		return server.Ready()
	}
	p.readiness = append(p.readiness, ready)
	metrics.ReadyWhen(ready)
	lease := kube.NewLease(clients, ownNamespace(c.StatusNamespace), c.StatusName)
	return func(ctx context.Context) error {
		serving := context.WithoutCancel(ctx) // reviews are answered for a while after the process was told to end
		view.ctx, typed.ctx = serving, serving
		var lc net.ListenConfig
		l, err := lc.Listen(ctx, "tcp", net.JoinHostPort("", strconv.Itoa(c.Port)))
		if err != nil && alone {
			p.log.Info("The webhook is not served: its port cannot be had, and nobody would call it", "error", err)
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
			publishStatus(ctx, p.log, lease, c.StatusInterval, func(ctx context.Context) error {
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
func (c *AdmissionConfig) alone(files webhook.Files) (bool, error) {
	if c.dryRun {
		return true, nil
	}
	if c.Register || !c.outside() {
		return false, nil
	}
	found, err := files.Exist()
	return !found, err
}

// takesBack reports whether the registration goes with the process. In a pod there are other replicas, or there will be; and
// who refuses pods that cannot be sized wants none of them to pass meanwhile.
func (c *AdmissionConfig) takesBack() bool {
	return c.Register && c.ByURL && !c.FailurePolicyFail && !kube.InCluster()
}

// linger is how long the webhook answers after it was told to end: where it is one of several behind an address, that one
// takes a moment to hear of it.
func (c *AdmissionConfig) linger(alone bool) time.Duration {
	switch {
	case alone:
		return 0
	case c.takesBack():
		return 250 * time.Millisecond // the API server hears at once
	}
	if c.outside() {
		return 3 * time.Second
	}
	return 10 * time.Second // until every node knows that the pod is no longer behind the service
}

// explain says what the reader of the log might not expect.
func (c *AdmissionConfig) explain(log *slog.Logger, alone bool) {
	switch {
	case alone && !c.dryRun:
		log.Info("Nobody calls this webhook: it is not registered, there are no certificate files, and this process is outside of the cluster. "+
			"So it keeps no certificates in the cluster, and does not renew the status lease", "file", c.CertFile)
	case c.Register && !c.ByURL && !kube.InCluster():
		log.Warn("The webhook is registered by service, but this process runs on a machine of its own. If no pods of podfit are behind the service, "+
			"new pods do not get their size", "service", c.Service,
			"remedy", "give --register-by-url and --webhook-address, or --register-webhook=false, or --dry-run to look only")
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
				log.Warn("The status lease is not renewed, so the updater changes no pods", "reason", err)
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

// admissionView is the cluster as the webhook sees it.
type admissionView struct {
	world  *kube.World
	serves func(namespace string) bool
	ctx    context.Context // does not end while reviews are answered
}

// Project keeps of a pod what the core needs. It waits for the pod's controller to become known where an autoscaler
// could be concerned.
func (v *admissionView) Project(p *corev1.Pod) *cluster.Pod {
	q := kube.ProjectPod(p, nil) // not interned: the pod of a review may never be stored
	if q.Controller.IsZero() || !v.serves(q.Namespace) || !v.world.HasAutoscalers(q.Namespace) {
		return q
	}
	ctx, cancel := context.WithTimeout(v.ctx, ownerWait)
	defer cancel()
	q.Top, _ = v.world.TopSoon(ctx, q.Controller)
	return q
}

// Autoscalers returns the autoscaler that governs a workload, and none of the others, however many name it.
func (v *admissionView) Autoscalers(w cluster.Workload) []*cluster.Autoscaler {
	if !v.serves(w.Namespace) {
		return nil
	}
	if a := v.world.Governing(w); a != nil {
		return []*cluster.Autoscaler{a}
	}
	return nil
}

// Limits returns what bounds the pods of a namespace.
func (v *admissionView) Limits(namespace string) policy.Limits {
	return policy.Limits{Range: v.world.Limits(namespace), Quotas: v.world.Quotas(namespace)}
}
