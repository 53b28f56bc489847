// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package throttling reads the CPU throttling of canaries from Prometheus, in parallel to the passes of the updater. It does not judge it:
// package rollout does.
package throttling
