// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package admission is the job that serves the admission webhook: new pods get their recommended size, and
// VerticalPodAutoscalers are checked.
//
// The webhook itself is in edge/webhook; this package gives it its view of the cluster and its configuration.
package admission
