// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package contention reports containers that compete for CPU in conditions of VPAs: UsageAboveRequest, CPUThrottled, NoCPURequest and
// JVMSeesAllCores. An Observer reads the CPU throttling from Prometheus, in parallel to the passes of the recommender. The package does not
// judge what it reads: the package of the core with the same name does.
package contention
