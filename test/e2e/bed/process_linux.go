// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package bed

import "syscall"

// dieWithParent lets the kernel terminate the child when this process exits, also if it is killed.
func dieWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
}
