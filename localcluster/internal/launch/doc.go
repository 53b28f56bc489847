// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package launch builds the parts of a local cluster, starts them on free loopback ports, monitors them, and stops all of
// them in every case. It uses only the executables of Kubernetes, no packages, and calls the API server with plain HTTP.
package launch
