// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package v1

import "k8s.io/apimachinery/pkg/runtime/schema"

// GroupName is the API group of the autoscaler and its checkpoints.
const GroupName = "autoscaling.k8s.io"

// The plural names by which the API server serves the two kinds.
const (
	ResourceAutoscalers = "verticalpodautoscalers"
	ResourceCheckpoints = "verticalpodautoscalercheckpoints"
)

// GroupVersion returns autoscaling.k8s.io/v1.
func GroupVersion() schema.GroupVersion {
	return schema.GroupVersion{Group: GroupName, Version: "v1"}
}
