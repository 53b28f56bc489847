// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package scalepoint keeps the targets of HorizontalPodAutoscalers (HPAs) in step with the requests of pods, so that an HPA scales at the
// same usage as before. An Adjuster writes the targets for the actions of a pass, and its Guard holds back the actions whose target could
// not be written.
//
// Package policy decides which target an HPA gets.
package scalepoint
