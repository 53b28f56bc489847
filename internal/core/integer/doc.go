// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package integer computes with amounts of resources, in millicores and bytes, exactly and without overflow: a result that does not fit is the
// largest int64. Negative amounts are not valid in Kubernetes, and count as zero.
package integer
