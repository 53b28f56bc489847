// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package review

import (
	"cmp"
	"strings"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/edge/report/terminal"
)

// shortKinds are kubectl's short names of kinds.
var shortKinds = map[string]string{
	"Deployment": "deploy", "StatefulSet": "sts", "DaemonSet": "ds", "ReplicaSet": "rs", "ReplicationController": "rc",
	"CronJob": "cj", "Job": "job", "Pod": "pod",
}

// ShortName returns "namespace/deploy/name".
func ShortName(w cluster.Workload) string {
	return plain(w.Namespace + "/" + cmp.Or(shortKinds[w.Kind], strings.ToLower(w.Kind)) + "/" + w.Name)
}

func plain(s string) string { return terminal.Plain(s) }
