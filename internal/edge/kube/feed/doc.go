// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package feed lists and watches one collection of the API server, and passes projections of its objects to a store.
//
// It retries failed requests, skips an object whose projection panics, ends requests that get no response, and knows when the store may
// be out of date. It does not know which collections there are or what their objects mean: package watcher does.
package feed
