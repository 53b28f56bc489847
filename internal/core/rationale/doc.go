// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package rationale explains for a person how the size of a container comes about, step by step from the usage to the amount, and what it
// would be under other conditions.
//
// It computes no sizes of its own: they come from packages recommend and policy.
package rationale
