// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package contract contains tables of upstream's flags and metrics. They describe upstream 1.8.
//
// Tests of this package compare the CRDs and manifests in deploy/ with upstream's. Tests of other packages compare podfit's flags and
// metrics with the tables. Only tests import this package.
package contract
