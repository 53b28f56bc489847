// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package reading tests the commands that only read, recommend and explain, on a local cluster of their own: no other test changes it.
package reading
