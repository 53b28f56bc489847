// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package explanation

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/decision"
	"podfit.dev/podfit/internal/core/gate"
	"podfit.dev/podfit/internal/core/plan"
	"podfit.dev/podfit/internal/core/policy"
)

// noon is the time of the inputs in these tests, a Sunday.
var noon = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

// minutesAgo returns a time before noon.
func minutesAgo(n int) time.Time { return noon.Add(-time.Duration(n) * time.Minute) }

// podOf returns a pod of Deployment cart that is ready since yesterday, with one container app of 500m and 1Gi.
func podOf(name string) *cluster.Pod {
	return &cluster.Pod{
		Key: cluster.Key{Namespace: "shop", Name: name}, UID: "uid-" + name, Top: cart, Controller: cart, Node: "n1", Phase: cluster.Running,
		Ready: true, ReadySince: noon.Add(-dayLength),
		Containers: []cluster.Container{{Name: "app", Requests: cluster.Amounts(500, gib), Limits: cluster.Resources{}.Set(cluster.Memory, 2*gib)}},
	}
}

// sizeOf returns the recommended size of container app.
func sizeOf(cpu, memory int64) []policy.Fitted {
	return []policy.Fitted{{Container: "app", Requests: cluster.Amounts(cpu, memory)}}
}

// quietInput returns the input of a Deployment with ready pods of the recommended size, to which no known limit applies.
func quietInput(names ...string) *Input {
	in := &Input{
		Now: noon,
		Subject: Subject{
			Kind: OfWorkload, Name: "shop/Deployment/cart", Workload: cart, Command: "deploy/cart",
			Autoscaler: &cluster.Autoscaler{Key: cluster.Key{Namespace: "shop", Name: "cart"}, Target: cart, Mode: cluster.InPlaceOrRecreate},
		},
		Replicas: cluster.Scale{Known: true, Replicas: int32(len(names))},
		Plan:     Plan{Gates: map[string][]gate.Gate{}, EvictionGates: map[string][]gate.Gate{}},
		Updater:  Updater{Budget: plan.Budget{DeferredFor: 5 * time.Minute, InProgressFor: time.Hour}, Interval: time.Minute},
		Labels:   []string{"app=cart"},
		Cluster: Cluster{
			Nodes:   []cluster.Node{{Name: "n1", Ready: true, Allocatable: cluster.Amounts(4000, 16*gib)}},
			AllPods: []*cluster.Pod{},
		},
	}
	for _, name := range names {
		p := podOf(name)
		in.Pods = append(in.Pods, p)
		in.AllPods = append(in.AllPods, p)
		in.Decisions = append(in.Decisions, decision.Decision{Pod: p, Autoscaler: in.Autoscaler, With: sizeOf(500, gib)})
	}
	return in
}

// leave makes the updater leave the pod with an index for a reason, although it needs another size.
func (in *Input) leave(i int, r decision.Reason, blocked ...gate.Name) {
	d := &in.Decisions[i]
	d.Do, d.Reason, d.With = decision.Leave, r, sizeOf(500, 2*gib)
	gates := []gate.Gate{{Name: gate.Need}}
	for _, name := range blocked {
		gates = append(gates, gate.Gate{Name: name, Blocked: true, Reason: r})
	}
	in.Gates[d.Pod.UID] = gates
}

// resizing gives the pod with an index a resize that is not done.
func (in *Input) resizing(i int, state cluster.ResizeState, since time.Time, message string) {
	in.Pods[i].Resize = &cluster.Resize{State: state, Since: since, Message: message}
}

// oomKilled gives the pod with an index an OOM kill, after which it is not ready.
func (in *Input) oomKilled(i, kills int, at time.Time) {
	p := in.Pods[i]
	p.Ready = false
	p.Crash = &cluster.Crash{Version: "1"}
	p.Containers[0].Exit = &cluster.Exit{OOM: true, Kills: uint8(kills), Started: at.Add(-time.Hour), Finished: at, Now: true}
}

// protect adds a PodDisruptionBudget of the pods.
func (in *Input) protect(healthy, desired int32) {
	in.Disruption = append(in.Disruption, cluster.DisruptionBudget{
		Name: "cart", Healthy: healthy, Desired: desired, Current: true,
		Selector: cluster.Selector{Requirements: []cluster.Requirement{{Prefix: "app=", Op: cluster.In, Values: []string{"cart"}}}},
	})
}

// named returns a text with the names of the reasons of an input instead of their sentences, which docs/messages.md has.
func (in *Input) named(t *testing.T, text string) string {
	t.Helper()
	var reasons []decision.Reason
	for i := range in.Decisions {
		reasons = append(reasons, in.Decisions[i].Reason)
	}
	for _, gates := range []map[string][]gate.Gate{in.Gates, in.EvictionGates} {
		for _, of := range gates {
			for _, g := range of {
				reasons = append(reasons, g.Reason)
			}
		}
	}
	sentences := map[decision.ReasonCode]string{}
	for _, r := range reasons {
		sentence := strings.TrimSuffix(r.String(), ".")
		if other, ok := sentences[r.Code]; ok && other != sentence {
			t.Errorf("two reasons have the name %s: %s, %s", r.Code, sentence, other)
		}
		sentences[r.Code] = sentence
		text = strings.ReplaceAll(text, sentence, "<"+r.Code.String()+">")
	}
	return text
}

// render returns an explanation as text for golden files.
func render(e *Explanation) string {
	var out strings.Builder
	fmt.Fprintf(&out, "%s\n", strings.Join(append([]string{e.Subject}, e.Facts...), " · "))
	for i := range e.Situations {
		s := &e.Situations[i]
		fmt.Fprintf(&out, "LIMIT %s (%s): %s\n", s.Code, s.Title, s.Text)
	}
	for _, line := range e.Now {
		fmt.Fprintf(&out, "NOW   %s\n", line)
	}
	for i := range e.Next {
		s := &e.Next[i]
		fmt.Fprintf(&out, "NEXT  %s: %s %s", strings.Join(s.Pods, ", "), s.Act, s.Code)
		if s.Waits() {
			out.WriteString(", waits")
		}
		if !s.NotBefore.IsZero() {
			fmt.Fprintf(&out, ", not before %s", s.NotBefore.Format("2006-01-02 15:04"))
		}
		fmt.Fprintf(&out, ": %s %s\n", s.Reason, s.Fallback)
		for _, g := range s.Blocked() {
			fmt.Fprintf(&out, "      also blocked: %s\n", g.Name)
		}
	}
	for _, a := range e.You {
		fmt.Fprintf(&out, "YOU   %s\n", a.Text)
		if a.Command != "" {
			fmt.Fprintf(&out, "        %s\n", a.Command)
		}
	}
	for _, line := range e.Unknown() {
		fmt.Fprintf(&out, "NOTE  %s\n", line)
	}
	return out.String()
}

var update = flag.Bool("update", false, "rewrite the golden files")

const (
	mib       = 1 << 20
	gib       = 1 << 30
	dayLength = 24 * time.Hour
)

var cart = cluster.Workload{Group: "apps", Kind: "Deployment", Namespace: "shop", Name: "cart"}

func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s differs; run go test -update and review the difference. Got:\n%s", file, got)
	}
}
