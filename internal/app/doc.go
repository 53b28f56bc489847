// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package app is podfit's command line: it builds the command tree from the jobs, and runs all jobs in one process with
// "podfit run".
//
// Each job has a package of its own below: recommender, updater, admission and backtest. They do not import each other.
// What the processes of several jobs need is in package process.
//
//go:generate go test . -run TestDocs_flagsAndMetrics_matchCode -update
package app
