// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package updater

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"podfit.dev/podfit/internal/app/process"
	"podfit.dev/podfit/internal/core/cluster"
)

// quotaCluster is a fakeCluster in a namespace with a quota of CPU requests.
type quotaCluster struct {
	*fakeCluster
	left int64 // millicores
}

func (r quotaCluster) Quotas(string) *cluster.Quotas {
	left := cluster.PodResources{Requests: cluster.Resources{}.Set(cluster.CPU, r.left)}
	return &cluster.Quotas{List: []cluster.Quota{{Name: "compute", Left: left}}}
}

func TestUpdater_newSizeExceedsQuota_writesOneEvent(t *testing.T) {
	for mode, enough := range map[cluster.Mode]int64{cluster.Recreate: 350, cluster.InPlaceOrRecreate: 250} {
		for _, short := range []int64{0, 1} {
			synctest.Test(t, func(t *testing.T) {
				fake := newFakeCluster(mode)
				u := newUpdater(fake.config, quotaCluster{fake, enough - short}, fake, fake, fake, NewMetrics(prometheus.NewRegistry()), process.NewHealth(time.Hour), fake.log)
				for range 60 {
					u.pass(t.Context(), time.Now())
					time.Sleep(time.Minute)
				}
				told := slices.DeleteFunc(slices.Clone(fake.recorded), func(s string) bool { return !strings.Contains(s, "ResourceQuota compute has") })
				switch {
				case short == 0 && len(fake.done) == 0:
					t.Errorf("%s: the quota has room, but no pod was changed: %q", mode, fake.recorded)
				case short > 0 && (len(fake.done) > 0 || len(told) != 1 || !strings.HasPrefix(told[0], "UpdateHeld web: ")):
					t.Errorf("%s: actions %q, events %q; want no action and one event", mode, fake.done, fake.recorded)
				}
			})
		}
	}
}
