// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package actuation sends the requests with which the updater changes workloads: it resizes, annotates, evicts and deletes pods, sets the
// replicas of Deployments for surges, and sets the targets of HorizontalPodAutoscalers.
//
// Each request requires that the object is the one that the decision was about. It is sent once, and its error has the reason for which the
// API server refused it (package kube). The package does not retry and makes no decisions.
package actuation
