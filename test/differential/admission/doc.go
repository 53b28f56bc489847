// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package admission sends the same admission reviews to upstream's webhook and to podfit's, and compares the responses: new pods
// after the patch, and the validation of VPAs. Each intended difference is named at its test.
package admission
