// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

//go:build race

package web

const raceDetector = true
