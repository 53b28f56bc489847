// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package admission is the job that serves the admission webhook: it sets the size of new pods and validates
// VerticalPodAutoscalers.
//
// Package edge/webhook contains the webhook. This package configures it, gives it the watched objects of the cluster, and renews
// the status lease while the webhook works.
package admission

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"podfit.dev/podfit/internal/app/process"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/edge/kube"
	"podfit.dev/podfit/internal/edge/kube/watcher"
	"podfit.dev/podfit/internal/edge/webhook"
	"podfit.dev/podfit/internal/edge/webhook/registration"
)

// NewCommand returns "podfit admission-controller".
func NewCommand(s process.Streams) *cobra.Command {
	c := Defaults()
	return process.LongRunning{
		Use: "admission-controller", Short: "Apply recommendations to new pods and validate VPAs",
		Long: `Serves a webhook that the API server calls for each new pod and each
VerticalPodAutoscaler object. It sets the requests of new pods to the
recommendation, and changes their limits in proportion. It registers its webhook
configuration. If no certificate files exist, it creates and renews its own
certificates. It never rejects a pod.`,
		Config: &c, Common: func() *process.Common { return &c.Common }, Address: func() string { return c.Address },
		Prepare: func(ctx context.Context, p *process.Process) (func(context.Context) error, error) {
			clients, world, err := c.Common.Connect(ctx, p, "admission-controller", watcher.Options{
				Nodes: true, Limits: true, Quotas: true, Profiles: !c.NoProfiles, Held: true,
			})
			if err != nil {
				return nil, err
			}
			serve, err := Work(&c, p, clients, world)
			if err != nil {
				return nil, err
			}
			return func(ctx context.Context) error { return process.WithWorld(ctx, world, serve) }, nil
		},
	}.Command(s)
}

// A job is the admission controller with everything it needs to run.
type job struct {
	config     *Config
	log        *slog.Logger
	server     *webhook.Server
	ready      func() error // returns nil if the API server may send reviews
	standalone bool
	renew      renewal
}

// Work returns the work of the admission controller. The webhook serves immediately. Until the first lists have succeeded, it admits
// pods unchanged, and the status lease is not renewed, so the updater evicts no pods.
func Work(c *Config, p *process.Process, clients *kube.Clients, world *watcher.World) (func(context.Context) error, error) {
	namespace := process.OwnNamespace("")
	registered, err := c.registration(namespace)
	if err != nil {
		return nil, err
	}
	standalone, err := c.standalone()
	if err != nil {
		return nil, err
	}
	metrics := webhook.NewMetrics(p.Registry)
	view := newClusterView(world, c.Serves, metrics, p.Log)
	options := c.handlerOptions(world)
	options.Nodes = &nodeTable{options: c.NodeFit.Options(), watch: world}
	handler := webhook.NewHandler(view, options, metrics, p.Log)
	server, err := webhook.NewServer(webhook.Config{
		Files: c.Files, Standalone: standalone,
		Secret: cluster.Key{Namespace: namespace, Name: registration.SecretName}, Ciphers: c.Ciphers, MinTLSVersion: c.MinTLSVersion,
		Register: c.Register, Registration: registered, Unregister: c.unregisters(), ShutdownDelay: c.shutdownDelay(standalone),
	}, clients.Core, handler, p.Log)
	if err != nil {
		return nil, err
	}
	c.logSetup(p.Log, standalone)
	ready := readiness{world, server}
	p.Readiness = append(p.Readiness, ready.Ready)
	metrics.Watch(ready)
	j := &job{
		config: c, log: p.Log, server: server, ready: ready.Ready, standalone: standalone,
		renew: kube.NewLease(clients, process.OwnNamespace(c.StatusNamespace), c.StatusName).Renew,
	}
	return j.run, nil
}

// readiness is the readiness of the watches and of the webhook.
type readiness struct {
	world  *watcher.World
	server *webhook.Server
}

// Ready returns why this replica is not ready to serve admission reviews, or nil.
func (r readiness) Ready() error {
	if !r.world.Synced() || !r.world.Discovered() {
		return errNotSynced
	}
	return r.server.Ready()
}

var errNotSynced = errors.New("the initial lists of the watches are not complete")

// run serves the webhook and renews the status lease until ctx ends.
func (j *job) run(ctx context.Context) error {
	var listen net.ListenConfig
	listener, err := listen.Listen(ctx, "tcp", j.config.listenAddress())
	if err != nil && j.standalone {
		j.log.Info("Webhook not served: cannot listen on its port, and no webhook configuration refers to it", slog.Any("error", err))
		<-ctx.Done()
		return nil
	}
	if err != nil {
		return process.ListenError("--port", strconv.Itoa(j.config.Port), err)
	}
	tick := time.NewTicker(j.config.StatusInterval)
	defer tick.Stop()
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return j.server.Run(ctx, listener, tick.C) })
	if !j.standalone {
		g.Go(func() error {
			publishStatus(ctx, j.log, j.renew, j.config.StatusInterval, j.check)
			return nil
		})
	}
	return g.Wait()
}

// listenAddress returns the address on which the webhook listens: all addresses of the machine. A trial is called only from this machine,
// unless the user names the address at which the API server reaches it.
func (c *Config) listenAddress() string {
	host := ""
	if c.IsTrial() && c.WebhookAddress == "" {
		host = "127.0.0.1"
	}
	return net.JoinHostPort(host, strconv.Itoa(c.Port))
}

// check returns nil if the webhook is ready and answers a review.
func (j *job) check(ctx context.Context) error {
	if err := j.ready(); err != nil {
		return err
	}
	return j.server.Check(ctx)
}

// registration returns how the API server calls the webhook.
func (c *Config) registration(namespace string) (registration.Config, error) {
	labels, err := c.labels()
	if err != nil {
		return registration.Config{}, err
	}
	out := registration.Config{
		Service: cluster.Key{Namespace: namespace, Name: c.Service}, Labels: labels, Fail: c.FailurePolicyFail,
		Timeout: int32(c.TimeoutSeconds), Namespace: c.Namespace, Ignored: c.IgnoredNamespaces,
	}
	if c.ByURL {
		port := cmp.Or(c.WebhookPort, strconv.Itoa(c.Port))
		out.URL = registration.URL(c.WebhookAddress, port)
	}
	return out, nil
}

func (c *Config) handlerOptions(profiles profileNames) webhook.Options {
	out := webhook.Options{
		Gates: webhook.Gates{
			InPlace:         c.Gates.On(process.InPlaceGate),
			CPUStartupBoost: c.Gates.On(process.CPUStartupBoost),
			PerVPAConfig:    c.Gates.On(process.PerVPAConfig),
		},
		MaxCPUBoost: c.MaxCPUBoost.MilliValue(), DryRun: c.ReadOnly, InitContainers: c.SizeSidecars,
	}
	if !c.NoProfiles {
		out.Profiles = knownProfiles{profiles}
	}
	return out
}

// standalone reports whether the webhook must write nothing to the cluster, neither certificates nor the status lease. This is so in
// a dry run, and if the API server cannot call this process: podfit does not register the webhook, there are no certificate files
// that a webhook configuration of an administrator could trust, and this process does not run in the cluster, where it could be
// behind the service of such a configuration.
func (c *Config) standalone() (bool, error) {
	if c.ReadOnly {
		return true, nil
	}
	if c.Register || !c.Outside() {
		return false, nil
	}
	found, err := c.Files.Exist()
	return !found, err
}

// unregisters reports whether the webhook configuration is deleted on shutdown. In a pod it is not, because other replicas or the
// next pod use it. With the failure policy Fail it is not, because pods must not be admitted without their size in the meantime.
func (c *Config) unregisters() bool {
	return c.Register && c.ByURL && !c.FailurePolicyFail && !kube.InCluster()
}

// shutdownDelay is how long the webhook serves after the process was told to stop: until the API server does not call it any more.
func (c *Config) shutdownDelay(standalone bool) time.Duration {
	if standalone {
		return 0
	}
	if c.unregisters() {
		return 250 * time.Millisecond // the API server watches webhook configurations
	}
	if c.Outside() {
		return 3 * time.Second
	}
	return 10 * time.Second // until each node has removed the pod from the endpoints of the service
}

// logSetup logs a configuration in which new pods do not get their size.
func (c *Config) logSetup(log *slog.Logger, standalone bool) {
	switch {
	case standalone && !c.ReadOnly:
		log.Info("The API server does not call this webhook: it is not registered, there are no certificate files, and this process runs outside of the "+
			"cluster. No certificates are stored, and the status lease is not renewed", slog.String("file", c.Files.Cert))
	case c.Register && !c.ByURL && !kube.InCluster():
		log.Warn("The webhook is registered with a Service, but this process runs outside of the cluster. If the Service has no podfit pods, new pods "+
			"do not get their size", slog.String("service", c.Service),
			slog.String("remedy", "use --register-by-url and --webhook-address, or --register-webhook=false, or --dry-run"))
	}
}
