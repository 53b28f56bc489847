// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package backtest is the job that replays recorded usage through several profiles and compares the results.
package backtest
