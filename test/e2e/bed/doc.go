// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package bed is the test bed of the demo and the end-to-end tests. It starts a local cluster with a real control plane, and
// podfit's processes outside of it, each with the rights of its own service account. It has functions to apply and read objects
// and to wait. It checks nothing about podfit.
package bed
