// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package profile

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/recommend"
)

const head = "apiVersion: podfit.dev/v1alpha1\nkind: SizingProfile\nmetadata: {name: mine}\n"

func TestReadsAProfile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "mine.yaml")
	text := head + `
spec:
  base: cost
  about: for the lab
  memory: {oomBudget: 0.04, days: 10, lowHours: false, shrinkAfter: 6h, floorMiB: 64}
  cpu: {window: 36h, factor: 1.2, addMillicores: 50, floorMillicores: 20}
`
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	p, err := ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if p.Name != "mine" || p.About != "for the lab" || p.FloorMegabytes != 64 || p.FloorMillicores != 20 || p.Extend == nil || p.Mode != cluster.InPlaceOrRecreate {
		t.Errorf("read %+v", p)
	}
}

func TestAProfileThatSaysNothingIsItsBase(t *testing.T) {
	for _, base := range bases {
		p, err := Parse([]byte(head + "spec: {base: " + base + "}\n"))
		if err != nil {
			t.Errorf("%s: %v", base, err)
			continue
		}
		b, _ := recommend.Builtin(base)
		if p.Params != b.Params || p.Mode != b.Mode || (p.Extend == nil) != (b.Extend == nil) {
			t.Errorf("%s: %+v, want %+v", base, p, b)
		}
	}
}

func TestWhatIsWrongWithAProfileIsSaidWithItsPath(t *testing.T) {
	for want, text := range map[string]string{
		"not a SizingProfile":                                                          "just a text",
		`unknown field "memoryy"`:                                                      head + "spec: {memoryy: {}}",
		`are not podfit.dev/v1alpha1`:                                                  "apiVersion: v1\nkind: SizingProfile\nmetadata: {name: x}\n",
		"metadata.name is missing":                                                     "apiVersion: podfit.dev/v1alpha1\nkind: SizingProfile\n",
		"which is built in":                                                            "apiVersion: podfit.dev/v1alpha1\nkind: SizingProfile\nmetadata: {name: cost}\n",
		`spec.base is "magic"; it must`:                                                head + "spec: {base: magic}",
		"spec.memory.oomBudget is 3; it must be between 0.001 and 0.5":                 head + "spec: {memory: {oomBudget: 3}}",
		"spec.memory.days is 2.5; it must be a whole number":                           head + "spec: {memory: {days: 2.5}}",
		"spec.memory.longDays is 3, less than spec.memory.days, 7":                     head + "spec: {memory: {longDays: 3}}",
		`spec.memory.shrinkAfter is "soon"; it must be a duration`:                     head + "spec: {memory: {shrinkAfter: soon}}",
		"spec.cpu.window is 1m0s; it must be between 1h0m0s":                           head + "spec: {cpu: {window: 1m}}",
		"spec.histogram has no meaning for a profile based on cost":                    head + "spec: {base: cost, histogram: {margin: 0.2}}",
		"spec.cpu has no meaning for a profile based on busy-hours":                    head + "spec: {base: busy-hours, cpu: {factor: 1}}",
		"spec.busyHours has only one of from and to":                                   head + "spec: {base: busy-hours, busyHours: {from: 9}}",
		"spec.busyHours from 9 to 9 is no hour":                                        head + "spec: {base: busy-hours, busyHours: {from: 9, to: 9}}",
		"spec.busyHours.criticality is 9; it must be between 1 and 3":                  head + "spec: {base: busy-hours, busyHours: {criticality: 9}}",
		"spec.histogram.margin is -1; it must be between 0 and 10":                     head + "spec: {base: default, histogram: {margin: -1}}",
		"spec.memory.growBy is 0; it must be between 0.06 and 1; spec.cpu.factor is 0": head + "spec: {memory: {growBy: 0}, cpu: {factor: 0}}",
	} {
		if _, err := Parse([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	if _, err := ReadFile(filepath.Join(t.TempDir(), "none.yaml")); err == nil {
		t.Error("a file that is not there was read")
	}
}

func TestALargerBudgetHasASmallerMargin(t *testing.T) {
	for _, p := range []recommend.AdaptiveParams{recommend.Balanced(), recommend.Cost(), recommend.Critical()} {
		if got := MarginFor(p.Memory.Budget); math.Abs(got-p.Memory.Margin) > 1e-9 {
			t.Errorf("the margin for %g is %g, want the built-in's %g", p.Memory.Budget, got, p.Memory.Margin)
		}
	}
	last := math.Inf(1)
	for _, b := range []float64{0.001, 0.005, 0.01, 0.015, 0.02, 0.04, 0.06, 0.1, 0.5} {
		m := MarginFor(b)
		if m >= last {
			t.Errorf("the margin for %g is %g, for less it was %g", b, m, last)
		}
		last = m
	}
}

func TestTheWholeDayMayBeBusy(t *testing.T) {
	if _, err := Parse([]byte(head + "spec: {base: busy-hours, busyHours: {from: 0, to: 24}}")); err != nil {
		t.Error(err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add(head + "spec: {base: cost, memory: {oomBudget: 0.04, days: 10}, cpu: {window: 36h}}")
	f.Add(head + "spec: {base: busy-hours, busyHours: {from: 22, to: 6, utcOffset: 3, criticality: 2}}")
	f.Fuzz(func(t *testing.T, text string) {
		p, err := Parse([]byte(text))
		if err == nil && (p.Name == "" || p.Estimator == nil || !(p.FloorMegabytes >= 1)) {
			t.Fatalf("accepted %+v", p)
		}
	})
}
