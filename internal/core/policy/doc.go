// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package policy computes the requests and limits of containers from recommendations. It bounds a recommendation by the container
// policy of the user, the LimitRanges of the namespace and the limits of the pod, and returns what it changed as notes.
//
// The recommender uses Cap, which depends on the autoscaler only. The updater and the webhook use Fit, which also depends on the
// pod, so that the updater expects the size that the webhook sets on a new pod.
//
// All functions accept any input: containers without recommendation, requests or policy, absent bounds and extreme amounts give a
// result and no panic. Package plan decides whether a pod is changed.
package policy
