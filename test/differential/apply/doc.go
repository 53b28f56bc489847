// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package apply compares with upstream's own code how recommendations are applied to pods: the resulting sizes, which pods are
// changed and in which order, and how many at a time. Each test names the intended differences.
package apply
