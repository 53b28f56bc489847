// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package explanation

import "podfit.dev/podfit/internal/core/plan"

// gates are the words for gates.
var gates = map[plan.GateName]string{
	plan.GateMode: "update mode", plan.GateRecommendation: "recommendation", plan.GateController: "controller", plan.GateNeed: "need for a change",
	plan.GateState: "state of the pod and its node", plan.GateInterruption: "outcome of the last pass", plan.GateWindow: "freezes and change windows",
	plan.GateSurge: "surge of the workload", plan.GateSize: "size of a replacement", plan.GateAdmission: "admission by the API server",
	plan.GateQuota: "ResourceQuotas", plan.GateSiblingQuota: "quota refusal of another pod", plan.GateNodeSize: "size of the nodes",
	plan.GateRequirements: "eviction requirements", plan.GateReplacements: "replacements of evicted pods", plan.GateEvictionEffect: "effect of earlier evictions",
	plan.GateResizeEffect: "effect of earlier resizes", plan.GateProbe: "test eviction of another pod", plan.GateFrequency: "number of recent replacements",
	plan.GateEvictionRefusal: "back-off after a refused eviction", plan.GateResizeRefusal: "back-off after a refused resize",
	plan.GateReplicas: "number of replicas", plan.GateMinReplicas: "minimum of replicas", plan.GateCanary: "canary",
	plan.GateHourlyShare: "share of requests changed in an hour", plan.GateSurgeEffect: "back-off after a failed surge", plan.GateBudget: "eviction tolerance",
	plan.GateResizing: "resize in progress", plan.GateStarted: "start of the pod", plan.GateKills: "number of OOM kills", plan.GateData: "data of the pod",
	plan.GateRescue: "rescue of another pod", plan.GateOthers: "other pods of the disruption budget", plan.GateDeletionRefusal: "back-off after a refused deletion",
}

// gateWords returns the words for a gate.
func gateWords(name plan.GateName) string {
	if words, ok := gates[name]; ok {
		return words
	}
	return string(name)
}
