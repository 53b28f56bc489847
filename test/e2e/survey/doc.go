// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package survey tests that podfit reads thousands of containers from a real Prometheus that permits few samples per query.
package survey
