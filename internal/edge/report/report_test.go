// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"encoding/xml"
	"errors"
	"flag"
	"html"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/packing"
	"podfit.dev/podfit/internal/core/recommend"
	"podfit.dev/podfit/internal/core/replay"
	"podfit.dev/podfit/internal/look/chart"
)

var update = flag.Bool("update", false, "rewrite the golden files")

const start = 1_372_629_804

// replayed replays two small workloads. The name of one has to be escaped in CSV and HTML.
func replayed(t *testing.T, days int) *replay.Comparison {
	t.Helper()
	c := &replay.Comparison{
		Learning: replay.DefaultLearning, Source: "a<b>.csv", Prices: replay.Prices{Core: 1, GiB: 1}, Tolerance: replay.DefaultTolerance(nil), BudgetChosen: true,
		From: time.Unix(start, 0).UTC(), To: time.Unix(start+int64(days)*86400, 0).UTC(),
	}
	var profiles []recommend.Profile
	for _, name := range []string{"default", "balanced"} {
		p, _ := recommend.BacktestProfile(name)
		profiles = append(profiles, p)
		c.Recommenders = append(c.Recommenders, p)
	}
	all := make([][]replay.Score, len(profiles))
	for _, name := range []string{"cart", `<web>,"x"`} {
		w := &replay.Workload{
			Key:  cluster.Workload{Kind: "Deployment", Namespace: "shop", Name: name},
			Pods: []string{"p"}, Containers: []string{"app"},
		}
		for i := range days * 288 {
			has := cluster.Both
			if name == "cart" {
				has = cluster.Of(cluster.CPU)
			}
			w.Samples = append(w.Samples, replay.Sample{
				At: start + int64(i)*300, CPU: 0.1 + float64(i%50)/100, Memory: float64(1+i%97) * 1e7, Has: has,
			})
		}
		usage := replay.Prepare(w, replay.DefaultLearning)
		result := replay.WorkloadResult{Workload: w}
		for k, p := range profiles {
			changes := replay.Run(w, p)
			scores := usage.Measure(changes)
			all[k] = append(all[k], scores...)
			result.Changes = append(result.Changes, changes)
			result.Outcomes = append(result.Outcomes, replay.OutcomeOf(scores, c.Prices))
		}
		result.Best = replay.Best(result.Outcomes, c.Tolerance)
		c.Workloads = append(c.Workloads, result)
	}
	for k := range profiles {
		c.Total = append(c.Total, replay.OutcomeOf(all[k], c.Prices))
	}
	c.Best = replay.Best(c.Total, c.Tolerance)
	return c
}

// fixture returns a comparison with fixed figures, which do not depend on the algorithms.
func fixture() *replay.Comparison {
	outcome := func(factor float64) replay.Outcome {
		return replay.Outcome{
			CPU: replay.Summary{
				Containers: 2, Days: 20, MeanSlack: 0.25 * factor, MedianSlack: 0.2, AggregateSlack: 0.3, FreeDays: 0.95, Above: 1.5,
				Events: 1, Shortfall: 0.004, Changes: 0.25, Footprint: 12.5 * factor, UsedMean: 8, Pods: 3.5, WorstDays: 1, NeverAbove: 1,
			},
			Memory: replay.Summary{
				Containers: 2, Days: 20, MeanSlack: -0.125, MedianSlack: 0.1, AggregateSlack: 1.0 / 3, FreeDays: 1 - 0.05*factor, Above: 0.1,
				Events: 0.05, Shortfall: 0.0001, Changes: 1.75, Footprint: 48 * factor * (1 << 30), UsedMean: 30 << 30, Pods: 3.5, WorstDays: 2,
			},
			Money: 1234.5 * factor,
		}
	}
	workload := func(namespace, name string) *replay.Workload {
		return &replay.Workload{
			Key:        cluster.Workload{Group: "apps", Kind: "Deployment", Namespace: namespace, Name: name},
			Containers: []string{"app", "proxy"},
			Samples:    []replay.Sample{{At: start, CPU: 1, Memory: 1 << 30, Has: cluster.Both}},
		}
	}
	cpuOnly := outcome(1)
	cpuOnly.Memory = replay.Summary{}
	return &replay.Comparison{
		Source: "usage.csv", From: time.Unix(start, 0).UTC(), To: time.Unix(start+20*86400, 0).UTC(),
		Learning: replay.DefaultLearning, FullDays: 20,
		Prices: replay.Prices{Core: 0.03, GiB: 0.004, Currency: "EUR"}, Tolerance: replay.Tolerance{DaysAbove: 0.06, Shortfall: 0.01},
		Recommenders: []recommend.Profile{{Name: "default", About: "as upstream"}, {Name: "cost", About: "cheap", OOMBudget: 0.06}},
		Total:        []replay.Outcome{outcome(2), outcome(1)},
		Best:         []int{1},
		Workloads: []replay.WorkloadResult{
			{
				Workload: workload("shop", `web,"v2"`), Pods: 2.25, Best: []int{1}, Outcomes: []replay.Outcome{outcome(1), outcome(0.5)},
				Changes: [][]replay.Change{
					{{At: start, Resource: cluster.CPU, Request: 25}, {At: start + 60, Resource: cluster.Memory, Request: 262144000}},
					{{At: start, Container: 1, Resource: cluster.CPU, Request: 1500}},
				},
			},
			{
				Workload: workload("a-namespace-with-a-long-name", "a-deployment-with-a-name-that-is-as-long-as-they-get"), Pods: 1,
				Best: []int{0, 1}, Outcomes: []replay.Outcome{cpuOnly, cpuOnly}, Changes: make([][]replay.Change, 2),
			},
			{Workload: workload("shop", "new"), Pods: 1, Outcomes: make([]replay.Outcome, 2), Changes: make([][]replay.Change, 2)},
		},
	}
}

var formats = map[string]func(io.Writer, *replay.Comparison, Options) error{
	"table.txt": WriteTable,
	"wide.txt": func(w io.Writer, c *replay.Comparison, o Options) error {
		o.AllColumns = true
		return WriteTable(w, c, o)
	},
	"page.html":    WriteHTML,
	"report.json":  WriteJSON,
	"report.csv":   func(w io.Writer, c *replay.Comparison, _ Options) error { return WriteCSV(w, c) },
	"timeline.csv": func(w io.Writer, c *replay.Comparison, _ Options) error { return WriteTimeline(w, c) },
}

// written returns a comparison in a format.
func written(t *testing.T, format string, c *replay.Comparison, o Options) string {
	t.Helper()
	var b bytes.Buffer
	if err := formats[format](&b, c, o); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// golden compares text with a file in testdata.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", path, diff)
	}
}

func TestWrite_fixedFigures_matchGoldenFile(t *testing.T) {
	for _, format := range []string{"table.txt", "report.json", "report.csv", "timeline.csv"} {
		golden(t, format, written(t, format, fixture(), Options{Workloads: -1}))
	}
}

func TestWrite_nodes_matchGoldenFile(t *testing.T) {
	nodes := &packing.Report{
		Shape: packing.Shape{CPU: 16, Memory: 64 << 30, Pods: 110, Copies: 8, OnNode: 1}, Days: 20, Pods: 464, LeftOut: []string{"shop/Deployment/giant"},
		Results: []packing.Result{
			{Recommender: "default", Nodes: 7.5, FirstFit: 12.5, DayMaximum: 8, Ratio: 1, RatioFrom: 1, RatioTo: 1, NodeDays: 150, Short: new(0.0), ShortFit: new(0.0), ShortTo: new(0.0077), Saturated: new(0.0), KillFreeProportional: new(0.9888), KillFreePeaks: new(0.9939)},
			{
				Recommender: "cost", Nodes: 4.6, FirstFit: 8, DayMaximum: 4.7, Ratio: 0.62, RatioFrom: 0.54, RatioTo: 0.76, NodeDays: 92, TooLarge: 8, Short: new(0.011), ShortFit: new(0.0), ShortTo: new(0.0376), Saturated: new(0.0068),
				KillFreeProportional: new(0.7116), Culprits: []packing.Culprit{{Workload: "shop/Deployment/web", NodeDays: 1, Short: []packing.ShortNode{{Day: "2013-07-14", Node: 3, Used: 1.04}}}},
			},
		},
	}
	for _, format := range []string{"table.txt", "wide.txt", "report.json"} {
		golden(t, "nodes-"+format, written(t, format, fixture(), Options{Width: 80, Nodes: []packing.Report{*nodes}}))
	}
	page := written(t, "page.html", fixture(), Options{Nodes: []packing.Report{*nodes}})
	for _, want := range []string{"464 pods", "0.54–0.76", "nodes against short nodes", "node-days short, %", "shop/Deployment/web (1 node-day, the worst: node 3 on 2013-07-14)"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page does not contain %q", want)
		}
	}
}

func TestAboutNodes_eachShapeAndReason_isNamed(t *testing.T) {
	c := &replay.Comparison{Workloads: make([]replay.WorkloadResult, 1)}
	small := packing.Shape{CPU: 0.01, Memory: 1 << 30, Pods: 110, Copies: 1, OnNode: 1}
	result := packing.Result{Recommender: "default", Nodes: 1, Ratio: 1}
	for want, r := range map[string]*packing.Report{
		"nodes of 1.00 GiB and 10m, for 1 pod on 2 days":                              {Shape: small, Pods: 1, Days: 2, Results: []packing.Result{result}},
		"for 0 pods on 0 days; there is no full day in UTC after the learning days":   {Shape: small},
		"more than half of a node: 1 workload; no pod was measured":                   {Shape: small, LeftOut: []string{"web"}},
		"because samples are more than an hour apart: 1 workload":                     {Shape: small, Sparse: 1, Results: []packing.Result{result}},
		"1.00 GiB, 4.00 cores and 20 pods, for 12 pods (4 replicas of each) on 3 day": {Shape: packing.Shape{CPU: 4, Memory: 1 << 30, Pods: 20, Copies: 4}, Pods: 12, Days: 3},
	} {
		if got := aboutNodes(c, r); !strings.Contains(got, want) {
			t.Errorf("got %q, want %q in it", got, want)
		}
	}
	unknown := &packing.Report{Shape: small, Pods: 1, Days: 2, Results: []packing.Result{result}}
	if image := nodeFrontier(unknown); image != "" {
		t.Errorf("a picture without samples of memory: %s", image)
	}
	text := written(t, "wide.txt", fixture(), Options{Nodes: []packing.Report{*unknown}})
	if strings.Count(text, "–") < 6 {
		t.Errorf("unknown figures are not shown as dashes:\n%s", text)
	}
	unknown.Results[0].Short = new(0.0)
	if image := string(nodeFrontier(unknown)); !strings.Contains(image, ">0.5<") && !strings.Contains(image, ">1<") {
		t.Errorf("the axis has no number above 0: %s", image)
	}
}

func TestWriteTimeline_severalWorkloads_rowsAreSortedByTimeWithinEachSeries(t *testing.T) {
	c := replayed(t, 10)
	rows, err := csv.NewReader(strings.NewReader(written(t, "timeline.csv", c, Options{}))).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	want := 0
	for _, w := range c.Workloads {
		for _, changes := range w.Changes {
			want += len(changes)
		}
	}
	if len(rows)-1 != want {
		t.Errorf("got %d rows, want %d", len(rows)-1, want)
	}
	last := map[string]int64{} // by series
	for _, row := range rows[1:] {
		at, err := strconv.ParseInt(row[0], 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		series := strings.Join(row[1:7], "\x00")
		if at < last[series]+60 {
			t.Errorf("row at %d follows one at %d: %v", at, last[series], row)
		}
		last[series] = at
		request, err := strconv.ParseFloat(row[7], 64)
		if err != nil || request <= 0 || strings.ContainsAny(row[7], "eE") {
			t.Errorf("request is %q, want a positive decimal number", row[7])
		}
		if row[6] == "cpu" && request > 100 || row[6] == "memory" && request < 1e6 {
			t.Errorf("%s request is %g, which is the wrong unit", row[6], request)
		}
		if row[3] == "cart" && row[6] == "memory" {
			t.Error("got a row for a resource without samples")
		}
	}
	if len(last) != 6 {
		t.Errorf("got %d series, want 2 recommenders × (2 + 1)", len(last))
	}
}

func TestWriteHTML_severalWorkloads_pageIsCompleteAndSelfContained(t *testing.T) {
	c := replayed(t, 12)
	page := written(t, "page.html", c, Options{Workloads: -1})
	for _, want := range []string{"a&lt;b&gt;.csv", "Waste against risk", "shop/Deployment/&lt;web&gt;", "prefers-color-scheme: dark"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page does not contain %q", want)
		}
	}
	for _, external := range []string{"http://", "https://", "<script", "<link", "src=", "href=", "url(", "@import", "<web>"} {
		if strings.Contains(page, external) {
			t.Errorf("the page contains %q", external)
		}
	}
	var got, want []string
	for _, match := range regexp.MustCompile(`<h3>(.*?)</h3>`).FindAllStringSubmatch(page, -1) {
		got = append(got, html.UnescapeString(match[1]))
	}
	for _, i := range c.Worst() {
		want = append(want, c.Workloads[i].Key.String())
	}
	if !slices.Equal(got, want) {
		t.Errorf("the page shows workloads in the order %v, want %v", got, want)
	}
	charts := regexp.MustCompile(`(?s)<svg.*?</svg>`).FindAllString(page, -1)
	if len(charts) != 2+1+2 {
		t.Errorf("got %d charts, want 2 frontiers and 3 usage charts", len(charts))
	}
	for _, chart := range charts {
		decoder := xml.NewDecoder(strings.NewReader(chart))
		for {
			_, err := decoder.Token()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatalf("a chart is not valid XML: %v", err)
			}
		}
		if strings.Contains(chart, "NaN") || strings.Contains(chart, "Inf") {
			t.Error("a chart contains a coordinate that is not a number")
		}
	}
}

func TestWrite_allFormats_haveTheSameNumbers(t *testing.T) {
	c := replayed(t, 10)
	var parsed jsonReport
	if err := json.Unmarshal([]byte(written(t, "report.json", c, Options{})), &parsed); err != nil {
		t.Fatal(err)
	}
	if len(parsed.Total) != 2 || parsed.Total[1].Memory.MeanSlack != c.Total[1].Memory.MeanSlack || len(parsed.Workloads) != 2 {
		t.Errorf("JSON: %+v", parsed)
	}
	if parsed.Workloads[0].Outcomes[0].Memory != nil {
		t.Error("JSON has figures of a resource without samples")
	}
	slack := strconv.FormatFloat(c.Total[1].Memory.MeanSlack, 'f', 3, 64)
	if table := written(t, "table.txt", c, Options{Workloads: -1}); !strings.Contains(table, slack) {
		t.Errorf("the table does not contain the slack %s:\n%s", slack, table)
	}
	rows, err := csv.NewReader(strings.NewReader(written(t, "report.csv", c, Options{}))).ReadAll()
	if err != nil || len(rows) != 1+6+4 {
		t.Errorf("CSV has %d rows, want a header, 6 of workloads and 4 over all: %v", len(rows), err)
	}
}

func TestWrite_historyTooShort_reportsThatThereAreNoFigures(t *testing.T) {
	c := replayed(t, 3)
	for _, format := range []string{"table.txt", "page.html"} {
		text := written(t, format, c, Options{Workloads: 5})
		if !strings.Contains(text, "Nothing to measure: no container has a full day of samples after its first 8 days") {
			t.Errorf("%s does not report that there is nothing to measure:\n%s", format, text)
		}
		for _, figure := range []string{"wins", "cost per month:", "Total cost", "Waste against risk", "tie", "0.00<"} {
			if strings.Contains(text, figure) {
				t.Errorf("%s contains %q, although nothing was measured", format, figure)
			}
		}
	}
	var parsed struct {
		Judged       *bool
		Recommenders []map[string]any
	}
	text := written(t, "report.json", c, Options{})
	if err := json.Unmarshal([]byte(text), &parsed); err != nil {
		t.Fatal(err)
	}
	if parsed.Judged == nil || *parsed.Judged || len(parsed.Recommenders) != 2 || len(parsed.Recommenders[0]) != 1 {
		t.Errorf("JSON has figures, although nothing was measured: %s", text)
	}
}

func TestVerdict_eachKindOfResult_namesWinnersAndLimits(t *testing.T) {
	outcome := func(free, money float64) replay.Outcome {
		return replay.Outcome{Memory: replay.Summary{Days: 100, FreeDays: free}, Money: money}
	}
	const limits = "within 3 % of days above the memory request"
	for want, outcomes := range map[string][]replay.Outcome{
		"a wins: the cheapest of those " + limits + ".":                                              {outcome(1, 3), outcome(1, 4)},
		"b wins: the only one " + limits + ".":                                                       {outcome(0.9, 3), outcome(1, 4)},
		"a and b tie: they are the cheapest of those " + limits + ".":                                {outcome(1, 3), outcome(1, 3)},
		"a, c and d tie: they are the cheapest of those " + limits + ".":                             {outcome(1, 3), outcome(1, 4), outcome(1, 3), outcome(0.99, 3)},
		"None is " + limits + ". b exceeds these limits the least.":                                  {outcome(0.8, 3), outcome(0.9, 4)},
		"None is " + limits + ". a and b tie: they exceed these limits the least, at the same cost.": {outcome(0.9, 3), outcome(0.9, 3)},
		"a is " + limits + ".":     {outcome(1, 3)},
		"a is not " + limits + ".": {outcome(0.9, 3)},
	} {
		tolerance := replay.DefaultTolerance(nil)
		c := &replay.Comparison{Total: outcomes, Tolerance: tolerance, BudgetChosen: true, Best: replay.Best(outcomes, tolerance)}
		for i := range outcomes {
			c.Recommenders = append(c.Recommenders, recommend.Profile{Name: string(rune('a' + i))})
		}
		if got := verdict(c); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestVerdict_budgetNotChosen_namesItsRecommender(t *testing.T) {
	outcome := func(above, money float64) replay.Outcome {
		return replay.Outcome{Memory: replay.Summary{Days: 100, FreeDays: 1 - above}, Money: money}
	}
	c := &replay.Comparison{
		Recommenders: []recommend.Profile{{Name: "default"}, {Name: "cost", OOMBudget: 0.06}, {Name: "critical", OOMBudget: 0.02}},
		Total:        []replay.Outcome{outcome(0.07, 4), outcome(0.05, 2), outcome(0.025, 3)},
	}
	verdictFor := func(budget float64, chosen bool) string {
		c.Tolerance = replay.Tolerance{DaysAbove: budget, Shortfall: 0.01}
		c.BudgetChosen = chosen
		c.Best = replay.Best(c.Total, c.Tolerance)
		return verdict(c)
	}
	const rest = " % of days above the memory request."
	got := verdictFor(0.06, false)
	if want := "cost wins: the cheapest of those within 6" + rest + " The share of days is the largest that a recommender promises (cost); set another with --oom-budget."; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	got = verdictFor(0.03, true)
	if want := "critical wins: the only one within 3" + rest; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	want := []string{
		"cost keeps its promise of at most 6 % of days above the memory request: 5.00 %.",
		"critical does not keep its promise of at most 2 % of days above the memory request: 2.50 %.",
	}
	if diff := cmp.Diff(want, promises(c)); diff != "" {
		t.Errorf("promises (-want +got):\n%s", diff)
	}
	for _, format := range []string{"table.txt", "page.html"} {
		text := written(t, format, c, Options{})
		for _, promise := range want {
			if !strings.Contains(text, promise) {
				t.Errorf("%s does not contain %q:\n%s", format, promise, text)
			}
		}
	}
	var parsed jsonReport
	text := written(t, "report.json", c, Options{})
	if err := json.Unmarshal([]byte(text), &parsed); err != nil {
		t.Fatal(err)
	}
	if parsed.Budget != 0.03 || !parsed.Chosen || parsed.Total[0].Keeps != nil || !*parsed.Total[1].Keeps || *parsed.Total[2].Keeps || *parsed.Total[2].Promised != 0.02 {
		t.Errorf("JSON: %s", text)
	}
}

func TestWrite_equalOutcomes_areATieNotAWin(t *testing.T) {
	c := replayed(t, 10)
	for i := range c.Workloads {
		c.Workloads[i].Outcomes[1] = c.Workloads[i].Outcomes[0]
		c.Workloads[i].Best = replay.Best(c.Workloads[i].Outcomes, c.Tolerance)
	}
	c.Total[1] = c.Total[0]
	c.Best = replay.Best(c.Total, c.Tolerance)
	table := written(t, "table.txt", c, Options{Workloads: -1})
	for _, want := range []string{"default and balanced tie", "Workloads won: default 0, balanced 0, tied 2.", "default and balanced  "} {
		if !strings.Contains(table, want) {
			t.Errorf("the table does not contain %q:\n%s", want, table)
		}
	}
	page := written(t, "page.html", c, Options{Workloads: -1})
	if strings.Contains(table, "wins") || strings.Contains(page, "wins") {
		t.Error("a tie is reported as a win")
	}
	if rows := strings.Count(page, `<tr class="best">`); rows != 2*2+2*2 {
		t.Errorf("the page marks %d rows as best, want both recommenders in 4 tables", rows)
	}
	var parsed jsonReport
	if err := json.Unmarshal([]byte(written(t, "report.json", c, Options{})), &parsed); err != nil {
		t.Fatal(err)
	}
	if parsed.Best != "" || len(parsed.Tied) != 2 || parsed.Workloads[0].Best != "" || len(parsed.Workloads[1].Tied) != 2 {
		t.Errorf("JSON: best %q, tied %v", parsed.Best, parsed.Tied)
	}
}

func TestWriteTable_withOrWithoutPrices_costIsShownOrOmitted(t *testing.T) {
	for _, prices := range []replay.Prices{{Core: 1, GiB: 2}, {}} {
		c := replayed(t, 10)
		c.Prices = prices
		table := written(t, "table.txt", c, Options{Workloads: 1})
		if got := strings.Contains(table, "cost per month"); got != prices.Given() {
			t.Errorf("with prices %v, the table shows costs: %v\n%s", prices, got, table)
		}
		cost := fixed(2)(prices.Money(c.Total[1].CPU.Footprint, 0)) + "\n"
		if prices.Given() && !strings.Contains(table, cost) {
			t.Errorf("the table does not contain the cost %s of CPU:\n%s", cost, table)
		}
		for line := range strings.Lines(table) {
			if strings.HasSuffix(line, " \n") {
				t.Errorf("line %q ends with a blank", line)
			}
		}
	}
}

// columns counts the titles of columns that may be dropped.
func columns(text string) int {
	n := 0
	for _, title := range []string{"slack", "median", "aggregate", "exceed ", "above/day", "kills/day", "changes/day", "pods"} {
		n += strings.Count(text, title)
	}
	return n
}

// Row 16 of docs/decisions/0007.
func TestWriteTable_narrowTerminal_linesFitAndWideShowsAllFigures(t *testing.T) {
	c := fixture()
	const hint = "--output wide shows all of them."
	cells := strings.Fields(written(t, "table.txt", c, Options{Workloads: -1}))
	for width := 40; width <= 200; width += 8 {
		table := written(t, "table.txt", c, Options{Workloads: -1, Width: width})
		for line := range strings.Lines(table) {
			if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > width {
				t.Errorf("with %d columns, a line has %d: %q", width, n, line)
			}
		}
		plain := strings.Join(strings.Fields(table), " ")
		for _, want := range []string{"96.0 GiB", "25.00 cores", "280.32", "547.50", "617.25"} { // footprints and costs are never dropped
			if !strings.Contains(plain, want) {
				t.Errorf("with %d columns, the table does not contain %s:\n%s", width, want, table)
			}
		}
		wide := written(t, "wide.txt", c, Options{Workloads: -1, Width: width})
		for _, cell := range cells {
			if !strings.ContainsAny(cell, "0123456789") || strings.Contains(cell, "/") {
				continue
			}
			if !strings.Contains(wide, cell) {
				t.Errorf("with %d columns, the wide table does not contain %s:\n%s", width, cell, wide)
			}
		}
		complete := columns(table) == columns(wide)
		if hinted := strings.Contains(plain, hint); hinted == complete {
			t.Errorf("with %d columns, the table has all columns: %v, and names --output wide: %v:\n%s", width, complete, hinted, table)
		}
	}
	if text := written(t, "table.txt", c, Options{Workloads: -1}); strings.Contains(text, hint) {
		t.Errorf("without a terminal, the table names --output wide:\n%s", text)
	}
	golden(t, "table-80.txt", written(t, "table.txt", c, Options{Workloads: 1, Width: 80}))
}

// Row 16 of docs/decisions/0007.
func TestWriteTable_cpuOnlyTrace_hasNoColumnsOfMemory(t *testing.T) {
	c := fixture()
	for i := range c.Total {
		c.Total[i].Memory = replay.Summary{}
	}
	for i := range c.Workloads {
		for k := range c.Workloads[i].Outcomes {
			c.Workloads[i].Outcomes[k].Memory = replay.Summary{}
		}
	}
	text := written(t, "table.txt", c, Options{Workloads: -1})
	golden(t, "table-cpu.txt", text)
	_, workloads, _ := strings.Cut(text, "workloads, worst first")
	for _, title := range []string{"memory", "slack  exceed"} {
		if strings.Contains(workloads, title) {
			t.Errorf("the table has the column %s:\n%s", title, workloads)
		}
	}
}

func TestVerdict_resourceNotMeasured_itsLimitIsNotNamed(t *testing.T) {
	cpu, memory := replay.Summary{Days: 9}, replay.Summary{Days: 9, FreeDays: 1}
	for want, outcome := range map[string]replay.Outcome{
		"a is within 3 % of days above the memory request. The share":                                                {Memory: memory},
		"a is within 1 % of CPU usage above its request.":                                                            {CPU: cpu},
		"a is within 3 % of days above the memory request and 1 % of CPU usage above its request. The share of days": {CPU: cpu, Memory: memory},
	} {
		c := &replay.Comparison{
			Recommenders: []recommend.Profile{{Name: "a", OOMBudget: 0.03}}, Total: []replay.Outcome{outcome}, Best: []int{0},
			Tolerance: replay.Tolerance{DaysAbove: 0.03, Shortfall: 0.01},
		}
		got := verdict(c)
		if !strings.HasPrefix(got, want) || strings.Contains(got, "The share") != strings.Contains(want, "The share") {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// Row 17 of docs/decisions/0007.
func TestReasons_dearerRecommenderWins_othersExceedTheLimits(t *testing.T) {
	cpu := func(above, money float64) replay.Outcome {
		return replay.Outcome{CPU: replay.Summary{Days: 100, FreeDays: 1, Shortfall: above}, Money: money}
	}
	both := replay.Outcome{
		CPU: replay.Summary{Days: 100, Shortfall: 0.02}, Memory: replay.Summary{Days: 100, FreeDays: 0.9}, Money: 100,
	}
	for name, tt := range map[string]struct {
		totals []replay.Outcome
		prices replay.Prices
		want   []string
	}{
		"cheaper, above the limit":  {[]replay.Outcome{cpu(0.416, 260.92), cpu(0.001, 761.87)}, replay.Prices{Core: 1, Currency: "USD"}, []string{"a: 41.6 % of CPU usage above its request, for USD 500.95 less per month."}},
		"no currency":               {[]replay.Outcome{cpu(0.416, 260.92), cpu(0.001, 761.87)}, replay.Prices{Core: 1}, []string{"a: 41.6 % of CPU usage above its request, for 500.95 less per month."}},
		"no prices":                 {[]replay.Outcome{cpu(0.416, 0), cpu(0.001, 0)}, replay.Prices{}, []string{"a: 41.6 % of CPU usage above its request."}},
		"both limits":               {[]replay.Outcome{both, cpu(0, 200)}, replay.Prices{Core: 1}, []string{"a: 10 % of days above the memory request and 2 % of CPU usage above its request, for 100.00 less per month."}},
		"dearer, above the limit":   {[]replay.Outcome{cpu(0.02, 300), cpu(0, 200)}, replay.Prices{Core: 1}, []string{"a: 2 % of CPU usage above its request."}},
		"cheaper wins":              {[]replay.Outcome{cpu(0, 100), cpu(0, 200)}, replay.Prices{Core: 1}, nil},
		"all of them above":         {[]replay.Outcome{cpu(0.5, 100), cpu(0.3, 200)}, replay.Prices{Core: 1}, []string{"a: 50 % of CPU usage above its request, for 100.00 less per month."}},
		"nothing measured":          {[]replay.Outcome{{}, {}}, replay.Prices{Core: 1}, nil},
		"one of them not measured":  {[]replay.Outcome{{}, cpu(0.3, 200)}, replay.Prices{Core: 1}, nil},
		"only one, above the limit": {[]replay.Outcome{cpu(0.3, 200)}, replay.Prices{Core: 1}, nil},
	} {
		tolerance := replay.Tolerance{DaysAbove: 0.03, Shortfall: 0.01}
		c := &replay.Comparison{Total: tt.totals, Tolerance: tolerance, Best: replay.Best(tt.totals, tolerance), Prices: tt.prices}
		for i := range tt.totals {
			c.Recommenders = append(c.Recommenders, recommend.Profile{Name: string(rune('a' + i))})
		}
		if diff := cmp.Diff(tt.want, reasons(c)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		for _, format := range []string{"table.txt", "page.html"} {
			text := written(t, format, c, Options{})
			for _, want := range tt.want {
				if !strings.Contains(text, want) {
					t.Errorf("%s: %s does not contain %q:\n%s", name, format, want, text)
				}
			}
		}
	}
}

// Row 15 of docs/decisions/0007.
func TestNothingMeasured_shortHistory_namesTheFlagThatHelps(t *testing.T) {
	for _, tt := range []struct {
		learning, full int
		want           string
	}{
		{8, 4, "after its first 8 days, which are used for learning; the longest history has 4 full days: use --learning 2d, or provide a longer one"},
		{8, 2, "the longest history has 2 full days: use --learning 1d"},
		{1, 1, "after its first 1 day, which are used for learning; provide a history of at least two days"},
		{8, 0, "provide a history of at least two days"},
	} {
		if got := NothingMeasured(&replay.Comparison{Learning: tt.learning, FullDays: tt.full}); !strings.Contains(got, tt.want) {
			t.Errorf("%d days with %d of learning: got %q, want %q", tt.full, tt.learning, got, tt.want)
		}
	}
}

// fullDisk accepts a number of bytes, then fails.
type fullDisk struct{ left int }

func (d *fullDisk) Write(p []byte) (int, error) {
	d.left -= len(p)
	if d.left < 0 {
		return 0, io.ErrShortWrite
	}
	return len(p), nil
}

func TestWrite_outputFails_returnsTheError(t *testing.T) {
	c := replayed(t, 10)
	for format, write := range formats {
		if err := write(&fullDisk{left: 100}, c, Options{Workloads: -1}); !errors.Is(err, io.ErrShortWrite) {
			t.Errorf("%s: got error %v, want %v", format, err, io.ErrShortWrite)
		}
	}
}

func TestLabels_dotsAtTheSameHeight_labelsDoNotOverlap(t *testing.T) {
	f := chart.Frame{Top: 12, Height: 250, Y1: 10}
	got := labels(f, []chart.Point{{Y: 0}, {Y: 0}, {Y: 5}, {Y: 0.1}, {Y: 0}})
	slices.Sort(got)
	for i := 1; i < len(got); i++ {
		if got[i] < got[i-1]+lineHeight {
			t.Errorf("labels at %v", got)
		}
	}
	if got[0] != f.Y(5)+4 || got[4] > f.Top+f.Height+4 {
		t.Errorf("labels at %v, want the highest beside its dot and all inside the chart", got)
	}
}
