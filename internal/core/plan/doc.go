// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package plan decides which running pods are left alone, resized or evicted, and why. The decisions are a function of the state
// of the cluster, the ledger and the time.
//
// Plan never writes, and the same world at the same time gives the same decisions in the same order, whatever the order
// of its input. Package ledger records earlier attempts and their effects. Plan only reads it.
//
// Plan assumes that every decision is carried out. The caller of a Pass reports the outcome of each decision: done, refused,
// unknown, or not tried. A decision that was not carried out returns its budget, and the pass returns the decisions that take its
// place. The ledger keeps the outcomes, so that a refused change is tried again later, after all others.
//
// Plan applies no rate limits: decisions are sorted by importance, and the caller stops when its rate limiter is exhausted. The
// next pass decides again on the remaining pods.
package plan
