// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package series keeps the recent past of a container in little room: the highest usage of every hour.
//
// A histogram knows how much was used but not when. What decides a request is when: whether a peak was yesterday's or
// last month's, whether it comes every night. Two bytes an hour tell that for two weeks in 700 bytes.
//
// The package is pure; it never forgets by itself what it has room for, and it fails on nothing but a broken checkpoint.
package series
