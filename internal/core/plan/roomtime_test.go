// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/decision"
	"podfit.dev/podfit/internal/core/radius"
	"podfit.dev/podfit/internal/core/room"
)

// maxParts is how often a pod is resized by a part, see package occupancy.
const maxParts = 3

// drawScript draws full nodes with pods that should grow, as the state of a transcript.
func drawScript(t *rapid.T) *script {
	var b strings.Builder
	s := newScript()
	line := func(format string, args ...any) {
		l := fmt.Sprintf(format, args...)
		b.WriteString(l + "\n")
		if err := s.command(strings.Fields(l), &strings.Builder{}); err != nil {
			t.Fatalf("%s: %v", l, err)
		}
	}
	line("budget in-place make-room=%s", rapid.SampledFrom([]string{"move", "move", "split", "shrink"}).Draw(t, "make room"))
	nodes := rapid.IntRange(1, 3).Draw(t, "nodes")
	used := make([]int, nodes)
	for w := range rapid.IntRange(2, 6).Draw(t, "workloads") {
		count, size := rapid.IntRange(2, 4).Draw(t, "pods"), rapid.IntRange(2, 20).Draw(t, "size")
		target := size
		switch rapid.IntRange(0, 3).Draw(t, "kind") {
		case 0, 1:
			target = size + rapid.IntRange(1, 10).Draw(t, "increase")
		case 2:
			target = rapid.IntRange(1, size).Draw(t, "target")
		}
		line("pods shop/w%d %d app cpu=%d00m memory=1Gi", w, count, size)
		for i := range count {
			n := rapid.IntRange(0, nodes-1).Draw(t, "node")
			used[n] += size
			line("pod shop/w%d-%d node=n%d priority=%d", w, i, n, 10*rapid.IntRange(0, 1).Draw(t, "priority"))
			if target > size && rapid.IntRange(0, 9).Draw(t, "killed") == 0 {
				line("pod shop/w%d-%d oom=5s/1m", w, i)
			}
			if rapid.IntRange(0, 9).Draw(t, "tied") == 0 {
				line("pod shop/w%d-%d tied", w, i)
			}
			if rapid.IntRange(0, 9).Draw(t, "deleting") == 0 {
				line("pod shop/w%d-%d deleting", w, i)
			}
		}
		own := rapid.SampledFrom([]string{"", "", "", " make-room=off", " make-room=shrink", " make-room=split", " make-room=move"}).Draw(t, "own")
		line("autoscale shop/w%d mode=%s%s", w, rapid.SampledFrom([]string{"InPlace", "InPlaceOrRecreate", "InPlaceOrRecreate", "Recreate"}).Draw(t, "mode"), own)
		if rapid.IntRange(0, 4).Draw(t, "canary") == 0 {
			s.as[len(s.as)-1].Canary = cluster.Canary{On: true, Watch: 3 * time.Minute}
		}
		line("advise shop/w%d app cpu=%d00m memory=1Gi lower cpu=%d00m upper cpu=%d00m", w, target, max(1, target-rapid.IntRange(0, 3).Draw(t, "lower")), target*3)
	}
	for n := range nodes {
		line("node n%d cpu=%d00m memory=100Gi", n, used[n]+rapid.IntRange(0, 12).Draw(t, "free"))
	}
	line("node spare cpu=%d00m memory=100Gi", rapid.IntRange(0, 40).Draw(t, "spare"))
	for _, p := range s.pods {
		if rapid.IntRange(0, 5).Draw(t, "answers") == 0 {
			line("api shop/%s resize=%s", p.Name, rapid.SampledFrom([]string{"denied", "busy", "lost", "node"}).Draw(t, "answer"))
		}
	}
	if rapid.IntRange(0, 2).Draw(t, "limited") == 0 {
		s.budget.NamespaceShare, s.budget.ClusterShare = 0.3, 0.3
	}
	t.Log("\n" + b.String())
	return s
}

// A pod is held up by another one for at most Budget.DeferredFor and a pass, and it is asked for a few sizes only. What the decisions of a pass
// take is what they leave of the budgets.
func TestPlan_fullNodesOverTime_reservedRoomHoldsUpForShortTimes(t *testing.T) {
	type wait struct {
		other string
		since time.Time
	}
	waits := 0
	follow := func(t *rapid.T) {
		s := drawScript(t)
		reserved, asks := map[string]wait{}, map[string]int{}
		for range 30 {
			w := s.world()
			w.Requested = radius.RequestedBy(s.pods)
			pass := Begin(s.now, w, s.budget)
			pass.Learn()
			checkTaken(t, pass)
			for _, d := range pass.Decisions() {
				uid := d.Pod.UID
				before := reserved[uid]
				delete(reserved, uid)
				switch {
				case d.Reason.Code == decision.RoomReserved && before.other != d.Reason.Text:
					reserved[uid] = wait{d.Reason.Text, s.now}
					waits++
				case d.Reason.Code == decision.RoomReserved && s.now.Sub(before.since) > s.budget.DeferredFor+time.Minute:
					t.Fatalf("%s waits for %s: %s", d.Pod.Key, s.now.Sub(before.since), d.Reason)
				case d.Reason.Code == decision.RoomReserved:
					reserved[uid] = before
				case d.Do == decision.Resize && s.response(d) == "ok":
					asks[uid]++
				}
				if asks[uid] > 2*maxParts+2 {
					t.Fatalf("%s is asked %d times", d.Pod.Key, asks[uid])
				}
				if d.Do != decision.Leave {
					s.reportOutcome(pass, d, s.response(d), true)
				}
			}
			if rapid.IntRange(0, 5).Draw(t, "kubelet") > 0 {
				_ = s.runKubelet(nil)
			}
			_ = s.markReady(nil)
			s.now = s.now.Add(rapid.SampledFrom([]time.Duration{time.Second, time.Minute, time.Minute, time.Minute}).Draw(t, "interval"))
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		for range 10 { // few pods wait for reserved room
			follow(t)
		}
	})
	if waits == 0 {
		t.Error("no drawn pod waits for reserved room: the test shows nothing")
	}
}

// checkTaken checks what a pass has taken of the budgets.
func checkTaken(t *rapid.T, pass *Pass) {
	var changed cluster.Resources
	for i := range pass.entries {
		d := &pass.entries[i]
		if d.Do != decision.Leave && d.Reason.Code != decision.MakesRoom {
			changed = changed.Add(radius.Running(d.Pod))
		}
		if d.scope == nil {
			continue
		}
		if g := d.scope.groups[d.Pod.Controller]; g != nil && (g.Spent < 0 || g.Replaced < 0 || g.Revived < 0) {
			t.Fatalf("%s: the group has %+v", d.Pod.Key, g)
		}
	}
	if pass.radius != nil && room.Of(pass.radius.Cluster.Planned) != room.Of(changed) {
		t.Fatalf("changes of %v are planned, want %v", pass.radius.Cluster.Planned, changed)
	}
	if len(pass.Failures) > 0 {
		t.Fatalf("%+v", pass.Failures)
	}
}
