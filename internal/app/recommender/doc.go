// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package recommender is the job that reads usage and writes recommendations into the status of VerticalPodAutoscalers.
//
// It reads the cluster through edge packages and stores usage history. It makes no decisions about sizes: core/sizing selects the profile and
// the model state of each workload, and core/recommend computes the recommendation.
package recommender
