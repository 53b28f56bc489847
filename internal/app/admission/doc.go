// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package admission is the job that serves the admission webhook: it sets the size of new pods and validates
// VerticalPodAutoscalers.
//
// Package edge/webhook contains the webhook. This package configures it, gives it the watched objects of the cluster, and renews
// the status lease while the webhook works.
package admission
