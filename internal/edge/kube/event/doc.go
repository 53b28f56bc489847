// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package event sends the Kubernetes events of the updater, with upstream's reasons and texts, and reads events for explanations and the web
// page. It does not decide which events are sent.
package event
