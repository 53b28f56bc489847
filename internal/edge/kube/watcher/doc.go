// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package watcher watches the API server and stores what podfit needs to know about the cluster.
//
// It watches pods, autoscalers, controllers, limit ranges, resource quotas, nodes and eviction events (one feed.Feed for each), and stores
// their projections (package projection). One World contains all of them behind one mutex, because owners, rules and snapshots combine
// several kinds of objects: that is one topic, so the package is not split further. The kinds that the API server serves, and the scales of
// controllers that are not watched, are in a scale.Cache. Errors of the API server never remove stored state. The package also writes the
// status of autoscalers, because the response to a write replaces the stored object before the watch delivers it.
//
// It makes no decisions.
package watcher
