// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package kube connects to the Kubernetes API server and changes objects in it: it resizes and evicts pods, sends events, holds the
// lease of the webhook and lists SizingProfiles. It classifies the errors of the API server, and stops sending requests when the
// process is no longer the leader (Fence).
//
// Its folders are packages of their own: projection converts objects to core types, watcher watches and stores them, and
// checkpoint stores usage histories.
//
// It makes no decisions.
package kube
