// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package trace reads recorded usage from CSV files.
//
// It rejects input that it does not understand, with the file and the line, and does not guess, so a backtest
// never uses data that may have been misread.
package trace
