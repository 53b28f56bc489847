// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"podfit.dev/podfit/internal/app/process"
)

func TestBacktest_invalidInput_returnsErrorAndExitCode(t *testing.T) {
	usage, short := writeTrace(t, 10), writeTrace(t, 1)
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
		"success":                 {[]string{"--trace", usage}, 0, ""},
		"help":                    {[]string{"--help"}, 0, ""},
		"one namespace":           {[]string{"--trace", usage, "--namespace", "lab"}, 0, ""},
		"too short, a timeline":   {[]string{"--trace", short, "--timeline", filepath.Join(dir, "short.out")}, 0, "nothing to measure"},
		"too short":               {[]string{"--trace", short}, 1, "nothing to measure: no container has a full day of samples after its first 8 days"},
		"too short, json":         {[]string{"--trace", short, "--output", "json"}, 1, "nothing to measure"},
		"no such trace":           {[]string{"--trace", filepath.Join(dir, "nowhere.csv")}, 1, "nowhere.csv: no such file"},
		"empty trace":             {[]string{"--trace", file("empty.csv", "")}, 1, "empty.csv: the file is empty"},
		"empty folder":            {[]string{"--trace", t.TempDir()}, 1, "the folder has no *.csv or *.csv.gz files"},
		"damaged trace":           {[]string{"--trace", file("damaged.csv", head+"x\n")}, 1, "damaged.csv:2: the row has 1 fields"},
		"not a gzip file":         {[]string{"--trace", file("garbage.csv.gz", "garbage")}, 1, "not gzip-compressed"},
		"no workloads":            {[]string{"--trace", file("none.csv", head)}, 1, "none.csv: the trace has no samples"},
		"no such time":            {[]string{"--trace", usage, "--since", "2020-01-01"}, 1, "no samples between --since and --until; samples are available from 2013-06-30T22:03:24Z to 2013-07-10T21:58:24Z"},
		"no such namespace":       {[]string{"--trace", usage, "--namespace", "lab,shop"}, 1, "no samples of namespace shop; the trace has samples of lab"},
		"no such folder":          {[]string{"--trace", usage, "--timeline", filepath.Join(dir, "no", "such.csv")}, 1, "write timeline: open "},
		"timeline is a folder":    {[]string{"--trace", usage, "--timeline", dir}, 1, "write timeline: open "},
		"no such profile file":    {[]string{"--trace", usage, "--recommenders", filepath.Join(dir, "mine.yaml")}, 1, "read profile: open "},
		"empty profile":           {[]string{"--trace", usage, "--recommenders", file("empty.yaml", "")}, 1, "empty.yaml: the profile is empty; expected a SizingProfile"},
		"unknown field":           {[]string{"--trace", usage, "--recommenders", file("odd.yaml", profile+"metadata: {name: odd}\nspec: {oomBudget: 0.1}\n")}, 1, `odd.yaml: unknown field "oomBudget" in spec (did you mean spec.memory.oomBudget?)`},
		"budget out of range":     {[]string{"--trace", usage, "--recommenders", file("odd2.yaml", profile+"metadata: {name: odd}\nspec: {memory: {oomBudget: 7}}\n")}, 1, "odd2.yaml: spec.memory.oomBudget must be between 0.001 and 0.5, got 7; 7 % is 0.07"},
		"Prometheus is down":      {prometheus(), 1, "read the cpu history of namespace shop"},
		"not a Prometheus":        {[]string{"--prometheus", lacking.URL, "--namespace", "shop"}, 1, "read the cpu history of namespace shop"},
		"no token":                {prometheus("--prometheus-token-file", filepath.Join(dir, "token")), 1, "read the bearer token for Prometheus"},
		"nothing":                 {nil, 2, "one of --trace and --prometheus is required"},
		"unknown flag":            {[]string{"--trase", usage}, 2, "unknown flag: --trase (did you mean --trace?)"},
		"a path":                  {[]string{"traces/"}, 2, `unexpected argument "traces/"; to read a trace, use --trace traces/`},
		"a URL":                   {[]string{"http://localhost:9090"}, 2, "to read from Prometheus, use --prometheus http://localhost:9090"},
		"two paths":               {[]string{"--trace", usage, "b.csv"}, 2, `unexpected argument "b.csv"; --trace takes one file or one folder`},
		"blanks between names":    {[]string{"--trace", usage, "--recommenders", "default,", "cost"}, 2, `unexpected argument "cost"; list the recommenders in --recommenders, separated by commas without spaces`},
		"two traces":              {[]string{"--trace", usage, "--trace", short}, 2, "the flag is set twice; to replay several files, put them into one folder"},
		"unknown recommender":     {[]string{"--trace", usage, "--recommenders", "default,magic"}, 2, `there is no profile "magic"; use one of default,`},
		"mistyped recommender":    {[]string{"--trace", usage, "--recommenders", "balancd"}, 2, `there is no profile "balancd" (did you mean balanced?)`},
		"recommender twice":       {[]string{"--trace", usage, "--recommenders", "default,default"}, 2, "--recommenders lists default twice"},
		"no recommender":          {[]string{"--trace", usage, "--recommenders", ""}, 2, "--recommenders must not be empty"},
		"unknown format":          {[]string{"--trace", usage, "--output", "pdf"}, 2, `--output must be table, wide, json, csv or html, got "pdf"`},
		"no parallelism":          {[]string{"--trace", usage, "--parallel", "0"}, 2, "--parallel must be at least 1, got 0"},
		"no number":               {[]string{"--trace", usage, "--parallel", "many"}, 2, `--parallel must be a whole number, got "many"`},
		"no time":                 {[]string{"--trace", usage, "--since", "noon"}, 2, `--since must be RFC 3339, a date or Unix seconds, got "noon"`},
		"ends before it begins":   {[]string{"--trace", usage, "--since", "2013-07-02", "--until", "2013-07-01"}, 2, "--since must be before --until"},
		"unknown mode":            {[]string{"--trace", usage, "--mode", "Sometimes"}, 2, `--mode must be profile, Recreate or InPlaceOrRecreate, got "Sometimes"`},
		"negative price":          {[]string{"--trace", usage, "--cpu-price", "-1"}, 2, "--cpu-price must be between 0 and 1e+06 (price of a core for an hour), got -1"},
		"price is no number":      {[]string{"--trace", usage, "--memory-price", "NaN"}, 2, "--memory-price must be between 0 and 1e+06 (price of a GiB for an hour), got NaN"},
		"infinite price":          {[]string{"--trace", usage, "--memory-price", "Inf"}, 2, "--memory-price must be between 0 and 1e+06 (price of a GiB for an hour), got +Inf"},
		"budget in percent":       {[]string{"--trace", usage, "--oom-budget", "7"}, 2, "--oom-budget must be between 0 and 1 (fraction of days; 0.03 is 3 %), got 7"},
		"negative shortfall":      {[]string{"--trace", usage, "--cpu-shortfall", "-0.1"}, 2, "--cpu-shortfall must be between 0 and 1 (fraction of CPU usage; 0.01 is 1 %), got -0.1"},
		"both sources":            {[]string{"--trace", usage, "--prometheus", "http://localhost"}, 2, "cannot both be set"},
		"flag of Prometheus":      {[]string{"--trace", usage, "--history-length", "3d"}, 2, "--history-length requires --prometheus"},
		"label with a trace":      {[]string{"--trace", usage, "--pod-label", "pod"}, 2, "--pod-label requires --prometheus"},
		"empty namespace":         {[]string{"--trace", usage, "--namespace", "lab,"}, 2, `--namespace must be a list of names separated by commas without spaces, got ""`},
		"namespace twice":         {prometheus("--namespace", "shop"), 2, "--namespace lists shop twice"},
		"no namespace":            {[]string{"--prometheus", "http://localhost"}, 2, "--prometheus requires --namespace NAME or --all-namespaces"},
		"no scheme":               {[]string{"--prometheus", "localhost:9090", "--namespace", "shop"}, 2, `--prometheus must be a URL such as http://localhost:9090, got "localhost:9090"`},
		"no duration":             {prometheus("--history-length", "long"), 2, `--history-length must be a duration such as 5m, 1h or 30d, got "long"`},
		"no label":                {prometheus("--pod-label", "a b"), 2, `--pod-label must be a valid label name, got "a b"`},
		"two beginnings":          {prometheus("--history-length", "3d", "--since", "2026-01-01"), 2, "--since and --history-length cannot both be set"},
		"begins in the future":    {prometheus("--since", "2199-01-01"), 2, "--since must be in the past"},
		"timeline over the trace": {[]string{"--trace", usage, "--timeline", usage}, 2, "and --trace are the same file"},
		"timeline beside traces":  {[]string{"--trace", filepath.Dir(usage), "--timeline", filepath.Join(filepath.Dir(usage), "out.csv")}, 2, "is in the folder of --trace"},
		"timeline without a name": {[]string{"--trace", usage, "--timeline", ""}, 2, "--timeline must not be empty"},
	} {
		t.Run(name, func(t *testing.T) {
			var out, errs bytes.Buffer
			code := Main(t.Context(), append([]string{"podfit", "backtest"}, tt.args...), process.Streams{Out: &out, Err: &errs})
			if code != tt.code || !strings.Contains(errs.String(), tt.want) || tt.want == "" && errs.Len() > 0 {
				t.Errorf("got exit code %d and error %q, want %d and %q", code, errs.String(), tt.code, tt.want)
			}
			if judged := strings.Contains(tt.want, "nothing to measure"); tt.code != 0 && !judged && out.Len() > 0 {
				t.Errorf("got report %s, want none", out.String())
			}
		})
	}
	if data, err := os.ReadFile(usage); err != nil || !strings.HasPrefix(string(data), head) {
		t.Errorf("the trace file was changed: %v", err)
	}
}

func TestBacktest_reportNotWritable_returnsError(t *testing.T) {
	trace := writeTrace(t, 10)
	for _, format := range []string{"table", "json", "csv", "html"} {
		var errs bytes.Buffer
		code := Main(t.Context(), []string{"podfit", "backtest", "--trace", trace, "--output", format}, process.Streams{Out: closed{}, Err: &errs})
		if code != 1 || !strings.Contains(errs.String(), "write report: ") {
			t.Errorf("%s: %d, %q", format, code, errs.String())
		}
	}
}

// closed is a pipe without a reader.
type closed struct{}

func (closed) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }

func TestBacktest_interrupted_keepsPreviousTimeline(t *testing.T) {
	trace := writeTrace(t, 10)
	path := filepath.Join(t.TempDir(), "timeline.csv")
	if err := os.WriteFile(path, []byte("of before"), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var errs bytes.Buffer
	code := Main(ctx, []string{"podfit", "backtest", "--trace", trace, "--timeline", path}, process.Streams{Out: io.Discard, Err: &errs})
	if data, err := os.ReadFile(path); code != 1 || errs.String() != "podfit: interrupted\n" || err != nil || string(data) != "of before" {
		t.Errorf("%d, %q; the timeline is %q, %v", code, errs.String(), data, err)
	}
	code = Main(t.Context(), []string{"podfit", "backtest", "--trace", trace, "--timeline", path}, process.Streams{Out: io.Discard, Err: &errs})
	if data, err := os.ReadFile(path); code != 0 || err != nil || !strings.HasPrefix(string(data), "time,namespace,") || strings.Contains(string(data), "of before") {
		t.Errorf("%d; the timeline is %q, %v", code, data, err)
	}
}

// writeTrace writes a trace of one container with a daily pattern and rare peaks.
func writeTrace(t *testing.T, days int) string {
	t.Helper()
	var b strings.Builder
	b.WriteString("time,namespace,kind,name,pod,container,cpu_cores,memory_bytes\n")
	for i := range days * 288 {
		day := math.Sin(2*math.Pi*float64(i)/288) + 1.2
		peak := 1.0
		if (i*7)%1009 == 0 {
			peak = 3
		}
		fmt.Fprintf(&b, "%d,lab,Deployment,vm-0,vm-0-0,main,%.4f,%.0f\n", 1372629804+i*300, 0.1*day*peak, 2e8*day*peak)
	}
	path := filepath.Join(t.TempDir(), "trace.csv")
	if err := os.WriteFile(path, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
