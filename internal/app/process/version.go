// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"runtime/debug"
)

// Version is what this binary calls itself. The build sets it.
var Version = "dev"

func buildVersion() string {
	if Version != "dev" {
		return Version
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" && info.Main.Version != "(devel)" {
		return info.Main.Version
	}
	return Version
}
