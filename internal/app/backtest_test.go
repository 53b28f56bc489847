// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// writeTrace writes a trace of some machines with days and nights and a spike now and then.
func writeTrace(t *testing.T, machines, days int) string {
	t.Helper()
	var b strings.Builder
	b.WriteString("time,namespace,kind,name,pod,container,cpu_cores,memory_bytes\n")
	for m := range machines {
		for i := range days * 288 {
			day := math.Sin(2*math.Pi*float64(i+40*m)/288) + 1.2
			spike := 1.0
			if (i*7+m*131)%1009 == 0 {
				spike = 3
			}
			fmt.Fprintf(&b, "%d,lab,Deployment,vm-%d,vm-%d-0,main,%.4f,%.0f\n",
				1372629804+i*300, m, m, 0.1*day*spike*float64(m+1), 2e8*day*spike*float64(m+1))
		}
	}
	path := filepath.Join(t.TempDir(), "trace.csv")
	if err := os.WriteFile(path, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// runBacktest runs the command and returns what it wrote to its output and to its timeline.
func runBacktest(t *testing.T, args ...string) (out, timeline string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "timeline.csv")
	cmd := NewBacktestCommand()
	var o, e bytes.Buffer
	cmd.SetOut(&o)
	cmd.SetErr(&e)
	cmd.SilenceUsage = true
	cmd.SetArgs(append(args, "--timeline", path))
	if err := cmd.ExecuteContext(t.Context()); err != nil {
		t.Fatalf("%v: %v", args, err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if e.Len() > 0 {
		t.Errorf("what is no terminal was told %q", e.String())
	}
	return o.String(), string(data)
}

func TestBacktestDoesNotDependOnHowManyWorkAtIt(t *testing.T) {
	trace := writeTrace(t, 5, 12)
	out1, line1 := runBacktest(t, "--trace", trace, "--parallel", "1", "--output", "json")
	out4, line4 := runBacktest(t, "--trace", trace, "--parallel", "4", "--output", "json")
	if out1 != out4 || line1 != line4 {
		t.Error("one worker and four give different results")
	}
}

func TestRecommendersDoNotInfluenceEachOther(t *testing.T) {
	trace := writeTrace(t, 2, 12)
	_, both := runBacktest(t, "--trace", trace, "--recommenders", strings.Join(profileNames(), ","))
	for _, name := range profileNames() {
		_, alone := runBacktest(t, "--trace", trace, "--recommenders", name)
		var rows []string
		for row := range strings.Lines(both) {
			if strings.Contains(row, ","+name+",") || strings.HasPrefix(row, "time") {
				rows = append(rows, row)
			}
		}
		if strings.Join(rows, "") != alone {
			t.Errorf("%s gives other requests beside the others than alone", name)
		}
	}
}

func TestSinceAndUntilLeaveOutSamples(t *testing.T) {
	trace := writeTrace(t, 1, 14)
	_, whole := runBacktest(t, "--trace", trace)
	out, part := runBacktest(t, "--trace", trace, "--since", "2013-07-02", "--until", "2013-07-12T00:00:00Z", "--output", "json")
	if whole == part || part == "" {
		t.Error("the times change nothing")
	}
	var r struct{ From, To string }
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(r.From, "2013-07-02T00:0") || !strings.HasPrefix(r.To, "2013-07-11T23:5") {
		t.Errorf("replayed %s to %s", r.From, r.To)
	}
}

func TestBacktestSaysWhatIsWrongWithItsCall(t *testing.T) {
	trace := writeTrace(t, 1, 1)
	for want, args := range map[string][]string{
		"--trace says which":               nil,
		`there is no "magic"; there are`:   {"--trace", trace, "--recommenders", "default,magic"},
		"names default twice":              {"--trace", trace, "--recommenders", "default,default"},
		`--output "pdf" is not`:            {"--trace", trace, "--output", "pdf"},
		"--parallel is 0":                  {"--trace", trace, "--parallel", "0"},
		`--since "noon" is neither`:        {"--trace", trace, "--since", "noon"},
		"--since is not before --until":    {"--trace", trace, "--since", "2013-07-02", "--until", "2013-07-01"},
		"no samples in the time asked for": {"--trace", trace, "--since", "2020-01-01"},
		`--mode "Sometimes" is not`:        {"--trace", trace, "--mode", "Sometimes"},
		"write timeline":                   {"--trace", trace, "--timeline", filepath.Join(t.TempDir(), "no", "such", "folder.csv")},
		"nowhere.csv: no such file":        {"--trace", filepath.Join(t.TempDir(), "nowhere.csv")},
		"exclude each other":               {"--trace", trace, "--prometheus", "http://localhost"},
		"--prometheus needs --namespace":   {"--prometheus", "http://localhost"},
		`--history-length is "long": give`: {"--prometheus", "http://localhost", "--namespace", "shop", "--history-length", "long"},
		"must not be negative":             {"--trace", trace, "--cpu-price", "-1"},
	} {
		cmd := NewBacktestCommand()
		cmd.SetOut(&bytes.Buffer{})
		cmd.SetErr(&bytes.Buffer{})
		cmd.SetArgs(args)
		if err := cmd.ExecuteContext(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want %q", args, err, want)
		}
	}
}

func TestAContainerOfOneMinuteIsReplayed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "t.csv")
	text := "time,namespace,kind,name,pod,container,cpu_cores,memory_bytes\n1372629804,lab,Job,j,j-0,main,0.5,1e8\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	out, timeline := runBacktest(t, "--trace", path)
	if !strings.Contains(out, "Nothing to judge by") || strings.Count(timeline, "\n") != 1+4 {
		t.Errorf("%s\n%s", out, timeline)
	}
}

func TestAProfileFromAFileIsComparedToo(t *testing.T) {
	trace := writeTrace(t, 1, 10)
	mine := filepath.Join(t.TempDir(), "mine.yaml")
	text := "apiVersion: podfit.dev/v1alpha1\nkind: SizingProfile\nmetadata: {name: roomy}\nspec: {memory: {margin: 1}}\n"
	if err := os.WriteFile(mine, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	out, timeline := runBacktest(t, "--trace", trace, "--recommenders", "balanced,"+mine, "--output", "json")
	var r struct {
		Recommenders []struct {
			Recommender string
			Memory      struct {
				Footprint float64
			}
		}
	}
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		t.Fatal(err)
	}
	if len(r.Recommenders) != 2 || r.Recommenders[1].Recommender != "roomy" || !strings.Contains(timeline, ",roomy,memory,") {
		t.Fatalf("compared %+v", r.Recommenders)
	}
	if a, b := r.Recommenders[0].Memory.Footprint, r.Recommenders[1].Memory.Footprint; b < 1.5*a {
		t.Errorf("with a margin of 1 the footprint is %g, with the built-in's %g", b, a)
	}
}
