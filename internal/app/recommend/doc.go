// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package recommend is the job that compares the present requests of a cluster with recommended ones, once, and changes nothing.
package recommend
