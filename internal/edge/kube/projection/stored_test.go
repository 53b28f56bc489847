// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package projection

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/test/kubetest"
)

func TestScalePoints_storedAnnotation_isReadAndWrittenTheSame(t *testing.T) {
	want := []cluster.ScalePoint{
		{Resource: cluster.CPU, Base: 500, Percent: 60, Set: 86},
		{Resource: cluster.Memory, Container: "app", Base: 200 << 20, Percent: 80, Set: 75, Resets: 2, ResetAt: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)},
	}
	text, err := ScalePointsAnnotation(want)
	if err != nil {
		t.Fatal(err)
	}
	golden := kubetest.Stored(t, "scale-point.json", []byte(text))
	if diff := cmp.Diff(want, ScalePoints(string(golden))); diff != "" {
		t.Errorf("read (-want +got):\n%s", diff)
	}
	for cut := 1; cut < len(golden); cut++ {
		if got := ScalePoints(string(golden[:cut])); got != nil {
			t.Fatalf("cut off after %d of %d bytes: %+v", cut, len(golden), got)
		}
	}
	later := `[{"resource":"cpu","request":"1","percent":50,"set":50,"later":{"x":1}}]`
	if got := ScalePoints(later); len(got) != 1 || got[0].Base != 1000 {
		t.Errorf("with more fields: %+v", got)
	}
	for name, text := range map[string]string{
		"not a number":     `[{"resource":"cpu","request":"NaN","percent":50,"set":50}]`,
		"another resource": `[{"resource":"disk","request":"1","percent":50,"set":50}]`,
		"negative":         `[{"resource":"cpu","request":"1","percent":-50,"set":50}]`,
	} {
		if got := ScalePoints(text); got != nil {
			t.Errorf("%s: %+v", name, got)
		}
	}
}
