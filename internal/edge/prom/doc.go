// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package prom reads usage history from Prometheus, or from a server with the same HTTP API.
//
// It queries one namespace and one time range after the other, so that neither side holds the history of the whole
// cluster in memory. It makes no decisions: it returns samples and labels as they are stored.
package prom
