// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package capacity creates, reads and deletes requests for room for the replacement of a pod, before the pod is evicted: placeholder pods,
// which the scheduler places, and ProvisioningRequests, which cluster autoscaler serves.
//
// The names of the objects follow from the UID of the pod, so repeated requests create nothing twice. The package does not retry and makes no
// decisions.
package capacity
