// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"encoding/xml"
	"errors"
	"html"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/recommend"
	"podfit.dev/podfit/internal/core/replay"
)

// report replays two small workloads, one of them with a name that has to be escaped.
func report(t *testing.T, days int) *Report {
	t.Helper()
	const start = 1_372_629_804
	r := &Report{
		Source: "a<b>.csv", Prices: replay.Prices{Core: 1, GiB: 1}, Tolerance: replay.DefaultTolerance(nil), Chosen: true,
		From: time.Unix(start, 0).UTC(), To: time.Unix(start+int64(days)*86400, 0).UTC(),
	}
	profiles := []recommend.Profile{}
	for _, name := range []string{"default", "balanced"} {
		p, _ := recommend.BacktestProfile(name)
		profiles = append(profiles, p)
		r.Recommenders = append(r.Recommenders, Recommender{Name: p.Name, About: p.About, OOMBudget: p.OOMBudget})
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
		u := replay.Prepare(w)
		wl := Workload{Workload: w}
		for k, p := range profiles {
			changes := replay.Run(w, p, replay.RulesFor(p))
			scores := u.Measure(changes)
			all[k] = append(all[k], scores...)
			wl.Changes = append(wl.Changes, changes)
			wl.Outcomes = append(wl.Outcomes, replay.OutcomeOf(scores, r.Prices))
		}
		wl.Best = replay.Best(wl.Outcomes, r.Tolerance)
		r.Workloads = append(r.Workloads, wl)
	}
	for k := range profiles {
		r.Total = append(r.Total, replay.OutcomeOf(all[k], r.Prices))
	}
	r.Best = replay.Best(r.Total, r.Tolerance)
	return r
}

func TestTheTimelineHasItsFormat(t *testing.T) {
	var b bytes.Buffer
	r := report(t, 10)
	if err := WriteTimeline(&b, r); err != nil {
		t.Fatal(err)
	}
	rows, err := csv.NewReader(&b).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(rows[0], ","); got != "time,namespace,kind,name,container,recommender,resource,request" {
		t.Errorf("header %s", got)
	}
	want := 0
	for _, w := range r.Workloads {
		for _, c := range w.Changes {
			want += len(c)
		}
	}
	if len(rows)-1 != want {
		t.Errorf("%d rows, want %d", len(rows)-1, want)
	}
	last := map[string]int64{}
	for _, row := range rows[1:] {
		at, err := strconv.ParseInt(row[0], 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		id := strings.Join(row[1:7], "\x00")
		if at < last[id]+60 {
			t.Errorf("row at %d after %d: %v", at, last[id], row)
		}
		last[id] = at
		v, err := strconv.ParseFloat(row[7], 64)
		if err != nil || v <= 0 || strings.ContainsAny(row[7], "eE") {
			t.Errorf("request %q", row[7])
		}
		if row[6] == "cpu" && v > 100 || row[6] == "memory" && v < 1e6 {
			t.Errorf("%s of %g: wrong unit", row[6], v)
		}
		if row[3] == "cart" && row[6] == "memory" {
			t.Error("a row for a resource without samples")
		}
	}
	if len(last) != 6 {
		t.Errorf("%d series, want 2 recommenders × (2 + 1)", len(last))
	}
}

func TestThePageIsWholeAndNeedsNothingElse(t *testing.T) {
	var b bytes.Buffer
	r := report(t, 12)
	if err := WriteHTML(&b, r, -1); err != nil {
		t.Fatal(err)
	}
	page := b.String()
	for _, part := range []string{"a&lt;b&gt;.csv", "Waste against risk", "shop/Deployment/&lt;web&gt;"} {
		if !strings.Contains(page, part) {
			t.Errorf("the page lacks %q", part)
		}
	}
	if !strings.Contains(page, "prefers-color-scheme: dark") {
		t.Error("the page has no colours for the night")
	}
	for _, foreign := range []string{"http://", "https://", "<script", "<link", "src=", "href=", "url(", "@import", "<web>"} {
		if strings.Contains(page, foreign) {
			t.Errorf("the page has %q", foreign)
		}
	}
	var order, want []string
	for _, m := range regexp.MustCompile(`<h3>(.*?)</h3>`).FindAllStringSubmatch(page, -1) {
		order = append(order, html.UnescapeString(m[1]))
	}
	for _, i := range r.Worst() {
		want = append(want, r.Workloads[i].Key.String())
	}
	if !slices.Equal(order, want) {
		t.Errorf("the page shows %v, the worst first is %v", order, want)
	}
	pictures := regexp.MustCompile(`(?s)<svg.*?</svg>`).FindAllString(page, -1)
	if len(pictures) != 2+1+2 {
		t.Errorf("%d pictures, want 2 frontiers and 3 histories", len(pictures))
	}
	for _, p := range pictures {
		d := xml.NewDecoder(strings.NewReader(p))
		for {
			if _, err := d.Token(); err == io.EOF {
				break
			} else if err != nil {
				t.Fatalf("a picture is broken: %v", err)
			}
		}
		if strings.Contains(p, "NaN") || strings.Contains(p, "Inf") {
			t.Error("a picture has no place for something")
		}
	}
}

func TestEveryFormatSaysTheSame(t *testing.T) {
	r := report(t, 10)
	var table, js, cs bytes.Buffer
	for _, err := range []error{WriteTable(&table, r, -1), WriteJSON(&js, r), WriteCSV(&cs, r)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	var parsed jsonReport
	if err := json.Unmarshal(js.Bytes(), &parsed); err != nil {
		t.Fatal(err)
	}
	if len(parsed.Total) != 2 || parsed.Total[1].Memory.MeanSlack != r.Total[1].Memory.MeanSlack || len(parsed.Workloads) != 2 {
		t.Errorf("json: %+v", parsed)
	}
	if parsed.Workloads[0].Outcomes[0].Memory != nil {
		t.Error("json has figures of a resource without samples")
	}
	slack := strconv.FormatFloat(r.Total[1].Memory.MeanSlack, 'f', 3, 64)
	if !strings.Contains(table.String(), slack) {
		t.Errorf("the table lacks the slack %s:\n%s", slack, table.String())
	}
	rows, err := csv.NewReader(&cs).ReadAll()
	if err != nil || len(rows) != 1+6+4 {
		t.Errorf("csv has %d rows, want a header, 6 of workloads and 4 of all: %v", len(rows), err)
	}
}

func TestAReportOfTooShortATraceSaysSo(t *testing.T) {
	r := report(t, 3)
	for name, to := range map[string]func(io.Writer, *Report, int) error{"table": WriteTable, "page": WriteHTML} {
		var b bytes.Buffer
		if err := to(&b, r, 5); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(b.String(), "Nothing to judge by: no container has a whole day of samples after its first 8 days") {
			t.Errorf("the %s says\n%s", name, b.String())
		}
		for _, judged := range []string{"wins", "oney a month:", "Money a month", "Waste against risk", "tie", "0.00<"} {
			if strings.Contains(b.String(), judged) {
				t.Errorf("the %s has %q of nothing", name, judged)
			}
		}
	}
	var b bytes.Buffer
	if err := WriteJSON(&b, r); err != nil {
		t.Fatal(err)
	}
	var j struct {
		Judged       *bool
		Recommenders []map[string]any
	}
	if err := json.Unmarshal(b.Bytes(), &j); err != nil {
		t.Fatal(err)
	}
	if j.Judged == nil || *j.Judged || len(j.Recommenders) != 2 || len(j.Recommenders[0]) != 1 {
		t.Errorf("json has figures of nothing: %s", b.String())
	}
}

func TestTheVerdictSaysWhoWinsAndWhy(t *testing.T) {
	outcome := func(free, money float64) replay.Outcome {
		return replay.Outcome{Memory: replay.Summary{Days: 100, FreeDays: free}, Money: money}
	}
	const limits = "within 3 % of days above the memory request and 1 % of CPU usage above its request"
	for want, of := range map[string][]replay.Outcome{
		"a wins: the cheapest of those " + limits + ".":                                    {outcome(1, 3), outcome(1, 4)},
		"b wins: the only one " + limits + ".":                                             {outcome(0.9, 3), outcome(1, 4)},
		"a and b tie: they are the cheapest of those " + limits + ".":                      {outcome(1, 3), outcome(1, 3)},
		"a, c and d tie: they are the cheapest of those " + limits + ".":                   {outcome(1, 3), outcome(1, 4), outcome(1, 3), outcome(0.99, 3)},
		"None is " + limits + ". b does the least harm.":                                   {outcome(0.8, 3), outcome(0.9, 4)},
		"None is " + limits + ". a and b tie: they do the least harm, for the same money.": {outcome(0.9, 3), outcome(0.9, 3)},
		"a is " + limits + ".":                                                             {outcome(1, 3)},
		"a is not " + limits + ".":                                                         {outcome(0.9, 3)},
	} {
		r := &Report{Total: of, Tolerance: replay.DefaultTolerance(nil), Chosen: true, Best: replay.Best(of, replay.DefaultTolerance(nil))}
		for i := range of {
			r.Recommenders = append(r.Recommenders, Recommender{Name: string(rune('a' + i))})
		}
		if got := r.verdict(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestVerdict_budgetNotChosen_namesWhoseItIs(t *testing.T) {
	outcome := func(above, money float64) replay.Outcome {
		return replay.Outcome{Memory: replay.Summary{Days: 100, FreeDays: 1 - above}, Money: money}
	}
	r := &Report{
		Recommenders: []Recommender{{Name: "default"}, {Name: "cost", OOMBudget: 0.06}, {Name: "critical", OOMBudget: 0.02}},
		Total:        []replay.Outcome{outcome(0.07, 4), outcome(0.05, 2), outcome(0.025, 3)},
	}
	judge := func(budget float64, chosen bool) string {
		r.Tolerance, r.Chosen = replay.Tolerance{DaysAbove: budget, Shortfall: 0.01}, chosen
		r.Best = replay.Best(r.Total, r.Tolerance)
		return r.verdict()
	}
	const rest = " % of days above the memory request and 1 % of CPU usage above its request."
	for want, got := range map[string]string{
		"cost wins: the cheapest of those within 6" + rest + " The share of days is the largest that is promised, by cost; --oom-budget chooses another.": judge(0.06, false),
		"critical wins: the only one within 3" + rest: judge(0.03, true),
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	want := []string{
		"cost keeps its promise of at most 6 % of days above the memory request: 5.00 %.",
		"critical does not keep its promise of at most 2 % of days above the memory request: 2.50 %.",
	}
	if got := r.promises(); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	for i := range r.Workloads {
		r.Workloads[i].Pods = 3
	}
	var table, js, page bytes.Buffer
	for _, err := range []error{WriteTable(&table, r, 0), WriteJSON(&js, r), WriteHTML(&page, r, 0)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range map[string]string{"table": table.String(), "page": page.String()} {
		for _, w := range want {
			if !strings.Contains(text, w) {
				t.Errorf("the %s lacks %q:\n%s", name, w, text)
			}
		}
	}
	var j jsonReport
	if err := json.Unmarshal(js.Bytes(), &j); err != nil {
		t.Fatal(err)
	}
	if j.Budget != 0.03 || !j.Chosen || j.Total[0].Keeps != nil || !*j.Total[1].Keeps || *j.Total[2].Keeps || *j.Total[2].Promised != 0.02 {
		t.Errorf("json: %s", js.String())
	}
}

func TestATieIsNoWin(t *testing.T) {
	r := report(t, 10)
	for i := range r.Workloads {
		r.Workloads[i].Outcomes[1] = r.Workloads[i].Outcomes[0]
		r.Workloads[i].Best = replay.Best(r.Workloads[i].Outcomes, r.Tolerance)
	}
	r.Total[1] = r.Total[0]
	r.Best = replay.Best(r.Total, r.Tolerance)
	var table, js, page bytes.Buffer
	for _, err := range []error{WriteTable(&table, r, -1), WriteJSON(&js, r), WriteHTML(&page, r, -1)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if s := table.String(); strings.Contains(s, "wins") || !strings.Contains(s, "default and balanced tie") ||
		!strings.Contains(s, "By workload: default 0, balanced 0, tied 2.") || !strings.Contains(s, "default and balanced  ") {
		t.Errorf("the table says\n%s", s)
	}
	if s := page.String(); strings.Contains(s, "wins") || strings.Count(s, `<tr class="best">`) != 2*2+2*2 {
		t.Error("the page does not say that they tie")
	}
	var j jsonReport
	if err := json.Unmarshal(js.Bytes(), &j); err != nil {
		t.Fatal(err)
	}
	if j.Best != "" || len(j.Tied) != 2 || j.Workloads[0].Best != "" || len(j.Workloads[1].Tied) != 2 {
		t.Errorf("json says %q, %v", j.Best, j.Tied)
	}
}

func TestTheTableHasMoneyWhereThereArePricesAndNoBlanksAtLineEnds(t *testing.T) {
	r := report(t, 10)
	for _, prices := range []replay.Prices{{Core: 1, GiB: 2}, {}} {
		r.Prices = prices
		var b bytes.Buffer
		if err := WriteTable(&b, r, 1); err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(b.String(), "money a month"); prices.Given() && n != 4 || !prices.Given() && n != 0 {
			t.Errorf("with prices %v, money stands %d times:\n%s", prices, n, b.String())
		}
		for line := range strings.Lines(b.String()) {
			if strings.HasSuffix(line, " \n") {
				t.Errorf("blanks at the end of %q", line)
			}
		}
		want := fixed(2)(prices.Money(r.Total[1].CPU.Footprint, 0)) + "\n"
		if prices.Given() && !strings.Contains(b.String(), want) {
			t.Errorf("the table lacks %s of CPU:\n%s", want, b.String())
		}
	}
}

func TestTheWorstComeFirst(t *testing.T) {
	outcome := func(free, shortfall, money float64) replay.Outcome {
		return replay.Outcome{Memory: replay.Summary{Days: 10, FreeDays: free}, CPU: replay.Summary{Days: 10, Shortfall: shortfall}, Money: money}
	}
	r := &Report{}
	for _, os := range [][]replay.Outcome{
		{outcome(1, 0, 1), outcome(1, 0, 2)},
		{outcome(1, 0, 9), outcome(1, 0, 3)},
		{outcome(0.9, 0, 1), outcome(1, 0, 1)},
		{outcome(1, 0, 1), outcome(1, 0.5, 1)},
		{},
	} {
		r.Workloads = append(r.Workloads, Workload{Outcomes: os})
	}
	if got := r.Worst(); !slices.Equal(got, []int{3, 2, 1, 0, 4}) {
		t.Errorf("%v", got)
	}
}

// full takes some bytes and then no more.
type full struct{ left int }

func (f *full) Write(p []byte) (int, error) {
	if f.left -= len(p); f.left < 0 {
		return 0, io.ErrShortWrite
	}
	return len(p), nil
}

func TestNoReportIsCutOffInSilence(t *testing.T) {
	r := report(t, 10)
	for name, to := range map[string]func(io.Writer, *Report, int) error{
		"table": WriteTable, "page": WriteHTML,
		"json":     func(w io.Writer, r *Report, _ int) error { return WriteJSON(w, r) },
		"csv":      func(w io.Writer, r *Report, _ int) error { return WriteCSV(w, r) },
		"timeline": func(w io.Writer, r *Report, _ int) error { return WriteTimeline(w, r) },
	} {
		if err := to(&full{left: 100}, r, -1); !errors.Is(err, io.ErrShortWrite) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestNamesInThePictureDoNotCoverEachOther(t *testing.T) {
	f := frame{left: 60, top: 12, width: 420, height: 250}
	dots := []spot{{200, 200}, {204, 202}, {202, 210}, {470, 200}, {62, 14}, {201, 205}}
	var taken []box
	for i := range dots {
		b := place(dots, i, 80, f, taken)
		for j, o := range taken {
			if b.meets(o) {
				t.Errorf("the name of dot %d covers that of dot %d: %v, %v", i, j, b, o)
			}
		}
		if b.left < f.left || b.right > f.left+f.width+20 {
			t.Errorf("the name of dot %d leaves the picture: %v", i, b)
		}
		taken = append(taken, b)
	}
}
