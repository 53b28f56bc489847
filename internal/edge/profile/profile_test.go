// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package profile

import (
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

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
	for _, b := range recommend.Builtins() {
		for _, parts := range []string{"", partsOf[b.Name]} { // an empty part changes nothing, either
			p, err := Parse([]byte(head + "spec: {base: " + b.Name + parts + "}\n"))
			if err != nil {
				t.Errorf("%s: %v", b.Name, err)
				continue
			}
			p.Name, p.About = b.Name, b.About
			if diff := cmp.Diff(b, p, cmp.Exporter(func(reflect.Type) bool { return true }), cmpopts.IgnoreFields(recommend.Profile{}, "Extend")); diff != "" {
				t.Errorf("%s%s (-built in +read)\n%s", b.Name, parts, diff)
			}
		}
	}
}

// partsOf are the parts that belong to each base, empty.
var partsOf = map[string]string{
	"default": ", histogram: {}", "balanced": ", memory: {}, cpu: {}", "cost": ", memory: {}, cpu: {}", "critical": ", memory: {}, cpu: {}",
	"busy-hours": ", memory: {}, busyHours: {}", "autopilot": ", ensemble: {cpu: {}, memory: {}}",
}

func TestWhatIsWrongWithAProfileIsSaidWithItsPath(t *testing.T) {
	for want, text := range map[string]string{
		"not a SizingProfile": "just a text",
		`unknown field "memoryy" in spec (did you mean memory?)`:                                         head + "spec: {memoryy: {}}",
		`unknown field "oombudget" in spec.memory (did you mean oomBudget?)`:                             head + "spec: {memory: {oombudget: 0.04}}",
		`unknown field "oomBudget" in spec (it belongs to spec.memory.oomBudget)`:                        head + "spec: {oomBudget: 0.04}",
		`unknown field "criticality" in spec.memory (it belongs to spec.busyHours.criticality)`:          head + "spec: {memory: {criticality: 2}}",
		`unknown field "metadate" (did you mean metadata?); unknown field "x" in spec.ensemble.cpu`:      head + "metadate: {}\nspec: {base: autopilot, ensemble: {cpu: {x: 1}}}",
		"it is empty; it should have a SizingProfile, which begins with apiVersion: podfit.dev/v1alpha1": "# nothing\n---\n",
		"it has 2 objects, of which 2 are SizingProfiles; it should have one":                            head + "---\n" + head,
		`not YAML: line 1: did not find expected`:                                                        "a: [",
		`not YAML: unmarshal errors: line 5: key "spec" already set in map`:                              head + "spec: {}\nspec: {}",
		"spec.memory.oomBudget is a string; it must be a number":                                         head + "spec: {memory: {oomBudget: 4%}}",
		"spec.memory.oomBudget is 7; it must be between 0.001 and 0.5; 7 % is 0.07":                      head + "spec: {memory: {oomBudget: 7}}",
		"spec.cpu.shortfall is 0.6; it must be between 0.0001 and 0.5":                                   head + "spec: {cpu: {shortfall: 0.6}}",
		"spec.cpu is a number; it must be a part with fields of its own":                                 head + "spec: {cpu: 3}",
		`spec.base is "balance"; it must be one of default, balanced`:                                    head + "spec: {base: balance}",
		"autopilot (did you mean critical?)":                                                             head + "spec: {base: kritical}",
		`are not podfit.dev/v1alpha1`:                                                                    "apiVersion: v1\nkind: SizingProfile\nmetadata: {name: x}\n",
		"metadata.name is missing":                                                                       "apiVersion: podfit.dev/v1alpha1\nkind: SizingProfile\n",
		"which is built in":                                                                              "apiVersion: podfit.dev/v1alpha1\nkind: SizingProfile\nmetadata: {name: cost}\n",
		`spec.base is "magic"; it must`:                                                                  head + "spec: {base: magic}",
		"spec.memory.oomBudget is 3; it must be between 0.001 and 0.5":                                   head + "spec: {memory: {oomBudget: 3}}",
		"spec.histogram.weight is \"usage\"; it must be constant or request":                             head + "spec: {base: default, histogram: {weight: usage}}",
		"spec.histogram.cpuLowerPercentile is 0.9, above spec.histogram.cpuPercentile, 0.5":              head + "spec: {base: default, histogram: {cpuLowerPercentile: 0.9, cpuPercentile: 0.5}}",
		`"Mars/Olympus", which is not in the IANA database`:                                              head + "spec: {base: busy-hours, busyHours: {from: 9, to: 17, timeZone: Mars/Olympus}}",
		`"Local", which is not in the IANA database`:                                                     head + "spec: {base: busy-hours, busyHours: {from: 9, to: 17, timeZone: Local}}",
		"timeZone and spec.busyHours.utcOffset do not go together":                                       head + "spec: {base: busy-hours, busyHours: {from: 9, to: 17, timeZone: Europe/Berlin, utcOffset: 1}}",
		"spec.busyHours.timeZone has no meaning without from and to":                                     head + "spec: {base: busy-hours, busyHours: {timeZone: Europe/Berlin}}",
		"spec.ensemble.cpu.forget is 0s; it must be between 1h and 2160h":                                head + "spec: {base: autopilot, ensemble: {cpu: {forget: 0s}}}",
		"spec.memory.days is a string; it must be a whole number":                                        head + "spec: {memory: {days: soon}}",
		"spec.memory.days is 2.5; it must be a whole number":                                             head + "spec: {memory: {days: 2.5}}",
		"spec.memory.longDays is 3, less than spec.memory.days, 7":                                       head + "spec: {memory: {days: 7, longDays: 3}}",
		`spec.memory.shrinkAfter is "soon"; it must be a duration`:                                       head + "spec: {memory: {shrinkAfter: soon}}",
		"spec.cpu.window is 1m0s; it must be between 1h and 72h":                                         head + "spec: {cpu: {window: 1m}}",
		"spec.histogram has no meaning for a profile based on cost":                                      head + "spec: {base: cost, histogram: {margin: 0.2}}",
		"spec.cpu has no meaning for a profile based on busy-hours":                                      head + "spec: {base: busy-hours, cpu: {factor: 1}}",
		"spec.busyHours has only one of from and to":                                                     head + "spec: {base: busy-hours, busyHours: {from: 9}}",
		"spec.busyHours from 9 to 9 is no hour":                                                          head + "spec: {base: busy-hours, busyHours: {from: 9, to: 9}}",
		"spec.busyHours.criticality is 9; it must be between 1 and 3":                                    head + "spec: {base: busy-hours, busyHours: {criticality: 9}}",
		"spec.histogram.margin is -1; it must be between 0 and 10":                                       head + "spec: {base: default, histogram: {margin: -1}}",
		"spec.memory.growBy is 0; it must be between 0.06 and 1; spec.cpu.factor is 0":                   head + "spec: {memory: {growBy: 0}, cpu: {factor: 0}}",
	} {
		if _, err := Parse([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	if _, err := ReadFile(filepath.Join(t.TempDir(), "none.yaml")); err == nil {
		t.Error("a file that is not there was read")
	}
}

// The examples of the documentation show a profile and the autoscaler that names it in one text.
func TestAProfileMayStandAmongOtherObjects(t *testing.T) {
	other := "apiVersion: autoscaling.k8s.io/v1\nkind: VerticalPodAutoscaler\nmetadata: {name: web}\nspec: {}\n"
	for name, text := range map[string]string{
		"first": head + "---\n" + other, "last": "---\n" + other + "---\n# mine\n" + head, "alone": "# mine\n---\n" + head + "---\n",
	} {
		if p, err := Parse([]byte(text)); err != nil || p.Name != "mine" {
			t.Errorf("%s: %+v, %v", name, p, err)
		}
	}
}

func TestNearestIsWhatIsLikeIt(t *testing.T) {
	for name, want := range map[string]string{
		"balanced": "balanced", "balancd": "balanced", "Balanced": "balanced", "cots": "cost", "kritical": "critical", "something": "", "": "", "c": "", "bussy-hours": "busy-hours",
	} {
		if got := Nearest(name, []string{"default", "balanced", "cost", "critical", "busy-hours"}); got != want {
			t.Errorf("%q is like %q, want %q", name, got, want)
		}
	}
}

// What a budget brings along is that of the built-in profiles at their own budgets, and less for every larger one.
func TestALargerBudgetHasASmallerMargin(t *testing.T) {
	budgets := []float64{0.0001, 0.0003, 0.001, 0.005, 0.01, 0.015, 0.02, 0.04, 0.06, 0.1, 0.5}
	for name, what := range map[string]struct {
		suits func(budget float64) float64
		has   func(recommend.AdaptiveParams) (budget, value float64)
	}{
		"margin of memory": {MarginFor, func(a recommend.AdaptiveParams) (float64, float64) { return a.Memory.Budget, a.Memory.Margin }},
		"factor of CPU":    {FactorFor, func(a recommend.AdaptiveParams) (float64, float64) { return a.CPU.Shortfall, a.CPU.Factor }},
		"overrun of CPU":   {OverrunFor, func(a recommend.AdaptiveParams) (float64, float64) { return a.CPU.Shortfall, a.CPU.Overrun }},
	} {
		for _, a := range []recommend.AdaptiveParams{recommend.Balanced(), recommend.Cost(), recommend.Critical()} {
			budget, want := what.has(a)
			if got := what.suits(budget); math.Abs(got-want) > 1e-9*math.Abs(want) {
				t.Errorf("the %s for %g is %g, want the built-in's %g", name, budget, got, want)
			}
		}
		last := math.Inf(1)
		for _, b := range budgets {
			m := what.suits(b)
			if !(m < last) {
				t.Errorf("the %s for %g is %g, for less it was %g", name, b, m, last)
			}
			last = m
		}
	}
}

func TestAShortfallBringsItsFactorAlongUnlessThatIsGiven(t *testing.T) {
	for text, want := range map[string]struct{ factor, overrun float64 }{
		"{base: balanced, cpu: {shortfall: 0.0003}}":               {1.12, 1000}, // of critical
		"{base: critical, cpu: {shortfall: 0.003, factor: 1.05}}":  {1.05, 150},  // of cost
		"{base: balanced, cpu: {shortfall: 0.003, choose: false}}": {0.88, 0},
		"{base: cost, cpu: {window: 36h}}":                         {0.88, 150},
	} {
		p, err := Parse([]byte(head + "spec: " + text))
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		params := reflect.ValueOf(p.Estimator).Elem().Field(0).FieldByName("CPU")
		factor, overrun := params.FieldByName("Factor").Float(), params.FieldByName("Overrun").Float()
		if math.Abs(factor-want.factor) > 1e-9 || math.Abs(overrun-want.overrun) > 1e-6 {
			t.Errorf("%s: factor %g and overrun %g, want %+v", text, factor, overrun, want)
		}
	}
}

func TestTheWholeDayMayBeBusy(t *testing.T) {
	if _, err := Parse([]byte(head + "spec: {base: busy-hours, busyHours: {from: 0, to: 24}}")); err != nil {
		t.Error(err)
	}
}

// What "kubectl get sizingprofile -o yaml" prints can be given to a backtest.
func TestAnObjectOfTheClusterIsReadAsAFileIs(t *testing.T) {
	p, err := Parse([]byte(`
apiVersion: podfit.dev/v1alpha1
kind: SizingProfile
metadata:
  name: lab
  uid: 2f1d2f0e-6f0c-4f6a-8d3c-1a5c4a8d9b10
  resourceVersion: "4711"
  generation: 2
  creationTimestamp: "2026-03-01T10:00:00Z"
  labels: {team: lab}
  annotations: {kubectl.kubernetes.io/last-applied-configuration: "{}"}
  managedFields:
  - {manager: kubectl, operation: Apply, apiVersion: podfit.dev/v1alpha1, fieldsType: FieldsV1, fieldsV1: {"f:spec": {"f:base": {}}}}
spec:
  base: autopilot
  ensemble: {memory: {overrun: 50, forget: 240h}, floorMiB: 8}
`))
	if err != nil || p.Name != "lab" || p.FloorMegabytes != 8 || p.FloorMillicores != 10 {
		t.Errorf("%+v, %v", p, err)
	}
}

func TestTheExampleInTheDocumentationIsRead(t *testing.T) {
	text, err := os.ReadFile("../../../docs/algorithm.md")
	if err != nil {
		t.Fatal(err)
	}
	_, example, found := strings.Cut(string(text), "```yaml\n")
	example, _, _ = strings.Cut(example, "---\n")
	p, err := Parse([]byte(example))
	if !found || err != nil || p.Name != "mine" {
		t.Errorf("%v\n%s", err, example)
	}
}

func TestParametersReachTheAlgorithms(t *testing.T) {
	weighted, err := Parse([]byte(head + "spec: {base: default, histogram: {weight: request, memoryPercentile: 0.99, memoryUpperPercentile: 1}}"))
	if err != nil || !weighted.WeightByRequest || weighted.Extend == nil || weighted.Memory != (recommend.Percentiles{Lower: 0.5, Target: 0.99, Upper: 1}) {
		t.Errorf("%+v, %v", weighted, err)
	}
	busy, err := Parse([]byte(head + "spec: {base: busy-hours, busyHours: {mostOfNode: 0.5, floorMillicores: 5}}"))
	if err != nil || busy.MostOfNode != 0.5 || busy.FloorMillicores != 5 {
		t.Errorf("%+v, %v", busy, err)
	}
	for text, want := range map[string]recommend.Profile{
		"{base: critical, cpu: {shortfall: 0.01, growBy: 0.1, choose: false}, memory: {longDays: 5, choose: false}}": recommend.AdaptiveProfile("mine", "based on critical", func() recommend.AdaptiveParams {
			a := recommend.Critical()
			a.CPU.Shortfall, a.CPU.Grow, a.Memory.Days, a.Memory.Long = 0.01, 0.1, 5, 5
			a.CPU.Factor, a.CPU.Overrun, a.Memory.Choose = FactorFor(0.01), 0, false
			return a
		}()),
		"{base: autopilot, ensemble: {cpu: {overrun: 5, change: 1, switch: 2, forget: 10h}}}": recommend.EnsembleProfile("mine", "based on autopilot", func() recommend.EnsembleParams {
			e := recommend.Autopilot()
			e.CPU.Overrun, e.CPU.Change, e.CPU.Switch, e.CPU.Forget = 5, 1, 2, 10*time.Hour
			return e
		}()),
	} {
		p, err := Parse([]byte(head + "spec: " + text))
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if diff := cmp.Diff(want, p, cmp.Exporter(func(reflect.Type) bool { return true }), cmpopts.IgnoreFields(recommend.Profile{}, "Extend")); diff != "" {
			t.Errorf("%s (-want +read)\n%s", text, diff)
		}
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

func TestLeakBound_onlyWhereItIsGiven(t *testing.T) {
	for text, want := range map[string]float64{
		"{base: balanced}":                           0,
		"{base: critical, memory: {oomBudget: 0.1}}": 0,
		"{base: cost, memory: {leakBound: 2}}":       2,
	} {
		p, err := Parse([]byte(head + "spec: " + text))
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if got := reflect.ValueOf(p.Estimator).Elem().Field(0).FieldByName("Memory").FieldByName("LeakBound").Float(); got != want {
			t.Errorf("%s: a leak is bounded at %g times, want %g", text, got, want)
		}
	}
}

// Former versions accepted the comparison profiles as bases, with fields of their own.
func TestParse_baseIsAComparisonProfile_namesTheAllowedBases(t *testing.T) {
	for _, spec := range []string{
		"{base: window-max}", "{base: window-max, window: {days: 3, margin: 0.5}}", "{base: autopilot-window, load: {percentile: 0.99}}",
		"{base: time-of-day, season: {margin: 0.3}}",
	} {
		_, err := Parse([]byte(head + "spec: " + spec))
		const want = ", which only podfit backtest has; it must be one of default, balanced, cost, critical, busy-hours, autopilot"
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %q", spec, err, want)
		}
	}
}

func TestParse_nameOfAComparisonProfile_isAccepted(t *testing.T) {
	p, err := Parse([]byte(strings.Replace(head, "mine", "window-max", 1) + "spec: {base: cost}"))
	if err != nil || p.Name != "window-max" {
		t.Errorf("profile %q, error %v", p.Name, err)
	}
}
