// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package engine is an in-memory container engine, in the place of containerd, on a simulated machine. It serves the kubelet's
// calls, records the usage of containers, and has a control API for tests and demos.
package engine
