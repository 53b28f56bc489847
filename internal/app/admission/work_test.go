// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"podfit.dev/podfit/internal/app/process"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/edge/kube"
	"podfit.dev/podfit/internal/edge/kube/watcher"
	"podfit.dev/podfit/internal/edge/webhook"
	"podfit.dev/podfit/internal/edge/webhook/registration"
	"podfit.dev/podfit/test/kubetest"
)

// clientsOf returns clients of a fake API.
func clientsOf(t *testing.T, f *kubetest.FakeAPI) *kube.Clients {
	t.Helper()
	clients, err := kube.ClientsFor(f.Config())
	if err != nil {
		t.Fatal(err)
	}
	return clients
}

// smallCluster returns clients of a cluster with a ReplicaSet and its VPA.
func smallCluster(t *testing.T) *kube.Clients {
	t.Helper()
	f := kubetest.NewFakeAPI(t)
	f.ApplyCart()
	return clientsOf(t, f)
}

// dryRun returns the configuration of an admission controller that writes nothing to the cluster.
func dryRun() Config {
	c := Defaults()
	c.ReadOnly, c.Register, c.Port = true, false, 0
	c.Files = registration.Files{}
	return c
}

func TestWork_initialListsNotComplete_isNotReady(t *testing.T) {
	clients := smallCluster(t)
	config := dryRun()
	p := process.New(slog.New(slog.DiscardHandler), prometheus.NewRegistry())
	world := watcher.NewWorld(clients, watcher.Options{})
	if _, err := Work(&config, p, clients, world); err != nil {
		t.Fatal(err)
	}
	if len(p.Readiness) != 1 {
		t.Fatalf("%d checks of readiness, want 1", len(p.Readiness))
	}
	if err := p.Readiness[0](); !errors.Is(err, errNotSynced) {
		t.Errorf("before the lists: got %v, want %v", err, errNotSynced)
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	err := process.WithWorld(ctx, world, func(ctx context.Context) error {
		defer stop()
		if err := world.WaitSynced(ctx); err != nil {
			return err
		}
		for !world.Discovered() && ctx.Err() == nil {
			time.Sleep(time.Millisecond)
		}
		if err := p.Readiness[0](); err == nil || errors.Is(err, errNotSynced) {
			t.Errorf("after the lists: got %v, want that the server has no certificate yet", err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestWork_invalidConfiguration_isReported(t *testing.T) {
	clients := smallCluster(t)
	for name, tt := range map[string]struct {
		change func(*Config)
		want   string
	}{
		"labels":      {func(c *Config) { c.Labels = "team" }, "--webhook-labels must be a list"},
		"TLS version": {func(c *Config) { c.MinTLSVersion = "tls1_1" }, "minimum TLS version"},
	} {
		config := dryRun()
		tt.change(&config)
		p := process.New(slog.New(slog.DiscardHandler), prometheus.NewRegistry())
		_, err := Work(&config, p, clients, watcher.NewWorld(clients, watcher.Options{}))
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: got error %v, want one with %q", name, err, tt.want)
		}
	}
}

// A webhook that the API server does not call must not renew the status lease, by which updaters assume that new pods get their size.
func TestRun_standalone_servesButRenewsNoStatusLease(t *testing.T) {
	for _, standalone := range []bool{true, false} {
		var log bytes.Buffer
		config := dryRun()
		config.StatusInterval = time.Millisecond
		server, err := webhook.NewServer(webhook.Config{Standalone: true, MinTLSVersion: config.MinTLSVersion,
			Registration: registration.Config{Service: cluster.Key{Namespace: "kube-system", Name: "vpa-webhook"}}},
			smallCluster(t).Core, webhook.NewHandler(nil, webhook.Options{}, webhook.NewMetrics(prometheus.NewRegistry()), slog.New(slog.DiscardHandler)), slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		checked := make(chan bool, 1)
		lease := &countingLease{}
		j := &job{config: &config, log: slog.New(slog.NewTextHandler(&log, nil)), server: server, standalone: standalone, renew: lease.Renew,
			ready: func() error {
				select {
				case checked <- true:
				default:
				}
				return errNotSynced
			}}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- j.run(ctx) }()
		if standalone {
			for server.Check(ctx) != nil { // until the webhook answers
				time.Sleep(time.Millisecond)
			}
		} else {
			<-checked
		}
		stop()
		if err := <-ended; err != nil {
			t.Errorf("standalone %t: %v", standalone, err)
		}
		if standalone && len(checked) > 0 {
			t.Error("standalone: the status lease is renewed, want no attempt")
		}
		if n := lease.renewals.Load(); n != 0 {
			t.Errorf("standalone %t: %d renewals of the status lease of a webhook that is not ready, want none", standalone, n)
		}
		if strings.Contains(log.String(), "Webhook not served") {
			t.Errorf("standalone %t: logged %s", standalone, log.String())
		}
	}
}

// The status lease is renewed if check returns nil: the webhook must be ready, and answer a review.
func TestCheck_webhookIsNotReadyOrDoesNotAnswer_returnsError(t *testing.T) {
	server, err := webhook.NewServer(webhook.Config{Standalone: true, Registration: registration.Config{Service: cluster.Key{Namespace: "kube-system", Name: "vpa-webhook"}}},
		smallCluster(t).Core, webhook.NewHandler(nil, webhook.Options{}, webhook.NewMetrics(prometheus.NewRegistry()), slog.New(slog.DiscardHandler)), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	notReady := &job{ready: func() error { return errNotSynced }, server: server}
	if err := notReady.check(t.Context()); !errors.Is(err, errNotSynced) {
		t.Errorf("not ready: got %v, want %v", err, errNotSynced)
	}
	silent := &job{ready: func() error { return nil }, server: server} // the server does not run
	if err := silent.check(t.Context()); err == nil || errors.Is(err, errNotSynced) {
		t.Errorf("ready, and no answer: got %v, want the error of the review", err)
	}
}

func TestConfig_webhookLabels_areSet(t *testing.T) {
	config := parse(t, "--webhook-labels=team:shop,tier : front,,")
	got, err := config.registration("kube-system")
	if want := map[string]string{"team": "shop", "tier": "front"}; err != nil || !maps.Equal(got.Labels, want) {
		t.Errorf("got labels %v, error %v, want %v", got.Labels, err, want)
	}
	config.Labels = "team"
	if _, err := config.registration("kube-system"); err == nil {
		t.Error("invalid labels: got no error")
	}
}
