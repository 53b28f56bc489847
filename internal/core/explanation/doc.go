// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package explanation describes for a person what has happened to the pods of a workload, what happens next, what can be done about it,
// and why. Its input is the state of the cluster and the decisions of a planned pass.
//
// It decides nothing: the decisions and gates come from package plan, so that an explanation cannot differ from what the updater does.
package explanation
