// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"podfit.dev/podfit/internal/app/process"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/edge/kube"
	"podfit.dev/podfit/internal/edge/kube/kubetest"
	"podfit.dev/podfit/internal/edge/kube/watcher"
)

// During a rolling update of podfit, the controllers of new pods can be created after a replica has received the signal to stop. The
// replica must still know them.
func TestWithWorld_workEnding_stillWatchesControllers(t *testing.T) {
	stopped := make(chan struct{})
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasSuffix(r.URL.Path, "/replicasets") || r.URL.Query().Get("watch") == "" || r.URL.Query().Get("sendInitialEvents") != "" {
			kubetest.SmallCluster(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = http.NewResponseController(w).Flush()
		select {
		case <-stopped:
			_, _ = io.WriteString(w, `{"type":"ADDED","object":{"apiVersion":"apps/v1","kind":"ReplicaSet","metadata":{"namespace":"shop","name":"late","uid":"l","resourceVersion":"2"}}}`)
			_ = http.NewResponseController(w).Flush()
		case <-r.Context().Done():
		}
		<-r.Context().Done()
	}))
	defer api.Close()
	clients, err := kube.ClientsFor(&rest.Config{Host: api.URL})
	if err != nil {
		t.Fatal(err)
	}
	world := watcher.NewWorld(clients, watcher.Options{})
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	err = process.WithWorld(ctx, world, func(ctx context.Context) error {
		if err := world.WaitSynced(ctx); err != nil {
			return err
		}
		stop()
		<-ctx.Done()
		close(stopped)
		serving, cancel := context.WithTimeout(context.WithoutCancel(ctx), 20*time.Second)
		defer cancel()
		if _, err := world.TopSoon(serving, cluster.Workload{Group: "apps", Kind: "ReplicaSet", Namespace: "shop", Name: "late"}); err != nil {
			return errors.New("the new controller does not become known")
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}
