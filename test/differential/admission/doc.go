// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package admission sends the same admission reviews to upstream's webhook and to podfit's, and compares the answers: what
// a new pod looks like with the patch applied, and what is said of an autoscaler. Differences are those that are meant;
// each is named where a test shows it.
package admission
