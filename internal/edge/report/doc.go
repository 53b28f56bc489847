// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package report writes the result of a backtest: as a table for a terminal, as JSON, CSV or HTML, and as a timeline
// of requests in CSV.
//
// It formats a replay.Comparison and calculates nothing; package replay measures and ranks.
package report
