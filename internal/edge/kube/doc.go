// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package kube connects to the Kubernetes API server and changes objects in it: it resizes and evicts pods, sends events, holds the
// lease of the webhook and lists SizingProfiles. It classifies the errors of the API server, and stops sending requests when the
// process is no longer the leader (Fence).
//
// Package watcher, in a folder of this one, knows the state of the cluster. Package checkpoint stores usage history.
//
// It makes no decisions.
package kube
