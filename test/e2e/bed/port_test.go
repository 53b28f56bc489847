// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package bed

import (
	"fmt"
	"net"
	"testing"
)

// Other processes, such as the local clusters that start at the same time, choose their ports before those of this one listen.
func TestFreePort_nothingListens_noOtherProcessGetsIt(t *testing.T) {
	seen := map[int]bool{}
	for range 200 {
		port, err := FreePort()
		if err != nil {
			t.Fatal(err)
		}
		if seen[port] {
			t.Fatalf("port %d was returned twice", port)
		}
		seen[port] = true
		// This is how the local cluster looks whether a port is reserved.
		if l, err := net.Listen("unix", fmt.Sprintf("@podfit-port-%d", port)); err == nil {
			l.Close()
			t.Fatalf("port %d is not reserved", port)
		}
	}
}
