// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"testing"

	"pgregory.net/rapid"

	"podfit.dev/podfit/internal/core/admissible"
	"podfit.dev/podfit/internal/core/cluster"
)

func TestAnnotation_podLevelResources_areNamed(t *testing.T) {
	a := recommend(exactly("app", cpu(900)))
	p := podOf(container("app", cpu(500), cluster.Resources{}))
	p.PodLevel = &cluster.PodResources{Requests: cpu(500), Limits: cpu(1000)}
	want := "Pod resources updated by cart: container 0: cpu request; pod: cpu request, cpu limit"
	if got := Annotation(a, Fit(a, Limits{}, p)); got != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

// admissible.Adjust does not change admitted sizes, and a second call has the same result.
func TestAdmissible_admittedSizes_stayAsTheyAre(t *testing.T) {
	names := []string{"a", "b", "c"}
	rapid.Check(t, func(t *rapid.T) {
		p := drawPod(t, names)
		for i := range p.Containers {
			p.Containers[i].Applied = nil
		}
		if rapid.Bool().Draw(t, "pod level") {
			p.PodLevel = &cluster.PodResources{Requests: drawResources(t, "pod request"), Limits: drawResources(t, "pod limit")}
		}
		l := Limits{Range: cluster.LimitRange{Pod: drawRange(t, "pod range"), Container: drawRange(t, "container range")}}
		fits := Fit(drawAutoscaler(t, names), l, p)
		if len(fits) == 0 || admissible.Refused(l, p, fits).Refused() {
			return
		}
		before := make([]Fitted, len(fits))
		copy(before, fits)
		admissible.Adjust(l, p, fits)
		for i := range fits {
			if fits[i].Requests != before[i].Requests || fits[i].Limits != before[i].Limits {
				t.Fatalf("%+v was changed to %+v", before[i], fits[i])
			}
		}
	})
}
