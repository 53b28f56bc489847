// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package app wires podfit: one file per command with its configuration, its flags and its loop.
//
// It builds the edges and hands their values to the core, on a tick. It takes no sizing or disruption
// decision itself; those are made in core, and it translates nothing; that is done in edge.
//
//go:generate go test . -run TestFlagsAndMetricsAreDocumented -update
package app
