// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package decision declares what a decision of the updater consists of: the acts, the reasons with their texts, and the refusals of the
// API server. It decides nothing; package plan does.
package decision
