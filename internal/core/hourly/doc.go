// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package hourly stores the peak usage of a container for each of the last hours.
//
// A histogram contains how much was used, but not when. Sizing also needs the time: whether a peak is of yesterday or of last
// month, and whether it repeats every night. Two weeks take 700 bytes, two bytes an hour.
//
// The package is pure. Only decoding can fail.
package hourly
