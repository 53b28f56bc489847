// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package room

import "testing"

// fullNode is a node on which one pod shrinks, one moves, one gets all of its increase, and one a part of it. asked is whether the kubelet has
// deferred the resize of the pod that gets all of its increase.
func fullNode(asked bool) Request {
	important := needs("important", Amount{1000, 1 << 30}, Amount{2000, 1 << 30}, Move)
	important.Priority, important.Asked = 10, asked
	return Request{Node: "n1", Free: Amount{300, 0}, Others: []Spot{{"n2", Amount{1000, 1 << 30}}}, Pods: []Pod{
		important, needs("other", Amount{1000, 1 << 30}, Amount{2000, 1 << 30}, Split),
		shrinks("large", Amount{1500, 1 << 30}, Amount{1000, 1 << 30}), moves("small", Amount{500, 1 << 30}, 10),
	}}
}

func TestTable_fullNode_hasALineForEachStepInItsOrder(t *testing.T) {
	for name, tc := range map[string]struct {
		request Request
		want    string
	}{
		"the resize is deferred": {fullNode(true), `Node n1 has free: cpu=300m memory=0
  STEP  ACTION        POD        FROM                  TO                    REASON
  1     shrink        large      cpu=1500m memory=1Gi  cpu=1 memory=1Gi      makes room for important
  2     move          small      cpu=500m memory=1Gi   cpu=500m memory=1Gi   makes room for important; the replacement fits on node n2
  3     grow          important  cpu=1 memory=1Gi      cpu=2 memory=1Gi      gets its target
  4     grow in part  other      cpu=1 memory=1Gi      cpu=1300m memory=1Gi  gets what is free; the node lacks cpu=700m
`},
		// The moves are shown, too, and the room for which they are made is kept.
		"the kubelet does not know the resize": {fullNode(false), `Node n1 has free: cpu=300m memory=0
  STEP  ACTION  POD        FROM                  TO                   REASON
  1     shrink  large      cpu=1500m memory=1Gi  cpu=1 memory=1Gi     makes room for important
  2     wait    important  cpu=1 memory=1Gi      cpu=2 memory=1Gi     the node lacks cpu=200m
  3     wait    other      cpu=1 memory=1Gi      cpu=2 memory=1Gi     the node lacks cpu=1
  4     move    small      cpu=500m memory=1Gi   cpu=500m memory=1Gi  makes room for important; the replacement fits on node n2; follows when the kubelet has deferred the resize
  5     grow    important  cpu=1 memory=1Gi      cpu=2 memory=1Gi     gets its target
`},
		"a pod shrinks for itself, another one moves itself": {Request{Node: "n1", Others: []Spot{{"n2", Amount{300, 300}}}, Pods: []Pod{
			{ID: "a", Name: "a", Holds: Amount{200, 0}, Target: Amount{100, 0}, Shrinks: true, Planned: true},
			{ID: "b", Name: "b", Holds: Amount{100, 0}, Target: Amount{300, 0}, Needs: true, Asked: true, Allowed: Move, Visits: 10, Move: &Candidate{Size: Amount{300, 0}, Spots: []int{0}}},
			{ID: "c", Name: "c", Holds: Amount{100, 0}, Target: Amount{300, 0}, Needs: true, Asked: true, Since: 1},
		}}, `Node n1 has free: cpu=0 memory=0
  STEP  ACTION  POD  FROM               TO                 REASON
  1     shrink  a    cpu=200m memory=0  cpu=100m memory=0  its target is lower
  2     move    b    cpu=100m memory=0  cpu=300m memory=0  its resize does not fit here; the replacement fits on node n2
  3     wait    c    cpu=100m memory=0  cpu=300m memory=0  the node lacks cpu=100m
`},
	} {
		t.Run(name, func(t *testing.T) {
			if got := Make(tc.request).Table(); got != tc.want {
				t.Errorf("got:\n%s\nwant:\n%s", got, tc.want)
			}
		})
	}
}

// A plan whose waiting pods lack another amount is not a new one.
func TestKey_onlyFreeRoomDiffers_isTheSame(t *testing.T) {
	lacking := func(free int64) Plan {
		return Make(Request{Node: "n1", Free: Amount{free, 0}, Pods: []Pod{needs("a", Amount{100, 0}, Amount{200, 0}, Off)}})
	}
	if lacking(10).Key() != lacking(20).Key() {
		t.Errorf("keys %q and %q", lacking(10).Key(), lacking(20).Key())
	}
	if Make(fullNode(true)).Key() == Make(fullNode(false)).Key() {
		t.Error("two plans with different steps have the same key")
	}
}
