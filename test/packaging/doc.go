// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package packaging tests the ways to install podfit: the manifests of deploy/, the kustomizations and the Helm chart. It compares them
// with each other and with upstream's chart, and tries them on the API server of the local cluster.
package packaging
