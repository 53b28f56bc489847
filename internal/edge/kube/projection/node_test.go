// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package projection

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func TestNode_kernelVersion_isKept(t *testing.T) {
	n := &corev1.Node{Status: corev1.NodeStatus{NodeInfo: corev1.NodeSystemInfo{KernelVersion: "6.8.0-45-generic"}}}
	if got := Node(n, new(Interner)).Kernel; got != "6.8.0-45-generic" {
		t.Errorf("kernel %q", got)
	}
}
