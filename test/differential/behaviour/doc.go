// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package behaviour runs upstream's updater and podfit's in simulated time against the same simulated API server, in random
// worlds, and compares what becomes of the pods. The tests of package apply compare single decisions; the tests here compare
// hours of passes, with refusals, lost replies, quotas and pods that are slow to start.
package behaviour
