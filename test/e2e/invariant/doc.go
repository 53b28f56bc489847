// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package invariant judges what podfit did to a cluster by what the API server saw. Its input is a log of facts: the
// writes of podfit's service accounts from the audit log, and the states of pods, controllers, budgets and autoscalers.
// Its output is a list of violations of rules that hold whatever the test, each with its evidence.
//
// The package is pure: it reads no clock, starts nothing, and asks no API server. Package bed collects the facts.
package invariant
