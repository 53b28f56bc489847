// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package fleet determines how large a pod can be on the nodes of a cluster, and on those that can be added to it. Node selectors, affinities,
// taints and the pods of DaemonSets count; the pods that run on a node do not: the size of a pod must not change with its neighbours.
//
// Package policy bounds the size of a pod by the result, and package plan asks whether a node can be added.
package fleet
