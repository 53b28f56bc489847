// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package discovery chooses the Service of a Prometheus, Thanos, VictoriaMetrics or Mimir among the Services of a cluster. It sends
// no requests.
package discovery
