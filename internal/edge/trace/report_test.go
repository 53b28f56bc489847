// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"encoding/xml"
	"io"
	"regexp"
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
		Source: "a<b>.csv", Prices: replay.Prices{Core: 1, GiB: 1}, Tolerance: replay.DefaultTolerance(),
		From: time.Unix(start, 0).UTC(), To: time.Unix(start+int64(days)*86400, 0).UTC(),
	}
	profiles := []recommend.Profile{}
	for _, name := range []string{"default", "balanced"} {
		p, _ := recommend.Builtin(name)
		profiles = append(profiles, p)
		r.Recommenders = append(r.Recommenders, Recommender{p.Name, p.About})
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
		wl.Winner = replay.Best(wl.Outcomes, r.Tolerance)
		r.Workloads = append(r.Workloads, wl)
	}
	for k := range profiles {
		r.Total = append(r.Total, replay.OutcomeOf(all[k], r.Prices))
	}
	r.Winner = replay.Best(r.Total, r.Tolerance)
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
	if err := WriteHTML(&b, report(t, 12), -1); err != nil {
		t.Fatal(err)
	}
	page := b.String()
	for _, part := range []string{"a&lt;b&gt;.csv", "Waste against risk", "shop/Deployment/&lt;web&gt;"} {
		if !strings.Contains(page, part) {
			t.Errorf("the page lacks %q", part)
		}
	}
	for _, foreign := range []string{"http://", "https://", "<script", "url(", "@import", "<web>"} {
		if strings.Contains(page, foreign) {
			t.Errorf("the page has %q", foreign)
		}
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
	var b, page bytes.Buffer
	if err := WriteTable(&b, r, 5); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(b.String(), "Nothing to judge by") {
		t.Errorf("the table says\n%s", b.String())
	}
	if err := WriteHTML(&page, r, 5); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(page.String(), "nothing to judge by") {
		t.Error("the page does not say that nothing could be judged")
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
