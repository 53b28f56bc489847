// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package freeze stops requests of the updater that would change pods during a freeze.
package freeze
