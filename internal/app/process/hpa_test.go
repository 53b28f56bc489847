// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package process

import (
	"strings"
	"testing"

	"podfit.dev/podfit/internal/edge/kube/watcher"
)

func TestCommon_hpaFlag_decidesWhetherHPAsAreWatched(t *testing.T) {
	for value, want := range map[string]bool{HPALeave: true, HPAIgnore: false} {
		c := CommonDefaults()
		c.HPA = value
		if err := c.Validate(); err != nil || c.Watched(watcher.Options{}).HPAs != want {
			t.Errorf("%s: error %v, watched %t, want %t", value, err, !want, want)
		}
	}
	defaults, wrong := CommonDefaults(), CommonDefaults()
	if !defaults.Watched(watcher.Options{}).HPAs {
		t.Error("by default, HPAs are not watched")
	}
	wrong.HPA = "fight"
	if err := wrong.Validate(); err == nil || !strings.Contains(err.Error(), `--hpa must be leave or ignore, got "fight"`) {
		t.Errorf("error %v", err)
	}
}
