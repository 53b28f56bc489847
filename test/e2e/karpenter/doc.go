// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package karpenter has no code; its tests run podfit with Karpenter as the autoscaler of the nodes.
package karpenter
