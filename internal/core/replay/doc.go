// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package replay runs recorded usage through the same core that runs in a cluster, and measures what would have come
// of it: the samples go into a usage.Book, a recommend.Profile sizes, policy bounds, plan decides when a pod is changed.
//
// It never looks ahead: a decision at a minute has seen only samples from before that minute. It is a function of the
// trace and the options alone. It reads and writes nothing; one workload and one profile at a time, so that whoever
// calls it may share out the work as he likes.
package replay
