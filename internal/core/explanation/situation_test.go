// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package explanation

import (
	"strings"
	"testing"

	"podfit.dev/podfit/internal/core/cluster"
)

// The API server refuses a CPU limit of 0 if the container has a CPU request, so the limit must be removed.
func TestSmallCPULimit_command_removesTheLimit(t *testing.T) {
	for kind, want := range map[cluster.Workload]string{
		{Group: "apps", Kind: "StatefulSet"}: `kubectl -n shop patch sts/db --type strategic -p '{"spec":{"template":{"spec":{"containers":[{"name":"app","resources":{"limits":{"cpu":null}}}]}}}}'`,
		{Group: "batch", Kind: "CronJob"}: `kubectl -n shop patch sts/db --type strategic -p ` +
			`'{"spec":{"jobTemplate":{"spec":{"template":{"spec":{"containers":[{"name":"app","resources":{"limits":{"cpu":null}}}]}}}}}}'`,
		{Group: "batch", Kind: "Job"}:           "", // its template is immutable
		{Group: "argoproj.io", Kind: "Rollout"}: "", // not a strategic merge
	} {
		w := kind
		w.Namespace, w.Name = "shop", "db"
		in := &Input{Subject: Subject{Workload: w, Command: "sts/db"}, Pods: []*cluster.Pod{{Containers: []cluster.Container{
			{Name: "app", Requests: cluster.Amounts(100, gib), Limits: cluster.Amounts(200, gib)},
		}}}}
		s, found := smallCPULimit(in)
		if !found || s.Advice.Command != want || want == "" && strings.Contains(s.Advice.Text, "remove") {
			t.Errorf("%s: got %v and command %s", kind.Kind, found, s.Advice.Command)
		}
	}
}
