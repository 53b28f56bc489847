// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package scale measures podfit recommend on a cluster with thousands of workloads and a real Prometheus.
package scale
