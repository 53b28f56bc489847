// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package packing compares how many nodes upstream's rule and the profile packed need on a local cluster, and what happens to the pods there: 40 workloads
// of a trace on up to three nodes, whose day is played at 60 times its speed. See TestPacking_dayOfATrace_packedNeedsNoMoreNodes for what is real and what is simulated.
package packing
