// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package metrics reads what containers use from the Metrics API (metrics.k8s.io) and turns it into samples.
//
// It reads the whole cluster, or one namespace, with one request per pass, and decodes it without building the objects:
// of some 300 bytes a pod only two names, a time and two amounts matter. It decides nothing: whether a sample counts is
// the business of package usage.
package metrics
