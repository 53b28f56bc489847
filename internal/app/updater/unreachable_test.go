// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package updater

import (
	"fmt"
	"net"
	"os"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/edge/kube"
)

// A pod whose eviction was not sent still runs. It must not use up the disruption budget of its group while the watch catches up.
func TestUpdater_connectionRefusedForOnePass_nextPassEvicts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := newFakeCluster(cluster.Recreate)
		y.evictErr = kube.Refused(fmt.Errorf("evict: %w", &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}))
		u := y.run(t, time.Minute)
		y.evictErr = nil
		u.pass(t.Context(), time.Now())
		if n := y.count("evict "); n != 1 {
			t.Errorf("%d evictions a minute after no connection could be opened, want 1: %q", n, y.recorded)
		}
	})
}
