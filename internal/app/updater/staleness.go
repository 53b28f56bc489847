// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package updater

import (
	"log/slog"
	"strings"
	"time"

	"podfit.dev/podfit/internal/edge/kube/watcher"
)

// staleWatch is the reason for which a pass is skipped that would decide by an old state of the cluster.
const staleWatch = "StaleWatch"

// isCurrent reports whether all watches are up to date. By an old state, the updater would evict pods whose workload has become
// unhealthy since, or that have been replaced.
func (u *updater) isCurrent(now time.Time) bool {
	if u.stale == nil {
		return true
	}
	stale := u.stale(now)
	switch {
	case len(stale) > 0 && !u.outdated:
		u.log.Warn("Not updating pods: these watches are not complete yet, or may be out of date",
			slog.String("resource", strings.Join(stale, ",")))
	case len(stale) == 0 && u.outdated:
		u.log.Info("All watches are up to date again; updating pods")
	}
	u.outdated = len(stale) > 0
	if !u.outdated {
		u.wasCurrent = true
		return true
	}
	u.metrics.skipped.WithLabelValues(staleWatch).Inc()
	if !u.wasCurrent && u.waits != nil {
		u.waits.AwaitChanges(watcher.Waits{At: now.Add(earlyPeriod)}) // optional resources may be listed some seconds after the others
	}
	return false
}
