// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package process

import (
	"runtime/debug"
)

// Version is the version of this binary. The build sets it.
var Version = "dev"

// BuildVersion returns Version, or the module version in the build information if the build did not set it.
func BuildVersion() string {
	if Version != "dev" {
		return Version
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" && info.Main.Version != "(devel)" {
		return info.Main.Version
	}
	return Version
}
