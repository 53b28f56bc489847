// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package admission checks podfit against the API server's own code: a pod that is admitted without podfit is admitted with it.
package admission
