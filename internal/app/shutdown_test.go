// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"errors"
	"testing"
	"time"

	"podfit.dev/podfit/internal/app/process"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/edge/kube"
	"podfit.dev/podfit/internal/edge/kube/watcher"
	"podfit.dev/podfit/test/kubetest"
)

// During a rolling update of podfit, the controllers of new pods can be created after a replica has received the signal to stop. The
// replica must still know them.
func TestWithWorld_workEnding_stillWatchesControllers(t *testing.T) {
	api := kubetest.NewFakeAPI(t)
	clients, err := kube.ClientsFor(api.Config())
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
		api.Apply(kubetest.ReplicaSetsPath, `{"metadata":{"namespace":"shop","name":"late","uid":"l"}}`)
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
