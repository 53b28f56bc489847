// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package differential compares podfit with upstream's own code: the same random input goes into both, and what comes
// out must be the same, but for the Differences that are listed by name with their reasons.
//
// Each subject has a file or a folder of its own: histogram_test.go, prometheus_test.go, apply, admission, behaviour, surface. The
// comparisons generate their input with rapid, by way of cases, so that a failure is shrunk to the smallest input that
// shows it, and its seed is printed:
//
//	go test -run TestRecommendation -rapid.seed=12345
//
// A difference has a test of its own, too, which fails when upstream no longer does what it is listed for. The general
// comparison either never generates what leads to the difference, or predicts from upstream's code what it comes to.
//
// How many cases each comparison runs is its own choice; together they are more than 200,000 and take two minutes.
// They are the same each time, so that a test that begins to fail has met a change. PODFIT_DIFFERENTIAL=20 runs twenty
// times as many, as every night, and others each time.
package differential
