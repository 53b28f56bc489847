// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package rollout decides when running pods may be changed, apart from what their change would do: freezes, change windows, the
// limit on the amount of changes in an hour, and canaries.
//
// All functions are pure. Package plan calls them, and stores what must last in its ledger. This package knows no pods that should
// change, and no budgets.
package rollout
