// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package decision has the words in which the updater's decisions are expressed: the acts, the reasons with their texts, and the refusals
// of the API server. It decides nothing; package plan does.
package decision
