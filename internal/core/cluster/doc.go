// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package cluster defines podfit's values for a cluster: resources, workloads, pods, containers, autoscalers and nodes, and
// which autoscaler governs a workload.
//
// It does no input or output and does not read the clock. The edges convert objects of the cluster into these values.
package cluster
