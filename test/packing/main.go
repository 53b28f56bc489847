// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Command packing measures what the requests of a backtest mean for nodes: how many of one size a cluster needs, how often the usage of the
// pods on a node exceeds it, and how often a container exceeds its memory limit.
//
// Pods are placed once a day, by the requests that are known at the start of the day. Packing by the largest request of the coming day would use
// knowledge of the future; it is reported beside it, because a cluster must have the nodes for it.
//
// Beside the given profiles it measures the rule packed (packed.go).
//
//	go run ./test/packing TRACE PROFILE...
package main

import (
	"fmt"
	"math"
	"os"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"

	"podfit.dev/podfit/internal/core/recommend"
	"podfit.dev/podfit/internal/core/replay"
	"podfit.dev/podfit/internal/edge/trace"
)

// shapes are the nodes, and how often each recorded pod runs.
var shapes = []Shape{
	{Memory: 16 << 30, CPU: 4, Pods: 110, Copies: 4},
	{Memory: 64 << 30, CPU: 16, Pods: 110, Copies: 8},
	{Memory: 256 << 30, CPU: 64, Pods: 110, Copies: 8},
}

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "nodes:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) < 2 {
		return fmt.Errorf("want a trace and the names of profiles, got %q", args)
	}
	workloads, err := trace.Read(args[0])
	if err != nil {
		return err
	}
	c := &replay.Comparison{Learning: replay.DefaultLearning, From: time.Unix(1<<40, 0)}
	for _, name := range args[1:] {
		p, known := recommend.BacktestProfile(name)
		if !known {
			return fmt.Errorf("there is no profile %q", name)
		}
		c.Recommenders = append(c.Recommenders, p)
	}
	c.Recommenders = append(c.Recommenders, packedProfile(0))
	last := len(c.Recommenders) - 1
	for i := range workloads {
		w := &workloads[i]
		result := replay.WorkloadResult{Workload: w, Changes: make([][]replay.Change, last+1)}
		for k, p := range c.Recommenders[:last] {
			result.Changes[k] = replay.Run(w, p)
		}
		c.Workloads = append(c.Workloads, result)
		if first := time.Unix(w.Samples[0].At, 0); first.Before(c.From) {
			c.From = first
		}
		if last := time.Unix(w.Samples[len(w.Samples)-1].At, 0); last.After(c.To) {
			c.To = last
		}
	}
	for _, shape := range shapes {
		c.Recommenders[last] = packedProfile(shape.Memory)
		for i := range c.Workloads {
			c.Workloads[i].Changes[last] = replay.Run(c.Workloads[i].Workload, c.Recommenders[last])
		}
		write(c, Of(c).Measure(shape))
	}
	return nil
}

// write prints one row for each profile, and the workloads that made nodes short.
func write(c *replay.Comparison, r Report) {
	fmt.Printf("\nNodes of %.0f GiB and %.0f cores: %d pods (each recorded pod %d times), %d days; %d workloads are left out, because a pod used more than half of a node\n",
		r.Shape.Memory/(1<<30), r.Shape.CPU, r.Pods, r.Shape.Copies, r.Days, len(r.LeftOut))
	t := table.NewWriter()
	t.AppendHeader(table.Row{"profile", "nodes", "ratio", "random halves", "first fit", "day maximum", "short", "most of halves", "CPU saturated", "kill-free", "peaks"})
	for i := range r.Results {
		x := &r.Results[i]
		t.AppendRow(table.Row{c.Recommenders[i].Name, fmt.Sprintf("%.1f", x.Nodes), fmt.Sprintf("%.2f", x.Ratio), fmt.Sprintf("%.2f–%.2f", x.RatioFrom, x.RatioTo), fmt.Sprintf("%.1f", x.FirstFit),
			fmt.Sprintf("%.1f", x.DayMaximum), percent(x.Short), percent(x.ShortTo), percent(x.Saturated), percent(x.KillFreeProportional), percent(x.KillFreePeaks)})
	}
	if len(r.Results) == 0 {
		fmt.Println("No pod has samples after the learning days.")
		return
	}
	fmt.Println(t.Render())
	for i := range r.Results {
		for _, culprit := range r.Results[i].Culprits {
			fmt.Printf("%s: %s was the most above its request on %d short node-days\n", c.Recommenders[i].Name, culprit.Workload, culprit.NodeDays)
		}
	}
}

// percent formats a fraction; one that is not known is "–".
func percent(v float64) string {
	if math.IsNaN(v) {
		return "–"
	}
	return fmt.Sprintf("%.2f %%", 100*v)
}
