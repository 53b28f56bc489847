// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package differential compares podfit with upstream's own code. Both get the same random input, and their output must be equal,
// except for the deviations that package compatibility lists with their reasons.
//
// Each subject has its own file or folder: histogram_test.go, prometheus_test.go, apply, admission, behaviour, surface. The
// comparisons generate their input with rapid, through package cases. A failure is shrunk to the smallest input that causes it,
// and its seed is printed:
//
//	go test -run TestRecommendation_randomUsage_equalsUpstream -rapid.seed=12345
//
// Each difference also has its own test, which fails when upstream no longer behaves as listed. The general comparison either
// does not generate input that leads to the difference, or computes the expected result with upstream's code.
//
// Each comparison sets its number of cases. In total there are more than 200,000, which take two minutes. They are the same in
// each run, so that a test that starts to fail is caused by a change. PODFIT_DIFFERENTIAL=20 runs twenty times as many, with
// other cases in each run.
package differential
