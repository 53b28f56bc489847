// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package watcher watches the API server and keeps what podfit needs to know of the cluster.
//
// It watches pods, autoscalers, controllers, limit ranges, resource quotas, nodes and eviction events. Of each object it keeps only a
// projection, in the types of package cluster. Each field that podfit reads of these objects is named here, and only here. An error
// of the API server never removes what is known. The status of an autoscaler is written here too, because what was
// written takes the place of what the watch has shown.
//
// It makes no decisions.
package watcher
