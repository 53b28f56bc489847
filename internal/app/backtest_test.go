// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"podfit.dev/podfit/internal/edge/report"
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
	if said := strings.TrimPrefix(e.String(), "podfit: "+report.NothingMeasured+"\n"); said != "" {
		t.Errorf("what is no terminal was told %q", said)
	}
	return o.String(), string(data)
}

func TestBacktestDoesNotDependOnHowManyWorkAtIt(t *testing.T) {
	all := strings.Join(profileNames(), ",")
	trace := writeTrace(t, 2, 11)
	for _, format := range []string{"json", "html"} {
		out1, line1 := runBacktest(t, "--trace", trace, "--parallel", "1", "--output", format, "--recommenders", all)
		out4, line4 := runBacktest(t, "--trace", trace, "--parallel", "4", "--output", format, "--recommenders", all)
		if out1 != out4 || line1 != line4 {
			t.Errorf("one worker and four give different results: %s", format)
		}
	}
}

// A trace that ends gives the rows that the whole one gives until then: read from files, with two containers of which one
// comes later, through every recommender.
func TestATraceThatEndsGivesTheSameRowsUntilThen(t *testing.T) {
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
	_, whole := runBacktest(t, "--trace", text(math.MaxInt64), "--recommenders", all)
	for _, cut := range []int64{begin + 60, begin + 3600 - 4, begin + late*300 - 7, begin + late*300 + 301, begin + 9*86400} {
		_, part := runBacktest(t, "--trace", text(cut), "--recommenders", all)
		want, got := rows(whole, cut), rows(part, cut)
		if len(want) < len(profileNames()) || !slices.Equal(got, want) {
			t.Errorf("until %d the whole trace gives\n%s\nwhat ends there\n%s", cut, strings.Join(want, ""), strings.Join(got, ""))
		}
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

func TestBacktestSaysWhatIsWrongAndEndsWithACodeForIt(t *testing.T) {
	usage, short := writeTrace(t, 1, 10), writeTrace(t, 1, 1)
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	const head = "time,namespace,kind,name,pod,container,cpu_cores,memory_bytes\n"
	const profile = "apiVersion: podfit.dev/v1alpha1\nkind: SizingProfile\n"
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	lacking := httptest.NewServer(http.NotFoundHandler())
	defer lacking.Close()
	prometheus := func(args ...string) []string {
		return append([]string{"--prometheus", gone.URL, "--namespace", "shop"}, args...)
	}
	for name, tt := range map[string]struct {
		args []string
		code int
		want string
	}{
		"done":                    {[]string{"--trace", usage}, 0, ""},
		"help":                    {[]string{"--help"}, 0, ""},
		"one namespace":           {[]string{"--trace", usage, "--namespace", "lab"}, 0, ""},
		"too short, a timeline":   {[]string{"--trace", short, "--timeline", filepath.Join(dir, "short.out")}, 0, "nothing to measure"},
		"too short":               {[]string{"--trace", short}, 1, "nothing to measure: no container has a full day of samples after its first 8 days"},
		"too short, json":         {[]string{"--trace", short, "--output", "json"}, 1, "nothing to measure"},
		"no such trace":           {[]string{"--trace", filepath.Join(dir, "nowhere.csv")}, 1, "nowhere.csv: no such file"},
		"empty trace":             {[]string{"--trace", file("empty.csv", "")}, 1, "empty.csv: the file is empty"},
		"empty folder":            {[]string{"--trace", t.TempDir()}, 1, "the folder has no *.csv or *.csv.gz files"},
		"damaged trace":           {[]string{"--trace", file("damaged.csv", head+"x\n")}, 1, "damaged.csv:2: the row has 1 fields"},
		"garbage, compressed":     {[]string{"--trace", file("garbage.csv.gz", "garbage")}, 1, "not gzip-compressed"},
		"no workloads":            {[]string{"--trace", file("none.csv", head)}, 1, "none.csv: the trace has no samples"},
		"no such time":            {[]string{"--trace", usage, "--since", "2020-01-01"}, 1, "no samples in the time asked for; there are some from 2013-06-30T22:03:24Z to 2013-07-10T21:58:24Z"},
		"no such namespace":       {[]string{"--trace", usage, "--namespace", "lab,shop"}, 1, "no samples of namespace shop; there are some of lab"},
		"no such folder":          {[]string{"--trace", usage, "--timeline", filepath.Join(dir, "no", "such.csv")}, 1, "write timeline: open "},
		"timeline is a folder":    {[]string{"--trace", usage, "--timeline", dir}, 1, "write timeline: open "},
		"no such profile file":    {[]string{"--trace", usage, "--recommenders", filepath.Join(dir, "mine.yaml")}, 1, "read profile: open "},
		"empty profile":           {[]string{"--trace", usage, "--recommenders", file("empty.yaml", "")}, 1, "empty.yaml: the profile is empty; expected a SizingProfile"},
		"unknown field":           {[]string{"--trace", usage, "--recommenders", file("odd.yaml", profile+"metadata: {name: odd}\nspec: {oomBudget: 0.1}\n")}, 1, `odd.yaml: unknown field "oomBudget" in spec (did you mean spec.memory.oomBudget?)`},
		"nonsense budget":         {[]string{"--trace", usage, "--recommenders", file("odd2.yaml", profile+"metadata: {name: odd}\nspec: {memory: {oomBudget: 7}}\n")}, 1, "odd2.yaml: spec.memory.oomBudget must be between 0.001 and 0.5, got 7; 7 % is 0.07"},
		"Prometheus is away":      {prometheus(), 1, "read the cpu history of namespace shop"},
		"it is no Prometheus":     {[]string{"--prometheus", lacking.URL, "--namespace", "shop"}, 1, "read the cpu history of namespace shop"},
		"no token":                {prometheus("--prometheus-token-file", filepath.Join(dir, "token")), 1, "read the bearer token for Prometheus"},
		"nothing":                 {nil, 2, "--trace says which"},
		"unknown flag":            {[]string{"--trase", usage}, 2, "unknown flag: --trase"},
		"a path":                  {[]string{"traces/"}, 2, "backtest takes no arguments; give the trace with --trace traces/"},
		"a URL":                   {[]string{"http://localhost:9090"}, 2, "give the Prometheus with --prometheus http://localhost:9090"},
		"two paths":               {[]string{"--trace", usage, "b.csv"}, 2, `but there is "b.csv"; --trace takes one file or one folder`},
		"blanks between names":    {[]string{"--trace", usage, "--recommenders", "default,", "cost"}, 2, `separated by commas without blanks, not "cost"`},
		"two traces":              {[]string{"--trace", usage, "--trace", short}, 2, "it is given twice; put the files into one folder"},
		"unknown recommender":     {[]string{"--trace", usage, "--recommenders", "default,magic"}, 2, `there is no "magic"; there are default,`},
		"mistyped recommender":    {[]string{"--trace", usage, "--recommenders", "balancd"}, 2, `there is no "balancd" (did you mean balanced?)`},
		"recommender twice":       {[]string{"--trace", usage, "--recommenders", "default,default"}, 2, "names default twice"},
		"no recommender":          {[]string{"--trace", usage, "--recommenders", ""}, 2, "--recommenders names none"},
		"unknown format":          {[]string{"--trace", usage, "--output", "pdf"}, 2, `--output "pdf" is not`},
		"nobody works":            {[]string{"--trace", usage, "--parallel", "0"}, 2, "--parallel is 0"},
		"no number":               {[]string{"--trace", usage, "--parallel", "many"}, 2, `invalid argument "many" for "--parallel"`},
		"no time":                 {[]string{"--trace", usage, "--since", "noon"}, 2, `--since "noon" is neither`},
		"ends before it begins":   {[]string{"--trace", usage, "--since", "2013-07-02", "--until", "2013-07-01"}, 2, "--since is not before --until"},
		"unknown mode":            {[]string{"--trace", usage, "--mode", "Sometimes"}, 2, `--mode "Sometimes" is not`},
		"negative price":          {[]string{"--trace", usage, "--cpu-price", "-1"}, 2, "--cpu-price is -1; it must be between 0 and 1e+06: a core costs so much in an hour"},
		"price is no number":      {[]string{"--trace", usage, "--memory-price", "NaN"}, 2, "--memory-price is NaN; it must be between 0 and"},
		"infinite price":          {[]string{"--trace", usage, "--memory-price", "Inf"}, 2, "--memory-price is +Inf; it must be between 0 and"},
		"budget in percent":       {[]string{"--trace", usage, "--oom-budget", "7"}, 2, "--oom-budget is 7; it must be between 0 and 1: it is a share of days, such as 0.03 for 3 %"},
		"negative shortfall":      {[]string{"--trace", usage, "--cpu-shortfall", "-0.1"}, 2, "--cpu-shortfall is -0.1; it must be between 0 and 1: it is a share of CPU usage"},
		"both sources":            {[]string{"--trace", usage, "--prometheus", "http://localhost"}, 2, "exclude each other"},
		"flag of Prometheus":      {[]string{"--trace", usage, "--history-length", "3d"}, 2, "--history-length goes with --prometheus and means nothing to a trace"},
		"label with a trace":      {[]string{"--trace", usage, "--pod-label", "pod"}, 2, "--pod-label goes with --prometheus"},
		"empty namespace":         {[]string{"--trace", usage, "--namespace", "lab,"}, 2, `--namespace: "" is no name of a namespace`},
		"namespace twice":         {prometheus("--namespace", "shop"), 2, "--namespace names shop twice"},
		"no namespace":            {[]string{"--prometheus", "http://localhost"}, 2, "--prometheus needs --namespace"},
		"no scheme":               {[]string{"--prometheus", "localhost:9090", "--namespace", "shop"}, 2, `--prometheus is "localhost:9090"; give a URL such as http://localhost:9090`},
		"no duration":             {prometheus("--history-length", "long"), 2, `--history-length is "long": give`},
		"no label":                {prometheus("--pod-label", "a b"), 2, `--pod-label is "a b", which is no name of a label`},
		"two beginnings":          {prometheus("--history-length", "3d", "--since", "2026-01-01"), 2, "--since and --history-length both say where to begin"},
		"begins in the future":    {prometheus("--since", "2199-01-01"), 2, "--since is not in the past"},
		"timeline over the trace": {[]string{"--trace", usage, "--timeline", usage}, 2, "is the trace; write it elsewhere"},
		"timeline beside traces":  {[]string{"--trace", filepath.Dir(usage), "--timeline", filepath.Join(filepath.Dir(usage), "out.csv")}, 2, "is in the folder of the trace"},
		"timeline without a name": {[]string{"--trace", usage, "--timeline", ""}, 2, "--timeline names no file"},
	} {
		t.Run(name, func(t *testing.T) {
			var out, errs bytes.Buffer
			code := Main(t.Context(), append([]string{"podfit", "backtest"}, tt.args...), Streams{Out: &out, Err: &errs})
			if code != tt.code || !strings.Contains(errs.String(), tt.want) || tt.want == "" && errs.Len() > 0 {
				t.Errorf("ends with %d and %q, want %d and %q", code, errs.String(), tt.code, tt.want)
			}
			if judged := strings.Contains(tt.want, "nothing to measure"); tt.code != 0 && !judged && out.Len() > 0 {
				t.Errorf("reported %s", out.String())
			}
		})
	}
	if data, err := os.ReadFile(usage); err != nil || !strings.HasPrefix(string(data), head) {
		t.Errorf("the trace is not what it was: %v", err)
	}
}

func TestAReportThatCannotBeWrittenIsAnError(t *testing.T) {
	trace := writeTrace(t, 1, 10)
	for format := range reporters {
		var errs bytes.Buffer
		code := Main(t.Context(), []string{"podfit", "backtest", "--trace", trace, "--output", format}, Streams{Out: closed{}, Err: &errs})
		if code != 1 || !strings.Contains(errs.String(), "write report: ") {
			t.Errorf("%s: %d, %q", format, code, errs.String())
		}
	}
}

// closed is a pipe that nobody reads.
type closed struct{}

func (closed) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }

func TestAnInterruptedBacktestLeavesTheTimelineOfBefore(t *testing.T) {
	trace := writeTrace(t, 1, 10)
	path := filepath.Join(t.TempDir(), "timeline.csv")
	if err := os.WriteFile(path, []byte("of before"), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var errs bytes.Buffer
	code := Main(ctx, []string{"podfit", "backtest", "--trace", trace, "--timeline", path}, Streams{Out: io.Discard, Err: &errs})
	if data, err := os.ReadFile(path); code != 1 || errs.String() != "podfit: interrupted\n" || err != nil || string(data) != "of before" {
		t.Errorf("%d, %q; the timeline is %q, %v", code, errs.String(), data, err)
	}
	code = Main(t.Context(), []string{"podfit", "backtest", "--trace", trace, "--timeline", path}, Streams{Out: io.Discard, Err: &errs})
	if data, err := os.ReadFile(path); code != 0 || err != nil || !strings.HasPrefix(string(data), "time,namespace,") || strings.Contains(string(data), "of before") {
		t.Errorf("%d; the timeline is %q, %v", code, data, err)
	}
}

func TestOnlyTheNamespacesAskedForAreReplayed(t *testing.T) {
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
		t.Errorf("replayed\n%s", timeline)
	}
}

func TestAContainerOfOneMinuteIsReplayed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "t.csv")
	text := "time,namespace,kind,name,pod,container,cpu_cores,memory_bytes\n1372629804,lab,Job,j,j-0,main,0.5,1e8\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	out, timeline := runBacktest(t, "--trace", path)
	if !strings.Contains(out, "Nothing to measure") || strings.Count(timeline, "\n") != 1+4 {
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

func TestBacktest_budget_isTheUsersOrTheLargestPromise(t *testing.T) {
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
			t.Errorf("%s: judged by %v, chosen %v, want %+v", args, r.Budget, r.Chosen, want)
		}
	}
}
