// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package updater is the job that applies recommendations to running pods: it resizes them in place or evicts them.
//
// The core decides what is done with which pod (core/plan); this package carries it out, and reports what could not be done.
package updater
