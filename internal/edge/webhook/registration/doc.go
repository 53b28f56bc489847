// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package registration makes the webhook known to the API server. It reads or creates the certificates of the webhook, renews
// them, and keeps the MutatingWebhookConfiguration up to date.
//
// It does not serve reviews; package webhook does, and calls this package in a loop.
package registration
