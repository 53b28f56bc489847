// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package checkpoint stores usage histograms and model state in the API server and reads them back: histograms in
// VerticalPodAutoscalerCheckpoints, in upstream's format, and the model state of sizing profiles in UsageHistories. It also stores what
// the updater has recorded about its actions, in UpdateStates.
//
// It does not decide what is stored, or when.
package checkpoint
