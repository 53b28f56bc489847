// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package recommender is the job that reads usage and writes recommendations into the status of VerticalPodAutoscalers.
//
// It reads the cluster through edge packages, lets the core decide on every number, and stores what was learnt.
package recommender
