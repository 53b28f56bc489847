// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package summary writes the condition Updating of VPAs: how many pods have the recommended size, and why the others wait.
//
// Of summarizes the decisions of a pass, and a Writer writes the conditions in parallel to the passes.
package summary
