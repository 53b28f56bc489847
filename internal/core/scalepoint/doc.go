// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package scalepoint computes how the target of a HorizontalPodAutoscaler (HPA) follows the requests of its pods, so that a change of the
// requests does not make the HPA scale: the scale point, target × request, is the usage at which it does.
//
// Package policy keeps requests in the range that a scale point allows. The updater writes the targets.
package scalepoint
