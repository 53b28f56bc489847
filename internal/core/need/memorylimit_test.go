// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package need

import (
	"strings"
	"testing"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/decision"
	"podfit.dev/podfit/internal/core/policy"
)

// Container a was OOM-killed and nothing changes for it. The limit of b is too low, which is no reason to evict the pod.
func TestOf_otherContainerWasKilled_lowLimitIsNoReasonToEvict(t *testing.T) {
	s := situationOf()
	s.pod = podOf(1000, 1000)
	s.fits = []policy.Fitted{fitOf("a", 500, 1000, 3000), fitOf("b", 500, 1000, 3000)}
	s.a.Mode, s.a.MemoryLimits.Peaks = cluster.Recreate, true
	for i := range s.pod.Containers {
		s.pod.Containers[i].Limits = cluster.Resources{}.Set(cluster.Memory, 2*gib)
	}
	s.kill(time.Minute, time.Minute) // the first container
	s.fits[0].Limits = cluster.Resources{}.Set(cluster.Memory, 2*gib)
	s.fits[1].Limits, s.fits[1].LimitByPeaks = cluster.Resources{}.Set(cluster.Memory, 4*gib), true
	if got := s.verdict(); got.Wanted.Code != decision.Fits {
		t.Errorf("the pod is evicted: %s", got.Wanted)
	}
}

func amount(v int64) cluster.Resources { return cluster.Resources{}.Set(cluster.Memory, v) }

// two returns a pod with containers a and b whose limits are both too low, and whose requests are those of the recommendation.
func two() *situation {
	s := situationOf()
	s.pod = podOf(1000, 1000)
	s.fits = []policy.Fitted{fitOf("a", 500, 1000, 3000), fitOf("b", 500, 1000, 3000)}
	s.a.Mode, s.a.MemoryLimits.Peaks = cluster.InPlaceOrRecreate, true
	for i := range s.pod.Containers {
		s.pod.Containers[i].Limits = amount(2 * gib)
		s.fits[i].Limits, s.fits[i].LimitByPeaks = amount(4*gib), true
	}
	return s
}

// A container that was OOM-killed at its limit changes at once although its request stays. The limit of another container is too low, too.
func TestOf_killedAtALimitThatIsTooLow_changesAtOnce(t *testing.T) {
	s := two()
	s.a.Mode = cluster.Recreate
	s.kill(time.Minute, time.Minute)
	if got := s.verdict(); got.Wanted.Code != decision.OutOfMemory {
		t.Errorf("%s (%s)", got.Wanted, got.Instead)
	}
}

// The reason names the limit of the container that was killed only.
func TestOf_otherLimitIsTooLow_noteIsAboutTheKilledContainer(t *testing.T) {
	s := two()
	s.a.Mode = cluster.Recreate
	s.fits[0].Limits = amount(2 * gib) // that of a stays
	s.moreMemory()
	s.kill(time.Minute, time.Minute)
	if got := s.verdict().Wanted; got.Container == "a" && strings.Contains(got.String(), "Its memory limit of 2Gi becomes 4Gi") {
		t.Errorf("the limit of a stays 2Gi, and that of b is meant: %s", got)
	}
}

// The reason LeftToHPA names requests, not limits.
func TestLeftToHPA_limitsByPeaks_reasonNamesRequests(t *testing.T) {
	const mib = 1 << 20
	e := cluster.Estimate{Lower: amount(500 * mib), Target: amount(600 * mib), Upper: amount(2000 * mib)}
	a := &cluster.Autoscaler{
		Mode: cluster.InPlaceOrRecreate, MemoryLimits: cluster.LimitRule{Peaks: true}, Created: noon.Add(-48 * time.Hour),
		Advice: []cluster.Advice{{Container: "a", Estimate: e, MemoryLimit: 3000 * mib}},
	}
	a = a.WithHorizontal([]*cluster.HorizontalAutoscaler{{
		Key: cluster.Key{Namespace: "shop", Name: "cart"}, Target: a.Target, Utilization: []cluster.UtilizationTarget{{Resource: cluster.Memory, Percent: 80}},
	}})
	p := &cluster.Pod{QoS: cluster.Burstable, Started: noon, Containers: []cluster.Container{{Name: "a", Requests: amount(600 * mib), Limits: amount(1200 * mib)}}}
	otherwise := decision.Reason{Code: decision.NoAdvice}
	rules := Rules{Threshold: 0.1, Lifetime: 12 * time.Hour, QuickOOM: 10 * time.Minute}
	if got := LeftToHPA(noon, &rules, a, policy.Limits{}, p, otherwise); got.From == 1200*mib {
		t.Errorf("the request is 600Mi, and the text says: %s", got)
	}
}
