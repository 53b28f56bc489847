// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package startup learns from the starts of containers how much more CPU a start needs than the recommendation, and for how long.
//
// An Observer follows one container of a new pod until Minutes after the pod is Ready, and returns a Start. Starts keeps the last ones of a
// container of a workload, and Learn compares them with the recommendation.
package startup
