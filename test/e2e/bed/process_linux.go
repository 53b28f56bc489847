// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package bed

import "syscall"

// dieWithParent has the kernel ask the child to end when we are gone, even when we were killed.
func dieWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
}
