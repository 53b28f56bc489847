// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package plan decides what happens to running pods: which are left alone, which are resized and which are evicted, and
// why. It is the updater's judgement, as a function of the world and the time.
//
// Plan never writes, and the same world at the same time gives the same decisions in the same order, whatever the order
// of its input. What was tried before, and whether it helped, is in the Ledger, which Plan only reads.
//
// Plan takes for granted that every decision is carried out. A Pass is told the outcome of each: done, refused, unknown,
// or not tried. What was not done gives its budget back, and the pass answers with what can be done instead. Outcomes
// are kept in the Ledger, so that what was refused is tried again later, and after everything else.
//
// Neither knows rates: decisions come in the order of their importance, and whoever executes them stops when its rate
// limiter says so. What was not done is planned again by the next pass.
package plan
