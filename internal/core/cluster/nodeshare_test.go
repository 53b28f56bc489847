// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"math"
	"testing"
)

func TestNodeShare_sharesAndReplicas_areRoundedForTheNode(t *testing.T) {
	for name, tt := range map[string]struct {
		share            NodeShare
		replicas, wanted int64
		most, needed     int64
		text             string
	}{
		"quarter":            {NodeShare{Millicores: 64000, Share: 0.25}, 4, 20000, 16000, 5, "25 % of the allocatable CPU (64) of the smallest node"},
		"of capacity":        {NodeShare{Millicores: 4800, Share: 0.29, Base: OfCapacity}, 1, 1393, 1392, 2, "29 % of the CPU capacity (4800m) of the smallest node"},
		"exactly as much":    {NodeShare{Millicores: 4000, Share: 0.5}, 3, 4000, 2000, 6, "50 % of the allocatable CPU (4) of the smallest node"},
		"a tiny node":        {NodeShare{Millicores: 1, Share: 0.05}, 2, 3, 1, 6, "5 % of the allocatable CPU (1m) of the smallest node"},
		"node unknown":       {NodeShare{Share: 0.25}, 4, 20000, 0, 4, "25 % of the allocatable CPU (0) of the smallest node"},
		"no share":           {NodeShare{Millicores: 4000}, 4, 20000, 0, 4, "0 % of the allocatable CPU (4) of the smallest node"},
		"not a number":       {NodeShare{Millicores: 4000, Share: math.NaN()}, 4, 20000, 0, 4, "NaN % of the allocatable CPU (4) of the smallest node"},
		"more than the node": {NodeShare{Millicores: 4000, Share: 2}, 4, 8000, 4000, 8, "200 % of the allocatable CPU (4) of the smallest node"},
		"overflow":           {NodeShare{Millicores: 1, Share: 1}, math.MaxInt64, math.MaxInt64, 1, math.MaxInt64, "100 % of the allocatable CPU (1m) of the smallest node"},
	} {
		if got := tt.share.Most(); got != tt.most {
			t.Errorf("%s: at most %d, want %d", name, got, tt.most)
		}
		if got := tt.share.Replicas(tt.replicas, tt.wanted); got != tt.needed {
			t.Errorf("%s: %d replicas, want %d", name, got, tt.needed)
		}
		if got := tt.share.String(); got != tt.text {
			t.Errorf("%s: %q, want %q", name, got, tt.text)
		}
	}
}
