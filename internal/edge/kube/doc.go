// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package kube connects to the Kubernetes API server. It has what every job needs: clients, the lease of the webhook, amounts of
// resources, and the errors of the API server by reason. It sends no request while the process is not the leader (Fence), while changes are
// stopped (Gate), or while the API server asks for a delay (Sender).
//
// The packages below it use it: projection converts objects to core types, watcher watches and stores them, checkpoint stores usage
// histories, actuation and capacity send the requests of the updater, event sends and reads events, and inspection reads what a
// person asks for.
//
// It makes no decisions.
package kube
