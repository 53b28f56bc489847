// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package plan decides what happens to running pods: which are left alone, which are resized and which are evicted, and
// why. It is the updater's judgement, as a function of the world and the time.
//
// Plan never writes, and the same world at the same time gives the same decisions in the same order, whatever the order
// of its input. What was tried before, and whether it helped, is in the Ledger, which Plan only reads.
//
// Plan does not know rates: decisions come in the order of their importance, and whoever executes them stops when its
// rate limiter says so. What was not done is planned again by the next pass.
package plan
