// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package web is the job that serves the web page: as a command of its own with a kubeconfig, or inside "podfit run".
//
// It reads the cluster and writes nothing.
package web

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"

	"podfit.dev/podfit/internal/app/process"
	"podfit.dev/podfit/internal/core/overview"
	"podfit.dev/podfit/internal/edge/kube"
	"podfit.dev/podfit/internal/edge/kube/capacityplan"
	"podfit.dev/podfit/internal/edge/kube/checkpoint"
	"podfit.dev/podfit/internal/edge/kube/event"
	"podfit.dev/podfit/internal/edge/kube/inspection"
	"podfit.dev/podfit/internal/edge/kube/watcher"
	"podfit.dev/podfit/internal/edge/metrics"
	"podfit.dev/podfit/internal/edge/price"
	"podfit.dev/podfit/internal/edge/prom/survey"
	"podfit.dev/podfit/internal/edge/web"
)

type settings struct {
	common     process.Common
	web        Config
	prometheus process.PrometheusConfig
}

// Flags binds the flags.
func (s *settings) Flags(fs *pflag.FlagSet) {
	c := &s.common
	fs.StringVar(&c.Kubeconfig, "kubeconfig", c.Kubeconfig, "Path of a kubeconfig file. Empty means the environment variable KUBECONFIG, or ~/.kube/config.")
	fs.StringVar(&c.Context, "context", c.Context, "Context of the kubeconfig. Empty means its current context.")
	fs.StringVar(&c.As, "as", c.As, "User to impersonate for requests to the API server.")
	fs.StringVarP(&c.Namespace, "namespace", "n", c.Namespace, "Show only this namespace. Empty means all.")
	fs.BoolVarP(&c.AllNamespaces, "all-namespaces", "A", c.AllNamespaces, "If true, show all namespaces. This is the default. Excludes --namespace.")
	s.web.Flags(fs)
	s.prometheus.Flags(fs, "containers, for the charts of single workloads. Empty means that charts show only stored usage")
	fs.IntVarP(&c.Log.Verbosity, "v", "v", c.Log.Verbosity, "Verbosity of the log. 5 and higher also logs debug messages.")
	fs.StringVar(&c.Log.Format, "log-format", c.Log.Format, "Format of the log: text or json. On a terminal, the default is plain text for people.")
}

// Validate returns an error for each invalid flag.
func (s *settings) Validate() error {
	if s.web.Address == "" {
		return errors.New("--web-address must not be empty")
	}
	var errs process.Problems
	errs.AddIf(s.common.AllNamespaces && s.common.Namespace != "", "--namespace and --all-namespaces cannot both be set")
	return errors.Join(append(errs, s.web.Validate(), s.prometheus.Validate())...)
}

// An ExplainerFor returns what explains workloads with clients of the page. Explanations name nothing of the excluded namespaces.
type ExplainerFor func(clients *kube.Clients, excluded []string, log *slog.Logger) web.Explainer

// NewCommand returns "podfit web". explainer may be nil: the page has no explanations.
func NewCommand(s process.Streams, explainer ExplainerFor) *cobra.Command {
	c := settings{common: process.CommonDefaults(), web: LocalDefaults()}
	command := &cobra.Command{
		Use: "web", Short: "Show a cluster in a web page",
		Long: `Serves a page that shows what the cluster requests and uses, which workloads are
at risk, what could be given back, and what podfit did. It reads the cluster
with your kubeconfig and writes nothing. The cluster needs no podfit, but
without VerticalPodAutoscaler objects there are no recommendations.

Open the address that is printed. Ctrl-C ends it.`,
		Example: "  podfit web\n  podfit web --context prod -n shop\n  podfit web --web-address=127.0.0.1:9000\n  podfit web --prometheus http://localhost:9090",
	}
	c.Flags(command.Flags())
	command.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := c.Validate(); err != nil {
			return process.UsageError{Err: err}
		}
		return c.run(cmd.Context(), s, explainer)
	}
	return command
}

func (s *settings) run(ctx context.Context, streams process.Streams, explainer ExplainerFor) error {
	log, closer, err := s.common.Log.Open(streams.Err, streams.Terminal)
	if err != nil {
		return process.UsageError{Err: err}
	}
	defer closer.Close()
	p := process.New(log, prometheus.NewRegistry())
	config := s.common.Config
	config.Component = "web"
	config.Version = process.BuildVersion()
	config.ReadOnly = web.Mode(s.web.Auth) == web.None // otherwise it sends reviews, which store nothing
	clients, err := kube.NewClients(config)
	if err != nil {
		return err
	}
	found, err := clients.Preflight(ctx, s.common.Namespace)
	if err != nil {
		return err
	}
	if !found {
		log.Warn("There are no VPA objects, so the page shows no recommendations", slog.String("namespace", s.common.Namespace),
			slog.String("remedy", "podfit recommend shows recommendations without VPA objects"))
	}
	world := watcher.NewWorld(clients, s.common.Watched(watcher.Options{Pods: watcher.AllPods, Nodes: true, Profiles: true, Log: log}))
	data := Data{World: world, Explainer: explainer}
	if data.Prometheus, err = s.recorded(); err != nil {
		return err
	}
	serve, err := Work(&s.web, p, &s.common, clients, data)
	if err != nil {
		return err
	}
	return process.WithWorld(ctx, world, serve)
}

// recorded returns which Prometheus the page reads, nil if none is given. The environment variable of podfit recommend does not count, so
// that the page sends no queries that nobody asked for.
func (s *settings) recorded() (*survey.Config, error) {
	if s.prometheus.Prometheus == "" {
		return nil, nil
	}
	transport, err := s.prometheus.Transport()
	if err != nil {
		return nil, err
	}
	out := &survey.Config{Address: s.prometheus.Prometheus, Transport: transport}
	if name, value, ok := strings.Cut(s.prometheus.ClusterLabel, "="); ok {
		out.Labels = []survey.Label{{Name: name, Value: value}}
	}
	return out, nil
}

// Data is what the page gets from this process.
type Data struct {
	World     *watcher.World
	Journal   *Journal     // the decisions of the updater of this process; nil if there is none
	Explainer ExplainerFor // nil: there are no explanations

	Prometheus *survey.Config // with address, transport and labels; nil: the page reads no Prometheus
}

// Work returns the work of the page: it serves until its context ends.
func Work(c *Config, p *process.Process, common *process.Common, clients *kube.Clients, d Data) (func(context.Context) error, error) {
	clients, err := separate(clients)
	if err != nil {
		return nil, err
	}
	usage, err := metrics.New(clients.Config, clients.HTTP, common.Namespace)
	if err != nil {
		return nil, err
	}
	if c.Prices != "" {
		if _, err := price.ReadFile(c.Prices, nil); err != nil {
			return nil, process.UsageError{Err: fmt.Errorf("--web-prices: %w", err)}
		}
	}
	proxies, err := c.prefixes()
	if err != nil {
		return nil, err
	}
	src := newSource(&source{
		world: d.World, usage: usage.Read, store: checkpoint.NewReader(clients), archive: clusterArchive{clients}, registrations: registrations{clients}.Registrations, plans: capacityplan.New(clients).Read, process: p, journal: d.Journal,
		prices: c.Prices, allPods: common.WatchesAllPods(), startupBoost: common.Gates.On(process.CPUStartupBoost), excluded: c.Excluded, log: p.Log,
		events: func(ctx context.Context) ([]overview.Entry, error) {
			return event.Recent(ctx, clients, common.Namespace)
		},
	})
	if d.Prometheus != nil {
		if src.recordings, err = newRecordings(*d.Prometheus, p.Log); err != nil {
			return nil, process.UsageError{Err: err}
		}
	}
	var explainer web.Explainer
	if d.Explainer != nil {
		explainer = d.Explainer(clients, c.Excluded, p.Log)
	}
	handler := web.New(web.Config{
		Explain: explainer, Cluster: common.ClusterName(clients), Version: process.BuildVersion(), Source: src, Hosts: c.Hosts, Log: p.Log,
		Access: web.NewAccess(web.AccessConfig{Mode: web.Mode(c.Auth), Reviewer: &inspection.Rights{Client: clients.Core}, Namespaces: src, Proxies: proxies}),
	})
	return func(ctx context.Context) error {
		var lc net.ListenConfig
		listener, err := lc.Listen(ctx, "tcp", c.Address)
		if err != nil {
			return fmt.Errorf("listen on --web-address %s: %w", c.Address, err)
		}
		p.Log.Info("Serving the web page", slog.String("address", "http://"+listener.Addr().String()+"/"))
		return process.Serve(ctx, listener, &http.Server{
			Handler: handler, ReadHeaderTimeout: 10 * time.Second, ReadTimeout: 10 * time.Second, WriteTimeout: time.Minute, IdleTimeout: 2 * time.Minute,
			MaxHeaderBytes: 64 << 10,
		})
	}, nil
}

// separate returns clients with a rate limit of their own, so that viewers do not delay changes of pods.
func separate(clients *kube.Clients) (*kube.Clients, error) {
	const requestsPerSecond = 50 // limit of the requests that the page sends to the API server
	c := rest.CopyConfig(clients.Config)
	c.RateLimiter = nil
	c.QPS = requestsPerSecond
	c.Burst = 2 * requestsPerSecond
	own, err := kube.ClientsFor(c)
	if err != nil {
		return nil, fmt.Errorf("create the client for the web page: %w", err)
	}
	return own, nil
}
