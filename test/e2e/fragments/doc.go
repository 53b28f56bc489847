// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package fragments carries out the moves of "podfit capacity --fragments" on a local cluster with twelve nodes: the API server decides about each
// eviction, and the scheduler about each replacement.
package fragments
