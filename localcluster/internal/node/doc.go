// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package node runs nodes: the unchanged kubelet over a container runtime, a cAdvisor and a cgroup tree that are simulated in
// memory. The kubelet does admission, allocation, resize, eviction, probes, restarts and status. Package machine determines
// what containers use and when they are killed.
package node
