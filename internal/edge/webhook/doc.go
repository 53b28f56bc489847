// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package webhook is podfit's door to pod admission. It reads AdmissionReviews, asks the core what a new pod should
// run with, and answers with a JSON patch; it defaults and validates VerticalPodAutoscalers; and it keeps the
// certificates and the registration by which the API server finds and trusts it.
//
// It decides nothing about sizes, and it makes no API call while a review waits: what it needs is in memory, or it
// lets the pod pass. A pod is never refused.
package webhook
