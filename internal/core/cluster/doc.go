// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package cluster holds the nouns podfit thinks in: resources, workloads, pods, containers,
// autoscalers and nodes, as plain values.
//
// It does no input or output, knows no clock, and decides nothing. Whoever reads a cluster
// translates it into these values once, at the door.
package cluster
