// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package launch builds the parts of a local cluster, starts them on free loopback ports, watches over them, and
// stops them all, whatever happens. It needs nothing of Kubernetes but the executables: it speaks to the API server
// in plain HTTP.
package launch
