// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package boards tests the Grafana boards with the workloads of the demo: a real Prometheus scrapes podfit, kube-state-metrics and the
// kubelets, and evaluates the expression of each panel.
package boards
