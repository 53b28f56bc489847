// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package forecast keeps the CapacityPlan of the cluster up to date: once a minute it measures the pools of nodes, records the maximum of
// the day, and computes the forecast. It stores the plan in the cluster when it has changed, and publishes it as metrics. It runs beside the
// passes of the recommender, with the same watches.
package forecast
