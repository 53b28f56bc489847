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

// rationed is a yard in a namespace with a quota of CPU requests.
type rationed struct {
	*yard
	left int64 // millicores
}

func (r rationed) Quotas(string) *cluster.Quotas {
	left := cluster.PodResources{Requests: cluster.Resources{}.Set(cluster.CPU, r.left)}
	return &cluster.Quotas{List: []cluster.Quota{{Name: "compute", Left: left}}}
}

func TestUpdater_newSizeOverQuota_changesNothingAndTellsOnce(t *testing.T) {
	for mode, enough := range map[cluster.Mode]int64{cluster.Recreate: 350, cluster.InPlaceOrRecreate: 250} {
		for _, short := range []int64{0, 1} {
			synctest.Test(t, func(t *testing.T) {
				y := newYard(mode)
				u := newUpdater(y.config, rationed{y, enough - short}, y, y, y, NewMetrics(prometheus.NewRegistry()), process.NewHealth(time.Hour), y.log)
				for range 60 {
					u.pass(t.Context(), time.Now())
					time.Sleep(time.Minute)
				}
				told := slices.DeleteFunc(slices.Clone(y.told), func(s string) bool { return !strings.Contains(s, "ResourceQuota compute has") })
				switch {
				case short == 0 && len(y.did) == 0:
					t.Errorf("%s: there is room, and nothing is done: %q", mode, y.told)
				case short > 0 && (len(y.did) > 0 || len(told) != 1 || !strings.HasPrefix(told[0], "UpdateHeld web: ")):
					t.Errorf("%s: did %q, told %q", mode, y.did, y.told)
				}
			})
		}
	}
}
