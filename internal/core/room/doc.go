// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package room plans how the pods of one node get the room that their resizes need: which pods shrink in place, which pod grows in
// part for now, and which pods move to other nodes.
//
// Make is a function of its input: the same node gives the same steps, whatever the order of the pods. It works on the total
// requests of pods, because nodes have room for pods, not for containers. It does not decide whether a pod may be resized or
// evicted at all: the caller passes only pods and steps that are allowed.
package room
