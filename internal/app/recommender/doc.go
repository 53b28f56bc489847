// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package recommender contains the recommender: it reads usage and writes recommendations to the status of
// VerticalPodAutoscaler objects.
//
// It reads the cluster and usage through the edge packages, calls the core to compute recommendations, and stores the usage
// history. It changes no pods.
package recommender
