// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import "testing"

// sharingPod returns a VPA whose containers need 500 millicores and 500 bytes together, of targets of 400 each, and a pod with pod-level requests.
func sharingPod() (*Autoscaler, *Pod) {
	e := Estimate{Lower: Amounts(200, 200), Target: Amounts(400, 400), Upper: Amounts(800, 800)}
	a := &Autoscaler{Advice: []Advice{
		{Container: "app", Estimate: e, Shared: Amounts(250, 250)}, {Container: "proxy", Estimate: e, Shared: Amounts(250, 250)},
	}}
	return a, &Pod{PodLevel: &PodResources{Requests: Amounts(2000, 2000)}, Containers: []Container{{Name: "setup", Role: Init}, {Name: "proxy", Role: Sidecar}, {Name: "app"}}}
}

func TestFor_podHasPodLevelRequests_containersGetTheirParts(t *testing.T) {
	a, p := sharingPod()
	want := Estimate{Lower: Amounts(125, 125), Target: Amounts(250, 250), Upper: Amounts(500, 500)}
	if got := a.For(p).AdviceFor("app").Estimate; got != want || a.AdviceFor("app").Target.CPU != 400 {
		t.Errorf("%+v, want %+v, and the recommendation unchanged", got, want)
	}
	if whole, sum := a.Shares(p); whole != Amounts(500, 500) || sum != Amounts(800, 800) {
		t.Errorf("%v of %v", whole, sum)
	}
}

func TestFor_headroomCannotBeShared_containersGetTheirTargets(t *testing.T) {
	both, cpu, memory := Both, Of(CPU), Of(Memory)
	for name, tt := range map[string]struct {
		change func(*Autoscaler, *Pod)
		shared Set
	}{
		"no pod-level resources":          {func(_ *Autoscaler, p *Pod) { p.PodLevel = nil }, 0},
		"a pod-level request of CPU only": {func(_ *Autoscaler, p *Pod) { p.PodLevel.Requests = p.PodLevel.Requests.Only(cpu) }, cpu},
		"a limit follows the request":     {func(_ *Autoscaler, p *Pod) { p.Containers[2].Limits = Amounts(0, 800).Only(memory) }, cpu},
		"a limit that is kept": {func(a *Autoscaler, p *Pod) {
			p.Containers[2].Limits = Amounts(0, 800).Only(memory)
			a.Policies = []ContainerPolicy{{Container: "*", RequestsOnly: true}}
		}, both},
		"a limit in use":                     {func(_ *Autoscaler, p *Pod) { p.Containers[2].Applied = &Applied{Limits: Amounts(0, 800).Only(memory)} }, cpu},
		"a container without recommendation": {func(_ *Autoscaler, p *Pod) { p.Containers = append(p.Containers, Container{Name: "injected"}) }, 0},
		"the container before the others has none": {func(_ *Autoscaler, p *Pod) {
			p.Containers = append([]Container{{Name: "injected"}}, p.Containers...)
		}, 0},
		"no init container":           {func(_ *Autoscaler, p *Pod) { p.Containers = p.Containers[1:] }, both},
		"a container less":            {func(_ *Autoscaler, p *Pod) { p.Containers = p.Containers[2:] }, 0},
		"a sidecar that is not sized": {func(_ *Autoscaler, p *Pod) { p.Containers[1].Role = FixedSidecar }, 0},
		"a container that is Off":     {func(a *Autoscaler, _ *Pod) { a.Policies = []ContainerPolicy{{Container: "app", Off: true}} }, 0},
		"CPU is not controlled": {func(a *Autoscaler, _ *Pod) {
			a.Policies = []ContainerPolicy{{Container: "app", ControlsSet: true, Controlled: memory}}
		}, memory},
		"parts above the targets": {func(a *Autoscaler, _ *Pod) { a.Advice[0].Shared = Amounts(250, 401) }, cpu},
		"parts equal to targets": {func(a *Autoscaler, _ *Pod) {
			a.Advice[0].Shared, a.Advice[1].Shared = Amounts(400, 250), Amounts(400, 250)
		}, memory},
		"not known":   {func(a *Autoscaler, _ *Pod) { a.Advice[1].Shared = Resources{} }, 0},
		"an HPA":      {func(a *Autoscaler, _ *Pod) { a.Horizontal = []*HorizontalAutoscaler{{}} }, 0},
		"canaries":    {func(a *Autoscaler, _ *Pod) { a.Canary.On = true }, 0},
		"whole cores": {func(a *Autoscaler, _ *Pod) { a.IntegerCPU = []string{"app"} }, 0},
	} {
		t.Run(name, func(t *testing.T) {
			a, p := sharingPod()
			tt.change(a, p)
			for _, res := range All {
				want := int64(400)
				if tt.shared.Has(res) {
					want = 250
				}
				if got := a.For(p).AdviceFor("app").Target.Amount(res); got != want {
					t.Errorf("%v: %d, want %d", res, got, want)
				}
			}
		})
	}
}
