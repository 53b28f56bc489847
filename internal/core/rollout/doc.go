// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package rollout decides when the pods of a workload may be changed: freezes, change windows, the limit on the amount of changes in an
// hour, and canaries. It does not decide which pods change, or how many at a time: package plan does.
//
// All functions are pure. Package plan calls them, and keeps their results from one pass to the next in its ledger.
package rollout
