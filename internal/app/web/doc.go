// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package web is the job that serves the web page: as a command of its own with a kubeconfig, or inside "podfit run".
//
// It reads the cluster and writes nothing.
package web
