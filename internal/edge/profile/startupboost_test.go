// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package profile

import (
	"strings"
	"testing"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
)

func TestParse_startupBoost_isRead(t *testing.T) {
	for name, c := range map[string]struct {
		spec string
		want cluster.BoostLearning
		err  string
	}{
		"absent":          {spec: "{}"},
		"only enabled":    {spec: "{startupBoost: {learn: true}}", want: cluster.BoostLearning{On: true, MaxPercent: 400, MaxDuration: 10 * time.Minute}},
		"only bounds":     {spec: "{startupBoost: {maxFactor: 2}}", want: cluster.BoostLearning{MaxPercent: 200, MaxDuration: 10 * time.Minute}},
		"all":             {spec: "{base: default, startupBoost: {learn: true, maxFactor: 2.5, maxDuration: 90s}}", want: cluster.BoostLearning{On: true, MaxPercent: 250, MaxDuration: 90 * time.Second}},
		"a large factor":  {spec: "{startupBoost: {learn: true, maxFactor: 11}}", err: "spec.startupBoost.maxFactor must be between 1.1 and 10, got 11"},
		"a long duration": {spec: "{startupBoost: {learn: true, maxDuration: 1h}}", err: "spec.startupBoost.maxDuration must be between 0s and 15m, got 1h0m0s"},
		"an unknown field": {
			spec: "{startupBoost: {lern: true}}", err: `unknown field "lern" in spec.startupBoost (did you mean learn?)`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := Parse([]byte(head + "spec: " + c.spec))
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) {
					t.Errorf("error %v, want %q", err, c.err)
				}
				return
			}
			if err != nil || p.Learning != c.want {
				t.Errorf("got %+v, %v; want %+v", p.Learning, err, c.want)
			}
		})
	}
}
