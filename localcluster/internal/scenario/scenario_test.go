// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"testing"
	"time"

	"podfit.dev/podfit/localcluster/internal/demand"
)

const text = `
rules:
- {namespace: shop, owner: cart, container: app, cpu: 200m, pressure: "0.1"}
- {namespace: shop, pod: cart-, memory: 64Mi, ready: after=20s}
- {labels: {tier: batch}, exit: "after=90s,code=1"}
- {namespace: shop, cpu: 300m}
`

func TestScenario_severalSources_firstOneWins(t *testing.T) {
	f, err := Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	s := Scenario{File: f}
	cart := Container{Namespace: "shop", Pod: "cart-5d-x", Name: "app", Owner: "cart"}
	annotated := cart
	annotated.Annotations = map[string]string{"sim.podfit.dev/app.cpu": "400m", "sim.podfit.dev/app.pressure": "0.5", "sim.podfit.dev/other.memory": "1Gi"}
	batch := Container{Namespace: "night", Pod: "sum", Name: "app", Labels: map[string]string{"tier": "batch"}}

	check(t, &s, "rules", cart, 0.2, 64<<20)
	check(t, &s, "rule without a pod", Container{Namespace: "shop", Pod: "pay", Name: "app"}, 0.3, 8<<20)
	check(t, &s, "default", Container{Namespace: "x", Pod: "y", Name: "z"}, 0.001, 8<<20)
	check(t, &s, "annotation", annotated, 0.4, 64<<20)
	if w, _ := s.Wish(batch); w.Exit == nil || w.Exit.After != 90*time.Second || w.Exit.Code != 1 {
		t.Errorf("exit of the batch job: %v", w.Exit)
	}
	if w, _ := s.Wish(batch); w.Pressure != nil {
		t.Errorf("pressure of the batch job: %v", w.Pressure)
	}
	if w, _ := s.Wish(annotated); w.Pressure != demand.Constant(0.5) {
		t.Errorf("pressure of the annotated container: %v", w.Pressure)
	}
	if w, _ := s.Wish(cart); w.Ready != 20*time.Second || w.Pressure != demand.Constant(0.1) {
		t.Errorf("ready after %v, pressure %v", w.Ready, w.Pressure)
	}

	for key, cpu := range map[string]string{"shop/cart-*/app": "500m", "shop/cart-5d-x/app": "600m", "shop/car*/other": "700m"} {
		if err := s.Override(key, Script{CPU: cpu}); err != nil {
			t.Fatal(err)
		}
	}
	check(t, &s, "override", annotated, 0.6, 64<<20)
	if err := s.Override("shop/cart-5d-x/app", Script{}); err != nil {
		t.Fatal(err)
	}
	check(t, &s, "override of a prefix", annotated, 0.5, 64<<20)
}

func TestScenario_invalidScripts_areReported(t *testing.T) {
	for _, text := range []string{"rules: [{cpu: much}]", "rules: [{pressure: much}]", "rules: [{speed: 1}]", "rules: [{resize: maybe}]", "rules: 3"} {
		if _, err := Parse([]byte(text)); err == nil {
			t.Errorf("%q was accepted", text)
		}
	}
	s := Scenario{}
	if s.Override("shop/cart", Script{CPU: "1"}) == nil || s.Override("a/b/c", Script{CPU: "much"}) == nil {
		t.Error("an invalid override was accepted")
	}
	w, err := s.Wish(Container{Name: "app", Annotations: map[string]string{"sim.podfit.dev/app.cpu": "much"}})
	if err == nil || w.CPU == nil || w.Memory == nil {
		t.Errorf("got %v, %v", w, err)
	}
}

func TestOwner_replicaSet_isItsDeployment(t *testing.T) {
	if Owner("ReplicaSet", "cart-api-5d8f") != "cart-api" || Owner("StatefulSet", "db-main") != "db-main" {
		t.Error("wrong owner")
	}
}

func check(t *testing.T, s *Scenario, what string, c Container, cpu, memory float64) {
	t.Helper()
	w, err := s.Wish(c)
	if err != nil {
		t.Fatal(err)
	}
	var now demand.Moment
	if got := w.CPU.At(now); got != cpu {
		t.Errorf("%s: cpu %v, want %v", what, got, cpu)
	}
	if got := w.Memory.At(now); got != memory {
		t.Errorf("%s: memory %v, want %v", what, got, memory)
	}
}
