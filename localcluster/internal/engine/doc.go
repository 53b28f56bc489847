// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package engine is a container engine in memory: what containerd is to a kubelet, over a machine that is simulated
// too. It answers the kubelet's calls, keeps the books on what containers use, and lets tests and demos look in and
// interfere.
package engine
