// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package prom reads usage history from Prometheus, or from anything that answers its HTTP API.
//
// It asks for one namespace and one stretch of time after the other, so that neither side ever holds the history of
// the whole cluster. It decides nothing: samples and labels come out as they were stored.
package prom
