// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/rest"

	"podfit.dev/podfit/internal/app/process"
	"podfit.dev/podfit/internal/edge/kube"
	"podfit.dev/podfit/internal/edge/kube/watcher"
)

// The page is off by default. With --web-address it gets the decisions of the updater, and viewers need a token.
func TestRun_webAddress_pageGetsDecisionsOfUpdater(t *testing.T) {
	clients, err := kube.ClientsFor(&rest.Config{Host: "http://127.0.0.1:1"})
	if err != nil {
		t.Fatal(err)
	}
	p := process.New(slog.New(slog.DiscardHandler), prometheus.NewRegistry())
	off := runGiven(t)
	page, err := webPage(off, p, clients, watcher.NewWorld(clients, watcher.Options{}))
	if err != nil || page != nil || off.Updater.Journal != nil {
		t.Errorf("without --web-address: %d pages, error %v", len(page), err)
	}
	on := runGiven(t, "--web-address=:8945")
	page, err = webPage(on, p, clients, watcher.NewWorld(clients, watcher.Options{}))
	if err != nil || len(page) != 1 || on.Updater.Journal == nil || on.Web.Auth != "token" {
		t.Errorf("with --web-address: %d pages, authentication %s, error %v", len(page), on.Web.Auth, err)
	}
	c := runDefaults()
	c.Web.Address, c.Web.Auth = ":8945", "none"
	if err := c.Validate(); err == nil || !strings.Contains(err.Error(), "--web-unauthenticated") {
		t.Errorf("error %v", err)
	}
}

// The page reads the Prometheus of the recommender, if the user has named one.
func TestRun_prometheusOfTheRecommender_isThatOfThePage(t *testing.T) {
	for _, tt := range []struct {
		flags   []string
		address string
	}{
		{nil, ""},
		{[]string{"--prometheus-address=http://prometheus.example:9090"}, "http://prometheus.example:9090"},
		{[]string{"--storage=prometheus"}, "http://prometheus.monitoring.svc"},
	} {
		c := runGiven(t, append(tt.flags, "--web-address=:8945")...)
		got, err := recordedUsage(&c.Recommender)
		if err != nil || (got != nil) != (tt.address != "") || got != nil && (got.Address != tt.address || got.Transport == nil) {
			t.Errorf("%v: got %+v, %v", tt.flags, got, err)
		}
	}
}
