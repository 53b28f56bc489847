// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package inspection reads what no watch delivers, when a person asks for it: the details and labels of pods, the Services and Prometheus
// objects of the cluster and the way to them through the API server, the UID of the cluster, and the rights of a viewer of the web page.
//
// Each function sends its requests when it is called and stores nothing. It changes nothing in the cluster.
package inspection
