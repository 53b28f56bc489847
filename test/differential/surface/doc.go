// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package surface compares what users, manifests and dashboards know of the components by name: flags, what they take for
// a value, and metrics. What upstream has it says itself, in processes of its own, since its flags are global.
package surface
