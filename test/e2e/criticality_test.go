// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"podfit.dev/podfit/api/podfit/v1alpha1"
	vpav1 "podfit.dev/podfit/api/v1"
)

// labelled returns the manifest of a workload whose pods have a criticality.
func labelled(s spec, criticality string) string {
	return strings.Replace(s.manifest(), "labels: {", `labels: {`+"podfit.dev/criticality: \""+criticality+`", `, 1)
}

// TestCriticality_labelsAndNodes_setTheTargetAndConditions checks the label podfit.dev/criticality, an invalid one, and a pod that needs more than
// its share of a node, with a real API server.
func TestCriticality_labelsAndNodes_setTheTargetAndConditions(t *testing.T) {
	p := newPlace(t, "criticality")
	p.checkProfileValidation()
	for name, value := range map[string]string{"usual": "1", "vital": "3", "wrong": "high"} {
		p.apply(labelled(spec{Name: name, Replicas: 1, CPU: "300m"}, value), autoscaler(name, "", name, "Off", withProfile("busy-hours")))
	}
	p.apply(spec{Name: "wide", Replicas: 1, CPU: "3000m"}.manifest(), autoscaler("wide", "", "wide", "Off", withProfile("busy-hours")))
	for name, want := range map[string]int64{"usual": 300, "vital": 900, "wrong": 390} {
		p.eventually("the target of "+name+" has its criticality", measured, p.cpuAbout(name, want))
	}
	p.eventually("an invalid label is reported", 30*time.Second, p.conditionHas("wrong", v1alpha1.ConditionCriticalityInvalid, `got "high"`))
	p.eventually("the needed replicas are named", measured, p.conditionHas("wide", v1alpha1.ConditionNeedsMoreReplicas, "replicas instead of 1"))
}

// cpuAbout returns a check of the CPU target of a VPA with one container. The CPU that the simulated kubelet reports varies a little.
func (p *place) cpuAbout(name string, millicores int64) func(context.Context) error {
	return func(ctx context.Context) error {
		a, err := p.Autoscaler(ctx, p.ns, name)
		if err != nil {
			return err
		}
		if a.Status.Recommendation == nil || len(a.Status.Recommendation.ContainerRecommendations) != 1 {
			return fmt.Errorf("the recommendation of %s is %v", name, a.Status.Recommendation)
		}
		if got := a.Status.Recommendation.ContainerRecommendations[0].Target.Cpu().MilliValue(); got < millicores*95/100 || got > millicores*110/100 {
			return fmt.Errorf("target of %s is %dm, want about %dm", name, got, millicores)
		}
		return nil
	}
}

// conditionHas returns a check that a VPA has a condition with a text in its message.
func (p *place) conditionHas(name string, condition vpav1.VerticalPodAutoscalerConditionType, text string) func(context.Context) error {
	return func(ctx context.Context) error {
		c, err := p.condition(ctx, name, condition)
		if err != nil {
			return err
		}
		if !strings.Contains(c.Message, text) {
			return fmt.Errorf("the condition %s of %s is %+v", condition, name, c)
		}
		return nil
	}
}
