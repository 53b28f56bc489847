// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package policy turns an estimate into what a container should run with: it holds the estimate within what the
// user allows, what the namespace's LimitRanges demand and what the pod's own limits permit, and says what it changed.
//
// The recommender uses Cap, which knows only the autoscaler. The updater and the webhook use Fit, which also knows the
// pod, so that what an update expects and what a new pod gets are one computation.
//
// Every function is total: containers without recommendation, requests or policy, absent bounds and extreme amounts
// give a result, never a panic. Nothing here decides whether a pod is changed at all; that is package plan.
package policy
