// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"math"
	"math/rand/v2"
	"testing"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/replay"
)

// synthetic returns eight days of usage around a number of cores and MiB.
func synthetic(seed uint64, cores, mebibytes float64) (out []replay.Sample) {
	random := rand.New(rand.NewPCG(seed, 1))
	for at := int64(0); at < 8*24*3600; at += 300 {
		out = append(out, replay.Sample{At: at, Has: cluster.Both, CPU: cores * math.Exp(random.NormFloat64()/10), Memory: mebibytes * (1 << 20) * math.Exp(random.NormFloat64()/50)})
	}
	return out
}

func TestReplayAll_leaderAndFollower_sizesByRoleHaveLessSlack(t *testing.T) {
	pairs := []pair{{synthetic(1, 0.9, 620), synthetic(2, 0.3, 300)}}
	for _, profile := range []string{"default", "balanced"} {
		one, role, own := replayAll(pairs, profile, oneSize), replayAll(pairs, profile, byRole), replayAll(pairs, profile, ownMemory)
		if one.grouped != 0 || role.grouped != 1 || own.grouped != 1 {
			t.Fatalf("%s: %d, %d and %d pairs with groups", profile, one.grouped, role.grouped, own.grouped)
		}
		for k, res := range cluster.All {
			o, r, w := one.of[k], role.of[k], own.of[k]
			if o.podDays != 8 || r.podDays != 8 || w.podDays != 8 {
				t.Errorf("%s: %d, %d and %d days of pods with %s, want 4 of each pod", profile, o.podDays, r.podDays, w.podDays, res)
			}
			if part := w.requested / o.requested; part > 0.85 || w.used < 0.99*o.used {
				t.Errorf("%s: sizes by role request %.2f of the %s, and cover %.2f of the usage", profile, part, res, w.used/o.used)
			}
			if part := r.requested / o.requested; res == cluster.Memory && math.Abs(part-1) > 0.01 {
				t.Errorf("%s: without the memory of its role, a follower requests %.2f", profile, part)
			}
		}
	}
}

func TestReplayAll_podsAreAlike_haveOneSize(t *testing.T) {
	pairs := []pair{{synthetic(3, 0.5, 400), synthetic(4, 0.5, 400)}, {synthetic(5, 0.05, 100), synthetic(6, 0.05, 100)}}
	if r := replayAll(pairs, "balanced", ownMemory); r.grouped != 0 {
		t.Errorf("%d of 2 alike pairs have groups", r.grouped)
	}
}

func TestPairsOf_firstPods_beginAtZero(t *testing.T) {
	w := func(at int64) replay.Workload {
		return replay.Workload{Samples: []replay.Sample{{At: at}, {At: at, Pod: 1}, {At: at + 300, Container: 1}, {At: at + 600}}}
	}
	got := pairsOf([]replay.Workload{w(1000), w(5000), w(70)})
	if len(got) != 3 || len(got[2][1]) != 2 || got[1][0][0].At != 0 || got[0][1][1].At != 600 {
		t.Errorf("%v", got)
	}
	if got := pairsOf([]replay.Workload{w(1)}); len(got) != 0 {
		t.Errorf("one workload: %v", got)
	}
}
