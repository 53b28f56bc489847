// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package backtest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// writeTrace writes a trace of several machines with a daily pattern and occasional peaks.
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

// onNodes is a size of nodes, which the profile packed requires.
const onNodes = "memory=8Gi,cpu=2,replicas=2"

// runBacktest runs the command and returns what it wrote to its output and to its timeline.
func runBacktest(t *testing.T, args ...string) (out, timeline string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "timeline.csv")
	cmd := NewCommand()
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
	if said := e.String(); said != "" && !strings.HasPrefix(said, "podfit: nothing to measure") {
		t.Errorf("wrote progress %q, although the output is not a terminal", said)
	}
	return o.String(), string(data)
}

func TestBacktest_parallelWorkers_giveSameResults(t *testing.T) {
	all := strings.Join(profileNames(), ",")
	trace := writeTrace(t, 2, 11)
	for _, format := range []string{"json", "html"} {
		out1, line1 := runBacktest(t, "--trace", trace, "--parallel", "1", "--output", format, "--recommenders", all, "--nodes", onNodes)
		out4, line4 := runBacktest(t, "--trace", trace, "--parallel", "4", "--output", format, "--recommenders", all, "--nodes", onNodes)
		if out1 != out4 || line1 != line4 {
			t.Errorf("%s: one worker and four workers give different results", format)
		}
	}
}

// A replay does not depend on later samples: a shortened trace gives the same rows as the whole trace until its end. One of the two
// containers starts later.
func TestBacktest_truncatedTrace_givesSameRowsUntilItsEnd(t *testing.T) {
	all := strings.Join(profileNames(), ",")
	const begin, late = 1372629804, 6 * 288
	text := func(until int64) string {
		var b strings.Builder
		b.WriteString("time,namespace,kind,name,pod,container,cpu_cores,memory_bytes\n")
		for i := range int64(11 * 288) {
			at := begin + i*300
			if at >= until {
				break
			}
			day := math.Sin(2*math.Pi*float64(i)/288) + 1.1
			if i > late {
				fmt.Fprintf(&b, "%d,lab,Deployment,web,web-0,proxy,%.4f,%.0f\n", at, 0.3*day, 1e8+1e6*float64(i%97))
			}
			fmt.Fprintf(&b, "%d,lab,Deployment,web,web-%d,app,%.4f,%.0f\n", at, i*2/(11*288), 0.002*day, 4e6*day*float64(1+i%313/312))
		}
		path := filepath.Join(t.TempDir(), "t.csv")
		if err := os.WriteFile(path, []byte(b.String()), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	rows := func(timeline string, until int64) []string {
		var out []string
		for row := range strings.Lines(timeline) {
			if at, err := strconv.ParseInt(strings.Split(row, ",")[0], 10, 64); err == nil && at <= until {
				out = append(out, row)
			}
		}
		return out
	}
	_, whole := runBacktest(t, "--trace", text(math.MaxInt64), "--recommenders", all, "--nodes", onNodes)
	for _, cut := range []int64{begin + 60, begin + 3600 - 4, begin + late*300 - 7, begin + late*300 + 301, begin + 9*86400} {
		_, part := runBacktest(t, "--trace", text(cut), "--recommenders", all, "--nodes", onNodes)
		want, got := rows(whole, cut), rows(part, cut)
		if len(want) < len(profileNames()) || !slices.Equal(got, want) {
			t.Errorf("until %d: the whole trace gives\n%s\nthe shortened trace gives\n%s", cut, strings.Join(want, ""), strings.Join(got, ""))
		}
	}
}

func TestBacktest_severalRecommenders_areIndependent(t *testing.T) {
	trace := writeTrace(t, 2, 12)
	_, both := runBacktest(t, "--trace", trace, "--recommenders", strings.Join(profileNames(), ","), "--nodes", onNodes)
	for _, name := range profileNames() {
		_, alone := runBacktest(t, "--trace", trace, "--recommenders", name, "--nodes", onNodes)
		var rows []string
		for row := range strings.Lines(both) {
			if strings.Contains(row, ","+name+",") || strings.HasPrefix(row, "time") {
				rows = append(rows, row)
			}
		}
		if strings.Join(rows, "") != alone {
			t.Errorf("%s: the requests depend on which other recommenders run", name)
		}
	}
}

func TestBacktest_sinceAndUntil_selectSamples(t *testing.T) {
	trace := writeTrace(t, 1, 14)
	_, whole := runBacktest(t, "--trace", trace)
	out, part := runBacktest(t, "--trace", trace, "--since", "2013-07-02", "--until", "2013-07-12T00:00:00Z", "--output", "json")
	if whole == part || part == "" {
		t.Error("--since and --until have no effect")
	}
	var r struct{ From, To string }
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(r.From, "2013-07-02T00:0") || !strings.HasPrefix(r.To, "2013-07-11T23:5") {
		t.Errorf("got a replay from %s to %s", r.From, r.To)
	}
}

func TestBacktest_namespaceFlag_selectsWorkloads(t *testing.T) {
	text := "time,namespace,kind,name,pod,container,cpu_cores,memory_bytes\n"
	for _, n := range []string{"lab", "shop", "web"} {
		text += "1372629804," + n + ",Deployment,x,x-0,main,0.5,1e8\n"
	}
	path := filepath.Join(t.TempDir(), "t.csv")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	_, timeline := runBacktest(t, "--trace", path, "--namespace", "web,lab", "--recommenders", "balanced")
	if strings.Count(timeline, "\n") != 1+4 || strings.Contains(timeline, ",shop,") {
		t.Errorf("got timeline\n%s", timeline)
	}
}

func TestBacktest_containerOfOneMinute_isReplayed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "t.csv")
	text := "time,namespace,kind,name,pod,container,cpu_cores,memory_bytes\n1372629804,lab,Job,j,j-0,main,0.5,1e8\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	out, timeline := runBacktest(t, "--trace", path)
	if out != "" || strings.Count(timeline, "\n") != 1+4 {
		t.Errorf("got output\n%s\nand timeline\n%s", out, timeline)
	}
}

// Three pods cost three times as much as one with the same usage, in each total and for each workload.
func TestBacktest_samePodThreeTimes_costsThreeTimesAsMuch(t *testing.T) {
	type money struct {
		Money float64 `json:"money_per_month"`
	}
	var reports [2]struct {
		Recommenders []money
		Workloads    []struct{ Recommenders []money }
	}
	for i, pods := range []int{1, 3} {
		var b strings.Builder
		b.WriteString("time,namespace,kind,name,pod,container,cpu_cores,memory_bytes\n")
		for at := range 11 * 288 {
			day := math.Sin(2*math.Pi*float64(at)/288) + 1.2
			for pod := range pods {
				fmt.Fprintf(&b, "%d,lab,Deployment,web,web-%d,app,%.4f,%.0f\n", 1372629804+at*300, pod, 0.1*day, 2e8*day)
			}
		}
		path := filepath.Join(t.TempDir(), "trace.csv")
		if err := os.WriteFile(path, []byte(b.String()), 0o600); err != nil {
			t.Fatal(err)
		}
		out, _ := runBacktest(t, "--trace", path, "--recommenders", "default", "-o", "json")
		if err := json.Unmarshal([]byte(out), &reports[i]); err != nil {
			t.Fatal(err)
		}
	}
	one, three := reports[0], reports[1]
	for name, got := range map[string][2]float64{
		"total":    {one.Recommenders[0].Money, three.Recommenders[0].Money},
		"workload": {one.Workloads[0].Recommenders[0].Money, three.Workloads[0].Recommenders[0].Money},
	} {
		if got[0] <= 0 || math.Abs(got[1]/got[0]-3) > 1e-6 {
			t.Errorf("%s: one pod costs %g and three cost %g", name, got[0], got[1])
		}
	}
}

func TestBacktest_profileFromFile_isCompared(t *testing.T) {
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
		t.Fatalf("got recommenders %+v", r.Recommenders)
	}
	if a, b := r.Recommenders[0].Memory.Footprint, r.Recommenders[1].Memory.Footprint; b < 1.5*a {
		t.Errorf("the footprint is %g with a margin of 1, and %g with the margin of the built-in profile", b, a)
	}
}

func TestBacktest_budget_isFlagOrLargestBudgetOfProfiles(t *testing.T) {
	trace := writeTrace(t, 1, 10)
	mine := filepath.Join(t.TempDir(), "mine.yaml")
	text := "apiVersion: podfit.dev/v1alpha1\nkind: SizingProfile\nmetadata: {name: bold}\nspec: {memory: {oomBudget: 0.2}}\n"
	if err := os.WriteFile(mine, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for args, want := range map[string]struct {
		budget float64
		chosen bool
	}{
		"--recommenders=default":                         {0.03, false},
		"--recommenders=default,critical":                {0.02, false},
		"--recommenders=default,critical,cost":           {0.06, false},
		"--recommenders=balanced," + mine:                {0.2, false},
		"--recommenders=balanced,cost --oom-budget=0.01": {0.01, true},
		"--recommenders=balanced,cost --oom-budget=0":    {0, true},
	} {
		out, _ := runBacktest(t, append(strings.Fields(args), "--trace", trace, "--output", "json")...)
		var r struct {
			Budget *float64 `json:"oom_budget"`
			Chosen bool     `json:"oom_budget_chosen"`
		}
		if err := json.Unmarshal([]byte(out), &r); err != nil {
			t.Fatal(err)
		}
		if r.Budget == nil || *r.Budget != want.budget || r.Chosen != want.chosen {
			t.Errorf("%s: got budget %v, chosen %v, want %+v", args, r.Budget, r.Chosen, want)
		}
	}
}
