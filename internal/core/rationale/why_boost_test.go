// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package rationale

import (
	"strings"
	"testing"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/policy"
)

func TestBoostLine_eachState_saysWhatNewPodsGet(t *testing.T) {
	sized := Amounts{Request: 200, HasRequest: true}
	learnt := cluster.LearntBoost{Percent: 250, Starts: 7, Duration: 2 * time.Minute}
	applied := &cluster.Boost{Percent: 250, Duration: 2 * time.Minute}
	for name, c := range map[string]struct {
		why        Why
		what, note string
	}{
		"nothing is learnt": {why: Why{Size: sized}},
		"memory":            {why: Why{Size: sized, Resource: cluster.Memory, StartupBoost: StartupBoost{Learning: true, Learnt: learnt, Applied: applied}}},
		"a boost": {
			Why{Size: sized, StartupBoost: StartupBoost{Learning: true, Learnt: learnt, Applied: applied}},
			"new pods start with 2.5 times the request, until 120 s after Ready", "learnt from 7 starts",
		},
		"a boost until Ready": {
			Why{Size: sized, StartupBoost: StartupBoost{Learning: true, Learnt: learnt, Applied: &cluster.Boost{Percent: 400}}},
			"new pods start with 4 times the request, until they are Ready", "learnt from 7 starts",
		},
		"too few starts": {
			Why{Size: sized, StartupBoost: StartupBoost{Learning: true, Learnt: cluster.LearntBoost{Starts: 1}}},
			"no startup boost yet", "1 start of 3 needed to learn one",
		},
		"starts need no more": {
			Why{Size: sized, StartupBoost: StartupBoost{Learning: true, Learnt: cluster.LearntBoost{Starts: 5}}},
			"no startup boost: starts need no more CPU", "learnt from 5 starts",
		},
		"a configured one": {
			Why{Size: sized, StartupBoost: StartupBoost{Learning: true, Learnt: learnt, Configured: true}},
			"new pods get the startupBoost of the VPA", "it has precedence over a learnt one",
		},
		"mode Off": {
			Why{Size: sized, StartupBoost: StartupBoost{Learning: true, Learnt: learnt, Off: true}},
			"no startup boost: the update mode is Off", "learnt from 7 starts",
		},
		"gate off": {
			Why{Size: sized, StartupBoost: StartupBoost{Learning: true, Learnt: learnt, Applied: applied, GateOff: true}},
			"no startup boost: the feature gate CPUStartupBoost is disabled", "learnt from 7 starts",
		},
		"an HPA scales by the request": {
			Why{Size: sized, Horizontal: policy.LeftToHPA, StartupBoost: StartupBoost{Learning: true, Learnt: learnt, Applied: applied}},
			"no startup boost: podfit does not set the CPU request", "learnt from 7 starts",
		},
	} {
		t.Run(name, func(t *testing.T) {
			if name != "memory" {
				c.why.Resource = cluster.CPU
			}
			if got := c.why.boostLine(); got.What != c.what || got.Note != c.note {
				t.Errorf("%+v, want %q, %q", got, c.what, c.note)
			}
		})
	}
}

func TestWhy_learntBoost_isExplained(t *testing.T) {
	s := cartScene()
	s.Autoscaler.Horizontal = nil
	s.Autoscaler.Mode = cluster.InPlaceOrRecreate
	s.Profile.Learning = cluster.BoostLearning{On: true, MaxPercent: 300, MaxDuration: time.Minute}
	s.Autoscaler.Advice = []cluster.Advice{{Container: "app", Learnt: cluster.LearntBoost{Percent: 350, Starts: 7, Duration: 2 * time.Minute}}}
	text := s.why()
	if want := "new pods start with 3 times the request, until 60 s after Ready"; !strings.Contains(text, want) || !strings.Contains(text, "learnt from 7 starts") {
		t.Errorf("%q is missing in:\n%s", want, text)
	}
}
