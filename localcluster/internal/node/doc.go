// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package node runs nodes: the real kubelet, unchanged, over a container runtime, a cadvisor and a cgroup tree that
// are simulated in memory. Admission, allocation, resize, eviction, probes, restarts and status are the kubelet's
// own doing; what containers use, and what becomes of them when they use too much, comes from package machine.
package node
