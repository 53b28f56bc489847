// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package projection converts Kubernetes objects to the values of package cluster, which keep only the fields that podfit
// reads. Every field of a watched object that podfit reads is named here, and only here.
//
// A projection never fails: a field that is missing or cannot be interpreted gets its default. A projection shares no memory
// with the object but single strings, so that the object itself can be garbage collected. The package reads nothing from the
// API server and makes no decisions.
package projection
