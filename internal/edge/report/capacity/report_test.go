// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package capacity

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	core "podfit.dev/podfit/internal/core/capacity"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/edge/report/terminal"
)

var now = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

func day(text string) core.Day {
	d, _ := core.ParseDay(text)
	return d
}

// example is a plan with one pool whose names contain what a terminal, JSON or HTML would interpret.
func example() *Report {
	p := core.PoolPlan{Pool: core.Pool{Name: "wor\x1b[31mker<script>", Nodes: 3, Schedulable: 3, Pods: 104, Pending: 2, Unadvised: 1}, LeadTime: 14}
	p.Fit = [2]core.Room{{Node: "n1", Free: cluster.Amounts(12_000, 30<<30)}, {Node: "n2", Free: cluster.Amounts(500, 60<<30)}}
	w := cluster.Workload{Group: "apps", Kind: "Deployment", Namespace: "shop", Name: "cart"}
	p.Changes = []core.Change{{Day: day("2026-11-20"), Workload: w, Cause: core.Arrived, Amount: cluster.Amounts(8000, 1<<30)}, {Day: day("2026-11-21"), Workload: w, Cause: core.Scaled, Amount: cluster.Amounts(-500, 0)}}
	p.Resources[0] = core.ResourcePlan{
		Resource: cluster.CPU, Capacity: 192_000, WithoutLargest: 128_000, Requested: 154_000, Used: 33_000, UsedKnown: true, Recoverable: 71_000, GiveBack: 14, Fit: p.Fit[0],
		Outlook: core.Outlook{
			Days: 60, Reach: 90, OrderBy: day("2026-11-15"), Low: []float64{1, 2}, Middle: []float64{2, 3}, High: []float64{3, 4},
			Crossings: []core.Crossing{{Threshold: 0.7, State: core.Above, Since: day("2026-11-18")}, {Threshold: 1, State: core.Ahead, Earliest: day("2026-12-02"), Expected: day("2026-12-09"), Latest: day("2026-12-20")}},
			Steps:     []core.Step{{Day: day("2026-11-01"), Amount: 9000}},
		},
		After: core.Outlook{Reach: 90, Crossings: []core.Crossing{{Threshold: 1, State: core.NotWithin}}},
		Grew:  core.Growth{New: cluster.Amounts(8000, 0), Replicas: cluster.Amounts(-500, 0)}, GrewTotal: 9000, GrewDays: 27, Advice: core.GiveBack,
	}
	p.Resources[1] = core.ResourcePlan{
		Resource: cluster.Memory, Capacity: 768 << 30, WithoutLargest: 512 << 30, Requested: 300 << 30, Fit: p.Fit[1], Advice: core.Unforeseen,
		Outlook: core.Outlook{Shortage: core.TooFewDays, Crossings: []core.Crossing{{Threshold: 0.7}, {Threshold: 1}}},
	}
	return &Report{
		Plan:    core.Plan{Now: now, Pools: []core.PoolPlan{p}, Unplaced: core.Unplaced{Pods: 1, Requests: cluster.Amounts(100, 0), Example: cluster.Key{Namespace: "ml", Name: "train"}}},
		Cluster: "prod", Source: "the CapacityPlan", Missing: []string{"no right to list verticalpodautoscalers"}, Notes: []string{"A note."},
	}
}

func written(t *testing.T, format string, r *Report, p terminal.Printer) string {
	t.Helper()
	var b bytes.Buffer
	if err := Write(&b, format, r, &p); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// Amounts have the unit of their column, however small they are.
func TestTable_smallAmounts_haveTheUnitOfTheirColumn(t *testing.T) {
	r := example()
	of := &r.Plan.Pools[0].Resources[1]
	of.Requested, of.Capacity = 8<<20, 64<<30
	of.Grew, of.GrewTotal, of.GrewDays = core.Growth{New: cluster.Amounts(0, 3<<30), Replicas: cluster.Amounts(0, 5<<20)}, 3<<30+6<<20, 27
	out := written(t, "table", r, terminal.Printer{})
	for _, want := range []string{"0 of 64 (0 %)", "Requested memory grew by 3.01 GiB in 27 days: +3 new workloads."} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is missing in\n%s", want, out)
		}
	}
}

func TestTable_example_containsTheFacts(t *testing.T) {
	out := written(t, "table", example(), terminal.Printer{})
	for _, want := range []string{
		"prod · 1 pool, 3 nodes, 104 pods · history of the CapacityPlan", "154 of 192 (80 %), used 17 %", "since 4 d", "9 Dec (2–20 Dec)", "15 Nov: 7 d LATE",
		"do not order: 14 workloads could give back 71 cores, which leaves 43 %; then 100 % is not within 90 days", "not known", "300 of 768 (39 %)",
		"Requested cpu grew by 9 cores in 27 days: +8 new workloads, -0.5 replicas, +1.5 not recorded.",
		"Largest changes: shop/Deployment/cart scaled -0.5 cores (2026-11-21); shop/Deployment/cart arrived +8 cores (2026-11-20).",
		"The largest pod that still fits: by CPU 12 cores and 30 GiB on n1, by memory 0.5 cores and 60 GiB on n2.",
		"Cannot lose a node: 154 cores of cpu are requested, and 128 cores remain", "2 pods are pending; their requests count.", "1 workload has no recommendation",
		"1 pod is pending that no node accepts or can hold, such as ml/train", "A note.", "Incomplete: no right to list verticalpodautoscalers.",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is missing in\n%s", want, out)
		}
	}
	if strings.Contains(out, "\x1b") {
		t.Error("a name reaches the terminal as a control sequence")
	}
}

// A group of nodes can have any name, and there can be any number of them.
func TestTable_groupsBackOff_areNamed(t *testing.T) {
	r := example()
	if out := written(t, "table", r, terminal.Printer{}) + written(t, "json", r, terminal.Printer{}); strings.Contains(out, "scale-up failed") || strings.Contains(out, "InBackOff") {
		t.Errorf("no group backs off:\n%s", out)
	}
	r.BackedOff = []string{"asg\x1b[31m", "b", "c", "d", "e", "f", "g"}
	out := strings.Join(strings.Fields(written(t, "table", r, terminal.Printer{})), " ")
	if want := "b, c, d, e and 2 more, because a scale-up failed."; !strings.Contains(out, want) || strings.Contains(out, "\x1b") {
		t.Errorf("%q is missing in\n%s", want, out)
	}
}

// A pool of which it is not known by how much it can grow has no sentence and no field about that.
func TestWrite_poolCanGrow_saysByHowManyNodesAndUntilWhen(t *testing.T) {
	for name, c := range map[string]struct {
		extension core.Extension
		cpu       core.Crossing
		text      string
		json      string
	}{
		"not known": {core.Extension{}, core.Crossing{}, "", ""},
		"three nodes": {
			core.Extension{Known: true, Nodes: 3, Capacity: cluster.Amounts(24_000, 96<<30)}, core.Crossing{Threshold: 1, State: core.Ahead, Earliest: day("2026-12-10"), Expected: day("2026-12-14")},
			"The groups of its present nodes can grow by 3 nodes (24 cores, 96 GiB). It reaches 100 % of that: cpu 14 Dec (from 10 Dec), memory not known.",
			`3 [{"percent":100,"state":"Ahead","earliest":"2026-12-10","expected":"2026-12-14"}]`,
		},
		"one node, above": {
			core.Extension{Known: true, Nodes: 1, Capacity: cluster.Amounts(8000, 32<<30)}, core.Crossing{Threshold: 1, State: core.Above},
			"The groups of its present nodes can grow by 1 node (8 cores, 32 GiB). It reaches 100 % of that: cpu already, memory not known.",
			`1 [{"percent":100,"state":"Above"}]`,
		},
		"none": {
			core.Extension{Known: true, Capacity: cluster.Amounts(0, 0)}, core.Crossing{Threshold: 1, State: core.NotWithin},
			"No node can be added to the groups of its present nodes: they are at their maximum.", `0 [{"percent":100,"state":"NotWithin"}]`,
		},
	} {
		r := example()
		p := &r.Pools[0]
		p.Extension = c.extension
		if c.extension.Known {
			p.Resources[0].Extended.Crossings = []core.Crossing{c.cpu}
			p.Resources[1].Extended.Crossings = []core.Crossing{{Threshold: 1, State: core.Unknown}}
		}
		text := strings.Join(strings.Fields(written(t, "table", r, terminal.Printer{})), " ")
		if says := strings.Contains(text, "can grow by") || strings.Contains(text, "can be added"); says != c.extension.Known || !strings.Contains(text, c.text) {
			t.Errorf("%s: %s", name, text)
		}
		var d struct {
			Pools []struct {
				Nodes json.RawMessage `json:"addableNodes"`
				CPU   struct {
					Full json.RawMessage `json:"thresholdsWithAddableNodes"`
				} `json:"cpu"`
			} `json:"pools"`
		}
		if err := json.Unmarshal([]byte(written(t, "json", r, terminal.Printer{})), &d); err != nil {
			t.Fatal(err)
		}
		var got bytes.Buffer
		for _, field := range []json.RawMessage{d.Pools[0].Nodes, d.Pools[0].CPU.Full} {
			if field != nil {
				_ = json.Compact(&got, field)
				got.WriteByte(' ')
			}
		}
		if strings.TrimSpace(got.String()) != c.json {
			t.Errorf("%s: JSON %s, want %s", name, got.String(), c.json)
		}
	}
}

func TestTable_narrowTerminal_adviceIsBelowTheRow(t *testing.T) {
	for _, l := range strings.Split(written(t, "table", example(), terminal.Printer{Width: 100}), "\n") {
		if n := len([]rune(l)); n > 115 { // the columns themselves are not shortened
			t.Errorf("%d columns: %s", n, l)
		}
	}
	if out := written(t, "table", example(), terminal.Printer{Width: 100, Colour: true}); !strings.Contains(out, "\x1b[1m") {
		t.Error("no colours")
	}
}

func TestJSON_example_isValidAndComplete(t *testing.T) {
	var d document
	if err := json.Unmarshal([]byte(written(t, "json", example(), terminal.Printer{})), &d); err != nil {
		t.Fatal(err)
	}
	cpu := d.Pools[0].CPU
	if d.APIVersion != Version || d.Complete || cpu.Requested != 154 || *cpu.Used != 33 || cpu.OrderBy != "2026-11-15" || cpu.Thresholds[1].Expected != "2026-12-09" || cpu.Growth.Other != 1.5 ||
		cpu.Steps[0].Amount != 9 || cpu.CanLoseANode || d.Pools[0].Memory.Shortage == "" || d.Pools[0].Memory.GrowthPerDay != nil || d.Unplaced.Count != 1 {
		t.Errorf("%+v", d)
	}
}

func TestHTML_example_isOnePageWithoutScripts(t *testing.T) {
	out := written(t, "html", example(), terminal.Printer{})
	if strings.Contains(out, "<script") || !strings.Contains(out, "default-src 'none'") || !strings.Contains(out, "<polygon points=") || !strings.Contains(out, "9 Dec (2–20 Dec)") {
		t.Errorf("%s", out)
	}
}

func TestWrite_formats_areListed(t *testing.T) {
	if got := Formats; !slices.Equal(got, []string{"table", "json", "html"}) {
		t.Errorf("formats %v", got)
	}
	if err := Write(new(bytes.Buffer), "pdf", example(), new(terminal.Printer)); err == nil {
		t.Error("no error for an unknown format")
	}
	empty := &Report{Plan: core.Plan{Now: now}, Cluster: "prod", Source: "x"}
	for _, f := range Formats {
		if written(t, f, empty, terminal.Printer{}) == "" {
			t.Errorf("%s: nothing is written for a cluster without pools", f)
		}
	}
}

func TestReaches_states_haveTheirText(t *testing.T) {
	for want, c := range map[string]core.Crossing{
		"since today":                {State: core.Above, Since: day("2026-11-22")},
		"since 4 d":                  {State: core.Above, Since: day("2026-11-18")},
		"from 2 Dec":                 {State: core.Ahead, Earliest: day("2026-12-02")},
		"9 Dec (from 2 Dec)":         {State: core.Ahead, Earliest: day("2026-12-02"), Expected: day("2026-12-09")},
		"9 Dec (2 Dec – 3 Jan 2027)": {State: core.Ahead, Earliest: day("2026-12-02"), Expected: day("2026-12-09"), Latest: day("2027-01-03")},
		"9 Dec (9 Dec)":              {State: core.Ahead, Earliest: day("2026-12-09"), Expected: day("2026-12-09"), Latest: day("2026-12-09")},
		"not within 42 d":            {State: core.NotWithin},
		"not known":                  {State: core.Unknown},
	} {
		if got := reaches(&c, &core.Outlook{Reach: 42}, now); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	for want, d := range map[string]core.Day{"-": 0, "22 Nov: TODAY": day("2026-11-22"), "12 Nov: 10 d LATE": day("2026-11-12"), "3 Jan 2027": day("2027-01-03")} {
		if got := orderBy(&core.Outlook{OrderBy: d}, now); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
