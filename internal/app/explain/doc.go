// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package explain is the command podfit explain: it reads the cluster once, plans the next pass of the updater without carrying it out, and
// writes what has happened to a workload, what happens next and what can be done.
//
// It sends only requests to get and list objects.
package explain
