// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package bed

import "syscall"

// dieWithParent keeps a Ctrl-C at the terminal from the child, because this process stops the child itself.
func dieWithParent() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
