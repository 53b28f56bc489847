// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

// A Placeholder is the part of a placeholder pod that other pods do not have. A placeholder pod holds room on a node for the
// replacement of a pod that is going to be evicted.
type Placeholder struct {
	UID string // of the pod that is going to be evicted
	Pod string // its name; it is in the namespace of the placeholder
}
