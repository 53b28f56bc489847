// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/replay"
)

// A Report is what a backtest found out.
type Report struct {
	Source       string
	From, To     time.Time // of the first and last sample
	Recommenders []Recommender
	Workloads    []Workload
	Total        []replay.Outcome // one for each recommender
	Best         []int            // of all; several tie, and none when nothing was measured
	Prices       replay.Prices
	Tolerance    replay.Tolerance
	Chosen       bool // the user chose Tolerance.DaysAbove; else it is the largest that a recommender promises
}

// A Recommender is one algorithm of a Report.
type Recommender struct {
	Name, About string
	OOMBudget   float64 // the share of days above the memory request that it promises; 0: none
}

// A Workload is one of a Report.
type Workload struct {
	*replay.Workload
	Outcomes []replay.Outcome  // one for each recommender
	Changes  [][]replay.Change // one for each recommender
	Pods     float64           // mean number, of the container with the most
	Best     []int             // none when it was too short to judge
}

// WriteTimeline writes the requests as they would have changed: for each recommender and series the rows by time.
func WriteTimeline(w io.Writer, r *Report) error {
	b := bufio.NewWriterSize(w, 1<<16)
	fmt.Fprintln(b, "time,namespace,kind,name,container,recommender,resource,request")
	for i, rec := range r.Recommenders {
		for _, wl := range r.Workloads {
			for c, container := range wl.Containers {
				series := quote(wl.Key.Namespace) + "," + quote(wl.Key.Kind) + "," + quote(wl.Key.Name) + "," + quote(container) + "," + quote(rec.Name)
				for _, res := range cluster.All {
					for _, x := range wl.Changes[i] {
						if int(x.Container) == c && x.Resource == res {
							b.WriteString(strconv.FormatInt(x.At, 10))
							b.WriteByte(',')
							b.WriteString(series)
							b.WriteByte(',')
							b.WriteString(res.String())
							b.WriteByte(',')
							b.WriteString(request(x))
							b.WriteByte('\n')
						}
					}
				}
			}
		}
	}
	return b.Flush()
}

// quote writes a field of CSV.
func quote(s string) string {
	for i := range len(s) {
		switch s[i] {
		case ',', '"', '\n', '\r':
			out := []byte{'"'}
			for j := range len(s) {
				if s[j] == '"' {
					out = append(out, '"')
				}
				out = append(out, s[j])
			}
			return string(append(out, '"'))
		}
	}
	return s
}

// request writes cores or bytes.
func request(x replay.Change) string {
	if x.Resource == cluster.CPU {
		return strconv.FormatFloat(float64(x.Request)/1000, 'f', -1, 64)
	}
	return strconv.FormatInt(x.Request, 10)
}

// figures are the numbers of an outcome's resource, with their names in every format and their units in the table.
var figures = []struct {
	name, title string
	of          func(replay.Summary) float64
	text        func(float64) string
	only        cluster.Resource // 0: both
}{
	{"mean_slack", "slack", func(s replay.Summary) float64 { return s.MeanSlack }, fixed(3), 0},
	{"median_slack", "median", func(s replay.Summary) float64 { return s.MedianSlack }, fixed(3), 0},
	{"aggregate_slack", "aggregate", func(s replay.Summary) float64 { return s.AggregateSlack }, fixed(3), 0},
	{"exceed_free_days", "days without exceed", func(s replay.Summary) float64 { return s.FreeDays }, percent(2), 0},
	{"samples_above_per_day", "samples above/day", func(s replay.Summary) float64 { return s.Above }, fixed(3), 0},
	{"oom_kills_per_day", "kills/day", func(s replay.Summary) float64 { return s.Events }, fixed(3), cluster.Memory},
	{"usage_above", "usage above", func(s replay.Summary) float64 { return s.Shortfall }, percent(2), 0},
	{"changes_per_day", "changes/day", func(s replay.Summary) float64 { return s.Changes }, fixed(2), 0},
}

func fixed(n int) func(float64) string {
	return func(v float64) string { return strconv.FormatFloat(v, 'f', n, 64) }
}

func percent(n int) func(float64) string {
	return func(v float64) string { return strconv.FormatFloat(100*v, 'f', n, 64) + " %" }
}

// amount writes cores or bytes for people.
func amount(r cluster.Resource, v float64) string {
	if r == cluster.CPU {
		switch {
		case v == 0:
			return "0 cores"
		case v < 0.01:
			return strconv.FormatFloat(1000*v, 'f', 1, 64) + "m"
		case v < 1:
			return strconv.FormatFloat(1000*v, 'f', 0, 64) + "m"
		}
		return strconv.FormatFloat(v, 'f', 2, 64) + " cores"
	}
	switch {
	case v >= 10<<30:
		return strconv.FormatFloat(v/(1<<30), 'f', 1, 64) + " GiB"
	case v >= 1<<30:
		return strconv.FormatFloat(v/(1<<30), 'f', 2, 64) + " GiB"
	}
	return strconv.FormatFloat(v/(1<<20), 'f', 0, 64) + " MiB"
}

func summary(o replay.Outcome, r cluster.Resource) replay.Summary {
	if r == cluster.CPU {
		return o.CPU
	}
	return o.Memory
}

// number counts things in words.
func number(n int, of string) string {
	if n != 1 {
		of += "s"
	}
	return fmt.Sprintf("%d %s", n, of)
}

// WriteTable writes the report for a terminal, with up to so many workloads, all when negative.
func WriteTable(w io.Writer, r *Report, workloads int) error {
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s: %s, %s to %s, measured after %d days of learning\n",
		r.Source, number(len(r.Workloads), "workload"), r.From.Format(time.DateOnly), r.To.Format(time.DateOnly), replay.Learning)
	t := tabwriter.NewWriter(&b, 0, 8, 2, ' ', 0)
	for _, res := range [...]cluster.Resource{cluster.Memory, cluster.CPU} {
		if !r.has(res) {
			continue
		}
		head, rows := r.totals(res)
		fmt.Fprintf(t, "\n%s\t%s\n", res, strings.Join(head, "\t"))
		for i, row := range rows {
			fmt.Fprintf(t, "  %s\t%s\n", r.Recommenders[i].Name, strings.Join(row, "\t"))
		}
		t.Flush()
	}
	if r.Judged() && r.Prices.Given() {
		var all []string
		for i, o := range r.Total {
			all = append(all, fmt.Sprintf("%s %.2f", r.Recommenders[i].Name, o.Money))
		}
		fmt.Fprintf(&b, "\nmoney a month: %s\n", strings.Join(all, ", "))
	}
	fmt.Fprintf(&b, "\n%s\n", r.verdict())
	for _, p := range r.promises() {
		fmt.Fprintln(&b, p)
	}
	if r.Judged() && len(r.Recommenders) > 1 {
		fmt.Fprintln(&b, r.wins())
	}
	if r.Judged() && workloads != 0 {
		r.perWorkload(t, workloads)
		t.Flush()
	}
	for line := range strings.Lines(b.String()) { // cells of nothing at the end of a row would leave blanks
		if _, err := io.WriteString(w, strings.TrimRight(line, " \n")+"\n"); err != nil {
			return err
		}
	}
	return nil
}

// totals returns the names of a resource's columns, and a row of figures for each recommender.
func (r *Report) totals(res cluster.Resource) (head []string, rows [][]string) {
	rows = make([][]string, len(r.Total))
	column := func(title string, cell func(replay.Summary) string) {
		head = append(head, title)
		for i, o := range r.Total {
			rows[i] = append(rows[i], cell(summary(o, res)))
		}
	}
	for _, f := range figures {
		if f.only == 0 || f.only == res {
			column(f.title, func(s replay.Summary) string { return f.text(f.of(s)) })
		}
	}
	column("footprint", func(s replay.Summary) string { return amount(res, s.Footprint) })
	if r.Prices.Given() {
		column("money a month", func(s replay.Summary) string { return fixed(2)(r.money(res, s)) })
	}
	return head, rows
}

// money is what a resource's footprint costs in a month.
func (r *Report) money(res cluster.Resource, s replay.Summary) float64 {
	if res == cluster.Memory {
		return r.Prices.Money(0, s.Footprint)
	}
	return r.Prices.Money(s.Footprint, 0)
}

// perWorkload writes one line for each workload: what the best for it would have done.
func (r *Report) perWorkload(w io.Writer, most int) {
	fmt.Fprintln(w, "\nworkloads, the worst first: by the most harm under any of the recommenders; the figures are those of the best")
	fmt.Fprint(w, "workload\tpods\tbest\tmemory slack\tdays without exceed\tmemory\tCPU slack\tsamples above/day\tCPU")
	if r.Prices.Given() {
		fmt.Fprint(w, "\tmoney a month")
	}
	fmt.Fprintln(w)
	for i, k := range r.Worst() {
		if i == most {
			fmt.Fprintf(w, "(%d more; --workloads 0 leaves them all out, -1 shows all)\n", len(r.Workloads)-most)
			return
		}
		wl := &r.Workloads[k]
		if len(wl.Best) == 0 {
			fmt.Fprintf(w, "%s\t\ttoo short to judge\n", wl.Key)
			continue
		}
		o := wl.Outcomes[wl.Best[0]]
		fmt.Fprintf(w, "%s\t%s\t%s\t", wl.Key, wl.pods(), r.bestOf(wl))
		if o.Memory.Days > 0 {
			fmt.Fprintf(w, "%.3f\t%.2f %%\t%s\t", o.Memory.MeanSlack, 100*o.Memory.FreeDays, amount(cluster.Memory, o.Memory.Footprint))
		} else {
			fmt.Fprint(w, "\t\t\t")
		}
		if o.CPU.Days > 0 {
			fmt.Fprintf(w, "%.3f\t%.3f\t%s", o.CPU.MeanSlack, o.CPU.Above, amount(cluster.CPU, o.CPU.Footprint))
		} else {
			fmt.Fprint(w, "\t\t")
		}
		if r.Prices.Given() {
			fmt.Fprintf(w, "\t%.2f", o.Money)
		}
		fmt.Fprintln(w)
	}
}

// pods returns the mean number of pods, of the container with the most.
func (w *Workload) pods() string {
	return strconv.FormatFloat(math.Round(10*w.Pods)/10, 'f', -1, 64)
}

// bestOf names the best for a workload.
func (r *Report) bestOf(w *Workload) string {
	if n := len(w.Best); n > 2 {
		return fmt.Sprintf("%s and %d others", r.Recommenders[w.Best[0]].Name, n-1)
	}
	return r.names(w.Best, " and ")
}

// has reports whether anything was measured of a resource.
func (r *Report) has(res cluster.Resource) bool {
	for _, o := range r.Total {
		if summary(o, res).Days > 0 {
			return true
		}
	}
	return false
}

// jsonSummary is a Summary under the names that figures have.
type jsonSummary struct {
	Containers     int      `json:"containers"`
	Days           int      `json:"container_days"`
	MeanSlack      float64  `json:"mean_slack"`
	MedianSlack    float64  `json:"median_slack"`
	AggregateSlack float64  `json:"aggregate_slack"`
	FreeDays       float64  `json:"exceed_free_days"`
	Above          float64  `json:"samples_above_per_day"`
	Kills          *float64 `json:"oom_kills_per_day,omitempty"`
	Shortfall      float64  `json:"usage_above"`
	Changes        float64  `json:"changes_per_day"`
	Footprint      float64  `json:"footprint"` // of all pods: cores or bytes
	MeanUsage      float64  `json:"mean_usage"`
	MeanPods       float64  `json:"mean_pods"` // summed over containers
	NeverAbove     int      `json:"containers_never_above"`
	MostDaysAbove  int      `json:"most_days_above_of_a_container"`
}

type jsonOutcome struct {
	Recommender string       `json:"recommender"`
	CPU         *jsonSummary `json:"cpu,omitempty"`
	Memory      *jsonSummary `json:"memory,omitempty"`
	Money       *float64     `json:"money_per_month,omitempty"`
	Promised    *float64     `json:"promised_days_above,omitempty"` // only of all workloads together
	Keeps       *bool        `json:"keeps_promise,omitempty"`
}

type jsonWorkload struct {
	Namespace string        `json:"namespace"`
	Kind      string        `json:"kind"`
	Name      string        `json:"name"`
	Best      string        `json:"best,omitempty"`
	Tied      []string      `json:"tied,omitempty"`
	Outcomes  []jsonOutcome `json:"recommenders"`
}

type jsonReport struct {
	Source    string         `json:"trace"`
	From      time.Time      `json:"from"`
	To        time.Time      `json:"to"`
	Learning  int            `json:"learning_days"`
	Judged    bool           `json:"judged"`            // false: no container has samples from after its first days
	Budget    float64        `json:"oom_budget"`        // that the winner is within: share of days above the memory request
	Chosen    bool           `json:"oom_budget_chosen"` // by --oom-budget; false: the largest that a recommender promises
	Shortfall float64        `json:"cpu_shortfall"`     // likewise, share of CPU usage above its request
	Best      string         `json:"best,omitempty"`
	Tied      []string       `json:"tied,omitempty"`
	Total     []jsonOutcome  `json:"recommenders"`
	Workloads []jsonWorkload `json:"workloads"`
}

func jsonOf(s replay.Summary, res cluster.Resource) *jsonSummary {
	if s.Days == 0 {
		return nil
	}
	j := &jsonSummary{
		Containers: s.Containers, Days: s.Days, MeanSlack: s.MeanSlack, MedianSlack: s.MedianSlack, AggregateSlack: s.AggregateSlack,
		FreeDays: s.FreeDays, Above: s.Above, Shortfall: s.Shortfall, Changes: s.Changes, Footprint: s.Footprint,
		MeanUsage: s.UsedMean, MeanPods: s.Pods, NeverAbove: s.NeverAbove, MostDaysAbove: s.WorstDays,
	}
	if res == cluster.Memory {
		j.Kills = &s.Events
	}
	return j
}

func (r *Report) outcomes(os []replay.Outcome) []jsonOutcome {
	out := make([]jsonOutcome, len(os))
	for i, o := range os {
		out[i] = jsonOutcome{
			Recommender: r.Recommenders[i].Name,
			CPU:         jsonOf(o.CPU, cluster.CPU), Memory: jsonOf(o.Memory, cluster.Memory),
		}
		if o.Measured() {
			out[i].Money = &os[i].Money
		}
	}
	return out
}

// WriteJSON writes the report for programs.
func WriteJSON(w io.Writer, r *Report) error {
	j := jsonReport{
		Source: r.Source, From: r.From, To: r.To, Learning: replay.Learning,
		Judged: r.Judged(), Best: r.winner(r.Best), Tied: r.tied(r.Best),
		Budget: r.Tolerance.DaysAbove, Chosen: r.Chosen, Shortfall: r.Tolerance.Shortfall,
		Total: r.outcomes(r.Total), Workloads: make([]jsonWorkload, len(r.Workloads)),
	}
	for i, o := range r.Total {
		if rec := r.Recommenders[i]; rec.OOMBudget > 0 && o.Memory.Days > 0 {
			keeps := o.Keeps(rec.OOMBudget)
			j.Total[i].Promised, j.Total[i].Keeps = &r.Recommenders[i].OOMBudget, &keeps
		}
	}
	for i, wl := range r.Workloads {
		j.Workloads[i] = jsonWorkload{
			Namespace: wl.Key.Namespace, Kind: wl.Key.Kind, Name: wl.Key.Name,
			Best: r.winner(wl.Best), Tied: r.tied(wl.Best), Outcomes: r.outcomes(wl.Outcomes),
		}
	}
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(j)
}

// WriteCSV writes one row for each workload, recommender and resource; the rows of all workloads together have no name.
func WriteCSV(w io.Writer, r *Report) error {
	c := csv.NewWriter(w)
	head := []string{"namespace", "kind", "name", "recommender", "resource", "container_days"}
	for _, f := range figures {
		head = append(head, f.name)
	}
	c.Write(append(head, "footprint", "money_per_month", "mean_pods"))
	row := func(key cluster.Workload, os []replay.Outcome) {
		for i, o := range os {
			for _, res := range cluster.All {
				s := summary(o, res)
				if s.Days == 0 {
					continue
				}
				rec := []string{key.Namespace, key.Kind, key.Name, r.Recommenders[i].Name, res.String(), strconv.Itoa(s.Days)}
				for _, f := range figures {
					text := ""
					if f.only == 0 || f.only == res {
						text = strconv.FormatFloat(f.of(s), 'g', 6, 64)
					}
					rec = append(rec, text)
				}
				c.Write(append(rec, strconv.FormatFloat(s.Footprint, 'f', -1, 64), strconv.FormatFloat(r.money(res, s), 'f', 4, 64), strconv.FormatFloat(s.Pods, 'g', 6, 64)))
			}
		}
	}
	for _, wl := range r.Workloads {
		row(wl.Key, wl.Outcomes)
	}
	row(cluster.Workload{}, r.Total)
	c.Flush()
	return c.Error()
}
