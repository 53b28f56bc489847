// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"reflect"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/decision"
	"podfit.dev/podfit/internal/core/gate"
	"podfit.dev/podfit/internal/core/ledger"
)

// The explanation of a pod cannot differ from the decision on it, in any pass of any history.
func TestGates_anyWorld_firstGateThatBlocksIsTheReasonOfThePass(t *testing.T) {
	var several, acted int
	rapid.Check(t, func(t *rapid.T) {
		draw := rapid.SampledFrom([]func(*rapid.T) (World, Budget){drawWorld, drawBusyWorld, drawFullNodes, drawFullNodesWithCrashes, drawCrashes}).Draw(t, "kind of world")
		w, b := draw(t)
		w.Explained = map[string]bool{}
		for _, g := range w.Governed {
			for _, p := range g.Pods {
				w.Explained[p.UID] = true
			}
		}
		now := noon
		for range rapid.IntRange(1, 4).Draw(t, "passes") {
			p := Begin(now, w, b)
			for _, d := range p.Decisions() {
				blocked := slices.DeleteFunc(p.Gates(d.Pod.UID), func(g gate.Gate) bool { return !g.Blocked })
				switch {
				case d.Do != decision.Leave && len(blocked) > 0:
					t.Fatalf("%s of %s although %s blocks: %s", d.Do, d.Pod.Key, blocked[0].Name, blocked[0].Reason)
				case d.Do != decision.Leave:
					acted++
				case len(blocked) == 0:
					t.Fatalf("%s is left (%s), and no gate blocks", d.Pod.Key, d.Reason)
				case blocked[0].Reason != d.Reason:
					t.Fatalf("%s is left because %s, the first gate that blocks is %s: %s", d.Pod.Key, d.Reason, blocked[0].Name, blocked[0].Reason)
				case len(blocked) > 1:
					several++
				}
			}
			p.Learn()
			_, down := outcomes(t, p)
			drawChanges(t, now, w, down)
			for _, g := range w.Governed {
				for _, p := range g.Pods {
					w.Explained[p.UID] = true
				}
			}
			now = now.Add(rapid.SampledFrom([]time.Duration{time.Second, time.Minute, time.Hour}).Draw(t, "later"))
		}
	})
	if several == 0 || acted == 0 {
		t.Errorf("%d pods have several gates that block, %d are changed; want some of each", several, acted)
	}
}

func TestGates_explainedOrNot_decisionsAreTheSame(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		draw := rapid.SampledFrom([]func(*rapid.T) (World, Budget){drawWorld, drawBusyWorld, drawFullNodes, drawCrashes}).Draw(t, "kind of world")
		w, b := draw(t)
		plain := summary(noon, w, ledger.New(), b)
		w.Explained = map[string]bool{}
		for _, g := range w.Governed {
			for _, p := range g.Pods {
				w.Explained[p.UID] = true
			}
		}
		if explained := summary(noon, w, ledger.New(), b); !reflect.DeepEqual(plain, explained) {
			t.Fatalf("decisions\n%q\nwith all gates\n%q", plain, explained)
		}
	})
}

func TestGates_severalReasons_allAreReported(t *testing.T) {
	w, a := shrinking(1)
	a.Requirements = []cluster.EvictionRequirement{{Resources: cluster.Both, Higher: true}}
	p := w.Governed[0].Pods[0]
	w.Explained = map[string]bool{p.UID: true}
	pass := Begin(noon, w, DefaultBudget())
	var blocked []gate.Name
	for _, g := range pass.Gates(p.UID) {
		if g.Blocked {
			blocked = append(blocked, g.Name)
		}
	}
	if want := []gate.Name{gate.Requirements, gate.MinReplicas}; !slices.Equal(blocked, want) {
		t.Errorf("gates that block: %v, want %v", blocked, want)
	}
	if got := pass.Gates("other"); got != nil {
		t.Errorf("gates of a pod that is not explained: %v", got)
	}
}
