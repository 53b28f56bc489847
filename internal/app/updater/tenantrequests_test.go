// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package updater

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
)

// Any tenant can create pods that look like placeholder pods, for example with a ReplicaSet that creates them again after each deletion.
func TestUpdater_tenantCreatesPlaceholderPodsAgainAndAgain_othersGetCapacity(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := newFullCluster()
		u := y.start()
		for began := time.Now(); time.Since(began) < time.Hour; {
			for i := range 20 {
				name := fmt.Sprintf("fake-%d-%d", i, time.Since(began)/time.Minute)
				y.pods = append(y.pods, &cluster.Pod{
					Key: cluster.Key{Namespace: "aaa", Name: name}, UID: name, Phase: cluster.Pending, Placeholder: true, Created: time.Now(),
					Containers: []cluster.Container{{Name: "pause", Requests: cluster.Amounts(1e6, 1)}}, // fits on no node
				})
			}
			u.update(t.Context(), time.Now())
			time.Sleep(10 * time.Second)
			y.settle()
			time.Sleep(50 * time.Second)
		}
		if len(y.evicted) != 3 {
			t.Errorf("evicted %v, created %v; want 3 evictions", y.evicted, y.created)
		}
	})
}
