// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import "testing"

func TestNode_poolAndRole_areReadFromLabels(t *testing.T) {
	for name, c := range map[string]struct {
		labels     []string
		pool, role string
	}{
		"no labels":           {nil, "", ""},
		"most specific label": {[]string{"karpenter.sh/nodepool=spot", "node.kubernetes.io/instance-type=m5.large"}, "spot", ""},
		"empty value":         {[]string{"karpenter.sh/nodepool=", "node.kubernetes.io/instance-type=m5.large"}, "m5.large", ""},
		"only a role":         {[]string{"node-role.kubernetes.io/worker="}, "", "worker"},
		"two roles":           {[]string{"node-role.kubernetes.io/control-plane=", "node-role.kubernetes.io/worker="}, "", "control-plane"},
		"another prefix":      {[]string{"node-role.kubernetes.iox=", "zone=a"}, "", ""},
	} {
		n := Node{Labels: c.labels}
		if pool, _ := n.Pool(); pool != c.pool {
			t.Errorf("%s: pool %q, want %q", name, pool, c.pool)
		}
		if role, _ := n.Role(); role != c.role {
			t.Errorf("%s: role %q, want %q", name, role, c.role)
		}
	}
}
