// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package overbooking tests podfit on a cluster whose requests are far above its usage: three simulated nodes of 64 cores, and a real Prometheus
// with 60 days of history and podfit's alerts. See TestOverbooking_threeNodesOf64Cores for what is real and what is simulated.
package overbooking
