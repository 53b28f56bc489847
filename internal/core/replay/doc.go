// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package replay runs recorded usage through the code that runs in a cluster, measures the results and ranks them: the
// samples go into a usage.Store, a recommend.Profile recommends, package policy applies bounds, and package plan decides
// when a pod is changed.
//
// A decision uses only samples from before the minute in which it is made. The result depends only on the trace and the
// options. The package does no I/O. Run replays one workload with one profile, so that callers can run several at a time.
package replay
