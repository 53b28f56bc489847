// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package history moves the usage history of the recommender between its usage store and the outside: a Checkpointer loads checkpoints
// and model state at startup and stores them while the recommender runs, and a Backfill reads history from Prometheus.
//
// It makes no recommendations and decides no sizes. While history is missing, package recommender asks Backfill whether a
// recommendation may decrease.
package history
