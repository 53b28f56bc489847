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
