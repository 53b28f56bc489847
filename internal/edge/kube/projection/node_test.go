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

// The kubelet is reached at the first internal address, as metrics-server does. Without its port it is not known.
func TestNode_kubelet_isTheFirstInternalAddressWithItsPort(t *testing.T) {
	addresses := []corev1.NodeAddress{
		{Type: corev1.NodeHostName, Address: "n1"}, {Type: corev1.NodeInternalIP, Address: "fd00::7"}, {Type: corev1.NodeInternalIP, Address: "10.0.0.7"},
	}
	for _, c := range []struct {
		addresses []corev1.NodeAddress
		port      int32
		want      string
	}{
		{addresses, 10250, "[fd00::7]:10250"}, {addresses[2:], 10250, "10.0.0.7:10250"}, {addresses[:1], 10250, ""}, {addresses, 0, ""},
	} {
		n := &corev1.Node{Status: corev1.NodeStatus{Addresses: c.addresses}}
		n.Status.DaemonEndpoints.KubeletEndpoint.Port = c.port
		if got := Node(n, new(Interner)).Kubelet; got != c.want {
			t.Errorf("%v, port %d: %q, want %q", c.addresses, c.port, got, c.want)
		}
	}
}
