// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package updater

import (
	"strings"
	"time"
)

// staleWatch is why a pass is left out that would decide by an old state of the cluster.
const staleWatch = "StaleWatch"

// current reports whether what is known of the cluster is up to date. By an old state the updater would evict pods whose
// workload has become unhealthy since, or that have been replaced.
func (u *updater) current(now time.Time) bool {
	if u.stale == nil {
		return true
	}
	stale := u.stale(now)
	switch {
	case len(stale) > 0 && !u.outdated:
		u.log.Warn("Not updating pods: the API server has not confirmed for minutes that these watches are up to date",
			"resources", strings.Join(stale, ","))
	case len(stale) == 0 && u.outdated:
		u.log.Info("All watches are up to date again; updating pods")
	}
	if u.outdated = len(stale) > 0; u.outdated {
		u.metrics.skipped.WithLabelValues(staleWatch).Inc()
	}
	return !u.outdated
}
