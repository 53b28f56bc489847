// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import "time"

// Plan returns a decision for every governed pod that lives, in the order in which they are to be executed: first those
// that change something, the most pressing before the others, then the pods that are left, by name.
func Plan(now time.Time, w World, b Budget) []Decision { return nil }
