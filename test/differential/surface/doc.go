// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package surface compares names that users, manifests and dashboards refer to: flags and their values, metrics, objects and
// RBAC rules. Upstream's flags are global, so each of its components reports them in a separate process.
package surface
