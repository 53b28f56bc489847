// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package commandline

import (
	"strings"
	"testing"
)

func TestArguments_binaryNamedLikeComponent_selectComponent(t *testing.T) {
	tests := map[string]struct{ args, want string }{
		"podfit":               {"/usr/bin/podfit run --v=2", "run --v=2"},
		"upstream's name":      {"/recommender --v=4", "recommender --v=4"},
		"upstream's image":     {"/admission-controller-amd64 --port=1", "admission-controller --port=1"},
		"kubectl plugin":       {"kubectl-podfit version", "version"},
		"updater without args": {"updater", "updater"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if got := strings.Join(Arguments(strings.Fields(tt.args)), " "); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}
