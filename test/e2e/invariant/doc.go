// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package invariant checks rules that hold in every test for the actions of podfit. Its input is a log of observations: the
// writes of podfit's service accounts from the API server's audit log, and states of pods, controllers, budgets and VPAs.
// Its output is a list of violations with their evidence.
//
// The package is pure: it reads no clock and does no I/O. Package bed collects the observations.
package invariant
