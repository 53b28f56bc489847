// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package kube talks to the Kubernetes API server.
//
// It watches what podfit needs to know (pods, autoscalers, controllers, limit ranges, nodes, evictions), keeps of each
// object only a projection, and hands out snapshots in the words of package cluster. It writes what podfit has decided:
// statuses, checkpoints, resizes, evictions, events, the lease of the webhook.
//
// It decides nothing. Each field that podfit reads of a Kubernetes object is named here, and only here. What it has
// learnt it keeps when the API server is away or refuses to answer: an error never empties a store.
package kube
