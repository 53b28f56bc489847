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

	"podfit.dev/podfit/internal/core/autopilot"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/criticality"
	"podfit.dev/podfit/internal/core/fleet"
	"podfit.dev/podfit/internal/core/recommend"
)

const head = "apiVersion: podfit.dev/v1alpha1\nkind: SizingProfile\nmetadata: {name: mine}\n"

func TestReadFile_validProfile_hasItsParameters(t *testing.T) {
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
		t.Errorf("got %+v", p)
	}
}

func TestParse_emptyParts_profileEqualsItsBase(t *testing.T) {
	for _, b := range recommend.Builtins() {
		for _, parts := range []string{"", partsOf[b.Name]} { // without parts, and with empty parts
			p, err := Parse([]byte(head + "spec: {base: " + b.Name + parts + "}\n"))
			if err != nil {
				t.Errorf("%s: %v", b.Name, err)
				continue
			}
			p.Name = b.Name
			p.About = b.About
			if diff := cmp.Diff(b, p, cmp.Exporter(func(reflect.Type) bool { return true }), cmpopts.IgnoreFields(recommend.Profile{}, "Extend")); diff != "" {
				t.Errorf("%s%s (-built in +got)\n%s", b.Name, parts, diff)
			}
		}
	}
}

// partsOf has the allowed parts of each base, as empty objects.
var partsOf = map[string]string{
	"default": ", histogram: {}", "balanced": ", memory: {}, cpu: {}", "cost": ", memory: {}, cpu: {}", "critical": ", memory: {}, cpu: {}",
	"busy-hours": ", memory: {}, busyHours: {}", "autopilot": ", ensemble: {cpu: {}, memory: {}}", "packed": ", packed: {}",
}

func TestParse_invalidProfile_errorHasPathAndAllowedValues(t *testing.T) {
	for want, text := range map[string]string{
		"expected a SizingProfile with apiVersion: podfit.dev/v1alpha1":                                                                     "only text",
		`unknown field "memoryy" in spec (did you mean memory?)`:                                                                            head + "spec: {memoryy: {}}",
		`unknown field "oombudget" in spec.memory (did you mean oomBudget?)`:                                                                head + "spec: {memory: {oombudget: 0.04}}",
		`unknown field "oomBudget" in spec (did you mean spec.memory.oomBudget?)`:                                                           head + "spec: {oomBudget: 0.04}",
		`unknown field "criticality" in spec.memory (did you mean spec.busyHours.criticality?)`:                                             head + "spec: {memory: {criticality: 2}}",
		`unknown field "metadate" (did you mean metadata?); unknown field "x" in spec.ensemble.cpu`:                                         head + "metadate: {}\nspec: {base: autopilot, ensemble: {cpu: {x: 1}}}",
		"the profile is empty; expected a SizingProfile with apiVersion: podfit.dev/v1alpha1":                                               "# nothing\n---\n",
		"expected one SizingProfile, got 2 in 2 objects":                                                                                    head + "---\n" + head,
		`parse YAML: line 1: did not find expected`:                                                                                         "a: [",
		`parse YAML: unmarshal errors: line 5: key "spec" already set in map`:                                                               head + "spec: {}\nspec: {}",
		"spec.memory.oomBudget must be a number, got a string":                                                                              head + "spec: {memory: {oomBudget: 4%}}",
		"spec.memory.oomBudget must be between 0.001 and 0.5, got 7; 7 % is 0.07":                                                           head + "spec: {memory: {oomBudget: 7}}",
		"spec.cpu.shortfall must be between 0.0001 and 0.5, got 0.6":                                                                        head + "spec: {cpu: {shortfall: 0.6}}",
		"spec.cpu must be an object, got a number":                                                                                          head + "spec: {cpu: 3}",
		`spec.base must be one of default, balanced, cost, critical, busy-hours, autopilot, packed, got "balance" (did you mean balanced?)`: head + "spec: {base: balance}",
		`got "kritical" (did you mean critical?)`:                                                                                           head + "spec: {base: kritical}",
		`must be podfit.dev/v1alpha1 and SizingProfile, got "v1"`:                                                                           "apiVersion: v1\nkind: SizingProfile\nmetadata: {name: x}\n",
		"metadata.name is required":                                                                                                         "apiVersion: podfit.dev/v1alpha1\nkind: SizingProfile\n",
		"must not be the name of a built-in profile, got cost":                                                                              "apiVersion: podfit.dev/v1alpha1\nkind: SizingProfile\nmetadata: {name: cost}\n",
		`spec.runtimeGuards must contain only cpu and memory, got "disk"`:                                                                   head + "spec: {runtimeGuards: [cpu, disk]}",
		"spec.runtimeGuards contains cpu twice":                                                                                             head + "spec: {runtimeGuards: [cpu, memory, cpu]}",
		"spec.runtimeGuards must be a list, got a string":                                                                                   head + "spec: {runtimeGuards: cpu}",
		`spec.limits.cpu must be keep or remove, got "drop"`:                                                                                head + "spec: {limits: {cpu: drop}}",
		"spec.limits.cpu must be a string, got a bool":                                                                                      head + "spec: {limits: {cpu: true}}",
		"spec.limits must be an object, got a string":                                                                                       head + "spec: {limits: remove}",
		`unknown field "oomBudget" in spec.limits (did you mean spec.memory.oomBudget?)`:                                                    head + "spec: {limits: {oomBudget: 0.04}}",
		`spec.limits.memory must be proportional, keep or peaks, got "remove"`:                                                              head + "spec: {limits: {memory: remove}}",
		`, got "magic"`: head + "spec: {base: magic}",
		"spec.memory.oomBudget must be between 0.001 and 0.5, got 3":                                    head + "spec: {memory: {oomBudget: 3}}",
		`spec.histogram.weight must be constant or request, got "usage"`:                                head + "spec: {base: default, histogram: {weight: usage}}",
		"spec.histogram.cpuLowerPercentile must be at most spec.histogram.cpuPercentile (0.5), got 0.9": head + "spec: {base: default, histogram: {cpuLowerPercentile: 0.9, cpuPercentile: 0.5}}",
		`must be a name of the IANA database such as Europe/Berlin, got "Mars/Olympus"`:                 head + "spec: {base: busy-hours, busyHours: {from: 9, to: 17, timeZone: Mars/Olympus}}",
		`must be a name of the IANA database such as Europe/Berlin, got "Local"`:                        head + "spec: {base: busy-hours, busyHours: {from: 9, to: 17, timeZone: Local}}",
		"timeZone and spec.busyHours.utcOffset must not both be set":                                    head + "spec: {base: busy-hours, busyHours: {from: 9, to: 17, timeZone: Europe/Berlin, utcOffset: 1}}",
		"spec.busyHours.timeZone is only allowed with from and to":                                      head + "spec: {base: busy-hours, busyHours: {timeZone: Europe/Berlin}}",
		"spec.packed.reserve must be between 0.15 and 0.5, got 0.1":                                     head + "spec: {base: packed, packed: {reserve: 0.1}}",
		"spec.packed is not allowed with base balanced; it is allowed with packed":                      head + "spec: {packed: {}}",
		"spec.ensemble.cpu.forget must be between 1h and 2160h, got 0s":                                 head + "spec: {base: autopilot, ensemble: {cpu: {forget: 0s}}}",
		"spec.memory.days must be a whole number, got a string":                                         head + "spec: {memory: {days: soon}}",
		"spec.memory.days must be a whole number, got 2.5":                                              head + "spec: {memory: {days: 2.5}}",
		"spec.memory.longDays must be at least spec.memory.days (7), got 3":                             head + "spec: {memory: {days: 7, longDays: 3}}",
		`spec.memory.shrinkAfter must be a duration such as 12h or 90m, got "soon"`:                     head + "spec: {memory: {shrinkAfter: soon}}",
		"spec.cpu.window must be between 1h and 72h, got 1m0s":                                          head + "spec: {cpu: {window: 1m}}",
		"spec.histogram is not allowed with base cost; it is allowed with default":                      head + "spec: {base: cost, histogram: {margin: 0.2}}",
		"spec.cpu is not allowed with base busy-hours; it is allowed with balanced, cost, critical":     head + "spec: {base: busy-hours, cpu: {factor: 1}}",
		"spec.busyHours must have both from and to, or neither":                                         head + "spec: {base: busy-hours, busyHours: {from: 9}}",
		"spec.busyHours must have at least one hour, got 9 to 9":                                        head + "spec: {base: busy-hours, busyHours: {from: 9, to: 9}}",
		"spec.busyHours.startup must be between 0s and 1h, got 2h":                                      head + "spec: {base: busy-hours, busyHours: {startup: 2h}}",
		`spec.busyHours.startup must be a duration such as 12h or 90m, got "-5m"`:                       head + "spec: {base: busy-hours, busyHours: {startup: -5m}}",
		"spec.busyHours.criticality must be between 1 and 3, got 9":                                     head + "spec: {base: busy-hours, busyHours: {criticality: 9}}",
		`spec.busyHours.mostOfNodeBase must be Allocatable or Capacity, got "capacity"`:                 head + "spec: {base: busy-hours, busyHours: {mostOfNodeBase: capacity}}",
		"spec.busyHours.priorityClasses contains gold twice":                                            head + "spec: {base: busy-hours, busyHours: {priorityClasses: [{name: gold, criticality: 2}, {name: gold, criticality: 2}]}}",
		`spec.busyHours.priorityClasses[0].name must be the name of a PriorityClass, got ""; spec.busyHours.priorityClasses[1].criticality must be between 1 and 3, got 0`: head +
			"spec: {base: busy-hours, busyHours: {priorityClasses: [{criticality: 2}, {name: gold}]}}",
		`unknown field "criticalty" in spec.busyHours.priorityClasses[0] (did you mean criticality?)`:             head + "spec: {base: busy-hours, busyHours: {priorityClasses: [{name: gold, criticalty: 2}]}}",
		"spec.busyHours.priorityClasses must have at most 32 elements, got 33":                                    head + "spec: {base: busy-hours, busyHours: {priorityClasses: [" + strings.Repeat("{name: gold, criticality: 2},", 33) + "]}}",
		"spec.histogram.margin must be between 0 and 10, got -1":                                                  head + "spec: {base: default, histogram: {margin: -1}}",
		"spec.memory.growBy must be between 0.06 and 1, got 0; spec.cpu.factor must be between 0.1 and 10, got 0": head + "spec: {memory: {growBy: 0}, cpu: {factor: 0}}",
	} {
		if _, err := Parse([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got error %v, want %q", err, want)
		}
	}
	if _, err := ReadFile(filepath.Join(t.TempDir(), "none.yaml")); err == nil {
		t.Error("no error for a file that does not exist")
	}
}

// The examples in the documentation have a profile and the autoscaler that uses it in one file.
func TestParse_severalObjects_findsTheProfile(t *testing.T) {
	other := "apiVersion: autoscaling.k8s.io/v1\nkind: VerticalPodAutoscaler\nmetadata: {name: web}\nspec: {}\n"
	for name, text := range map[string]string{
		"first": head + "---\n" + other, "last": "---\n" + other + "---\n# mine\n" + head, "alone": "# mine\n---\n" + head + "---\n",
	} {
		if p, err := Parse([]byte(text)); err != nil || p.Name != "mine" {
			t.Errorf("%s: %+v, %v", name, p, err)
		}
	}
}

// The parameters for a budget equal those of the built-in profiles at their budgets, and decrease as the budget grows.
func TestMarginFor_largerBudget_givesSmallerParameters(t *testing.T) {
	budgets := []float64{0.0001, 0.0003, 0.001, 0.005, 0.01, 0.015, 0.02, 0.04, 0.06, 0.1, 0.5}
	for name, tt := range map[string]struct {
		value   func(budget float64) float64
		builtin func(recommend.AdaptiveParams) (budget, value float64)
	}{
		"margin of memory": {MarginFor, func(a recommend.AdaptiveParams) (float64, float64) { return a.Memory.Budget, a.Memory.Margin }},
		"factor of CPU":    {FactorFor, func(a recommend.AdaptiveParams) (float64, float64) { return a.CPU.Shortfall, a.CPU.Factor }},
		"overrun of CPU":   {OverrunFor, func(a recommend.AdaptiveParams) (float64, float64) { return a.CPU.Shortfall, a.CPU.Overrun }},
	} {
		for _, a := range []recommend.AdaptiveParams{recommend.Balanced(), recommend.Cost(), recommend.Critical()} {
			budget, want := tt.builtin(a)
			if got := tt.value(budget); math.Abs(got-want) > 1e-9*math.Abs(want) {
				t.Errorf("%s for %g: got %g, want %g like the built-in profile", name, budget, got, want)
			}
		}
		last := math.Inf(1)
		for _, b := range budgets {
			m := tt.value(b)
			if !(m < last) {
				t.Errorf("%s for %g: got %g, want less than %g, the value of the smaller budget", name, b, m, last)
			}
			last = m
		}
	}
}

// parametersOf returns the parameters of the algorithm of a profile.
func parametersOf(p recommend.Profile) reflect.Value {
	algorithm := reflect.ValueOf(p.Estimator).Field(0).Elem()
	return algorithm.Elem().Field(0)
}

func TestParse_shortfall_setsFactorAndOverrunUnlessTheyAreSet(t *testing.T) {
	for text, want := range map[string]struct{ factor, overrun float64 }{
		"{base: balanced, cpu: {shortfall: 0.0003}}":               {1.12, 1000}, // like critical
		"{base: critical, cpu: {shortfall: 0.003, factor: 1.05}}":  {1.05, 150},  // overrun like cost
		"{base: balanced, cpu: {shortfall: 0.003, choose: false}}": {0.88, 0},
		"{base: cost, cpu: {window: 36h}}":                         {0.88, 150},
	} {
		p, err := Parse([]byte(head + "spec: " + text))
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		params := parametersOf(p).FieldByName("CPU")
		factor := params.FieldByName("Factor").Float()
		overrun := params.FieldByName("Overrun").Float()
		if math.Abs(factor-want.factor) > 1e-9 || math.Abs(overrun-want.overrun) > 1e-6 {
			t.Errorf("%s: got factor %g and overrun %g, want %+v", text, factor, overrun, want)
		}
	}
}

func TestParse_busyHoursStartup_isValid(t *testing.T) {
	for _, startup := range []string{"0s", "90s", "1h"} {
		if _, err := Parse([]byte(head + "spec: {base: busy-hours, busyHours: {startup: " + startup + "}}")); err != nil {
			t.Errorf("startup %s: %v", startup, err)
		}
	}
}

func TestParse_busyHoursWholeDay_isValid(t *testing.T) {
	if _, err := Parse([]byte(head + "spec: {base: busy-hours, busyHours: {from: 0, to: 24}}")); err != nil {
		t.Error(err)
	}
}

// The output of "kubectl get sizingprofile -o yaml" is valid input of a backtest.
func TestParse_objectFromAPIServer_isRead(t *testing.T) {
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

func TestParse_examplesInDocumentation_areValid(t *testing.T) {
	text, err := os.ReadFile("../../../docs/algorithm.md")
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, example := range strings.Split(string(text), "```yaml\n")[1:] {
		example, _, _ = strings.Cut(example, "```")
		p, err := Parse([]byte(example))
		if err != nil {
			t.Errorf("%v\n%s", err, example)
		}
		names[p.Name] = true
	}
	if !names["mine"] || !names["services"] {
		t.Errorf("got the examples %v", names)
	}
}

func TestParse_parameters_reachTheAlgorithms(t *testing.T) {
	weighted, err := Parse([]byte(head + "spec: {base: default, histogram: {weight: request, memoryPercentile: 0.99, memoryUpperPercentile: 1}}"))
	if err != nil || !weighted.WeightByRequest || weighted.Extend == nil || weighted.Memory != (recommend.Percentiles{Lower: 0.5, Target: 0.99, Upper: 1}) {
		t.Errorf("%+v, %v", weighted, err)
	}
	busy, err := Parse([]byte(head + "spec: {base: busy-hours, busyHours: {mostOfNode: 0.5, mostOfNodeBase: Capacity, floorMillicores: 5, priorityClasses: [{name: gold, criticality: 2.5}]}}"))
	gold := criticality.Declared{Classes: []string{"gold"}}
	if k, _ := busy.For(gold, fleet.NodeSizes{}).Criticality(); k.Factor != 2.5 {
		t.Errorf("PriorityClass gold has %+v", k)
	}
	if err != nil || busy.MostOfNode != 0.5 || busy.MostOfNodeBase != cluster.OfCapacity || busy.FloorMillicores != 5 {
		t.Errorf("%+v, %v", busy, err)
	}
	for text, want := range map[string]recommend.Profile{
		"{base: critical, cpu: {shortfall: 0.01, growBy: 0.1, choose: false}, memory: {longDays: 5, choose: false}}": recommend.AdaptiveProfile("mine", "based on critical", func() recommend.AdaptiveParams {
			a := recommend.Critical()
			a.CPU.Shortfall = 0.01
			a.CPU.Grow = 0.1
			a.Memory.Days = 5
			a.Memory.Long = 5
			a.CPU.Factor = FactorFor(0.01)
			a.CPU.Overrun = 0
			a.Memory.Choose = false
			return a
		}()),
		"{base: packed, packed: {memoryPercentile: 0.9, cpuPercentile: 0.95, peak: 0.25, reserve: 0.2, days: 5, longDays: 10}}": recommend.PackedProfile("mine", "based on packed",
			recommend.PackedParams{Memory: 0.9, CPU: 0.95, Peak: 0.25, Reserve: 0.2, Days: 5, LongDays: 10}),
		"{base: autopilot, ensemble: {cpu: {overrun: 5, change: 1, switch: 2, forget: 10h}}}": recommend.EnsembleProfile("mine", "based on autopilot", func() autopilot.Params {
			e := recommend.Autopilot()
			e.CPU.Overrun = 5
			e.CPU.Change = 1
			e.CPU.Switch = 2
			e.CPU.Forget = 10 * time.Hour
			return e
		}()),
	} {
		p, err := Parse([]byte(head + "spec: " + text))
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if diff := cmp.Diff(want, p, cmp.Exporter(func(reflect.Type) bool { return true }), cmpopts.IgnoreFields(recommend.Profile{}, "Extend")); diff != "" {
			t.Errorf("%s (-want +got)\n%s", text, diff)
		}
	}
}

// FuzzParse parses arbitrary text. A profile without an error must be complete.
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

func TestParse_leakBound_isSetOnlyIfGiven(t *testing.T) {
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
		if got := parametersOf(p).FieldByName("Memory").FieldByName("LeakBound").Float(); got != want {
			t.Errorf("%s: got leak bound %g, want %g", text, got, want)
		}
	}
}

// Earlier versions accepted comparison profiles as bases, with fields of their own.
func TestParse_baseIsAComparisonProfile_namesTheAllowedBases(t *testing.T) {
	for _, spec := range []string{
		"{base: window-max}", "{base: window-max, window: {days: 3, margin: 0.5}}", "{base: autopilot-window, load: {percentile: 0.99}}",
		"{base: time-of-day, season: {margin: 0.3}}",
	} {
		_, err := Parse([]byte(head + "spec: " + spec))
		const want = "spec.base must be one of default, balanced, cost, critical, busy-hours, autopilot, packed, got "
		hint := ""
		if strings.Contains(spec, "window-max") { // the others exist no more
			hint = "is a comparison profile, which only podfit backtest has"
		}
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), hint) {
			t.Errorf("%s: got error %v, want %q and %q", spec, err, want, hint)
		}
	}
}

func TestParse_nameOfAComparisonProfile_isAccepted(t *testing.T) {
	p, err := Parse([]byte(strings.Replace(head, "mine", "window-max", 1) + "spec: {base: cost}"))
	if err != nil || p.Name != "window-max" {
		t.Errorf("got profile %q, error %v", p.Name, err)
	}
}
