// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package process

import (
	"runtime/debug"
	"testing"
)

func TestVersionOf_buildInformation_namesReleaseOrCommit(t *testing.T) {
	settings := func(pairs ...string) (out []debug.BuildSetting) {
		for i := 0; i < len(pairs); i += 2 {
			out = append(out, debug.BuildSetting{Key: pairs[i], Value: pairs[i+1]})
		}
		return out
	}
	for name, tt := range map[string]struct {
		info debug.BuildInfo
		want string
	}{
		"release": {debug.BuildInfo{Main: debug.Module{Version: "v1.2.3"}}, "v1.2.3"},
		"checkout": {debug.BuildInfo{Main: debug.Module{Version: "(devel)"}, Settings: settings("vcs.revision", "0123456789abcdef0123", "vcs.time", "2026-11-22T10:00:00Z")},
			"dev-0123456789ab (2026-11-22)"},
		"changed checkout":        {debug.BuildInfo{Settings: settings("vcs.revision", "0123456789abcdef0123", "vcs.modified", "true")}, "dev-0123456789ab-modified"},
		"without version control": {debug.BuildInfo{Main: debug.Module{Version: "(devel)"}}, "dev"},
	} {
		if got := versionOf(&tt.info); got != tt.want {
			t.Errorf("%s: got %q, want %q", name, got, tt.want)
		}
	}
}
