// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package provision asks for the room of replacements before pods are evicted, by placeholder pods and ProvisioningRequests.
//
// It does not decide when to ask: that is a decision of package headroom.
package provision
