// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"slices"
	"strings"
	"testing"
	"time"

	"podfit.dev/podfit/internal/core/admissible"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/policy"
	"podfit.dev/podfit/internal/core/rescue"
)

// With InPlaceOrRecreate, a pod whose requests have drifted is evicted if it cannot be resized, also if its limit is too low, for which no pod is evicted.
func TestPlan_limitCannotBeRaised_driftedPodIsStillReplaced(t *testing.T) {
	for name, answer := range map[string]string{"the cluster has no resizes": "unsupported", "the API server denies it": "denied", "by default": ""} {
		for _, limit := range []string{"", " limit memory=1536Mi"} {
			s := newScript()
			out := s.run(t,
				"pods shop/cart 3 app cpu=100m memory=256Mi limits cpu=200m memory=512Mi",
				"pod shop/cart-0 age=48h", "pod shop/cart-1 age=48h", "pod shop/cart-2 age=48h",
				"autoscale shop/cart mode=InPlaceOrRecreate age=240h",
				"advise shop/cart app cpu=180m memory=256Mi"+limit,
				"api shop/* resize="+answer,
			)
			for range 6 {
				out += s.run(t, "try shop/cart", "after 10m")
			}
			if answer != "" && !strings.Contains(out, "evict shop/") {
				t.Errorf("%s, advice%q: no pod is ever evicted although its requests have drifted:\n%s", name, limit, out)
			}
			// The requests of one pod change once: not the limit first, and the requests two minutes later.
			if n := strings.Count(out, "resize shop/cart-0: ok"); answer == "" && n > 1 {
				t.Errorf("%s, advice%q: %d resizes of one pod for one recommendation:\n%s", name, limit, n, out)
			}
		}
	}
}

// A resize that the node defers for more than 5 minutes, or finds infeasible, is followed by an eviction, also if the limit becomes too low meanwhile.
func TestPlan_resizeOfDriftedPodIsStuck_risingLimitDoesNotKeepIt(t *testing.T) {
	for _, state := range []string{"deferred", "infeasible"} {
		for _, limit := range []string{"512Mi", "1536Mi"} {
			s := newScript()
			out := s.run(t,
				"pods shop/cart 3 app cpu=100m memory=256Mi limits cpu=200m memory=512Mi",
				"pod shop/cart-0 age=48h", "pod shop/cart-1 age=48h", "pod shop/cart-2 age=48h",
				"autoscale shop/cart mode=InPlaceOrRecreate age=240h",
				"advise shop/cart app cpu=180m memory=256Mi limit memory="+limit,
				"pod shop/cart-0 asks=cpu=180m,memory=256Mi,limits,cpu=360m,memory=512Mi runs=cpu=100m,memory=256Mi,limits,cpu=200m,memory=512Mi resize="+state+"/1h",
				"plan shop/cart",
			)
			for line := range strings.Lines(out) {
				if strings.HasPrefix(line, "shop/cart-0") && !strings.Contains(line, "evict") {
					t.Errorf("%s for an hour, limit by peaks %s: %s", state, limit, line)
				}
			}
		}
	}
}

// A pod that only gets another limit keeps its requests. That is no sign that the eviction before had an effect.
func TestPlan_replacementOfWrongSizeHasALowLimit_evictionHadNoEffect(t *testing.T) {
	for _, limit := range []string{"", " limit memory=1536Mi"} {
		s := newScript()
		s.run(t,
			"pods shop/cart 3 app cpu=200m memory=256Mi limits cpu=400m memory=512Mi",
			// resized in place long ago: they run with less than their template
			"pod shop/cart-0 asks=cpu=50m,memory=256Mi,limits,cpu=100m,memory=512Mi",
			"pod shop/cart-1 asks=cpu=50m,memory=256Mi,limits,cpu=100m,memory=512Mi",
			"pod shop/cart-2 asks=cpu=50m,memory=256Mi,limits,cpu=100m,memory=512Mi",
			"autoscale shop/cart mode=InPlaceOrRecreate",
			"advise shop/cart app cpu=130m memory=256Mi"+limit,
			"api shop/* resize=unsupported",
		)
		s.run(t, "do webhook=off", "ready", "after 1m")
		out := s.run(t, "plan shop/cart")
		if strings.Contains(out, "/evict") {
			t.Errorf("advice%q: the webhook sets nothing, and the next pod may be evicted at once, in the back-off after an eviction without effect:\n%s", limit, out)
		}
	}
}

// A change of the limit alone has no other requests to go back to.
func TestPlan_limitAlone_needsNoCanary(t *testing.T) {
	s := newScript()
	s.run(t,
		"pods shop/cart 3 app cpu=100m memory=256Mi limits cpu=200m memory=512Mi",
		"autoscale shop/cart mode=InPlaceOrRecreate age=240h",
		"advise shop/cart app cpu=180m memory=256Mi limit memory=1536Mi",
	)
	a := s.as[0]
	a.Canary = cluster.Canary{On: true, Watch: 10 * time.Minute}
	t.Log(s.run(t, "plan shop/cart", "do"))
	state := s.ledger.Canary(s.pods[0].Workload())
	t.Logf("%+v", state)
	if len(state.After) > 0 && slices.Equal(state.Before, state.After) {
		t.Errorf("a canary from %+v to %+v", state.Before, state.After)
	}
}

// The template has a CPU limit that is its request, and the target is above the memory limit. The replacement must not become Guaranteed, for which another
// rule applies.
func TestPlan_limitIsKept_newPodIsNotEvictedAgainAndAgain(t *testing.T) {
	for name, rule := range map[string]cluster.LimitRule{"proportional": {}, "keep": {Keep: true}} {
		s := newScript()
		s.run(t,
			"pods shop/cart 2 app cpu=100m memory=256Mi limits cpu=100m memory=512Mi",
			"autoscale shop/cart mode=Recreate age=240h min-replicas=1",
			"advise shop/cart app cpu=100m memory=1Gi lower cpu=100m memory=1Gi upper cpu=100m memory=1Gi",
		)
		s.as[0].MemoryLimits = rule
		var out string
		for range 48 {
			for _, p := range s.pods { // as the API server does it
				p.QoS = admissible.QoSOf(policy.Limits{}, p, nil)
			}
			out += s.run(t, "try shop/cart", "ready", "after 30m")
		}
		if n := strings.Count(out, ": ok"); n > 2 {
			t.Errorf("%s: 2 pods are evicted %d times in a day for one recommendation:\n%s", name, n, out)
		}
	}
}

// A rescue that raises the limit alone has no other requests to go back to. As a canary, a second kill would hold the workload with the same size.
func TestPlan_killedAtItsLimit_limitAloneNeedsNoCanary(t *testing.T) {
	s := newScript()
	s.run(t,
		"pods shop/cart 3 app cpu=100m memory=256Mi limits cpu=200m memory=512Mi",
		"autoscale shop/cart mode=Recreate age=240h",
		"advise shop/cart app cpu=100m memory=256Mi limit memory=1536Mi",
		"pod shop/cart-0 oom=5s/10s crash=3",
	)
	s.as[0].Canary = cluster.Canary{On: true, Watch: 10 * time.Minute}
	out := s.run(t, "try shop/cart")
	state := s.ledger.Canary(s.pods[0].Workload())
	if len(state.After) > 0 {
		t.Errorf("a canary from %+v to %+v\n%s", state.Before, state.After, out)
	}
}

// With upstream's rules, nothing backs off from evictions without effect.
func TestPlan_upstreamRules_limitAloneIsNoReasonToEvict(t *testing.T) {
	s := newScript()
	s.budget.UpstreamRules, s.budget.Rescue = true, rescue.Off
	out := s.run(t,
		"pods shop/cart 3 app cpu=100m memory=256Mi limits cpu=200m memory=512Mi",
		"autoscale shop/cart mode=Recreate age=240h",
		"advise shop/cart app cpu=100m memory=256Mi limit memory=1536Mi",
		"pod shop/cart-0 oom=5s/10s crash=3",
	)
	for range 8 {
		out += s.run(t, "do webhook=off", "ready", "after 1m")
		for _, p := range s.pods {
			if strings.HasPrefix(p.Name, "cart-0") {
				s.run(t, "pod shop/"+p.Name+" oom=5s/10s crash=3")
			}
		}
		out += s.run(t, "plan shop/cart")
	}
	if n := strings.Count(out, "evict  "); n > 3 {
		t.Errorf("%d evictions for a limit that no replacement gets:\n%s", n, out)
	}
}

// A rescue that raised the limit alone had an effect, also if the replacement is killed at its new limit before the updater sees it.
func TestPlan_rescuedByLimitAloneIsKilledAgain_isRescuedAgain(t *testing.T) {
	s := newScript()
	s.run(t,
		"pods shop/killed 3 app cpu=100m memory=256Mi limits cpu=200m memory=512Mi",
		"autoscale shop/killed mode=Recreate",
		"advise shop/killed app cpu=100m memory=256Mi limit memory=1536Mi",
		"pod shop/killed-0 oom=5s/10s crash=3",
		"do", "after 1m",
		"pod shop/killed-0.1 oom=5s/10s crash=3",
		"advise shop/killed app cpu=100m memory=256Mi limit memory=3Gi",
	)
	if out := s.run(t, "plan shop/killed"); !strings.Contains(out, "killed-0.1  evict") {
		t.Errorf("the replacement has the limit of the first eviction:\n%s", out)
	}
}

func TestPlan_everyChangeIsLargeEnough_limitAloneIsNoReasonToEvict(t *testing.T) {
	s := newScript()
	s.run(t,
		"pods shop/cart 3 app cpu=100m memory=256Mi limits cpu=200m memory=512Mi",
		"autoscale shop/cart mode=Recreate age=240h",
		"advise shop/cart app cpu=100m memory=256Mi limit memory=1536Mi", "after 24h")
	s.as[0].Rules.MinChange = cluster.Setting[float64]{Set: true}
	if out := s.run(t, "plan shop/cart"); strings.Contains(out, "evict") {
		t.Errorf("with podfit.dev/min-change 0%%:\n%s", out)
	}
}
