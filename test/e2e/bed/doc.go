// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package bed is what the demo and the end-to-end tests lie on: a local cluster with a real control plane, podfit's own
// processes beside it, each with the rights of its own service account and no more, and the few questions one asks of
// a cluster while waiting. It judges nothing; that is for the demo and the tests.
package bed
