// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package recommender contains the recommender: it reads usage and writes recommendations to the status of
// VerticalPodAutoscaler objects.
//
// It reads the cluster through edge packages. Package history loads and stores the usage history. It makes no decisions about sizes:
// core/sizing selects the profile and the model state of each workload, and core/recommend computes the recommendation.
package recommender
