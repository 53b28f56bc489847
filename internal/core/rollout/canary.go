// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package rollout

import "time"

// DefaultWatch is how long a canary is watched if the autoscaler does not set it.
const DefaultWatch = 10 * time.Minute
