// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package capacity is the job of "podfit capacity": it reads the state of the cluster once, and the history from the CapacityPlan or from
// Prometheus, and reports how booked each pool of nodes is and when it will be full. It changes nothing.
package capacity
