// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package rationale

import (
	"bytes"
	"math"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/derivation"
	"podfit.dev/podfit/internal/core/policy"
	"podfit.dev/podfit/internal/core/recommend"
	"podfit.dev/podfit/internal/core/usage"
	"podfit.dev/podfit/test/steptest"
)

func parse(t *testing.T, texts ...string) []If {
	t.Helper()
	var out []If
	for _, text := range texts {
		change, err := ParseIf(text)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, change)
	}
	return out
}

func TestParseIf_validConditions_areRead(t *testing.T) {
	for text, want := range map[string]If{
		"profile=cost":                  {Key: IfProfile, Value: "cost"},
		"without=peak":                  {Key: IfWithout, Value: "peak"},
		"without=2026-11-21":            {Key: IfWithout, Value: "2026-11-21", day: time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC)},
		"decide=anew":                   {Key: IfDecide, Value: "anew"},
		"maxAllowed=1Gi":                {Key: "maxAllowed", Value: "1Gi", resource: cluster.Memory, amount: gib},
		"maxAllowed.memory=1.5Gi":       {Key: "maxAllowed", Value: "1.5Gi", resource: cluster.Memory, amount: 3 * gib / 2},
		"minAllowed=250m":               {Key: "minAllowed", Value: "250m", resource: cluster.CPU, amount: 250},
		"minAllowed.cpu=2":              {Key: "minAllowed", Value: "2", resource: cluster.CPU, amount: 2000},
		"minAllowed.cpu=0.0001":         {Key: "minAllowed", Value: "0.0001", resource: cluster.CPU, amount: 1},
		"maxAllowed.memory=0":           {Key: "maxAllowed", Value: "0", resource: cluster.Memory},
		"maxAllowed.memory=800M":        {Key: "maxAllowed", Value: "800M", resource: cluster.Memory, amount: 8e8},
		"controlledValues=RequestsOnly": {Key: IfControlledValues, Value: "RequestsOnly"},
		"hpa=preserve-scale-point":      {Key: IfHPA, Value: "preserve-scale-point"},
	} {
		got, err := ParseIf(text)
		if err != nil || got != want {
			t.Errorf("%q is %+v, %v, want %+v", text, got, err, want)
		}
		if spaced, err := ParseIf(" " + strings.Replace(text, "=", " = ", 1) + " "); err != nil || spaced != got {
			t.Errorf("%q with spaces is %+v, %v", text, spaced, err)
		}
		if again, err := ParseIf(got.String()); err != nil || again != got {
			t.Errorf("%q is written as %q, which is read as %+v, %v", text, got.String(), again, err)
		}
	}
}

func TestParseIf_invalidConditions_haveARemedy(t *testing.T) {
	for text, want := range map[string]string{
		"":                         "must have the form KEY=VALUE",
		"cost":                     "must have the form KEY=VALUE",
		"profile=":                 "must have the form KEY=VALUE",
		"=1":                       "keys: profile, without, decide, maxAllowed, minAllowed, controlledValues, hpa",
		"profil=cost":              "unknown key \"profil\"; keys: profile",
		"profile.memory=cost":      "unknown key \"profile.memory\"",
		"maxAllowed.disk=1Gi":      "must be followed by .cpu or .memory",
		"maxAllowed=2":             "write maxAllowed.cpu=2 or maxAllowed.memory=2",
		"maxAllowed=2.":            "write maxAllowed.cpu=2. or maxAllowed.memory=2.",
		"maxAllowed.memory=x":      "must be a quantity such as 1Gi or 800Mi, got \"x\"",
		"maxAllowed.memory=-1Gi":   "must be a quantity",
		"maxAllowed.memory=NaN":    "must be a quantity",
		"maxAllowed.memory=0x1Gi":  "must be a quantity",
		"maxAllowed.memory=1e99Gi": "must be a quantity",
		"maxAllowed.memory=1Gim":   "must be a quantity",
		"maxAllowed.memory=9999Pi": "must be a quantity of at most",
		"maxAllowed.cpu=1Q":        "must be a quantity such as 500m or 2",
		"without=yesterday":        "must be \"peak\" or a day such as 2026-11-21",
		"without=2026-13-41":       "a day such as 2026-11-21",
		"decide=later":             "decide must be anew",
		"controlledValues=All":     "must be RequestsOnly or RequestsAndLimits, got \"All\"",
		"hpa=off":                  "must be ignore or preserve-scale-point",
	} {
		if _, err := ParseIf(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q gives error %v, want %q", text, err, want)
		}
	}
}

func TestParseIf_anyText_isReadBackOrRefused(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		key := rapid.SampledFrom([]string{"profile", "without", "decide", "minAllowed", "maxAllowed", "maxAllowed.cpu", "minAllowed.memory", "controlledValues", "hpa", "x"}).Draw(t, "key")
		value := rapid.OneOf(rapid.String(), rapid.StringMatching(`[0-9.]{0,5}(m|k|M|G|Ki|Mi|Gi|Pi|)`)).Draw(t, "value")
		got, err := ParseIf(key + "=" + value)
		if err != nil {
			return
		}
		if got.amount < 0 || got.amount > cluster.MostAmount {
			t.Fatalf("%q is %d", value, got.amount)
		}
		if again, err := ParseIf(got.String()); err != nil || again != got {
			t.Fatalf("%q is read back as %+v, %v, want %+v", got.String(), again, err, got)
		}
	})
}

func TestIfKeys_everyKey_isAcceptedByParseIf(t *testing.T) {
	for _, k := range IfKeys() {
		example := strings.FieldsFunc(k.Form, func(r rune) bool { return r == ',' || r == ' ' })[0]
		example = strings.ReplaceAll(example, "NAME", "cost")
		if got, err := ParseIf(example); err != nil || got.Key != k.Key || k.Meaning == "" {
			t.Errorf("%+v: %+v, %v", k, got, err)
		}
	}
}

// ofMemory returns the counterfactual of memory.
func ofMemory(t *testing.T, all []Counterfactual) Counterfactual {
	t.Helper()
	for _, c := range all {
		if c.Resource == cluster.Memory {
			return c
		}
	}
	t.Fatalf("no counterfactual for memory in %+v", all)
	return Counterfactual{}
}

// A counterfactual equals what the real input gives.
func TestWhatIf_policy_equalsTheSizeUnderThatPolicy(t *testing.T) {
	s := cartScene()
	for text, change := range map[string]func(p *cluster.ContainerPolicy){
		"maxAllowed.memory=700Mi":       func(p *cluster.ContainerPolicy) { p.MaxAllowed = p.MaxAllowed.Set(cluster.Memory, 700*mib) },
		"minAllowed.memory=2Gi":         func(p *cluster.ContainerPolicy) { p.MinAllowed = p.MinAllowed.Set(cluster.Memory, 2*gib) },
		"controlledValues=RequestsOnly": func(p *cluster.ContainerPolicy) { p.RequestsOnly = true },
	} {
		got := ofMemory(t, WhatIf(&s.Sizing, parse(t, text)))
		real := cartScene()
		real.Autoscaler.Policies = append([]cluster.ContainerPolicy(nil), real.Autoscaler.Policies...)
		change(&real.Autoscaler.Policies[0])
		want := WhyOf(&real.Sizing)[1]
		if !got.Known || got.Size != want.Size || got.Target != want.Range.Target {
			t.Errorf("%s: %+v, want %d and %+v", text, got, want.Range.Target, want.Size)
		}
	}
}

func TestWhatIf_defaultProfile_equalsItsRecommendation(t *testing.T) {
	s := cartScene()
	p, _ := recommend.Builtin("default")
	want := policy.Cap(s.Autoscaler, recommend.Workload(p.Params, p.Estimator, s.store, s.Autoscaler, cart, s.Now), s.Global, cluster.NodeShare{})
	got := ofMemory(t, WhatIf(&s.Sizing, parse(t, "profile=default")))
	if got.Target != want[0].Target.Memory {
		t.Errorf("%d, want %d", got.Target, want[0].Target.Memory)
	}
}

// The workload gets the other profile, with the model state as the recommender carries it over, and time passes without change.
func TestWhatIf_otherProfile_isWhereTheWorkloadGetsAfterTheSwitch(t *testing.T) {
	for _, name := range []string{"cost", "critical"} {
		s := cartScene()
		want := ofMemory(t, WhatIf(&s.Sizing, parse(t, "profile="+name)))
		p, _ := recommend.Builtin(name)
		if anew := s.store.Replace(cart, p.Extend); len(anew) > 0 {
			t.Fatal("the model state was not carried over")
		}
		highest := int64(0)
		s.use(14*time.Hour, func(time.Time) (float64, float64) { return 0.2, 300 * mib })
		advice := recommend.Workload(p.Params, p.Estimator, s.store, s.Autoscaler, cart, s.Now)
		highest = max(highest, advice[0].Target.Memory)
		s.use(10*time.Hour, func(time.Time) (float64, float64) { return 0.2, 300 * mib })
		advice = recommend.Workload(p.Params, p.Estimator, s.store, s.Autoscaler, cart, s.Now)
		highest = max(highest, advice[0].Target.Memory)
		// The request changes only if the difference is large enough.
		rule := recommend.Balanced().Memory
		if ratio := float64(highest) / float64(want.Target); ratio > 1/(1-rule.Shrink) || ratio < 1/(1+rule.Grow)-0.01 {
			t.Errorf("%s: %d after the switch, %d expected", name, highest, want.Target)
		}
	}
}

func TestWhatIf_withoutThePeak_isTheSizeOfAWorkloadWithoutIt(t *testing.T) {
	s := cartScene()
	got := ofMemory(t, WhatIf(&s.Sizing, parse(t, "without=peak")))
	if want := time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC); !got.Known || !got.Without.Equal(want) {
		t.Fatalf("%+v, want without %v", got, want)
	}
	now := WhyOf(&s.Sizing)[1]
	if got.Target >= now.Range.Target || got.DaysAbove != 1 || got.Days != 7 {
		t.Errorf("%d without the peak, %d with it; above on %d of %d days", got.Target, now.Range.Target, got.DaysAbove, got.Days)
	}
	same := ofMemory(t, WhatIf(&s.Sizing, parse(t, "without=2026-11-21")))
	if same.Target != got.Target {
		t.Errorf("%d without the day, %d without the peak", same.Target, got.Target)
	}
	other := ofMemory(t, WhatIf(&s.Sizing, parse(t, "without=2020-01-01")))
	anew := ofMemory(t, WhatIf(&s.Sizing, parse(t, "decide=anew")))
	if other.Target != anew.Target {
		t.Errorf("%d without a day before the history, want %d", other.Target, anew.Target)
	}
}

func TestWhatIf_tooSmallLimit_isKilledAgain(t *testing.T) {
	s := cartScene() // the limit is 1.5 times the request, the highest peak 1000Mi, and a container with 1Gi was killed
	for value, want := range map[string]Answer{"600Mi": Yes, "682Mi": Yes, "683Mi": No, "1Gi": No} {
		if got := ofMemory(t, WhatIf(&s.Sizing, parse(t, "maxAllowed.memory="+value))); got.Killed != want {
			t.Errorf("with maxAllowed %s and limit %d it is killed: %v, want %v", value, got.Size.Limit, got.Killed, want)
		}
	}
	s.Kills = nil
	for value, want := range map[string]Answer{"600Mi": Yes, "650Mi": Unknown, "700Mi": No} {
		if got := ofMemory(t, WhatIf(&s.Sizing, parse(t, "maxAllowed.memory="+value))); got.Killed != want {
			t.Errorf("without a known kill, with maxAllowed %s and limit %d it is killed: %v, want %v", value, got.Size.Limit, got.Killed, want)
		}
	}
	s.Pod.Containers[0].Limits = cluster.Resources{}
	if got := ofMemory(t, WhatIf(&s.Sizing, parse(t, "maxAllowed.memory=100Mi"))); got.Killed != No {
		t.Errorf("without a limit it is killed: %v", got.Killed)
	}
	s.Pod = nil
	if got := ofMemory(t, WhatIf(&s.Sizing, parse(t, "maxAllowed.memory=100Mi"))); got.Killed != Unknown || got.Size != (Amounts{}) {
		t.Errorf("without a pod: %+v", got)
	}
}

func TestWhatIf_histogramOnly_knowsOnlyWhatItsBucketsAllow(t *testing.T) {
	p, _ := recommend.Builtin("default")
	s := newScene(p, time.Date(2026, 11, 8, 3, 10, 0, 0, time.UTC))
	s.use(3*dayLength, func(time.Time) (float64, float64) { return 0.2, 1000 * mib })
	for value, want := range map[string]Answer{"500Mi": Yes, "900Mi": No} {
		if got := ofMemory(t, WhatIf(&s.Sizing, parse(t, "maxAllowed.memory="+value))); got.Killed != want {
			t.Errorf("with maxAllowed %s and limit %d it is killed: %v, want %v", value, got.Size.Limit, got.Killed, want)
		}
	}
	s.store.ObserveOOM(usage.OOM{Pod: s.Pod.Key, Container: "app", At: s.Now, Memory: 1000 * mib})
	if got := ofMemory(t, WhatIf(&s.Sizing, parse(t, "maxAllowed.memory=500Mi"))); got.Killed != Unknown {
		t.Errorf("an OOM kill raised the histogram, and it is killed: %v", got.Killed)
	}
}

func TestWhatIf_unknownProfileOrHistory_hasTheReason(t *testing.T) {
	s := cartScene()
	for text, want := range map[string]string{
		"profile=fast":      "There is no profile fast. Profiles: default, balanced, cost, critical, busy-hours, autopilot, packed.",
		"profile=autopilot": "The history of profile balanced is not enough",
	} {
		if got := ofMemory(t, WhatIf(&s.Sizing, parse(t, text))); got.Known || !strings.HasPrefix(got.Reason, want) {
			t.Errorf("%s: known %v, reason %q", text, got.Known, got.Reason)
		}
	}
	p, _ := recommend.Builtin("autopilot")
	auto := newScene(p, time.Date(2026, 11, 8, 3, 10, 0, 0, time.UTC))
	auto.use(dayLength, func(time.Time) (float64, float64) { return 0.2, 1000 * mib })
	if got := ofMemory(t, WhatIf(&auto.Sizing, parse(t, "without=peak"))); got.Known || !strings.Contains(got.Reason, "no peaks of days") {
		t.Errorf("known %v, reason %q", got.Known, got.Reason)
	}
}

// drawScene draws a workload of one or two containers with any usage, a clock that may go backwards, and any policies.
func drawScene(t *rapid.T) *scene {
	p := rapid.SampledFrom(recommend.BacktestProfiles()).Draw(t, "profile")
	s := newScene(p, time.Date(2026, 11, 8, 3, 10, 0, 0, time.UTC))
	if rapid.Bool().Draw(t, "two") {
		s.Pod.Containers = append(s.Pod.Containers, cluster.Container{Name: "proxy", Index: 1, Limits: cluster.Amounts(0, rapid.Int64Range(0, 4*gib).Draw(t, "limit"))})
		s.store.Track(s.Pod)
	}
	for range rapid.IntRange(0, 60).Draw(t, "samples") {
		s.Now = s.Now.Add(rapid.SampledFrom([]time.Duration{0, time.Minute, time.Hour, 7 * time.Hour, 50 * time.Hour, -time.Minute, -30 * time.Hour}).Draw(t, "step"))
		s.store.Tick(s.Now)
		s.store.Observe(usage.Sample{
			Pod: s.Pod.Key, Container: rapid.SampledFrom([]string{"app", "proxy"}).Draw(t, "container"), At: s.Now,
			CPU:    rapid.OneOf(rapid.Float64Range(0, 100), rapid.SampledFrom([]float64{math.NaN(), math.Inf(1), -1, 0, 1e5, 1e-300})).Draw(t, "cores"),
			Memory: rapid.OneOf(rapid.Float64Range(0, 1e12), rapid.SampledFrom([]float64{math.NaN(), math.Inf(-1), 0, 1, 1e14})).Draw(t, "bytes"),
			Has:    cluster.Set(rapid.IntRange(0, 3).Draw(t, "has")),
		})
		if rapid.IntRange(0, 9).Draw(t, "kill") == 0 {
			s.store.ObserveOOM(usage.OOM{Pod: s.Pod.Key, Container: "app", At: s.Now, Memory: rapid.Int64Range(0, 1e13).Draw(t, "killed")})
			s.Kills = map[string]int64{"app": rapid.Int64Range(-1, 1e13).Draw(t, "limit")}
		}
	}
	s.Now = s.Now.Add(rapid.SampledFrom([]time.Duration{0, time.Minute, -100 * time.Hour, 1000 * time.Hour, -100 * 365 * dayLength}).Draw(t, "later"))
	s.Histories = s.store.All(cart)
	bound := func(what string) cluster.Resources {
		return cluster.Resources{
			CPU: rapid.Int64Range(0, 1e5).Draw(t, what), Memory: rapid.Int64Range(0, 1e12).Draw(t, what), Has: cluster.Set(rapid.IntRange(0, 3).Draw(t, what)),
		}
	}
	s.Autoscaler.Policies = []cluster.ContainerPolicy{{
		Container: "*", MinAllowed: bound("min"), MaxAllowed: bound("max"), RequestsOnly: rapid.Bool().Draw(t, "requests only"), Off: rapid.IntRange(0, 9).Draw(t, "off") == 0,
	}}
	s.Global = bound("global")
	if rapid.IntRange(0, 3).Draw(t, "no pod") == 0 {
		s.Pod = nil
	}
	return s
}

func TestWhy_anyWorkload_leadsFromTheHistoryToTheSize(t *testing.T) {
	changes := parse(t, "profile=default", "profile=balanced", "profile=cost", "profile=critical", "profile=busy-hours", "profile=autopilot", "profile=x",
		"without=peak", "without=2026-11-09", "decide=anew", "maxAllowed=1Gi", "maxAllowed.cpu=0", "minAllowed=1Ki", "controlledValues=RequestsOnly",
		"controlledValues=RequestsAndLimits", "hpa=ignore", "hpa=preserve-scale-point")
	rapid.Check(t, func(t *rapid.T) {
		s := drawScene(t)
		before := states(s)
		why := WhyOf(&s.Sizing)
		want := policy.Cap(s.Autoscaler, recommend.Workload(s.Profile.Params, s.Profile.Estimator, s.store, s.Autoscaler, cart, s.Now), s.Global, cluster.NodeShare{})
		estimates, _ := recommend.Explain(s.Profile.Params, s.Profile.Estimator, s.Histories, s.Autoscaler, s.Now)
		sizes := 0
		for i, advice := range want {
			for _, res := range cluster.All {
				if target, ok := advice.Target.Get(res); ok {
					w := &why[sizes]
					sizes++
					if w.Container != advice.Container || w.Resource != res || w.Range != (Range{advice.Lower.Amount(res), target, advice.Upper.Amount(res)}) {
						t.Fatalf("%+v, want %+v", w, advice)
					}
					checkWhy(t, w)
					lower, upper := estimates[i].Lower.Amount(res), estimates[i].Upper.Amount(res)
					if lower > w.Estimate || upper < w.Estimate || lower <= 0 {
						t.Fatalf("the range is %d to %d around %d", lower, upper, w.Estimate)
					}
				}
			}
		}
		if sizes != len(why) {
			t.Fatalf("%d explanations, want %d", len(why), sizes)
		}
		for _, c := range WhatIf(&s.Sizing, append(UsualIfs(&s.Sizing), changes...)) {
			if c.Known == (c.Reason != "") || c.Known && c.Target < 0 || c.DaysAbove > c.Days {
				t.Fatalf("%+v", c)
			}
			checkText(t, c.Text())
		}
		if after := states(s); !reflect.DeepEqual(before, after) {
			t.Fatal("the model state has changed")
		}
		if again := WhyOf(&s.Sizing); !reflect.DeepEqual(why, again) {
			t.Fatalf("%+v, then %+v", why, again)
		}
	})
}

// states returns the model states.
func states(s *scene) [][]byte {
	var out [][]byte
	for _, h := range s.Histories {
		var data []byte
		if h.Extension() != nil {
			data, _ = h.Extension().AppendBinary(nil)
		}
		out = append(out, bytes.Clone(data))
	}
	return out
}

func checkWhy(t *rapid.T, w *Why) {
	t.Helper()
	if !steptest.LeadTo(w.Estimate, w.Steps) {
		t.Fatalf("the steps do not lead to %d: %+v", w.Estimate, w.Steps)
	}
	v := w.Estimate
	for _, b := range w.Bounds {
		if b.Before != v {
			t.Fatalf("bound %+v does not begin with %d", b, v)
		}
		v = b.After
	}
	if w.Size.HasRequest && v != w.Size.Request || !w.Size.HasRequest && v != w.Range.Target {
		t.Fatalf("the bounds lead to %d: %+v", v, w)
	}
	if len(w.Days) != 0 && len(w.Days) != shownDays || len([]rune(Spark(w.Days))) != len(w.Days) {
		t.Fatalf("%d days", len(w.Days))
	}
	for _, s := range w.Steps {
		if stepTexts[s.Name] == nil && s.Name != derivation.StepUnit {
			t.Fatalf("step %s has no text", s.Name)
		}
	}
	checkText(t, w.Title())
	for _, line := range w.Lines() {
		checkText(t, line.Figure+" "+line.What+" "+line.Note)
		// 80 columns: an indent of 3, the figure, two gaps. Lines without note may be wrapped.
		if width := func(s string) int { return len([]rune(s)) }; width(line.Figure) > 9 || line.Note != "" && (width(line.What) > 36 || width(line.Note) > 30) {
			t.Fatalf("line %+v is too long", line)
		}
	}
}

func checkText(t *rapid.T, text string) {
	t.Helper()
	for _, bad := range []string{"NaN", "Inf", "%!", "0001-01-01", "-0", "  "} {
		if strings.Contains(strings.TrimSpace(text), bad) {
			t.Fatalf("%q contains %q", text, bad)
		}
	}
}

func TestWhyOf_noHistory_isEmpty(t *testing.T) {
	s := newScene(recommend.Builtins()[1], time.Date(2026, 11, 8, 3, 10, 0, 0, time.UTC))
	if got := WhyOf(&s.Sizing); len(got) != 0 {
		t.Errorf("%+v", got)
	}
	if got := WhatIf(&s.Sizing, parse(t, "profile=cost")); len(got) != 0 {
		t.Errorf("%+v", got)
	}
	none := s.Sizing
	none.Autoscaler = nil
	if got := WhyOf(&none); len(got) != 0 || len(WhatIf(&none, parse(t, "hpa=ignore"))) != 0 {
		t.Errorf("without a VPA: %+v", got)
	}
	if got := WhyOf(&Sizing{Autoscaler: s.Autoscaler}); len(got) != 0 {
		t.Errorf("without an algorithm: %+v", got)
	}
	s.Histories = s.store.All(cart) // a container without samples
	if got := WhyOf(&s.Sizing); len(got) != 0 {
		t.Errorf("%+v", got)
	}
	for _, c := range UsualIfs(&s.Sizing) {
		if c.Key == IfWithout {
			t.Error("a peak could be left out without samples")
		}
	}
}

func TestWhatIf_severalContainers_eachHasItsOwnAnswer(t *testing.T) {
	p, _ := recommend.Builtin("balanced")
	s := newScene(p, time.Date(2026, 11, 8, 3, 10, 0, 0, time.UTC))
	s.Pod.Containers = append(s.Pod.Containers, cluster.Container{Name: "proxy", Index: 1})
	s.store.Track(s.Pod)
	for i := range 14 * 24 * 12 {
		s.Now = s.Now.Add(5 * time.Minute)
		for _, name := range []string{"app", "proxy"} {
			mem := 300.0
			if day := i / 288; day == 8 && name == "app" || day == 11 && name == "proxy" {
				mem = 1000
			}
			s.store.Observe(usage.Sample{Pod: s.Pod.Key, Container: name, At: s.Now, CPU: 0.2, Memory: mem * mib, Has: cluster.Both})
		}
	}
	s.Histories = s.store.All(cart)
	days := map[string]time.Time{}
	for _, c := range WhatIf(&s.Sizing, parse(t, "without=peak")) {
		if c.Resource == cluster.Memory {
			days[c.Container] = c.Without
		}
	}
	if len(days) != 2 || days["app"].Equal(days["proxy"]) {
		t.Errorf("the days of the highest peaks are %v", days)
	}
	for _, c := range WhatIf(&s.Sizing, parse(t, "maxAllowed.memory=500Mi")) {
		if c.Size.Request != 500*mib {
			t.Errorf("%s gets %d", c.Container, c.Size.Request)
		}
	}
}

// A pod with many containers is explained in a time that grows with their number, not with its square.
func BenchmarkWhatIf(b *testing.B) {
	for _, containers := range []int{1, 10, 100} {
		b.Run(strconv.Itoa(containers), func(b *testing.B) {
			p, _ := recommend.Builtin("balanced")
			s := newScene(p, time.Date(2026, 11, 8, 3, 10, 0, 0, time.UTC))
			s.Pod.Containers = nil
			for i := range containers {
				s.Pod.Containers = append(s.Pod.Containers, cluster.Container{Name: "app" + strconv.Itoa(i), Index: uint8(i)})
			}
			s.store.Track(s.Pod)
			for range 10 * 24 {
				s.Now = s.Now.Add(time.Hour)
				for i := range containers {
					s.store.Observe(usage.Sample{Pod: s.Pod.Key, Container: "app" + strconv.Itoa(i), At: s.Now, CPU: 0.2, Memory: 300 * mib, Has: cluster.Both})
				}
			}
			s.Histories = s.store.All(cart)
			changes := UsualIfs(&s.Sizing)
			for b.Loop() {
				WhatIf(&s.Sizing, changes)
			}
		})
	}
}
