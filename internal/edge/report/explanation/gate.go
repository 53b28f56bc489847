// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package explanation

import (
	"cmp"

	"podfit.dev/podfit/internal/core/gate"
)

// gates are the words for gates.
var gates = map[gate.Name]string{
	gate.Mode: "update mode", gate.Recommendation: "recommendation", gate.Controller: "controller", gate.Need: "need for a change",
	gate.State: "state of the pod and its node", gate.Interruption: "outcome of the last pass", gate.Window: "freezes and change windows",
	gate.Surge: "surge of the workload", gate.Size: "size of a replacement", gate.Admission: "admission by the API server",
	gate.Protection: "annotations against eviction", gate.Quota: "ResourceQuotas", gate.SiblingQuota: "quota refusal of another pod", gate.NodeSize: "size of the nodes",
	gate.Requirements: "eviction requirements", gate.Replacements: "replacements of evicted pods", gate.EvictionEffect: "effect of earlier evictions",
	gate.ResizeEffect: "effect of earlier resizes", gate.Probe: "test eviction of another pod", gate.Frequency: "number of recent replacements",
	gate.EvictionRefusal: "back-off after a refused eviction", gate.ResizeRefusal: "back-off after a refused resize",
	gate.Replicas: "number of replicas", gate.MinReplicas: "minimum of replicas", gate.WayBack: "way back for a failed canary", gate.Canary: "canary",
	gate.HourlyShare: "share of requests changed in an hour", gate.SurgeEffect: "back-off after a failed surge", gate.Budget: "eviction tolerance",
	gate.Resizing: "resize in progress", gate.Started: "start of the pod", gate.Kills: "number of OOM kills", gate.Data: "data of the pod",
	gate.Rescue: "rescue of another pod", gate.Others: "other pods of the disruption budget", gate.Announcement: "record of the updater", gate.DeletionRefusal: "back-off after a refused deletion",
}

func gateWords(name gate.Name) string { return cmp.Or(gates[name], string(name)) }
