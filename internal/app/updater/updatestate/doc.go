// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package updatestate keeps the ledger of the updater in UpdateState objects: a Recorder loads them before the first pass, announces
// the actions of a pass, and stores their outcomes after it.
//
// It decides nothing about pods. Package ledger restores what it loads, and exports what it stores.
package updatestate
