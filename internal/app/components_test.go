// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"testing"
	"testing/synctest"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
)

// As with upstream, init containers and sidecars have no recommendation, and no part of the least size of a pod.
func TestSidecarsAndInitContainersAreLeftAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		w := b.deployment("web", 2, "app", "setup", "mesh")
		for _, p := range b.pods {
			p.Containers[1].Role, p.Containers[2].Role = cluster.Init, cluster.Sidecar
		}
		b.use["app"] = cluster.Amounts(1, 1<<20)
		b.use["setup"], b.use["mesh"] = cluster.Amounts(900, 900<<20), cluster.Amounts(900, 900<<20)
		a := b.autoscale("web", w)
		b.run(10 * time.Minute)
		if got, want := b.advice("web", "app").Target, cluster.Amounts(25, 250<<20); got != want {
			t.Errorf("target %v, want %v", got, want)
		}
		for _, o := range b.autoscalers {
			if o.Key == a.Key && len(o.Advice) != 1 {
				t.Errorf("recommends for %+v", o.Advice)
			}
		}
	})
}
