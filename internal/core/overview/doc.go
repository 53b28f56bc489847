// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package overview computes what the web page shows: totals of the cluster, one row per workload with its risk and its surplus, pools of
// nodes, and a bounded journal of decisions.
//
// The package is pure. It makes no recommendations: it compares the recommendations in the status of VPAs with the requests of pods.
package overview
