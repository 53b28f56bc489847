// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package trace reads recorded usage from files and writes what a backtest made of it: timelines and reports.
//
// It refuses what it cannot make sense of, with the file and the line, rather than to guess: a figure that comes out
// of a backtest comes from data that were understood.
package trace
