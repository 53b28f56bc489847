// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package commandline answers wrong calls of podfit with the remedy, and prints help that fits the terminal.
package commandline
