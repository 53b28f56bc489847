// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package rationale

import (
	"go/ast"
	"go/parser"
	"go/token"
	"math"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/derivation"
	"podfit.dev/podfit/internal/core/policy"
	"podfit.dev/podfit/internal/core/wording"
)

// constants returns the values of the constants of a type in a file.
func constants(t *testing.T, file, typeName string) []string {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	ast.Inspect(parsed, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		if id, ok := spec.Type.(*ast.Ident); ok && id.Name == typeName {
			text, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, text)
		}
		return true
	})
	if len(out) == 0 {
		t.Fatalf("%s has no constants of type %s", file, typeName)
	}
	return out
}

func TestStepTexts_everyName_hasAText(t *testing.T) {
	for _, name := range constants(t, "../derivation/name.go", "StepName") {
		step := derivation.Step{Name: derivation.StepName(name), Operation: derivation.Multiply, Factor: 2, Changed: true}
		text, ok := stepTexts[step.Name]
		if step.Name == derivation.StepUnit {
			continue
		}
		if !ok {
			t.Errorf("step %s has no text", name)
			continue
		}
		what, _ := text(&step, cluster.Memory)
		if what == "" {
			t.Errorf("the text of step %s is empty", name)
		}
	}
}

func TestBoundNames_everyKind_hasAName(t *testing.T) {
	for _, kind := range constants(t, "../policy/bound.go", "BoundKind") {
		if boundNames[policy.BoundKind(kind)] == "" {
			t.Errorf("bound %s has no name", kind)
		}
	}
}

func TestFormat_anyAmount_isShort(t *testing.T) {
	for _, c := range []struct {
		res  cluster.Resource
		v    float64
		want string
	}{
		{cluster.CPU, 0, "0"},
		{cluster.CPU, 0.25, "0.2m"},
		{cluster.CPU, 241.4, "241m"},
		{cluster.CPU, 2000, "2"},
		{cluster.CPU, 12345, "12.3"},
		{cluster.CPU, 1e10, "10000000"},
		{cluster.CPU, math.NaN(), "0"},
		{cluster.CPU, -5, "0"},
		{cluster.Memory, 0, "0"},
		{cluster.Memory, 512, "512"},
		{cluster.Memory, 2048, "2Ki"},
		{cluster.Memory, 1.5 * mib, "1.5Mi"},
		{cluster.Memory, 300 * mib, "300Mi"},
		{cluster.Memory, gib, "1Gi"},
		{cluster.Memory, 1276 * mib, "1276Mi"},
		{cluster.Memory, 16.5 * gib, "16.5Gi"},
		{cluster.Memory, 2048 * gib, "2Ti"},
		{cluster.Memory, math.Inf(1), "909.5Ti"},
	} {
		if got := wording.Figure(c.res, c.v); got != c.want {
			t.Errorf("%g of %s is %q, want %q", c.v, c.res, got, c.want)
		}
	}
}

func TestSpark_days_areScaledToTheHighest(t *testing.T) {
	for want, days := range map[string][]Day{
		"":    nil,
		"·▁█": {{}, {Known: true, Peak: 1}, {Known: true, Peak: 8}},
		"▁":   {{Known: true}},
		"▄█":  {{Known: true, Peak: 4}, {Known: true, Peak: 8}},
	} {
		if got := Spark(days); got != want {
			t.Errorf("%+v is %q, want %q", days, got, want)
		}
	}
}

func TestKept_everyReason_saysWhatChangesWhen(t *testing.T) {
	at := time.Date(2026, 11, 21, 18, 0, 0, 0, time.UTC)
	for reason, want := range map[derivation.KeptReason]string{
		derivation.KeptSmall:   "a new 300Mi is within 8 %",
		derivation.KeptWaiting: "300Mi from Sat 21 Nov 18:00",
		derivation.KeptPending: "300Mi after Sat 21 Nov 18:00",
	} {
		what, note := kept(&derivation.Step{Evidence: derivation.Evidence{From: at.Add(-time.Hour), Until: at, Amount: 300 * mib, Share: 0.08, Kept: reason}}, cluster.Memory)
		if what != "kept since Sat 21 Nov 17:00" || note != want {
			t.Errorf("%s: %q, %q, want %q", reason, what, note, want)
		}
	}
}

// The lines about limits, the status and HPAs.
func TestLines_sizesAndHPAs_areExplained(t *testing.T) {
	hpa := cluster.Horizontal{HPA: &cluster.HorizontalAutoscaler{Key: cluster.Key{Name: "cart"}}, Metric: &cluster.UtilizationTarget{Percent: 70}}
	size := Amounts{Request: 300 * mib, HasRequest: true, Limit: 600 * mib, HasLimit: true}
	published := func(label, role string) Published {
		return Published{Groups: []cluster.GroupSize{{Role: role, Target: cluster.Amounts(1, 200*mib)}}, RoleLabel: label}
	}
	for want, w := range map[string]Why{
		"limit 600Mi; quiet pods get 200Mi":                     {Size: size, Published: published(cluster.UsageLevel, cluster.Quiet)},
		"limit 600Mi; pods on nodes of the size 1cpu get 200Mi": {Size: size, Published: published(cluster.NodeSize, "1cpu")},
		"limit 600Mi; pods with role=a get 200Mi":               {Size: size, Published: published("role", "a")},
		"limit 600Mi":                                  {Size: size},
		"limit 400Mi → 600Mi, in proportion":           {Size: size, Present: Amounts{Limit: 400 * mib, HasLimit: true}},
		"limit stays 600Mi, by the policy":             {Size: size, LimitsKept: true},
		"no limit":                                     {Size: Amounts{Request: 1, HasRequest: true}},
		"limit 600Mi; the VPA's status has 500Mi":      {Size: size, Published: Published{Target: 500 * mib}},
		"limit 600Mi; outside of the low hours: 700Mi": {Size: size, Usual: 700 * mib},
		"": {},
	} {
		w.Resource = cluster.Memory
		if got := w.sizeLine().What; got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	for state, want := range map[policy.HorizontalState]string{
		policy.NotScaled: "", policy.ScalePointStopped: "HPA cart scales at 70 % of the request: 350m a pod; others overwrite its target",
	} {
		w := Why{Resource: cluster.CPU, Horizontal: state, Metric: hpa, Present: Amounts{Request: 500, HasRequest: true}}
		if got := w.horizontalLine().What; got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	for want, w := range map[string]Why{
		"CPU stays 500m (would be 633m)": {Horizontal: policy.LeftToHPA, Present: Amounts{Request: 500, HasRequest: true}},
		"CPU is not set (would be 633m)": {Horizontal: policy.LeftToHPA},
		"633m of CPU":                    {},
		"600m of CPU (was 500m)":         {Size: Amounts{Request: 600, HasRequest: true}, Present: Amounts{Request: 500, HasRequest: true}},
		"633m of CPU (was 1)":            {Present: Amounts{Request: 1000, HasRequest: true}},
		"600m of CPU":                    {Size: Amounts{Request: 600, HasRequest: true}, Present: Amounts{Request: 600, HasRequest: true}},
	} {
		w.Resource = cluster.CPU
		w.Range.Target = 633
		if got := w.Title(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestBoundTexts_everyEffect_isNamedOnce(t *testing.T) {
	w := Why{Bounds: []policy.Bound{
		{Resource: cluster.Memory, Kind: policy.MinAllowed, Before: 5, After: 5},
		{Resource: cluster.Memory, Kind: policy.MaxAllowed, Amount: gib, Before: 2 * gib, After: gib},
		{Resource: cluster.Memory, Kind: policy.MinAllowed, Before: gib, After: gib},
		{Resource: cluster.Memory, Kind: policy.MaxAllowed, Amount: gib, Before: gib, After: gib},
		{Resource: cluster.Memory, Kind: policy.RangeMin, Amount: 2 * gib, Before: gib, After: 2 * gib},
		{Resource: cluster.Memory, Kind: policy.ContainerLimit, Before: gib, After: gib},
		{Resource: cluster.Memory, Kind: policy.Node, Amount: 32 * gib, Before: gib, After: gib},
	}}
	want := []string{"minAllowed –", "maxAllowed 1Gi lowers it to 1Gi", "LimitRange minimum 2Gi raises it to 2Gi", "largest node 32Gi ok"}
	got := w.BoundTexts()
	if len(got) != len(want) {
		t.Fatalf("%q, want %q", got, want)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("%q, want %q", got[i], want[i])
		}
	}
}

// A person adds the figures up: the last part is the difference of the amounts that are shown, although each is rounded.
func TestAddUp_roundedParts_sumIsTheOneThatIsShown(t *testing.T) {
	for name, c := range map[string]struct{ first, part, result, want string }{
		"rounded down twice": {"126m", "+ 18m", "= 143m", "+ 17m"},
		"small":              {"32m", "+ 4m", "= 35m", "+ 3m"},
		"smaller":            {"3.3m", "+ 0.5m", "= 3.7m", "+ 0.4m"},
		"cores":              {"10.4", "+ 1.5", "= 12", "+ 1.6"},
		"small, by a bound":  {"32m", "+ 4m", "= 38m", "+ 4m"},
		"exact":              {"100m", "+ 15m", "= 115m", "+ 15m"},
		"memory":             {"1000Mi", "+ 150Mi", "= 1151Mi", "+ 151Mi"},
		"after a rounding":   {"→ 126m", "+ 18m", "= 143m", "+ 17m"},
		"changed by a bound": {"126m", "+ 18m", "= 250m", "+ 18m"},
		"other unit":         {"900Ki", "+ 180Ki", "= 1.1Mi", "+ 180Ki"},
		"no sum":             {"× 1.150", "+ 18m", "= 143m", "+ 18m"},
	} {
		lines := []Line{{Figure: c.first}, {Figure: c.part}}
		addUp(lines, Line{Figure: c.result})
		if got := lines[1].Figure; got != c.want {
			t.Errorf("%s: %s %s %s, want %s", name, c.first, got, c.result, c.want)
		}
	}
}

// For no amount does a person who adds up the figures get another sum.
func TestAddUp_anyAmount_figuresAddUp(t *testing.T) {
	value := func(figure string) (v float64, unit string) {
		number := strings.TrimRightFunc(figure, unicode.IsLetter)
		v, err := strconv.ParseFloat(strings.TrimLeft(number, "+= "), 64)
		if err != nil {
			t.Fatal(err)
		}
		return v, figure[len(number):]
	}
	for res, span := range map[cluster.Resource][2]float64{cluster.CPU: {1, 1e6}, cluster.Memory: {1 << 20, 1 << 45}} {
		for v := span[0]; v < span[1]; v *= 1.0007 {
			lines := []Line{{Figure: wording.Figure(res, v)}, {Figure: "+ " + wording.Figure(res, 0.15*v)}}
			total := "= " + wording.Figure(res, math.Floor(1.15*v))
			addUp(lines, Line{Figure: total})
			first, unit := value(lines[0].Figure)
			part, of := value(lines[1].Figure)
			if sum, in := value(total); unit == in && of == in && math.Abs(first+part-sum) > 1e-6 {
				t.Fatalf("%v: %s %s %s", v, lines[0].Figure, lines[1].Figure, total)
			}
		}
	}
}
