// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package process

import (
	"runtime/debug"
	"strings"
)

// Version is the version of this binary. The build sets it.
var Version = "dev"

// BuildVersion returns Version. If the build did not set it, it returns the module version and the commit in the build information.
func BuildVersion() string {
	if Version != "dev" {
		return Version
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return Version
	}
	return versionOf(info)
}

// versionOf returns the version that the build information contains: the module version if there is one, else the commit and its date.
func versionOf(info *debug.BuildInfo) string {
	if v := info.Main.Version; v != "" && v != "(devel)" {
		return v
	}
	settings := map[string]string{}
	for _, s := range info.Settings {
		settings[s.Key] = s.Value
	}
	commit := settings["vcs.revision"]
	if commit == "" {
		return "dev"
	}
	v := "dev-" + commit[:min(12, len(commit))]
	if settings["vcs.modified"] == "true" {
		v += "-modified"
	}
	if date, _, ok := strings.Cut(settings["vcs.time"], "T"); ok {
		v += " (" + date + ")"
	}
	return v
}
