// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package process

import (
	"errors"
	"fmt"
	"net"
	"syscall"
)

// ListenError returns the error of listening on the address of a flag, with the remedy.
func ListenError(flag, address string, err error) error {
	var invalid *net.AddrError
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return fmt.Errorf("listen on %s %s: another process uses this port; end it, or choose another port with %s (%w)", flag, address, flag, err)
	case errors.Is(err, syscall.EACCES):
		return fmt.Errorf("listen on %s %s: this user may not use this port; choose a port from 1024 on with %s (%w)", flag, address, flag, err)
	case errors.As(err, &invalid):
		return fmt.Errorf("%s must be an address such as :8942 or 127.0.0.1:8942, got %q (%w)", flag, address, err)
	}
	return fmt.Errorf("listen on %s %s: %w", flag, address, err)
}
