// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package ledger records the attempts to change pods and their effects: refusals with their back-off, evicted pods without a replacement,
// resizes that others undid, and the state of every step that takes longer than one pass. A Ledger can be stored and restored.
//
// The ledger decides nothing. Package plan reads it when it decides, reports the outcome of each attempt, and gives it the decisions and a
// View of the cluster once in each pass, from which it learns.
package ledger
