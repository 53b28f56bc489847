// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package monitoring tests podfit's alerts and Grafana boards with the code of Prometheus.
package monitoring
