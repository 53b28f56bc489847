// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package capacity is the job of "podfit capacity": it reads the state of the cluster once, and the history from the CapacityPlan or from
// Prometheus, and reports how much of the capacity of each pool of nodes is requested and when the pool will be full. It changes nothing.
package capacity
