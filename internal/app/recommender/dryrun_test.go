// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package recommender

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
)

func TestDryRun_passes_storeAndDeleteNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.use["app"] = cluster.Amounts(300, 200<<20)
		b.autoscale("web", b.deployment("web", 2, "app")).Recommender = "balanced"
		b.autoscale("gone", b.deployment("gone", 1, "app")).Recommender = "balanced"
		b.run(20 * time.Minute)
		checkpoints := b.storeWrites
		histories := b.remembered.writes
		if checkpoints == 0 || histories == 0 {
			t.Fatal("nothing is stored without dry run")
		}
		b.autoscalers = b.autoscalers[:1]
		b.autoscale("new", b.deployment("new", 1, "app"))
		b.config.ReadOnly = true
		r := b.run(2 * time.Hour)
		r.end(context.WithoutCancel(t.Context()))
		if b.storeWrites != checkpoints || b.remembered.writes != histories || len(b.stored) != 2 || len(b.remembered.stored) != 2 {
			t.Errorf("%d checkpoints and %d UsageHistories were written, want none; %d and %d remain, want 2 and 2",
				b.storeWrites-checkpoints, b.remembered.writes-histories, len(b.stored), len(b.remembered.stored))
		}
		if b.advice("new", "app").Target.CPU < 300 {
			t.Error("no recommendation")
		}
	})
}

func TestDryRun_recommendationChanges_isLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var logged bytes.Buffer
		b := newBench(t)
		b.config.ReadOnly = true
		b.use["app"] = cluster.Amounts(300, 200<<20)
		b.autoscale("web", b.deployment("web", 1, "app"))
		d := b.dependencies()
		d.log = slog.New(slog.NewTextHandler(&logged, nil))
		r := newRecommender(b.config, d)
		start := time.Now()
		pass := func() {
			time.Sleep(time.Minute)
			r.pass(t.Context(), time.Now())
		}
		for time.Since(start) < time.Hour {
			pass()
		}
		if n := strings.Count(logged.String(), `"Would recommend" vpa=shop/web container=app target=`); n != 1 {
			t.Errorf("with steady usage it is logged %d times, want once:\n%s", n, logged.String())
		}
		logged.Reset()
		b.use["app"] = cluster.Amounts(1200, 200<<20)
		for time.Since(start) < 2*time.Hour {
			pass()
		}
		if n := strings.Count(logged.String(), "Would recommend"); n < 1 || n > 30 {
			t.Errorf("after usage quadrupled it is logged %d times, want 1 to 30", n)
		}
	})
}
