// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package webhook serves the admission webhook. It reads AdmissionReviews, asks the core for the size of a new pod, and answers
// with a JSON patch. It also sets the default update policy of VerticalPodAutoscalers and validates them. Its server calls package
// registration to keep certificates and the webhook configuration up to date.
//
// It does not decide sizes. It makes no API call while a review waits for its answer: it reads everything from memory, and admits
// a pod unchanged if the data is missing. It never rejects a pod.
package webhook
