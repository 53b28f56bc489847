// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package metrics reads the usage of containers from the Metrics API (metrics.k8s.io) or the external metrics API
// (external.metrics.k8s.io), and converts it to samples.
//
// It reads the whole cluster or one namespace with one request per pass, and decodes the list without building objects: of
// about 300 bytes per pod, only two names, a time and two quantities are needed. It makes no decisions: package usage
// decides whether a sample counts.
package metrics
