// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package price reads the prices of nodes: from a file, or from the metrics of OpenCost in a Prometheus.
package price
