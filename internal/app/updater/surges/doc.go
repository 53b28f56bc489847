// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package surges carries out surges, which replace a pod without taking it out of service first. A Surger begins a surge, and takes one
// step of each surge in progress before the decisions of a pass. Package surge decides which step that is.
//
// It does not decide which pods are surged: that is a decision of package plan.
package surges
