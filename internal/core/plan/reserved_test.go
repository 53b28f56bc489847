// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"strings"
	"testing"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/decision"
	"podfit.dev/podfit/internal/core/policy"
	"podfit.dev/podfit/internal/core/radius"
)

// reservedRoom is a node n1 whose free room is reserved for shop/q-0, for which shop/r-0 is going to move, and pods shop/s-0 on n1 and
// shop/s-1 on n2, which should grow. shop/s-0 comes first.
const reservedRoom = `budget make-room=move
node n1 cpu=4300m memory=8Gi
node n2 cpu=4 memory=8Gi
pods shop/q 2 app cpu=1 memory=1Gi
pods shop/r 2 app cpu=2300m memory=256Mi
pods shop/s 2 app cpu=600m memory=1Gi
pod shop/q-0 node=n1 priority=10
pod shop/q-1 asks=cpu=2,memory=1Gi
pod shop/r-0 node=n1
pod shop/s-0 node=n1
pod shop/s-1 node=n2
autoscale shop/q mode=InPlaceOrRecreate
advise shop/q app cpu=2 memory=1Gi lower cpu=1500m
autoscale shop/r mode=InPlaceOrRecreate
advise shop/r app cpu=2300m memory=256Mi
autoscale shop/s mode=InPlaceOrRecreate make-room=split
advise shop/s app cpu=900m memory=1Gi lower cpu=800m`

// play returns the state after the commands of a transcript.
func play(t *testing.T, commands string) *script {
	t.Helper()
	s := newScript()
	for line := range strings.Lines(commands) {
		if err := s.command(strings.Fields(line), &strings.Builder{}); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// entriesByName returns the entries of a pass.
func entriesByName(p *Pass) map[string]*entry {
	out := map[string]*entry{}
	for i := range p.entries {
		out[p.entries[i].Pod.Name] = &p.entries[i]
	}
	return out
}

func TestPlan_canaryWaitsForReservedRoom_anotherPodIsTheCanary(t *testing.T) {
	s := play(t, reservedRoom)
	a, err := s.autoscaler("shop/s")
	if err != nil {
		t.Fatal(err)
	}
	a.Canary = cluster.Canary{On: true, Watch: 10 * time.Minute}
	got := entriesByName(Begin(s.now, s.world(), s.budget))
	if d := got["s-0"]; d.Reason.Code != decision.RoomReserved || d.canary {
		t.Errorf("s-0: %s %s, canary %t", d.Do, d.Reason, d.canary)
	}
	if d := got["s-1"]; d.Do != decision.Resize || !d.canary {
		t.Errorf("s-1: %s %s, canary %t", d.Do, d.Reason, d.canary)
	}
}

func TestPlan_podWaitsForReservedRoom_blastRadiusIsThatOfTheChanges(t *testing.T) {
	s := play(t, reservedRoom)
	s.budget.NamespaceShare, s.budget.ClusterShare = 0.9, 0.9
	w := s.world()
	w.Requested = radius.RequestedBy(s.pods)
	p := Begin(s.now, w, s.budget)
	if d := entriesByName(p)["s-0"]; d.Reason.Code != decision.RoomReserved {
		t.Fatalf("s-0: %s %s", d.Do, d.Reason)
	}
	var want cluster.Resources
	for _, d := range p.Decisions() {
		if d.Do != decision.Leave {
			want = want.Add(radius.Running(d.Pod))
		}
	}
	if got := p.radius.Cluster.Planned; got != want || want.CPU == 0 {
		t.Errorf("planned changes of %v, want %v", got, want)
	}
}

// A pod that gets the budget of another one is evicted. Its replacement has no room, so capacity is requested in the same pass.
func TestPlan_podWaitsForReservedRoom_evictionInsteadAsksForCapacity(t *testing.T) {
	s := play(t, strings.Replace(reservedRoom, "node n2 cpu=4 memory=8Gi", "node n2 cpu=600m memory=1Gi\nnode n3 cpu=2300m memory=512Mi", 1)+`
provider placeholders
pod shop/s-1 asks=cpu=900m,memory=1Gi runs=cpu=600m,memory=1Gi resize=infeasible/1m`)
	p := Begin(s.now, s.world(), s.budget)
	d := entriesByName(p)["s-1"]
	if d.Reason.Code != decision.AwaitingCapacity || d.Reason.Until.IsZero() || len(p.CapacitySteps()) != 1 {
		t.Errorf("s-1: %s %s, steps %+v", d.Do, d.Reason, p.CapacitySteps())
	}
}

// Two pods would have to move for shop/q-0, and the disruption budget allows one. None moves, and nothing is counted.
func TestPlan_onlySomePodsMayMove_blastRadiusAndQuotaAreReturned(t *testing.T) {
	s := play(t, `budget make-room=move tolerance=0.25
node n1 cpu=3 memory=8Gi
node n2 cpu=4 memory=8Gi
pods shop/q 2 app cpu=1 memory=1Gi
pods shop/r 4 app cpu=1 memory=1Gi
pod shop/q-0 node=n1 asks=cpu=3,memory=1Gi runs=cpu=1,memory=1Gi resize=deferred/1m tied
pod shop/q-1 asks=cpu=3,memory=1Gi
pod shop/r-0 node=n1
pod shop/r-1 node=n1
autoscale shop/q mode=InPlaceOrRecreate
advise shop/q app cpu=3 memory=1Gi lower cpu=2
autoscale shop/r mode=InPlaceOrRecreate
advise shop/r app cpu=1 memory=1Gi`)
	s.budget.NamespaceShare = 0.9
	s.limits["shop"] = policy.Limits{Quotas: &cluster.Quotas{List: []cluster.Quota{{Name: "compute", Left: cluster.PodResources{Requests: cluster.Amounts(9000, 90<<30)}}}}}
	w := s.world()
	w.Requested = radius.RequestedBy(s.pods)
	p := Begin(s.now, w, s.budget)
	if rooms := p.Rooms; len(rooms) != 1 || len(rooms[0].Steps) != 3 {
		t.Fatalf("plans %+v", rooms)
	}
	for _, d := range p.Decisions() {
		if d.Do != decision.Leave {
			t.Errorf("%s: %s %s", d.Pod.Key, d.Do, d.Reason)
		}
	}
	if got := p.radius.Cluster.Planned; got.CPU != 0 || got.Memory != 0 {
		t.Errorf("planned changes of %v", got)
	}
	if !quotaLeavesCPU(p, 9000) || quotaLeavesCPU(p, 9001) {
		t.Error("some CPU of the quota is reserved")
	}
}

// A pod for which no room is made does not wait for the room of others.
func TestPlan_noRoomIsMadeForAPod_doesNotWaitForReservedRoom(t *testing.T) {
	s := play(t, strings.Replace(reservedRoom, "make-room=split", "make-room=off", 1))
	if d := entriesByName(Begin(s.now, s.world(), s.budget))["s-0"]; d.Do != decision.Resize {
		t.Errorf("s-0: %s %s", d.Do, d.Reason)
	}
}
