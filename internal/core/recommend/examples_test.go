// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package recommend

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/hourly"
	"podfit.dev/podfit/internal/core/usage"
)

// example checks that the example of a test in docs/algorithm.md has each of these figures.
func example(t *testing.T, figures ...string) {
	t.Helper()
	told := examples(t)[t.Name()]
	if told == "" {
		t.Error("docs/algorithm.md has no such example")
	}
	for _, f := range figures {
		if !strings.Contains(told, f) {
			t.Errorf("docs/algorithm.md does not say %q, but: %s", f, told)
		}
	}
}

var exampleHead = regexp.MustCompile("\\*Example\\* \\([^)]*`(Test[A-Za-z_]+)`\\)")

// examples returns the texts of the examples in docs/algorithm.md, without line breaks, by the name of their test.
func examples(t *testing.T) map[string]string {
	t.Helper()
	data, err := os.ReadFile("../../../docs/algorithm.md")
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for paragraph := range strings.SplitSeq(string(data), "\n\n") {
		text := strings.Join(strings.Fields(paragraph), " ")
		if at := exampleHead.FindStringSubmatchIndex(text); at != nil {
			out[text[at[2]:at[3]]] = text[at[1]:]
		}
	}
	return out
}

func TestExamples_inTheDocs_areComputed(t *testing.T) {
	told := examples(t)
	if len(told) < 15 {
		t.Errorf("docs/algorithm.md has %d examples", len(told))
	}
	files, err := filepath.Glob("*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	files = append(files, "../autopilot/ensemble_test.go")
	for _, file := range files {
		code, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range strings.Split(string(code), "\nfunc ")[1:] {
			if name, _, _ := strings.Cut(f, "("); strings.Contains(f, "\n\texample(t, ") {
				delete(told, name)
			}
		}
	}
	for name := range told {
		t.Errorf("no test computes the example of %s", name)
	}
}

// The examples in docs/algorithm.md that have no test elsewhere.

func TestDefault_histogramExampleOfTheDocs_isCorrect(t *testing.T) {
	p := DefaultParams()
	b := newBench(DefaultProfile("a", "", p))
	for end := b.now.Add(7 * day); !b.now.After(end); b.now = b.now.Add(time.Minute) {
		b.book.Observe(usage.Sample{Pod: b.pod, Container: "app", At: b.now, CPU: 0.3, Has: cluster.Of(cluster.CPU)})
	}
	// The bucket of 0.3 cores ends at 0.2·(1.05¹⁹ − 1) = 0.3054.
	if e := b.estimate(); e.Target.CPU != 305+45 || e.Upper.CPU != 350*8/7 {
		t.Errorf("a week of 0.3 cores gets %dm, at most %dm; want 350m and 400m", e.Target.CPU, e.Upper.CPU)
	}
	example(t, fmt.Sprintf("305m × 1.15 = %dm", b.estimate().Target.CPU), fmt.Sprintf("(1 + 1/7) = %dm", b.estimate().Upper.CPU))
}

func TestAdaptive_marginExampleOfTheDocs_isCorrect(t *testing.T) {
	r := Balanced().Memory
	up, down := r.Step*(1-r.aim()), r.Step*r.aim()
	if math.Abs(up-0.049) > 1e-9 || math.Abs(up/down-49) > 1e-9 {
		t.Errorf("a day above adds %g, a day without takes %g; want 0.049, and that 49 days take it back", up, down)
	}
	example(t, fmt.Sprintf("adds %.1f %%", 100*up), fmt.Sprintf("%.0f good days", up/down))
}

func TestPlan_twoLevelsExampleOfTheDocs_isCorrect(t *testing.T) {
	r := Balanced().Memory
	p, now := peaksOf(14, func(h int) float64 {
		if at := (12 + h) % 24; at == 1 || at == 2 { // it begins at noon
			return 1000 * mib
		}
		return 200 * mib
	})
	hour := int(now.Unix()/3600) - 1
	base := r.base(p, 0, hour)
	var days peaksOfDays
	days.read(p, 0, hour, r.Long, nil)
	usual := r.level(days.all(), base, nil)
	low := r.plan(p, p.Since(), hour, usual, base)
	if low.from != 4 || low.length != 20 || !low.contain(22*3600) || low.contain(23*3600) {
		t.Errorf("the low hours are %d from %d o'clock on, want 20 from 4, and that the request is raised at 23", low.length, low.from)
	}
	high, lowered := hourly.Amount(usual+r.Margin*hourly.PerNat)/mib, hourly.Amount(float64(low.base)+r.Margin*hourly.PerNat)/mib
	mean := (20*lowered + 4*high) / 24
	if math.Abs(high-1556) > 3 || math.Abs(lowered-270) > 1 || math.Abs(mean-484) > 2 || math.Abs(200/mean-200/high-0.28) > 0.005 {
		t.Errorf("%.0f MiB all day, or %.0f in the low hours, a mean of %.0f, a gain of %.3f", high, lowered, mean, 200/mean-200/high)
	}
	example(t, fmt.Sprintf("the level is %.0f MiB all day, or %.0f MiB in the %d hours from %d", high, lowered, low.length, low.from),
		fmt.Sprintf("the mean is %.0f MiB", mean), fmt.Sprintf("= %.2f", 200/mean-200/high))
}

func TestAdaptive_cpuLevelExampleOfTheDocs_isCorrect(t *testing.T) {
	r := Balanced().CPU
	for peak, want := range map[float64]float64{4: 3.61, 0.1: 0.138} {
		if got := r.level(peak, nil); math.Abs(got-want) > 0.005 {
			t.Errorf("a peak of %g cores calls for %.3f, want %g", peak, got, want)
		}
	}
	example(t, fmt.Sprintf("= %.2f cores", r.level(4, nil)), fmt.Sprintf("one of 0.1 cores: %.2f cores", r.level(0.1, nil)))
}
