// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"strings"
	"testing"

	"podfit.dev/podfit/internal/core/decision"
)

// Reasons are in conditions, events and logs of a namespace, which people read who may not read the other one.
func TestPlan_roomForPodOfOtherNamespace_isNotNamed(t *testing.T) {
	inBank := strings.NewReplacer("shop/q", "bank/secret-merger", "q-0", "secret-merger-0", "q-1", "secret-merger-1")
	for name, c := range map[string]struct {
		commands string
		want     map[string]decision.ReasonCode
	}{
		"reserved and moved": {
			commands: inBank.Replace(reservedRoom),
			want:     map[string]decision.ReasonCode{"s-0": decision.RoomReserved},
		},
		"moved when the kubelet has deferred the resize": {
			commands: inBank.Replace(reservedRoom) + "\nplan\ntry\nkubelet\nafter 1m",
			want:     map[string]decision.ReasonCode{"r-0": decision.MovesForRoom},
		},
		"shrunk": {
			commands: `node n1 cpu=4 memory=8Gi
pods shop/a 2 app cpu=3 memory=1Gi
pods bank/secret-merger 2 app cpu=1 memory=1Gi
pod shop/a-0 node=n1
pod bank/secret-merger-0 node=n1
autoscale shop/a mode=InPlaceOrRecreate
autoscale bank/secret-merger mode=InPlaceOrRecreate
advise shop/a app cpu=2 memory=1Gi
advise bank/secret-merger app cpu=1500m memory=1Gi lower cpu=1200m`,
			want: map[string]decision.ReasonCode{"a-0": decision.MakesRoom},
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := play(t, c.commands)
			p := Begin(s.now, s.world(), s.budget)
			got := entriesByName(p)
			for pod, code := range c.want {
				reason := got[pod].Reason
				if reason.Code != code {
					t.Fatalf("%s: %s", pod, reason)
				}
				if reason.Text != "" || strings.Contains(reason.String(), "bank") {
					t.Errorf("%s: %s", pod, reason)
				}
				if named := reason.Revealed().String(); !strings.Contains(named, "bank/secret-merger-0") {
					t.Errorf("%s, for those who may list all pods: %s", pod, named)
				}
			}
			for _, d := range p.Decisions() {
				if text := d.Reason.String() + d.Wanted.String(); d.Pod.Namespace == "shop" && strings.Contains(text, "bank") {
					t.Errorf("%s: %s", d.Pod.Key, text)
				}
			}
		})
	}
}
