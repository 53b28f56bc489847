// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package queue is the order in which the actions of a pass are carried out: lanes that do not wait for each other, rate limits, and the
// resizes that other actions wait for.
//
// It carries out no action, and does not decide which there are.
package queue
