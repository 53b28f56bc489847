// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package apply compares how recommendations are applied to pods with upstream's own code: what a pod gets, which pods
// change and in which order, and how many at a time. Differences are those that are meant, and each test names them.
package apply
